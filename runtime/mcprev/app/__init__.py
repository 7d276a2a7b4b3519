"""Servers made of functions. Uses only the public API of the runtime."""
