"""Clients: connecting, calls, subscriptions, tasks."""
