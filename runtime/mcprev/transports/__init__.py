"""Transports: the only modules that use sockets, pipes and processes (STDIO-*)."""
