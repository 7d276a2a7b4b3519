"""Servers: the dispatcher of requests, handler contexts, tasks."""
