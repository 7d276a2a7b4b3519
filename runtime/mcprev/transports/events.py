"""What was sent on the streams of sessions, kept for clients that come back for the rest (HTTP-14 to 16, AMB-11).

An event is known by its session, the number of its stream in it and its own number in that stream, which begins at
one; on the wire the two numbers are its id. A store may forget: a client that asks for more than it still has is
told so instead of being sent what is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

MAX_EVENTS: Final = 256
"""Events that are kept for a session."""
MAX_SESSION: Final = 1024 * 1024
"""Bytes that are kept for a session; its latest event may be larger."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes that are kept for all sessions together."""


class EventStore(Protocol):
    """Keeps events. `append` and `discard` are called in the middle of things: they must not block."""

    def append(self, session: str, stream: int, number: int, message: bytes, /) -> None:
        """Keep a JSON-RPC message that is being sent; those of one stream come in the order of their numbers."""
        ...

    async def after(
        self, session: str, stream: int, number: int, last: int, /
    ) -> Sequence[tuple[int, bytes]] | None:
        """The events of a stream from behind one number up to another; None when not all of them are there."""
        ...

    def discard(self, session: str, /) -> None:
        """A session is over."""
        ...


class MemoryEvents:
    """Keeps the latest events of each session in memory, within bounds for a session and for all of them."""

    def __init__(
        self, *, events: int = MAX_EVENTS, session_bytes: int = MAX_SESSION, total_bytes: int = MAX_BYTES
    ) -> None:
        self._events, self._session_bytes, self._total_bytes = events, session_bytes, total_bytes
        self._sessions: dict[str, _Kept] = {}
        self.size = 0
        """Bytes that are kept."""

    def append(self, session: str, stream: int, number: int, message: bytes, /) -> None:
        """Keep an event, and forget the oldest ones beyond the bounds."""
        # The sessions that had an event lately stand last.
        kept = self._sessions.pop(session, None) or _Kept()
        self._sessions[session] = kept
        kept.events.append((stream, number, message))
        kept.size += len(message)
        self.size += len(message)
        while len(kept.events) > self._events or (kept.size > self._session_bytes and len(kept.events) > 1):
            self._forget(kept)
        while self.size > self._total_bytes:
            self._forget_oldest()

    async def after(
        self, session: str, stream: int, number: int, last: int, /
    ) -> Sequence[tuple[int, bytes]] | None:
        """The events of a stream from behind one number up to another; None when not all of them are there."""
        kept = self._sessions.get(session)
        events = () if kept is None else kept.events
        found = [(at, message) for in_, at, message in events if in_ == stream and number < at <= last]
        return found if len(found) == last - number else None

    def discard(self, session: str, /) -> None:
        """A session is over."""
        kept = self._sessions.pop(session, None)
        if kept is not None:
            self.size -= kept.size

    def _forget(self, kept: _Kept) -> None:
        size = len(kept.events.popleft()[2])
        kept.size -= size
        self.size -= size

    def _forget_oldest(self) -> None:
        name = next(iter(self._sessions))
        kept = self._sessions[name]
        self._forget(kept)
        if not kept.events:
            del self._sessions[name]


class _Kept:
    """The events of one session, oldest first."""

    __slots__ = ("events", "size")

    def __init__(self) -> None:
        self.events: deque[tuple[int, int, bytes]] = deque()
        self.size = 0
