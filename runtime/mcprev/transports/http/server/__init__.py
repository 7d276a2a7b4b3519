"""A server over HTTP: the ASGI app, sessions, event streams, authorization of requests."""
