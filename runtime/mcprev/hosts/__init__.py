"""Servers that a command line names, and the configurations of hosts that name servers.

`named_server` reads a command line, `table` says where each host keeps its servers, `jsonc` changes such a file and
keeps every other byte, `masking` hides its secrets where it is shown, and `writing` replaces it safely.
"""
