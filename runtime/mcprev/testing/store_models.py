"""What the contract suite of stores compares with, counts and waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from mcprev.core.store import LogBounds, LogItem, LogTail, Records, Store
from mcprev.sharing.leases import is_alive

TIME_OF_TEST: Final = 30.0
"""Seconds after which a test hangs."""
BRIEF: Final = 0.1
"""The time to live of what ends during a test, in seconds."""
KEPT: Final = LogBounds(ttl=60.0)
ROUNDS: Final = 25


class LogModel:
    """What a log has to be, in the plainest way."""

    def __init__(self, bounds: LogBounds) -> None:
        self._bounds = bounds
        self._items: list[tuple[int, LogItem]] = []
        self._lost = 0
        self.last: int = 0

    def append(self, items: Sequence[LogItem]) -> None:
        """Append as a store does."""
        for item in items:
            self.last += 1
            self._items.append((self.last, item))
        while len(self._items) > self._bounds.items or (
            len(self._items) > 1 and sum(len(item.value) for _, item in self._items) > self._bounds.size
        ):
            droppable = [at for at, (_, item) in enumerate(self._items) if item.droppable]
            number, item = self._items.pop(droppable[0] if droppable else 0)
            if not item.droppable:
                self._lost = number

    def tail(self, after: int) -> tuple[list[tuple[int, bytes]], int, bool, bool]:
        """Return what a store returns, as `plain` has it."""
        items = [(number, item.value) for number, item in self._items if number > after]
        return items, self.last, self._lost > after or after > self.last, False


def plain(tail: LogTail) -> tuple[list[tuple[int, bytes]], int, bool, bool]:
    """Return the parts of a tail in types that can be compared."""
    return [(number, bytes(value)) for number, value in tail.items], tail.last, tail.lost, tail.complete


async def close_store(store: Records) -> None:
    """Close a store that can be closed."""
    if hasattr(store, "aclose"):
        await cast("Store", store).aclose()


async def count_up(store: Records, key: str, times: int) -> None:
    """Raise a number so many times by compare-and-set."""
    for _ in range(times):
        while True:
            found = await store.read(key)
            number, seen = (0, 0) if found is None else (int(found.value), found.version)
            await asyncio.sleep(0)
            if await store.write(key, b"%d" % (number + 1), seen=seen) is not None:
                break


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again until something holds; `TIME_OF_TEST` bounds it."""
    while not await holds():  # noqa: ASYNC110 - stores tell nobody
        await asyncio.sleep(0.02)


async def is_gone(store: Records, key: str) -> bool:
    """Return whether a record is not there."""
    return await store.read(key) is None


async def has_ended(store: Store, log: str) -> bool:
    """Return whether a log is not there."""
    return (await store.tail(log, 0)).last == 0


async def has_lapsed(store: Store, number: int) -> bool:
    """Return whether a worker is not alive."""
    return not await is_alive(store, number)
