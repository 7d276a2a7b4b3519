"""Servers made of functions, on the public surface of the runtime."""
