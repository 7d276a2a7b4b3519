"""Pipes and processes: newline-delimited JSON-RPC."""
