"""What was sent on the streams of sessions, kept for clients that come back for the rest (HTTP-14 to 16, AMB-11).

An event is known by its session, the number of its stream in it and its own number in that stream, which begins at
one; on the wire the two numbers are its id. A store may forget: notifications on the way to an answer first, so that
whoever produces many of them does not push the answer out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
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

    def append(self, session: str, stream: int, number: int, message: bytes, /, *, droppable: bool) -> None:
        """Keep a JSON-RPC message that is being sent; those of one stream come in the order of their numbers.

        One that is `droppable` is the first to be forgotten: a client can do without it.
        """
        ...

    async def after(
        self, session: str, stream: int, number: int, last: int, /
    ) -> Sequence[tuple[int, bytes]]:
        """The events of a stream from behind one number up to another that are still there, in their order."""
        ...

    def discard(self, session: str, /) -> None:
        """A session is over."""
        ...


class MemoryEvents:
    """Keeps the latest events of each session in memory, within bounds for a session and for all of them.

    Beyond a bound the oldest droppable event goes, and the oldest of the others only where there is none.
    """

    def __init__(
        self, *, events: int = MAX_EVENTS, session_bytes: int = MAX_SESSION, total_bytes: int = MAX_BYTES
    ) -> None:
        self._events, self._session_bytes, self._total_bytes = events, session_bytes, total_bytes
        self._sessions: OrderedDict[str, _Kept] = OrderedDict()
        """Those that had an event lately stand last."""
        self._spare: OrderedDict[str, _Kept] = OrderedDict()
        """Those of them that have droppable events."""
        self.size = 0
        """Bytes that are kept."""

    def append(self, session: str, stream: int, number: int, message: bytes, /, *, droppable: bool) -> None:
        """Keep an event, and forget others beyond the bounds."""
        kept = self._sessions.setdefault(session, _Kept())
        self._sessions.move_to_end(session)
        if droppable:
            self._spare[session] = kept
            self._spare.move_to_end(session)
        (kept.droppable if droppable else kept.needed).append((stream, number, message))
        kept.size += len(message)
        self.size += len(message)
        while kept.count > self._events or (kept.size > self._session_bytes and kept.count > 1):
            self._forget(session, kept)
        while self.size > self._total_bytes:
            self._forget(*next(iter((self._spare or self._sessions).items())))

    async def after(
        self, session: str, stream: int, number: int, last: int, /
    ) -> Sequence[tuple[int, bytes]]:
        """The events of a stream from behind one number up to another that are still there, in their order."""
        kept = self._sessions.get(session) or _Kept()
        return sorted(
            (at, message)
            for events in (kept.droppable, kept.needed)
            for of, at, message in events
            if of == stream and number < at <= last
        )

    def discard(self, session: str, /) -> None:
        """A session is over."""
        self._spare.pop(session, None)
        kept = self._sessions.pop(session, None)
        if kept is not None:
            self.size -= kept.size

    def _forget(self, session: str, kept: _Kept) -> None:
        """Forget the event of a session that matters least."""
        size = len((kept.droppable or kept.needed).popleft()[2])
        kept.size -= size
        self.size -= size
        if not kept.droppable:
            self._spare.pop(session, None)
        if not kept.count:
            del self._sessions[session]


class _Kept:
    """The events of one session, oldest first: stream, number and message."""

    __slots__ = ("droppable", "needed", "size")

    def __init__(self) -> None:
        self.droppable: deque[tuple[int, int, bytes]] = deque()
        self.needed: deque[tuple[int, int, bytes]] = deque()
        self.size = 0

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.droppable) + len(self.needed)
