"""Event stores: sent events of session streams, for clients that resume a stream (HTTP-14 to 16, AMB-11).

The key of an event is its session, the number of its stream and its own number in that stream, from one; the two
numbers are the event id on the wire. A store may forget events: first the notifications that precede a response, so
that a handler that sends many does not displace the response.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final, Protocol

MAX_EVENTS: Final = 256
"""The maximum number of stored events of a session."""
MAX_SESSION: Final = 1024 * 1024
"""The maximum number of stored bytes of a session; its latest event may be larger."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""The maximum number of stored bytes of all sessions."""


class EventStore(Protocol):
    """The interface of stores of sent events, for `asgi(events=...)`. All methods are called on the event loop.

    `append` and `discard` must not block.
    """

    def append(self, session: str, stream: int, number: int, message: bytes, /, *, droppable: bool) -> None:
        """Store a JSON-RPC message that is being sent, as event `number` of a session's stream; the numbers increase.

        `droppable` messages are notifications before a response: they are forgotten first.
        """
        ...

    async def after(
        self, session: str, stream: int, number: int, last: int, /
    ) -> Sequence[tuple[int, bytes]]:
        """Return the numbers and messages of a stream's stored events after `number` and up to `last`, in order."""
        ...

    def discard(self, session: str, /) -> None:
        """Delete the events of a session that has ended."""
        ...


class MemoryEvents:
    """Stores the latest events of each session in memory, within limits for each session and for all together.

    Beyond a limit the oldest droppable event is forgotten; if there is none, the oldest event.
    """

    def __init__(
        self, *, events: int = MAX_EVENTS, session_bytes: int = MAX_SESSION, total_bytes: int = MAX_BYTES
    ) -> None:
        """Set the maximum number of events and of bytes of one session, and of bytes of all sessions together."""
        self._events, self._session_bytes, self._total_bytes = events, session_bytes, total_bytes
        self._sessions: OrderedDict[str, _Kept] = OrderedDict()
        """Sessions by their latest event, the most recent last."""
        self._spare: OrderedDict[str, _Kept] = OrderedDict()
        """The sessions that have droppable events, in the same order."""
        self.size: int = 0
        """The number of stored bytes."""

    def append(self, session: str, stream: int, number: int, message: bytes, /, *, droppable: bool) -> None:
        """Store an event, and forget others beyond the limits."""
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
        """Return the stored events of a stream after one number and up to another, in order."""
        kept = self._sessions.get(session) or _Kept()
        return sorted(
            (at, message)
            for events in (kept.droppable, kept.needed)
            for of, at, message in events
            if of == stream and number < at <= last
        )

    def discard(self, session: str, /) -> None:
        """Delete the events of a session that has ended."""
        self._spare.pop(session, None)
        kept = self._sessions.pop(session, None)
        if kept is not None:
            self.size -= kept.size

    def _forget(self, session: str, kept: _Kept) -> None:
        """Forget the least important event of a session."""
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
        """The number of events."""
        return len(self.droppable) + len(self.needed)
