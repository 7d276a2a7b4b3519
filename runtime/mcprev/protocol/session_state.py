"""The state of a session of the handshake era, and its log levels (LOG-1, LOG-2)."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The severities of log messages, lowest first."""  # LOG-1
SEVERITY: Final = {level: number for number, level in enumerate(LEVELS)}
DEFAULT_LEVEL: Final = "warning"
"""The log level of a session until the client sets one."""  # LOG-2


class State(IntEnum):  # whose hash, unlike that of Enum, is not computed in Python
    """The progress of a session's negotiation."""

    NEW = auto()
    """No revision is negotiated."""
    OPENING = auto()
    """Client: `initialize` is sent. Server: it is answered, and the client has not confirmed yet."""
    READY = auto()
    CLOSED = auto()


class NotificationKind(IntEnum):  # whose hash, unlike that of Enum, is not computed in Python
    """The kinds of notifications."""

    INITIALIZED = auto()
    CANCELLED = auto()
    PROGRESS = auto()
    OTHER = auto()
