"""How many sessions there are, of all clients and of each, counted by all workers together (HTTP-27, SEC-6).

A worker counts several sessions at a time and then opens these without asking again, so that workers that open many do not
wait for each other. A count is too high by what workers have counted and not opened, and by sessions that have expired or
ended with a worker that was killed. Where it reaches a limit, the sessions are counted anew, without what workers may still
open: so there can be more of them than the limit, by less than one in `SHARE` for each worker.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mcprev.core.store import Record, Store, client_digest
from mcprev.error_text import MALFORMED, invalid_value
from mcprev.errors import InternalError, InvalidRequest, StoreError
from mcprev.protocol.http_request_class import RETRY_LATER, HttpError
from mcprev.sharing.watching import TRIES
from mcprev.wire.jsonrpc import RequestId

CANDIDATES: Final = 16
"""How many sessions are considered at a time when one has to end for another, those first that were unused for longest."""
ROUNDS: Final = 8
"""How many times so many are considered."""
PAGE: Final = 1_000
SHARE: Final = 200
"""A worker counts one session in so many of the limit at a time; of a lower limit, each one by itself."""
MAX_INDEXES: Final = 1_000
"""The number of clients for which a worker remembers what it has counted."""
RECOUNT: Final = 1.0
"""Seconds for which a worker that has counted the sessions, or found all in use, does not do it again."""


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
        evict: Callable[[str, Sequence[str]], Awaitable[bool]] | None = None,
        is_over: Callable[[bytes], Awaitable[bool]] | None = None,
        first: str = "",
    ) -> None:
        """`ttl` is the time to live of sessions.

        `evict` ends the longest idle of some sessions of an index, unless all are in use. Those in the index `first` are not
        in that of all, and end before them. `is_over` returns whether a session has ended with its worker, from what is
        stored in an index.
        """
        self._store, self._ttl, self._first = store, ttl, first
        self.name: str = name
        self._limit, self._per_client, self._evict, self._is_over = limit, per_client, evict, is_over
        self._counting: asyncio.Lock = asyncio.Lock()
        """Held while a count changes, so that the requests of one worker do not overtake each other."""
        self._left: dict[str, int] = {}
        """How many sessions of an index this worker may open that it has counted already."""
        self._counted: dict[str, float] = {}
        """When this worker has counted the sessions of an index."""
        self._full: dict[str, float] = {}
        """When this worker has found that all sessions of an index are in use."""

    def client_index(self, client: str) -> str:
        """Return the index of the sessions of a client, whose name nobody learns from it."""
        return f"{self.name}/{client_digest(client)}"

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

    async def mark(self, index: str, key: str, value: bytes = b"1") -> None:
        """Let the index of a client have a session, or have it for longer; `value` is for `is_over`."""
        if index:
            await self._store.write(f"mark/{index}/{key}", value, ttl=self._ttl, index=index)

    async def give_back(self, index: str, key: str) -> None:
        """Count a session no more."""
        await self.unmark(index, key)
        await self._count_down(self.name)

    async def unmark(self, index: str, key: str) -> None:
        """Count a session no more in the index of its client, if that is known."""
        await self.discard(index, key)
        await self._count_down(index)

    async def discard(self, index: str, key: str) -> None:
        """Let the index of a client, if that is known, have a session no more; the count is right when it is made anew."""
        if index:
            await self._store.remove(f"mark/{index}/{key}")

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
            number = None if record is None else _number(record)
            if number is None or number >= limit:
                number = await self._make_room(index, limit)
                if number is None:
                    self._full[index] = asyncio.get_running_loop().time()
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
        if self._is_recent(self._full, index):
            return None
        recent = self._is_recent(self._counted, index)
        names = [self._first, index] if self._first and index == self.name else [index]
        found = [await self._keys(name, CANDIDATES * ROUNDS if recent else PAGE) for name in names]
        if not recent:
            self._counted[index] = asyncio.get_running_loop().time()
            number = sum(map(len, found))
            if number < limit:
                return number
        if self._evict is not None:
            for keys in found:
                for at in range(0, min(len(keys), CANDIDATES * ROUNDS), CANDIDATES):
                    if await self._evict(index, keys[at : at + CANDIDATES]):
                        return limit
        return None

    def _is_recent(self, times: dict[str, float], index: str) -> bool:
        """Return whether something was done with an index a short time ago; forget when it was, if not."""
        if asyncio.get_running_loop().time() - times.get(index, float("-inf")) < RECOUNT:
            return True
        times.pop(index, None)
        if len(times) >= MAX_INDEXES:
            times.clear()
        return False

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
            number = max(0, _number(record) - 1)
            if await self._write(index, number, record.version) is not None:
                return

    async def _write(self, index: str, number: int, seen: int) -> int | None:
        return await self._store.write(f"count/{index}", b"%d" % number, seen=seen, ttl=2 * self._ttl)

    async def _keys(self, index: str, limit: int) -> list[str]:
        """Return the keys of the sessions of an index, the longest unused first; `limit` of them, all if it is `PAGE`."""
        keys: list[str] = []
        after = 0
        while page := await self._store.listed(index, after=after, limit=limit):
            for key, record in page:
                if self._is_over is not None and await self._is_over(record.value):
                    await self._store.remove(key)
                else:
                    keys.append(key.rpartition("/")[2])
            after = page[-1][1].version
            if limit < PAGE:
                break
        return keys


def _number(record: Record) -> int:
    try:
        return int(json.loads(record.value))
    except MALFORMED as error:
        raise invalid_value("the number of sessions") from error
