"""The requests that one side has sent and that are not answered yet: ids, deadlines, progress, late responses.

BASE-3, BASE-4, BASE-5, CANC-3, LIFE-18, PROG-1, TIME-1. Time is passed in; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final
from weakref import WeakValueDictionary

from mcprev.errors import Json

_NEVER: Final = float("inf")


@dataclass(slots=True, eq=False, weakref_slot=True)
class Call:
    """A request that waits for its response."""

    id: int
    """The JSON-RPC id, also the progress token if progress was requested and the params have none."""
    method: str
    sent_at: float
    idle: float
    """The maximum time in seconds without a response or progress, after which the call is cancelled."""
    limit: float
    """The time at which the call is cancelled, whatever its progress."""
    deadline: float
    """The time at which the call is cancelled unless there is progress before."""
    params: dict[str, Json] | None = None
    """The params as sent."""
    channel: object = None
    """The peer's request during which the call was sent; None if it is independent."""
    handle: object = None
    """The driver's future for the response."""
    listener: Callable[[str, dict[str, Json]], None] | None = None
    """Takes the method and the params of each notification about the call."""


class PendingCalls:
    """The pending calls of one side of a connection, by id."""

    def __init__(self) -> None:
        self.ids: Iterator[int] = count(1)
        """The ids of the next calls."""
        self.waiting: dict[int, Call] = {}
        """The pending calls by id; read-only."""
        self.earliest: float = _NEVER
        """A time before which no call is due; infinite without deadlines."""
        self.tokens: WeakValueDictionary[object, Call] = WeakValueDictionary()
        """The calls whose params came with a progress token, by that token."""

    def __contains__(self, call: Call) -> bool:
        return self.waiting.get(call.id) is call

    def open(self, method: str, now: float, idle: float | None, total: float | None) -> Call:
        """Add a call under an id that was never used on this connection."""
        idle = _NEVER if idle is None else idle
        limit = _NEVER if total is None else now + total
        call = Call(next(self.ids), method, now, idle, limit, min(now + idle, limit))
        self.waiting[call.id] = call
        if call.deadline < self.earliest:
            self.earliest = call.deadline
        return call

    def find(self, id_: object) -> Call | None:
        """Return the pending call for an id; ids echoed as a string or a float are tolerated."""  # BASE-5
        if type(id_) is int:
            return self.waiting.get(id_)
        number = _as_number(id_)
        return None if number is None else self.waiting.get(number)

    def close(self, id_: object) -> Call | None:
        """Remove and return the call for a response; None if the response is late or unknown."""  # CANC-3
        if type(id_) is int:
            return self.waiting.pop(id_, None)
        call = self.find(id_)
        if call is not None:
            del self.waiting[call.id]
        return call

    def progressed(self, token: object, now: float) -> Call | None:
        """Return the pending call for a progress token, and restart its idle timeout."""  # LIFE-18
        call = self.tokens.get(token) if self.tokens and isinstance(token, str | int) else None
        if call is None or call not in self:
            call = self.find(token)
        if call is not None:
            call.deadline = min(now + call.idle, call.limit)
        return call

    def due(self, now: float) -> list[Call]:
        """Remove and return the calls whose deadline has passed."""
        if now < self.earliest:
            return []
        late = [call for call in self.waiting.values() if call.deadline <= now]
        for call in late:
            del self.waiting[call.id]
        self.earliest = min((call.deadline for call in self.waiting.values()), default=_NEVER)
        return late

    def drain(self) -> Iterator[Call]:
        """Remove and yield every pending call."""
        while self.waiting:
            yield self.waiting.popitem()[1]


def _as_number(id_: object) -> int | None:
    """Return the integer of an id that a peer echoed in another type."""
    if isinstance(id_, str):
        return int(id_) if id_.isascii() and id_.isdigit() and len(id_) < 19 else None
    if isinstance(id_, float) and id_.is_integer():
        return int(id_)
    return None
