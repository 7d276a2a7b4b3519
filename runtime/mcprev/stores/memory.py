"""Stores in the memory of one process."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from typing_extensions import override

from mcprev.core.shares import Shares, free_of
from mcprev.core.store import STORED_FOR, LogBounds, LogItem, LogTail, Record
from mcprev.errors import StoreError, StoreShareError
from mcprev.stores.waiting import News, PerLoop

_OVERHEAD: Final = 300
"""About the bytes that a record takes beside its key and value, or a log beside its items."""
_ITEM: Final = 100
"""About the bytes that an item of a log takes beside its value."""


class _Held(NamedTuple):
    """A record, and the time on the store's clock at which it ends."""

    record: Record
    ends: float
    size: int
    client: str | None


class _Indexes:
    """The keys of records by index, in the order of their versions."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}
        self._index_of: dict[str, str] = {}

    def keys(self, index: str) -> tuple[str, ...]:
        """Return the keys of an index."""
        return tuple(self._keys.get(index, ()))

    def add(self, index: str, key: str) -> None:
        """Add a key, which is in no index, to one."""
        self._keys.setdefault(index, {})[key] = None
        self._index_of[key] = index

    def forget(self, key: str) -> None:
        """Remove a key from its index, if it is in one."""
        index = self._index_of.pop(key, None)
        if index is not None:
            keys = self._keys[index]
            del keys[key]
            if not keys:
                del self._keys[index]


class MemoryRecords:
    """Records in the memory of this process, lost when it ends; see `mcprev.core.store.Records`.

    They take at most `max_bytes`; a write beyond it, or beyond what one client may store of it, raises `StoreError`, so
    that no record is deleted before it expires. `clock` returns monotonic time in seconds.
    """

    def __init__(
        self,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._indexes = _Indexes()
        self._held: dict[str, _Held] = {}
        self._room = Shares(max_bytes, free=free_of(max_bytes))
        self._endings: list[tuple[float, str, int]] = (
            []
        )  # a heap; entries of replaced records are passed over
        self._versions = itertools.count(1)

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or it has expired."""
        return self._found(key)

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Records.write`. Raises `StoreError` if there is no room."""
        found = self._found(key)
        if seen is not None and seen != (0 if found is None else found.version):
            return None
        size = _OVERHEAD + len(key) + len(value)
        before = (None, 0) if found is None else (self._held[key].client, self._held[key].size)
        client = self._take(size, *before)
        self._forget(key)
        version = next(self._versions)
        ends = math.inf if ttl is None else self._clock() + ttl
        self._held[key] = _Held(Record(value, version), ends, size, client)
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

    def _take(self, size: int, holder: str | None, held: int) -> str | None:
        """Count `size` bytes in place of the `held` ones of `holder`; return whose they are. Raises `StoreError` without room."""
        client = STORED_FOR.get() or holder
        more = size - held if client == holder else size
        if more > 0 and not self._room.take(client, more):
            full = f"the store in memory is full: it has {self._room.held:,} of {self._room.most:,} bytes"
            if self._room.held + more > self._room.most:
                raise StoreError(f"{full}; raise `max_bytes`, or store less or for a shorter time")
            raise StoreShareError(
                f"{full}, and one client stores {self._room.of(client):,} of them; "
                "raise `max_bytes`, or let sessions, states and tasks of one client be fewer or end sooner"
            )
        if more < 0:
            self._room.give(client, -more)
        elif client != holder and held:
            self._room.give(holder, held)
        return client

    def _found(self, key: str) -> Record | None:
        """Return a record, after expired ones were dropped."""
        now = self._clock()
        while self._endings and self._endings[0][0] <= now:
            _, ended, version = heapq.heappop(self._endings)
            if ended in self._held and self._held[ended].record.version == version:
                self._drop(ended)
        held = self._held.get(key)
        return None if held is None else held.record

    def _drop(self, key: str) -> None:
        """Forget a record, and give its room back."""
        held = self._held.get(key)
        if held is not None:
            self._room.give(held.client, held.size)
            self._forget(key)

    def _forget(self, key: str) -> None:
        self._held.pop(key, None)
        self._indexes.forget(key)


@dataclass(slots=True)
class _Log:
    """A log in memory: numbers and values, oldest first."""

    last: int = 0
    lost: int = 0
    complete: bool = False
    ends: float = math.inf
    size: int = 0
    client: str | None = None
    needed: deque[tuple[int, bytes]] = field(default_factory=deque[tuple[int, bytes]])
    droppable: deque[tuple[int, bytes]] = field(default_factory=deque[tuple[int, bytes]])

    @property
    def room(self) -> int:
        """About the bytes that the items take."""
        return self.size + _ITEM * (len(self.needed) + len(self.droppable))

    def forget(self, bounds: LogBounds) -> None:
        """Forget what is beyond the bounds."""
        while (count := len(self.needed) + len(self.droppable)) > bounds.items or (
            self.size > bounds.size and count > 1
        ):
            kind = self.droppable or self.needed
            number, value = kind.popleft()
            self.size -= len(value)
            if kind is self.needed:
                self.lost = number


class MemoryStore(MemoryRecords):
    """A store in the memory of this process, lost when it ends; see `mcprev.core.store.Store`.

    `max_bytes` is the maximum size of all that it stores, in bytes: 64 MiB by default. Several servers of one process can
    share it, so it is for tests. To simulate a slow or unreliable network, notifications of appends can come
    `notification_delay` seconds late; with `lose_notifications=5` each fifth is lost, and with
    `duplicate_notifications=3` each third comes twice.
    """

    def __init__(
        self,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
        notification_delay: float = 0.0,
        lose_notifications: int = 0,
        duplicate_notifications: int = 0,
    ) -> None:
        super().__init__(max_bytes=max_bytes, clock=clock)
        self._logs: dict[str, _Log] = {}
        self._log_ends: list[tuple[float, str]] = []
        """A heap with the ends of logs, as they were once; the log itself says when it ends now."""
        self._lock = threading.RLock()
        self._news = PerLoop(News, lambda _: None)
        self._delay = notification_delay
        self._lose, self._duplicate = lose_notifications, duplicate_notifications
        self._told = 0

    @override
    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or it has expired."""
        with self._lock:
            return self._found(key)

    @override
    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Store.write`. Raises `StoreError` if there is no room."""
        with self._lock:
            version = await super().write(key, value, seen=seen, ttl=ttl)  # it never waits
            if version is not None and index:
                self._indexes.add(index, key)
            return version

    @override
    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`; see `Records.remove`."""
        with self._lock:
            return await super().remove(key, seen=seen)

    async def listed(
        self, index: str, /, *, after: int = 0, limit: int = 100
    ) -> Sequence[tuple[str, Record]]:
        """Return up to `limit` records of an index with versions above `after`; see `Store.listed`."""
        with self._lock:
            later: list[tuple[str, Record]] = []
            for key in self._indexes.keys(index):
                record = self._found(key)
                version = 0 if record is None else record.version
                if record is not None and version > after and len(later) < limit:
                    later.append((key, record))
            return later

    async def append(
        self, log: str, items: Sequence[LogItem], /, *, bounds: LogBounds, seen: int | None = None
    ) -> int | None:
        """Append items to a log; see `Store.append`. Raises `StoreError` if there is no room."""
        with self._lock:
            held = self._log(log)
            if held.complete or (seen is not None and seen != held.last):
                return None
            before = self._counted(log)
            most = _OVERHEAD + held.room + sum(_ITEM + len(item.value) for item in items)
            held.client = self._take(most, held.client, before)
            for item in items:
                held.last += 1
                held.size += len(item.value)
                (held.droppable if item.droppable else held.needed).append((held.last, item.value))
            held.forget(bounds)
            self._room.give(held.client, most - _OVERHEAD - held.room)
            self._keep(log, held, bounds.ttl)
            self._tell(log)
            return held.last

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> LogTail:
        """Return the items after a number, and wait for them; see `Store.tail`."""

        async def look() -> LogTail:
            with self._lock:
                held = self._log(log)
                items = sorted(
                    item for kind in (held.needed, held.droppable) for item in kind if item[0] > after
                )
                return LogTail(items, held.last, held.lost > after or after > held.last, held.complete)

        async def listen(_log: str) -> bool:
            return False

        return await self._news.get().tail(log, wait, look, listen)

    async def complete(self, log: str, /, *, ttl: float) -> None:
        """Mark a log as complete; see `Store.complete`."""
        with self._lock:
            held = self._log(log)
            held.client = self._take(_OVERHEAD + held.room, held.client, self._counted(log))
            held.complete = True
            self._keep(log, held, ttl)
            self._tell(log)

    async def aclose(self) -> None:
        """End the waits of the running event loop; the stored data stays."""
        news = self._news.pop()
        if news is not None:
            news.fail("the store was closed")

    def _log(self, log: str) -> _Log:
        """Return a log, or a new one that is not held; drop expired ones."""
        now = self._clock()
        while self._log_ends and self._log_ends[0][0] <= now:
            _, ended = heapq.heappop(self._log_ends)
            found = self._logs.get(ended)
            if found is not None and found.ends <= now:
                self._room.give(found.client, _OVERHEAD + found.room)
                del self._logs[ended]
            elif found is not None:
                heapq.heappush(self._log_ends, (found.ends, ended))
        return self._logs.get(log) or _Log()

    def _counted(self, log: str) -> int:
        """Return the room that is counted for a log; 0 for one that is not held."""
        return _OVERHEAD + self._logs[log].room if log in self._logs else 0

    def _keep(self, log: str, held: _Log, ttl: float) -> None:
        """Hold a log until it expires."""
        ends = self._clock() + ttl
        self._logs[log] = held
        if ends < held.ends:  # also the first time
            heapq.heappush(self._log_ends, (ends, log))
        held.ends = ends

    def _tell(self, log: str) -> None:
        """Tell those who wait for a log, in all event loops."""
        self._told += 1
        if self._lose and self._told % self._lose == 0:
            return
        twice = self._duplicate and self._told % self._duplicate == 0
        for loop, news in self._news.all():
            for _ in range(2 if twice else 1):
                if self._delay:
                    loop.call_soon_threadsafe(loop.call_later, self._delay, news.tell, log)
                else:
                    loop.call_soon_threadsafe(news.tell, log)
