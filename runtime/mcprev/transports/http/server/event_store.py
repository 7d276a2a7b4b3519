"""Event stores: sent events of session streams, for clients that resume a stream (HTTP-14 to 16, AMB-11).

The key of an event is its session, the number of its stream and its own number in that stream, from one; the two
numbers are the event id on the wire. A store may forget events: first the notifications that precede a response, so
that a handler that sends many does not displace the response.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final, Protocol

from mcprev.core.shares import share_of

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

    Beyond a limit the oldest droppable event is forgotten; if there is none, the oldest event. Where it is the limit for
    all together, it is one of a client that has more than a quarter of that, if there is any.
    """

    def __init__(
        self, *, events: int = MAX_EVENTS, session_bytes: int = MAX_SESSION, total_bytes: int = MAX_BYTES
    ) -> None:
        """Set the maximum number of events and of bytes of one session, and of bytes of all sessions together."""
        self._events, self._session_bytes, self._total_bytes = events, session_bytes, total_bytes
        self._share = share_of(total_bytes)
        self._sessions: dict[str, _Kept] = {}
        self._clients: dict[str, str] = {}
        """The client of each session that has one."""
        self._all = _Order()
        self._of: dict[str, _Order] = {}
        """The sessions of each client."""
        self._beyond: dict[_Order, None] = {}
        """Those of clients that have more than their share."""

    @property
    def size(self) -> int:
        """The number of stored bytes."""
        return self._all.size

    def belongs(self, session: str, client: str) -> None:
        """Count the events that a session will have for the share of a client."""
        self._clients[session] = client

    def append(self, session: str, stream: int, number: int, message: bytes, /, *, droppable: bool) -> None:
        """Store an event, and forget others beyond the limits."""
        kept = self._sessions.get(session) or self._begin(session)
        (kept.droppable if droppable else kept.needed).append((stream, number, message))
        kept.size += len(message)
        for order in kept.orders:
            order.size += len(message)
            order.sessions[session] = None
            order.sessions.move_to_end(session)
            if droppable:
                order.spare[session] = None
                order.spare.move_to_end(session)
            if order.client is not None and order.size > self._share:
                self._beyond[order] = None
        while kept.count > self._events or (kept.size > self._session_bytes and kept.count > 1):
            self._forget(session)
        while self._all.size > self._total_bytes:
            own = kept.orders[-1]
            order = own if own in self._beyond else next(iter(self._beyond), self._all)
            self._forget(next(iter(order.spare or order.sessions)))

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
        kept = self._sessions.get(session)
        if kept is not None:
            kept.droppable.clear()
            kept.needed.clear()
            self._give_back(session, kept, kept.size)
        self._clients.pop(session, None)

    def _begin(self, session: str) -> _Kept:
        client, orders = self._clients.get(session), [self._all]
        if client is not None:
            orders.append(self._of.setdefault(client, _Order(client)))
        kept = self._sessions[session] = _Kept(orders)
        return kept

    def _forget(self, session: str) -> None:
        """Forget the least important event of a session."""
        kept = self._sessions[session]
        self._give_back(session, kept, len((kept.droppable or kept.needed).popleft()[2]))

    def _give_back(self, session: str, kept: _Kept, size: int) -> None:
        """Count so many bytes less for a session that keeps no more than `kept`."""
        kept.size -= size
        if not kept.count:
            del self._sessions[session]
        for order in kept.orders:
            order.size -= size
            if not kept.droppable:
                order.spare.pop(session, None)
            if not kept.count:
                order.sessions.pop(session)
            if order.size <= self._share:
                self._beyond.pop(order, None)
            if order.client is not None and not order.sessions:
                del self._of[order.client]


class _Order:
    """The sessions of all, or of one client, by their latest event, the most recent last."""

    __slots__ = ("client", "sessions", "size", "spare")

    def __init__(self, client: str | None = None) -> None:
        self.client = client
        self.sessions: OrderedDict[str, None] = OrderedDict()
        self.spare: OrderedDict[str, None] = OrderedDict()
        """Those that have droppable events."""
        self.size = 0


class _Kept:
    """The events of one session, oldest first: stream, number and message."""

    __slots__ = ("droppable", "needed", "orders", "size")

    def __init__(self, orders: Sequence[_Order] = ()) -> None:
        self.droppable: deque[tuple[int, int, bytes]] = deque()
        self.needed: deque[tuple[int, int, bytes]] = deque()
        self.orders = orders
        """Where the session stands: among all, and among those of its client."""
        self.size = 0

    @property
    def count(self) -> int:
        """The number of events."""
        return len(self.droppable) + len(self.needed)
