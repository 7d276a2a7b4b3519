"""A store in Redis or Valkey, for workers on any number of machines: one server, Sentinel or Cluster.

A record is a hash with its value, version and index. A log is a hash with its numbers, and two streams: items that a
reader needs, and droppable ones. Each change is one script, so that nobody sees half of it. An append is published;
one connection of each worker hears of all logs that somebody waits for there.

All keys of a change are in one slot: the name in braces says which. A cluster has `BUCKETS` of these names, each with
the records of some keys and their indexes, so that a record and its index change together.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from mcprev.core.store import LogBounds, LogItem, LogTail, Record
from mcprev.errors import Json, MissingExtra, StoreError
from mcprev.stores.redis_listener import RedisLocal, advice
from mcprev.stores.redis_scripts import APPEND, COMPLETE, DIGESTS, LISTED, REMOVE, TAIL, WRITE
from mcprev.stores.redis_url import TIME_LIMIT, RedisClient, read_url
from mcprev.stores.waiting import PerLoop

try:
    from redis.exceptions import NoScriptError, RedisClusterException, RedisError
except ImportError as _error:
    raise MissingExtra("a store in Redis", "redis", "redis") from _error

BUCKETS: Final = 64
"""The number of parts into which records are divided in a cluster."""
_log: Final = logging.getLogger("mcprev.store")


class RedisStore:
    """A store in Redis or Valkey, which workers on any number of machines share; see `mcprev.core.store.Store`."""

    def __init__(self, url: str) -> None:
        """Read the URL. Raises `ValueError` if it is not usable; docs/stores.md describes it."""
        self._address = read_url(url)
        self.place: str = self._address.place
        """Where it is, as a URL without credentials and options."""
        self._place = f"the store at {self.place}"
        self._local = PerLoop(self._open, lambda _: None)
        self._warned = False

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or it has expired."""
        found = await self._run("HMGET", f"{self._bucket(key)}r:{key}", "v", "n")
        return None if found[0] is None else Record(found[0], int(found[1]))

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Store.write`."""
        bucket = self._bucket(key)
        keys = (f"{bucket}r:{key}", f"{bucket}i:{index}")
        given = (
            value,
            _text(seen),
            "" if ttl is None else _milliseconds(ttl),
            index,
            key,
            f"{bucket}i:",
            f"{bucket}r:",
        )
        return await self._script(WRITE, keys, *given) or None

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`; see `Records.remove`."""
        bucket = self._bucket(key)
        return bool(await self._script(REMOVE, (f"{bucket}r:{key}",), _text(seen), key, f"{bucket}i:"))

    async def listed(
        self, index: str, /, *, after: int = 0, limit: int = 100
    ) -> Sequence[tuple[str, Record]]:
        """Return up to `limit` records of an index with versions above `after`; see `Store.listed`."""
        address = self._address
        buckets = [self._tag(f":{n:02}") for n in range(BUCKETS)] if address.cluster else [self._tag()]
        found = await asyncio.gather(*(self._listed(bucket, index, after, limit) for bucket in buckets))
        return sorted((each for page in found for each in page), key=lambda each: each[1].version)[:limit]

    async def _listed(self, bucket: str, index: str, after: int, limit: int) -> list[tuple[str, Record]]:
        """Return up to `limit` records of an index in one bucket."""
        page: list[tuple[str, Record]] = []
        start = str(after)
        while len(page) < limit:
            rows = limit - len(page)
            count, found, last = await self._script(
                LISTED, (f"{bucket}i:{index}",), start, rows, f"{bucket}r:"
            )
            page += [(key.decode(), Record(value, version)) for key, value, version in found]
            if count < rows:
                break
            start = last.decode()
        return page

    async def append(
        self, log: str, items: Sequence[LogItem], /, *, bounds: LogBounds, seen: int | None = None
    ) -> int | None:
        """Append items to a log; see `Store.append`."""
        given = [part for item in items for part in (int(item.droppable), item.value)]
        limits = (_milliseconds(bounds.ttl), bounds.items, bounds.size, self._channel(log))
        last = await self._script(APPEND, self._log_keys(log), _text(seen), *limits, *given)
        return None if last < 0 else last

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> LogTail:
        """Return the items after a number, and wait for them; see `Store.tail`."""

        async def look() -> LogTail:
            last, lost, complete, *streams = await self._script(TAIL, self._log_keys(log), after)
            items = sorted((int(name[:-2]), values[1]) for stream in streams for name, values in stream)
            return LogTail(items, last, lost > after or after > last, bool(complete))

        if wait <= 0:
            return await look()
        local = self._local.get()
        return await local.news.tail(log, wait, look, local.listen)

    async def complete(self, log: str, /, *, ttl: float) -> None:
        """Mark a log as complete; see `Store.complete`."""
        await self._script(COMPLETE, self._log_keys(log), _milliseconds(ttl), self._channel(log))

    async def aclose(self) -> None:
        """Close the connections of the running event loop; see `Store.aclose`."""
        local = self._local.pop()
        if local is not None:
            await local.aclose("the store was closed")

    # -- keys ------------------------------------------------------------------------------------------------

    def _tag(self, name: str = "") -> str:
        return f"{{{self._address.prefix}{name}}}"

    def _bucket(self, key: str) -> str:
        """Return how the keys of a record begin."""
        if not self._address.cluster:
            return self._tag()
        return self._tag(f":{hashlib.sha256(key.encode()).digest()[0] % BUCKETS:02}")

    def _log_keys(self, log: str) -> Sequence[str]:
        tag = self._tag(f":{hashlib.sha256(log.encode()).hexdigest()[:16]}" if self._address.cluster else "")
        return [f"{tag}{kind}:{log}" for kind in "lnd"]

    def _channel(self, log: str) -> str:
        return f"{self._address.prefix}:{log}"

    # -- commands --------------------------------------------------------------------------------------------

    def _open(self) -> RedisLocal:
        client, others = self._address.connect()
        return RedisLocal(client, others, self._place, self._channel, self._address.secrets)

    async def _script(self, script: str, keys: Sequence[str], *given: object) -> Json:
        try:
            return await self._run("EVALSHA", DIGESTS[script], len(keys), *keys, *given)
        except NoScriptError:
            return await self._run("EVAL", script, len(keys), *keys, *given)

    async def _run(self, *command: object) -> Json:
        """Send a command. Raises `StoreError`; the command is never sent twice, because it may have been carried out."""
        local = self._local.get()
        try:
            async with asyncio.timeout(TIME_LIMIT), local.room:
                if not local.checked:
                    async with local.checking:  # a client of a cluster must not connect twice at once
                        if not local.checked:
                            await self._check(local.client)
                            local.checked = True
                return await local.client.execute_command(*command)
        except NoScriptError:
            raise
        except (RedisError, RedisClusterException, OSError) as error:  # TimeoutError is an OSError
            raise StoreError(f"{self._place}: {advice(error, self._address.secrets)}") from error

    async def _check(self, client: RedisClient) -> None:
        """Warn if the server removes what it has no room for."""
        with suppress(
            RedisError
        ):  # not every user may ask; an error of the connection shows at the command itself
            options = {"target_nodes": "primaries"} if self._address.cluster else {}
            said: dict[str, Any] = await client.execute_command("INFO", "memory", **options)
            nodes: list[dict[str, Any]] = [node for node in said.values() if isinstance(node, dict)]
            policies = {str(node.get("maxmemory_policy")) for node in nodes or [said]}
            if policies - {"noeviction", "None"} and not self._warned:
                self._warned = True
                _log.warning(
                    "%s has `maxmemory-policy %s`, so it drops sessions and tasks when its memory is full; set it to "
                    "`noeviction`", self._place, ", ".join(sorted(policies)),
                )  # fmt: skip


def _text(seen: int | None) -> str:
    return "" if seen is None else str(seen)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
