"""A store in the memory of one process."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from mcprev.core.store import Record
from mcprev.errors import StoreError

_OVERHEAD: Final = 300
"""About the bytes that a record takes beside its key and value."""


class _Held(NamedTuple):
    """A record, and the time on the store's clock at which it ends."""

    record: Record
    ends: float
    size: int


class MemoryRecords:
    """Records in the memory of this process, which end with it; see `mcprev.core.store.Records`.

    Up to `max_bytes` are held; a write beyond it raises `StoreError`, so that no record is dropped before its time.
    `clock` gives seconds that never go back.
    """

    def __init__(
        self, *, max_bytes: int = 64 * 1024 * 1024, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._bytes = 0
        self._endings: list[tuple[float, str, int]] = (
            []
        )  # a heap; entries of replaced records are passed over
        self._versions = itertools.count(1)

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or its time is over."""
        return self._found(key)

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Records.write`. Raises `StoreError` if there is no room."""
        found = self._found(key)
        if seen is not None and seen != (0 if found is None else found.version):
            return None
        size = _OVERHEAD + len(key) + len(value)
        if self._bytes + size - (self._held[key].size if found is not None else 0) > self._max_bytes:
            raise StoreError(
                f"the store in memory has no room: its records take {self._bytes:,} of {self._max_bytes:,} bytes; "
                "raise `max_bytes`, or store less or for a shorter time"
            )
        self._drop(key)
        version = next(self._versions)
        ends = math.inf if ttl is None else self._clock() + ttl
        self._held[key] = _Held(Record(value, version), ends, size)
        self._bytes += size
        if ttl is not None:
            heapq.heappush(self._endings, (ends, key, version))
            if len(self._endings) > 2 * len(self._held) + 100:
                self._endings = [
                    (held.ends, key, held.record.version)
                    for key, held in self._held.items()
                    if held.ends < math.inf
                ]
                heapq.heapify(self._endings)
        return version

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`; see `Records.remove`."""
        found = self._found(key)
        if found is None or (seen is not None and seen != found.version):
            return False
        self._drop(key)
        return True

    def _found(self, key: str) -> Record | None:
        """Return a record, after those whose time is over were dropped."""
        now = self._clock()
        while self._endings and self._endings[0][0] <= now:
            _, ended, version = heapq.heappop(self._endings)
            if ended in self._held and self._held[ended].record.version == version:
                self._drop(ended)
        held = self._held.get(key)
        return None if held is None else held.record

    def _drop(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._bytes -= held.size
