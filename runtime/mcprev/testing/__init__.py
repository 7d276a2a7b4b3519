"""Helpers to try servers and clients with. Not for production."""
