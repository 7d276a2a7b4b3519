"""Limits of one connection, for every transport (STDIO-6, STDIO-9)."""

from __future__ import annotations

from typing import Final

MAX_HANDLERS: Final = 1024
"""The maximum number of requests of one connection served at a time; further requests are queued."""  # STDIO-9
QUEUED: Final = 16
"""The queue holds this many times as many requests; further ones are refused."""
LINGER: Final = 1.0
"""The time in seconds that running handlers get after the peer closed its sending side."""  # STDIO-6
BURST: Final = 32
"""The maximum number of messages collected before a write, so that the peer starts early on them."""
HIGH: Final = 64 * 1024
"""The number of unwritten bytes above which whoever writes more waits."""
CLOSE: Final = 1.0
"""The time in seconds that a transport gets to flush its buffers before it is aborted."""
