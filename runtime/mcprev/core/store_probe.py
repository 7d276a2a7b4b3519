"""Tries whether a store can be used: whether it responds, and takes what serving writes (HTTP-31)."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Final

from mcprev.core.store import Records

PROBE: Final = 2.0
"""Seconds in which a store has to respond."""
FRESH: Final = 1.0
"""Seconds for which an answer counts, so that nobody can load the store with probes."""
WRITES: Final = 5.0
"""Seconds between two writes to a store that takes them; one that fails is tried again after `FRESH`."""
SILENT: Final = "the store does not respond"
NO_WRITES: Final = "the store takes no writes"
_VALUE: Final = b'"%b"' % (b"ready" * 820)
"""More than a page of SQLite has, so that a store without room has none for it either."""
_logger: Final = logging.getLogger("mcprev.store")


class StoreProbe:
    """Asks a store for a record and writes one, in bounded time and not more often than is useful.

    A store that is read may still take no writes, such as a Redis that has become a replica or has no memory left, and then
    no session begins.
    """

    def __init__(self, records: Records | None) -> None:
        """None: there is no store, and nothing to ask."""
        self._records = records
        self._key = f"ready {secrets.token_hex(8)}"
        self._asking: asyncio.Task[str | None] | None = None
        self._asked = self._written = float("-inf")
        self._failed = False

    async def answers(self) -> bool:
        """Return whether the store can be used, or could within the last second; True without a store."""
        return await self.failure() is None

    async def failure(self) -> str | None:
        """Return what the store does not do, `SILENT` or `NO_WRITES`; None if it can be used."""
        if self._records is None:
            return None
        loop = asyncio.get_running_loop()
        if self._asking is not None and self._asking.get_loop() is not loop:
            self._asking, self._written = None, float("-inf")
        if self._asking is None or (self._asking.done() and loop.time() - self._asked >= FRESH):
            self._asked = loop.time()
            self._asking = loop.create_task(self._ask(self._records))
        return await asyncio.shield(self._asking)

    async def _ask(self, records: Records) -> str | None:
        failure, error = SILENT, ""
        try:
            async with asyncio.timeout(PROBE):
                await records.read(self._key)
                failure = NO_WRITES
                await self._write(records)
        except Exception as caught:  # noqa: BLE001 - of whoever wrote the store
            error = str(caught) or f"no response within {PROBE:g} s"
            if not self._failed:
                _logger.warning("not ready: %s: %s", failure, error)
            self._failed = True
            return failure
        if self._failed:
            _logger.warning("ready again: the store responds and takes writes")
        self._failed = False
        return None

    async def _write(self, records: Records) -> None:
        """Write a new record and remove it, unless that was done lately."""
        now = asyncio.get_running_loop().time()
        if not self._failed and now - self._written < WRITES:
            return
        await records.write(self._key, _VALUE, ttl=60.0)
        await records.remove(self._key)
        self._written = now
