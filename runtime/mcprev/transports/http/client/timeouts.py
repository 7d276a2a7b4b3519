"""The clocks of a connection over HTTP, which stand still while a person logs in (TIME-1, AUTH-22).

A call that is refused until somebody has logged in is not late for that, nor is any other that waits behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

from mcprev.protocol.pending_calls import Call, PendingCalls

_NEVER = float("inf")


class PausableTimeouts:
    """What runs out."""

    def __init__(self, calls: PendingCalls, changed: Callable[[], None]) -> None:
        """`changed` is told when a call may be due earlier than before."""
        self._calls = calls
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._holding = 0
        self._left: dict[Call, tuple[float, float]] = {}
        """What is left of each call's two bounds."""
        self._bounds: dict[asyncio.Timeout, float | None] = {}
        """The bounds that are waited for, and what was left of each when it was stopped."""

    def stop(self, call: Call) -> None:
        """A call begins to wait, perhaps while nothing runs."""
        if self._holding and call not in self._left:
            now = self._loop.time()
            self._left[call] = (call.deadline - now, call.limit - now)
            call.deadline = call.limit = _NEVER

    @asynccontextmanager
    async def bound(self, seconds: float) -> AsyncGenerator[None, None]:
        """A time limit that stands still as well. Raises `TimeoutError`."""
        async with asyncio.timeout(None if self._holding else seconds) as bound:
            self._bounds[bound] = seconds if self._holding else None
            try:
                yield
            finally:
                del self._bounds[bound]

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """Let no time pass."""
        self._holding += 1
        for call in self._calls.waiting.values():
            self.stop(call)
        now = self._loop.time()
        for bound, left in self._bounds.items():
            when = bound.when()
            if left is None and when is not None and when > now:
                self._bounds[bound] = when - now
                bound.reschedule(None)
        try:
            yield
        finally:
            self._holding -= 1
            if not self._holding:
                self._go_on()

    def _go_on(self) -> None:
        now, calls = self._loop.time(), self._calls
        for call, (idle, limit) in self._left.items():
            call.deadline, call.limit = now + idle, now + limit
            calls.earliest = min(calls.earliest, call.deadline)
        self._left.clear()
        for bound, left in self._bounds.items():
            if left is not None:
                self._bounds[bound] = None
                bound.reschedule(now + left)
        self._changed()
