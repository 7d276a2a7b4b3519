"""A client over HTTP: targets, connections, event streams, authorization."""
