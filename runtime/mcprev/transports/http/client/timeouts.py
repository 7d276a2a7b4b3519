"""The timeouts of an HTTP connection, which pause while a user logs in (TIME-1, AUTH-22).

Neither a call that waits for the login nor any call behind it times out during the login.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

from mcprev.protocol.pending_calls import Call, PendingCalls

_NEVER = float("inf")


class PausableTimeouts:
    """The timeouts of one connection; all pause together."""

    def __init__(self, calls: PendingCalls, changed: Callable[[], None]) -> None:
        """`changed` is called when the next deadline of a call may have moved forward."""
        self._calls = calls
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._holding = 0
        self._left: dict[Call, tuple[float, float]] = {}
        """The remaining seconds of each call's two timeouts."""
        self._bounds: dict[asyncio.Timeout, float | None] = {}
        """The active timeouts of `bound`, and the remaining seconds of each while paused."""

    def stop(self, call: Call) -> None:
        """Pause the timeouts of a call that starts during a pause."""
        if self._holding and call not in self._left:
            now = self._loop.time()
            self._left[call] = (call.deadline - now, call.limit - now)
            call.deadline = call.limit = _NEVER

    @asynccontextmanager
    async def bound(self, seconds: float) -> AsyncGenerator[None, None]:
        """Limit a block to a number of seconds, pauses excluded. Raises `TimeoutError`."""
        async with asyncio.timeout(None if self._holding else seconds) as bound:
            self._bounds[bound] = seconds if self._holding else None
            try:
                yield
            finally:
                del self._bounds[bound]

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """Pause all timeouts for the duration of the block."""
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
