"""The records of one service in a store that several services share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Final, TypeVar, overload

from typing_extensions import override

from mcprev.core.options import check_store
from mcprev.core.store import LogBounds, LogItem, LogTail, Record, Records, Store, is_whole
from mcprev.stores.bounded import BoundedStore, within

LONGEST: Final = 5.0
"""Seconds after which an operation of a store of three methods fails, whatever it does; a whole store is a `BoundedStore`."""
T = TypeVar("T")


class ServiceRecords:
    """Records whose keys begin with a prefix of one service, so that no other service of the store reads or writes them."""

    def __init__(self, records: Records, service: str, longest: float | None = LONGEST) -> None:
        """`service` is the name of the service, which all its processes have in common.

        An operation fails after `longest` seconds; None: the records have bounds of their own.
        """
        self._longest = longest
        self._records = records
        self._prefix = sha256(service.encode()).hexdigest()[:16] + "/"
        self.release: Callable[[], Awaitable[None]] | None = (
            getattr(records, "aclose", None) if hasattr(records, "tail") else None
        )
        """Releases what the running event loop holds of a store; None for records that may belong to one event loop."""

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or it has expired."""
        return await self._bounded(self._records.read(self._prefix + key))

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Records.write`."""
        return await self._bounded(self._records.write(self._prefix + key, value, seen=seen, ttl=ttl))

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`; see `Records.remove`."""
        return await self._bounded(self._records.remove(self._prefix + key, seen=seen))

    def _bounded(self, operation: Awaitable[T]) -> Awaitable[T]:
        return operation if self._longest is None else within(operation, self._longest)


class ServiceStore(ServiceRecords):
    """A store whose keys, indexes and logs begin with a prefix of one service."""

    def __init__(self, store: Store, service: str) -> None:
        """`service` is the name of the service, which all its processes have in common; the store has bounds of its own."""
        super().__init__(store, service, None)
        self._shared = store

    @override
    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Store.write`."""
        at = index and self._prefix + index
        return await self._shared.write(self._prefix + key, value, seen=seen, ttl=ttl, index=at)

    async def listed(
        self, index: str, /, *, after: int = 0, limit: int = 100
    ) -> Sequence[tuple[str, Record]]:
        """Return records of an index; see `Store.listed`."""
        found = await self._shared.listed(self._prefix + index, after=after, limit=limit)
        return [(key.removeprefix(self._prefix), record) for key, record in found]

    async def append(
        self, log: str, items: Sequence[LogItem], /, *, bounds: LogBounds, seen: int | None = None
    ) -> int | None:
        """Append items to a log; see `Store.append`."""
        return await self._shared.append(self._prefix + log, items, bounds=bounds, seen=seen)

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> LogTail:
        """Return the items of a log after a number; see `Store.tail`."""
        return await self._shared.tail(self._prefix + log, after, wait=wait)

    async def complete(self, log: str, /, *, ttl: float) -> None:
        """Mark a log as complete; see `Store.complete`."""
        await self._shared.complete(self._prefix + log, ttl=ttl)

    async def aclose(self) -> None:
        """Release what the running event loop holds of the store."""
        await self._shared.aclose()


@overload
def of_service(records: Store, service: str) -> ServiceStore: ...
@overload
def of_service(records: Records, service: str) -> ServiceRecords: ...
def of_service(records: Records, service: str) -> ServiceRecords:
    """Return the records of one service; a `ServiceStore` if they are a whole store. Raises `TypeError` for what is no store."""
    check_store(records)
    if is_whole(records):
        return ServiceStore(BoundedStore(records), service)
    return ServiceRecords(records, service)
