"""The stdio transport: newline-delimited JSON-RPC over pipes."""
