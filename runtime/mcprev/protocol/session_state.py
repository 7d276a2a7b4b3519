"""What a session of the handshake era keeps: how far it has come, and the level of its log (LOG-1, LOG-2)."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The severities of log messages, lowest first (LOG-1)."""
SEVERITY: Final = {level: number for number, level in enumerate(LEVELS)}
DEFAULT_LEVEL: Final = "warning"
"""What a session logs before the client has said what it wants (LOG-2)."""


class State(Enum):
    """How far a session has come."""

    __hash__ = object.__hash__  # looked up for each message; that of Enum runs in Python

    NEW = auto()
    """Nothing has been agreed on."""
    OPENING = auto()
    """Client: `initialize` is sent. Server: it is answered, and the client has yet to confirm."""
    READY = auto()
    CLOSED = auto()


class NotificationKind(Enum):
    """The kinds of notifications."""

    __hash__ = object.__hash__

    INITIALIZED = auto()
    CANCELLED = auto()
    PROGRESS = auto()
    OTHER = auto()
