"""Bounds of one connection, whatever its transport (STDIO-6, STDIO-9)."""

from __future__ import annotations

from typing import Final

MAX_HANDLERS: Final = 1024
"""How many requests of one connection are served at a time; more wait their turn (STDIO-9)."""
QUEUED: Final = 16
"""How many times as many may wait; what comes beyond that is refused."""
LINGER: Final = 1.0
"""Seconds that running handlers get once the peer has said that nothing more will come (STDIO-6)."""
BURST: Final = 32
"""How many messages are gathered at most before they are written: the peer works on them while more are made."""
CLOSE: Final = 1.0
"""Seconds that a transport gets to write what it holds before it is torn down."""
