"""Clients of every revision call one server while its workers and its store are killed, stopped and paused."""
