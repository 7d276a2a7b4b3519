"""The records of one service in a store that several services share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Final

from mcprev.core.store import Record, Records
from mcprev.errors import StoreError

LONGEST: Final = 5.0
"""Seconds after which an operation fails, whatever the store does."""


class ServiceRecords:
    """Records whose keys begin with a prefix of one service, so that no other service of the store reads or writes them."""

    def __init__(self, records: Records, service: str) -> None:
        """`service` is the name of the service, which all its processes have in common."""
        self._records = records
        self._prefix = sha256(service.encode()).hexdigest()[:16] + "/"
        self.release: Callable[[], Awaitable[None]] | None = (
            getattr(records, "aclose", None) if hasattr(records, "tail") else None
        )
        """Releases what the running event loop holds of a store; None for records that may belong to one event loop."""

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or its time is over."""
        async with _bounded():
            return await self._records.read(self._prefix + key)

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Records.write`."""
        async with _bounded():
            return await self._records.write(self._prefix + key, value, seen=seen, ttl=ttl)

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`; see `Records.remove`."""
        async with _bounded():
            return await self._records.remove(self._prefix + key, seen=seen)


@asynccontextmanager
async def _bounded() -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(LONGEST):
            yield
    except TimeoutError as error:
        raise StoreError(f"no answer of the store within {LONGEST:g} s") from error
