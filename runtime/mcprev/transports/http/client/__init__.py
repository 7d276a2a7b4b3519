"""The HTTP client: targets, connections, event streams, authorization."""
