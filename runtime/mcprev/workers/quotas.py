"""How many sessions there are, of all clients and of each, counted by all workers together (HTTP-27, SEC-6).

A count may be too high, because a session that has expired or whose worker was killed is still in it, but never too low.
Where it reaches a limit, the sessions are counted anew.
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
    ) -> None:
        """`ttl` is the time to live of sessions. `evict` ends the longest idle of some sessions, unless all are in use."""
        self._store, self._ttl = store, ttl
        self.name: str = name
        self._limit, self._per_client, self._evict = limit, per_client, evict
        self._counting: asyncio.Lock = asyncio.Lock()
        """Held while a count changes, so that the requests of one worker do not overtake each other."""

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
        async with self._counting:
            return await self._try_to_count(index, limit)

    async def _try_to_count(self, index: str, limit: int) -> bool:
        for _ in range(TRIES):
            record = await self._store.read(f"count/{index}")
            number = None if record is None else int(json.loads(record.value))
            if number is None or number >= limit:
                keys = await self._keys(index)
                number = len(keys)
                if number >= limit:
                    if self._evict is None or not await self._evict(keys[:CANDIDATES]):
                        return False
                    continue
            seen = 0 if record is None else record.version
            if await self._write(index, number + 1, seen) is not None:
                return True
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("the number of sessions is changed by others all the time")

    async def _count_down(self, index: str) -> None:
        """Count one less; `_evict` calls it while a count changes."""
        for _ in range(TRIES):
            record = await self._store.read(f"count/{index}") if index else None
            if record is None:
                return
            number = max(0, int(json.loads(record.value)) - 1)
            if await self._write(index, number, record.version) is not None:
                return

    async def _write(self, index: str, number: int, seen: int) -> int | None:
        return await self._store.write(f"count/{index}", b"%d" % number, seen=seen, ttl=2 * self._ttl)

    async def _keys(self, index: str) -> list[str]:
        """Return the keys of the sessions of an index, the longest unused first."""
        keys: list[str] = []
        after = 0
        while page := await self._store.listed(index, after=after, limit=PAGE):
            keys.extend(key.rpartition("/")[2] for key, _ in page)
            after = page[-1][1].version
        return keys
