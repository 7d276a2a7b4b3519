"""A store that a server can rely on to answer or to fail in time, whatever it does itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

from mcprev.core.store import LogBounds, LogItem, LogTail, Record, Store
from mcprev.error_text import raised_at
from mcprev.errors import StoreError

T = TypeVar("T")
LIMIT: Final = 2.0
"""Seconds for one operation; a store that takes longer counts as away."""


class BoundedStore:
    """A `Store` whose operations end within `LIMIT` seconds, and raise nothing but `StoreError`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None; see `Store.read`."""
        return await within(self._store.read(key))

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Store.write`."""
        return await within(self._store.write(key, value, seen=seen, ttl=ttl, index=index))

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record; see `Store.remove`."""
        return await within(self._store.remove(key, seen=seen))

    async def listed(
        self, index: str, /, *, after: int = 0, limit: int = 100
    ) -> Sequence[tuple[str, Record]]:
        """Return records of an index; see `Store.listed`."""
        return await within(self._store.listed(index, after=after, limit=limit))

    async def append(
        self, log: str, items: Sequence[LogItem], /, *, bounds: LogBounds, seen: int | None = None
    ) -> int | None:
        """Append items to a log; see `Store.append`."""
        return await within(self._store.append(log, items, bounds=bounds, seen=seen))

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> LogTail:
        """Return the items of a log after a number; see `Store.tail`."""
        return await within(self._store.tail(log, after, wait=wait), LIMIT + wait)

    async def complete(self, log: str, /, *, ttl: float) -> None:
        """Mark a log as complete; see `Store.complete`."""
        await within(self._store.complete(log, ttl=ttl))

    async def aclose(self) -> None:
        """Release what the running event loop holds of the store."""
        await within(self._store.aclose())


async def within(operation: Awaitable[T], seconds: float = LIMIT) -> T:
    """Return what an operation of a store returns. Raises `StoreError` if it fails or takes longer.

    The text of another error is not shown: a store of the user's may put its credentials there.
    """
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            return await operation
    except StoreError:
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and timeout.expired():
            raise StoreError(f"the store did not respond within {seconds:g} s") from None
        raise StoreError(f"the store failed: {raised_at(error)}") from error
