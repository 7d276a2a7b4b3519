"""How many sessions there are, of all clients and of each, counted by all workers together (HTTP-27, SEC-6).

A worker counts several sessions at a time and then opens these without asking again, so that workers that open many do not
wait for each other. A count is too high by what workers have counted and not opened, and by sessions that have expired or
whose worker was killed. Where it reaches a limit, the sessions are counted anew, without what workers may still open: so
there can be more of them than the limit, by less than one in `SHARE` for each worker.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Final

from mcprev.core.store import Store
from mcprev.errors import InternalError, InvalidRequest, StoreError
from mcprev.protocol.http_request_class import RETRY_LATER, HttpError
from mcprev.stores.watching import TRIES
from mcprev.wire.jsonrpc import RequestId

CANDIDATES: Final = 16
"""How many of the sessions that were unused for longest are considered when one has to end for another."""
PAGE: Final = 1_000
SHARE: Final = 200
"""A worker counts one session in so many of the limit at a time; of a lower limit, each one by itself."""
MAX_INDEXES: Final = 1_000
"""The number of clients for which a worker remembers what it has counted."""
RECOUNT: Final = 1.0
"""Seconds for which a worker that has counted the sessions does not do it again."""


class Quotas:
    """Counts the sessions of one kind, each in the index `name` and, if its client is known, in an index of that client."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        ttl: float,
        limit: int,
        per_client: int,
        evict: Callable[[Sequence[str]], Awaitable[bool]] | None = None,
        first: str = "",
    ) -> None:
        """`ttl` is the time to live of sessions. `evict` ends the longest idle of some sessions, unless all are in use.

        Those in the index `first` are not in that of all, and end before them.
        """
        self._store, self._ttl, self._first = store, ttl, first
        self.name: str = name
        self._limit, self._per_client, self._evict = limit, per_client, evict
        self._counting: asyncio.Lock = asyncio.Lock()
        """Held while a count changes, so that the requests of one worker do not overtake each other."""
        self._left: dict[str, int] = {}
        """How many sessions of an index this worker may open that it has counted already."""
        self._counted: dict[str, float] = {}
        """When this worker has counted the sessions of an index."""

    def client_index(self, client: str) -> str:
        """Return the index of the sessions of a client, whose name nobody learns from it."""
        return f"{self.name}/{sha256(client.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"

    async def take(
        self, index: str, request_id: RequestId | None, *, null_id: bool = False
    ) -> HttpError | None:
        """Count a session of the client with an index, "" if unknown; return the error if there are too many.

        Raises `StoreError`.
        """
        if index and not await self._count_up(index, self._per_client):
            error = InvalidRequest("Invalid Request: this client has too many sessions in use")
            return HttpError(429, error, request_id, null_id=null_id, headers=RETRY_LATER)
        if not await self._count_up(self.name, self._limit):
            await self._count_down(index)
            return HttpError(
                503,
                InternalError("there are too many sessions in use"),
                request_id,
                null_id=null_id,
                headers=RETRY_LATER,
            )
        return None

    async def mark(self, index: str, key: str) -> None:
        """Let the index of a client have a session, or have it for longer."""
        if index:
            await self._store.write(f"mark/{index}/{key}", b"1", ttl=self._ttl, index=index)

    async def give_back(self, index: str, key: str) -> None:
        """Count a session no more."""
        if index:
            await self._store.remove(f"mark/{index}/{key}")
            await self._count_down(index)
        await self._count_down(self.name)

    async def _count_up(self, index: str, limit: int) -> bool:
        if self._spend(index):
            return True
        async with self._counting:
            return await self._try_to_count(index, limit)

    def _spend(self, index: str) -> bool:
        """Take one of the sessions that are counted already; return whether there was one."""
        left = self._left.pop(index, 0)
        if left > 1:
            self._left[index] = left - 1
        return left > 0

    def _save(self, index: str, number: int) -> None:
        """Remember that so many more sessions are counted already."""
        if number and len(self._left) >= MAX_INDEXES:
            del self._left[
                next(iter(self._left))
            ]  # they stay in the count until the sessions are counted anew
        if number:
            self._left[index] = self._left.get(index, 0) + number

    async def _try_to_count(self, index: str, limit: int) -> bool:
        for _ in range(TRIES):
            if self._spend(index):
                return True
            record = await self._store.read(f"count/{index}")
            number = None if record is None else int(json.loads(record.value))
            if number is None or number >= limit:
                number = await self._make_room(index, limit)
                if number is None:
                    return False
                if number >= limit:
                    continue
            taken = min(max(1, limit // SHARE), limit - number)
            seen = 0 if record is None else record.version
            if await self._write(index, number + taken, seen) is not None:
                self._save(index, taken - 1)
                return True
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("other processes keep changing the number of sessions; try again later")

    async def _make_room(self, index: str, limit: int) -> int | None:
        """Return how many sessions there are; `limit` if one of them was ended for another one, None if none can be."""
        now = asyncio.get_running_loop().time()
        recent = now - self._counted.get(index, float("-inf")) < RECOUNT
        names = [self._first, index] if self._first and index == self.name else [index]
        found = [await self._keys(name, CANDIDATES if recent else PAGE) for name in names]
        if not recent:
            if len(self._counted) >= MAX_INDEXES:
                self._counted.clear()
            self._counted[index] = now
            number = sum(map(len, found))
            if number < limit:
                return number
        evict = self._evict
        if evict is not None:
            for keys in found:
                if await evict(keys[:CANDIDATES]):
                    return limit
        return None

    async def _count_down(self, index: str) -> None:
        """Count one less; `_evict` calls it while a count changes."""
        limit = self._limit if index == self.name else self._per_client
        if not index or self._left.get(index, 0) < limit // SHARE:
            self._save(index, int(bool(index)))
            return
        for _ in range(TRIES):
            record = await self._store.read(f"count/{index}")
            if record is None:
                return
            number = max(0, int(json.loads(record.value)) - 1)
            if await self._write(index, number, record.version) is not None:
                return

    async def _write(self, index: str, number: int, seen: int) -> int | None:
        return await self._store.write(f"count/{index}", b"%d" % number, seen=seen, ttl=2 * self._ttl)

    async def _keys(self, index: str, limit: int) -> list[str]:
        """Return the keys of the sessions of an index, the longest unused first; `limit` of them, all if it is `PAGE`."""
        keys: list[str] = []
        after = 0
        while page := await self._store.listed(index, after=after, limit=limit):
            keys.extend(key.rpartition("/")[2] for key, _ in page)
            after = page[-1][1].version
            if limit < PAGE:
                break
        return keys
