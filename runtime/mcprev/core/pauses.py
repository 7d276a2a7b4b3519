"""Time that is not counted: while a user logs in, no timeout of the connection goes on (AUTH-*, TIME-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, Protocol


class Clock(Protocol):
    """The time that counts for timeouts."""

    def now(self) -> float:
        """Return the time in seconds."""
        ...

    def bound(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Limit a block to a number of seconds. Raises `TimeoutError`."""
        ...


class Pauses:
    """A clock of an event loop that stands still during pauses, and limits that are paused with it."""

    def __init__(self) -> None:
        self.total: float = 0.0
        """The seconds of the pauses that have ended."""
        self._since: float | None = None
        """When the present pause began."""
        self._bounds: dict[asyncio.Timeout, float | None] = {}
        """The limits in force, and the remaining seconds of each while paused."""

    def now(self) -> float:
        """Return the time of the event loop without all pauses."""
        now = asyncio.get_running_loop().time()
        return (now if self._since is None else self._since) - self.total

    @asynccontextmanager
    async def bound(self, seconds: float | None) -> AsyncGenerator[asyncio.Timeout]:
        """Limit a block to a number of seconds, pauses excluded. Raises `TimeoutError`."""
        paused = self._since is not None
        async with asyncio.timeout(None if paused else seconds) as bound:
            self._bounds[bound] = seconds if paused else None
            try:
                yield bound
            finally:
                del self._bounds[bound]

    async def sleep(self, seconds: float | None) -> None:
        """Wait for a number of seconds, pauses excluded; None: until the task is cancelled."""
        with suppress(TimeoutError):
            async with self.bound(seconds):
                await asyncio.get_running_loop().create_future()

    def begin(self, now: float) -> None:
        """Begin a pause, unless there is one; `now` is the time of the event loop."""
        if self._since is None:
            self._since = now
            for bound in self._bounds:
                when = bound.when()
                if when is not None and when > now:
                    self._bounds[bound] = when - now
                    bound.reschedule(None)

    def end(self, now: float) -> None:
        """End the pause."""
        assert self._since is not None
        self.total += now - self._since
        self._since = None
        for bound, left in self._bounds.items():
            if left is not None:
                self._bounds[bound] = None
                bound.reschedule(now + left)


NEVER: Final = Pauses()
"""The clock of what is never paused."""
