"""Routes: ASGI applications beside the endpoint of an HTTP server. Loaded only by servers that have some."""
