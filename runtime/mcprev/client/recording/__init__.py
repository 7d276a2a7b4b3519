"""Recordings of a client's messages, for `mcprev validate`. Loaded only by clients that record."""
