"""What the stores share: how they wait for news of logs, and what they hold for each event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from mcprev.core.store import LogTail
from mcprev.errors import StoreError

T = TypeVar("T")
MAX_WAIT: Final = 60.0
"""The maximum time of one wait, in seconds."""


class News:
    """Those who wait for news of logs, on one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    @property
    def logs(self) -> frozenset[str]:
        """The logs that somebody waits for."""
        return frozenset(self._waiting)

    def tell(self, log: str) -> None:
        """End the waits for a log: there may be something to read."""
        for waiter in self._waiting.get(log, ()):
            if not waiter.done():
                waiter.set_result(None)

    def tell_all(self) -> None:
        """End the waits for all logs."""
        for log in self._waiting:
            self.tell(log)

    def fail(self, message: str) -> None:
        """Let the waits for all logs end with `StoreError`."""
        for waiters in self._waiting.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(StoreError(message))

    async def tail(
        self,
        log: str,
        wait: float,
        look: Callable[[], Awaitable[LogTail]],
        listen: Callable[[str], Awaitable[bool]],
    ) -> LogTail:
        """Return what `look` finds, as soon as it is something to tell or the wait is over.

        `listen` begins to listen for news of a log, and returns whether it did not do so before.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + min(wait, MAX_WAIT)
        while True:
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiting.setdefault(log, set()).add(waiter)
            try:
                found = await look()
                left = ends - loop.time()
                if found.items or found.lost or found.complete or left <= 0:
                    return found
                if waiter.done() or not await listen(log):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await waiter
            finally:
                waiters = self._waiting[log]
                waiters.discard(waiter)
                if not waiters:
                    del self._waiting[log]
                if waiter.done() and not waiter.cancelled():
                    waiter.exception()  # it may have failed while this task looked, which tells it too


class PerLoop(Generic[T]):
    """A value for each event loop of this process.

    What a process has inherited by a fork, and what belongs to a closed loop, is not used.
    """

    def __init__(self, make: Callable[[], T], abandon: Callable[[T], None]) -> None:
        """`make` makes the value of the running loop. `abandon` takes that of a loop that was closed."""
        self._make, self._abandon = make, abandon
        self._process = os.getpid()
        self._values: dict[asyncio.AbstractEventLoop, T] = {}
        self._inherited: list[dict[asyncio.AbstractEventLoop, T]] = []
        """Held for ever: to close a connection of the parent process could disturb it."""

    def get(self) -> T:
        """Return the value of the running loop; make it at first use."""
        if self._process != os.getpid():
            self._inherited.append(self._values)
            self._values, self._process = {}, os.getpid()
        loop = asyncio.get_running_loop()
        found = self._values.get(loop)
        if found is None:
            for closed in [each for each in list(self._values) if each.is_closed()]:
                self._abandon(self._values.pop(closed))
            found = self._values[loop] = self._make()
        return found

    def pop(self) -> T | None:
        """Remove and return the value of the running loop, if it has one."""
        if self._process != os.getpid():
            return None
        return self._values.pop(asyncio.get_running_loop(), None)

    def all(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        """Return the loops of this process that are not closed, with their values."""
        if self._process != os.getpid():
            return []
        return [(loop, value) for loop, value in list(self._values.items()) if not loop.is_closed()]
