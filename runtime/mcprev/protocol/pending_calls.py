"""The requests one side has sent and not yet got answered: ids, deadlines, progress, late answers.

BASE-3, BASE-4, BASE-5, CANC-3, LIFE-18, PROG-1, TIME-1. Time is passed in; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcprev.errors import Json

_NEVER: Final = float("inf")


class Call:
    """A request that is waiting for its answer."""

    __slots__ = (
        "channel", "deadline", "handle", "id", "idle", "limit", "listener", "method", "params", "sent_at",
    )  # fmt: skip

    def __init__(
        self, id_: int, method: str, sent_at: float, idle: float | None, total: float | None
    ) -> None:
        self.id = id_
        """Its JSON-RPC id, and its progress token where it asked for progress."""
        self.method = method
        self.params: dict[str, Json] | None = None
        """What it was sent with."""
        self.channel: object = None
        """The request of the peer's on whose behalf it was sent; None for one that stands alone."""
        self.sent_at = sent_at
        self.idle = _NEVER if idle is None else idle
        """Seconds without a sign of life after which it is given up."""
        self.limit = _NEVER if total is None else sent_at + total
        """The time at which it is given up whatever progress it makes."""
        self.deadline = min(sent_at + self.idle, self.limit)
        self.handle: object = None
        """Whatever the driver resolves when the answer comes."""
        self.listener: object = None
        """Whatever the driver tells of what comes before the answer, where somebody wants to know."""

    def timed_out(self, now: float) -> str:
        """Which of its bounds a call that is due has reached: `total` or `idle`."""
        return "total" if now >= self.limit else "idle"


class PendingCalls:
    """The open calls of one side of a connection, by id."""

    __slots__ = ("_next", "earliest", "waiting")

    def __init__(self) -> None:
        self._next = 0
        self.waiting: dict[int, Call] = {}
        """The open calls by id: to be read only."""
        self.earliest = _NEVER
        """A time before which no call is due; infinite when none ever is."""

    def __len__(self) -> int:
        return len(self.waiting)

    def __contains__(self, call: Call) -> bool:
        return self.waiting.get(call.id) is call

    def open(self, method: str, now: float, idle: float | None, total: float | None) -> Call:
        """A new call under an id that was never used on this connection."""
        self._next += 1
        call = Call(self._next, method, now, idle, total)
        self.waiting[call.id] = call
        if call.deadline < self.earliest:
            self.earliest = call.deadline
        return call

    def find(self, id_: float | str | None) -> Call | None:
        """The open call that an id means; a peer that echoes it as a string or a float is understood (BASE-5)."""
        if type(id_) is int:
            return self.waiting.get(id_)
        number = _as_number(id_)
        return None if number is None else self.waiting.get(number)

    def close(self, id_: float | str | None) -> Call | None:
        """Take the call that an answer is for; None when it is late or for nothing we sent (CANC-3)."""
        if type(id_) is int:
            return self.waiting.pop(id_, None)
        call = self.find(id_)
        if call is not None:
            del self.waiting[call.id]
        return call

    def progressed(self, token: float | str, now: float) -> Call | None:
        """The open call that a progress token belongs to, its idle clock set back (LIFE-18)."""
        call = self.find(token)
        if call is not None:
            call.deadline = min(now + call.idle, call.limit)
        return call

    def due(self, now: float) -> list[Call]:
        """Take the calls whose time has come."""
        if now < self.earliest:
            return []
        late = [call for call in self.waiting.values() if call.deadline <= now]
        for call in late:
            del self.waiting[call.id]
        self.earliest = min((call.deadline for call in self.waiting.values()), default=_NEVER)
        return late

    @property
    def deadline(self) -> float | None:
        """A time before which no call is due; None when there is nothing to wait for."""
        return self.earliest if self.waiting and self.earliest < _NEVER else None

    def drain(self) -> Iterator[Call]:
        """Take every open call, as a lost connection does."""
        while self.waiting:
            yield self.waiting.popitem()[1]


def _as_number(id_: float | str | None) -> int | None:
    """The number we sent, as a peer may have written it."""
    if isinstance(id_, str):
        return int(id_) if id_.isascii() and id_.isdigit() and len(id_) < 19 else None
    if isinstance(id_, float) and id_.is_integer():
        return int(id_)
    return None
