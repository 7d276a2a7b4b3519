"""Tokens at a server, and the URLs of resources and authorization servers. Loaded only by those who use them."""
