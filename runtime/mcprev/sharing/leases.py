"""Numbered leases: each worker of a server has a number that is never given again, and is alive while it renews it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final

from mcprev.core.method_binding import log_error
from mcprev.core.store import Record, Store
from mcprev.error_text import MALFORMED, invalid_value
from mcprev.errors import Json, StoreError
from mcprev.sharing.processes import process_has_ended, this_process

TRIES: Final = 100
"""How often an attempt for a number is repeated after another worker took it."""
STUCK: Final = 60.0
"""Seconds for which an event loop may be blocked before its lease is left to end."""
_logger: Final = logging.getLogger("mcprev.server")
_NUMBERS: Final = "workers"
"""The key of the record with the last number, and the index and prefix of the leases."""


class Lease:
    """The lease of a worker; it ends `ttl` seconds after it was last renewed, by the clock of the store.

    `renew` it three times in that time; it may be called from an event loop in a thread, so that a handler that blocks
    the loop does not end the lease.
    """

    def __init__(self, store: Store, number: int, epoch: str, value: bytes, version: int, ttl: float) -> None:
        """Use `Lease.open`."""
        self._store, self._value, self._version, self._ttl = store, value, version, ttl
        self._process = os.getpid()
        self.number: int = number
        """The number of the worker, from one; no other worker of the store ever has it."""
        self.epoch: str = epoch
        """Tells one life of the store from another: it is new if the store has lost its data."""

    @classmethod
    async def open(cls, store: Store, *, note: Json = None, ttl: float = 10.0) -> Lease:
        """Take the next number, and begin its lease. `note` is for other workers to read."""
        for _ in range(TRIES):
            found = await store.read(_NUMBERS)
            new: dict[str, Json] = {"last": 0, "epoch": secrets.token_hex(8)}
            last = new if found is None else _object(found)
            number, epoch = _last(last) + 1, str(last.get("epoch"))
            seen = 0 if found is None else found.version
            if await store.write(_NUMBERS, _bytes({"last": number, "epoch": epoch}), seen=seen) is not None:
                value = _bytes({"token": secrets.token_hex(8), "note": note, "process": this_process()})
                version = await store.write(_key(number), value, seen=0, ttl=ttl, index=_NUMBERS)
                if version is not None:
                    return cls(store, number, epoch, value, version, ttl)
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError(
            f"{TRIES} times in a row, another worker took the number that this worker chose; try again"
        )

    async def renew(self) -> bool:
        """Renew the lease; return False if it has ended, or the store has lost it: then open another one.

        It is False in a process that a fork has made, too. Raises `StoreError` if the store cannot say.
        """
        if self._process != os.getpid():
            return False
        for _ in range(2):
            version = await self._store.write(
                _key(self.number), self._value, seen=self._version, ttl=self._ttl, index=_NUMBERS
            )
            if version is not None:
                self._version = version
                return True
            found = await self._store.read(_key(self.number))
            if found is None or found.value != self._value:
                return False
            self._version = found.version  # an earlier call has written it, and did not hear of it
        return False

    async def holds_store(self) -> bool:
        """Return whether the store has its data still, lease or not. Raises `StoreError` if it cannot say."""
        found = await self._store.read(_NUMBERS)
        return found is not None and _object(found).get("epoch") == self.epoch

    async def end(self) -> None:
        """End the lease now."""
        if self._process == os.getpid():
            await self._store.remove(_key(self.number), seen=self._version)


class LeaseThread:
    """Renews a lease on behalf of an event loop that a handler blocks, in a thread, so that the worker counts as alive."""

    def __init__(
        self,
        renew: Callable[[], Awaitable[object]],
        release: Callable[[], Awaitable[None]] | None,
        renewed: Callable[[], float],
        every: float,
    ) -> None:
        """`renew` renews the lease, and `renewed` tells when the event loop did so last, by `time.monotonic`.

        `release` releases what an event loop holds of the store; None if one event loop only may use the store: then
        there is no thread. The event loop renews the lease every `every` seconds.
        """
        self._renew, self._release, self._renewed, self._every = renew, release, renewed, every
        self._turned = 0.0
        self._resting = False
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self) -> None:
        """Start the thread unless it runs. The event loop calls this again and again, because it is not blocked."""
        self._turned = time.monotonic()
        if self._release is None:
            return
        with self._changing:
            self._resting = False
            if self._thread is None or not self._thread.is_alive():
                self._ended = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._ended,), name="mcprev lease", daemon=True
                )
                self._thread.start()

    def rest(self) -> None:
        """Renew nothing until the next `keep`; the thread ends after a while, because to start one takes long."""
        self._resting = True

    def end(self) -> None:
        """Let the thread end."""
        self._ended.set()
        self._thread = None

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(self._every):
            with self._changing:
                if self._resting:
                    if not ended.is_set():
                        self._thread = None
                    return
            now = time.monotonic()
            if now - self._turned >= STUCK:
                _logger.error("the event loop has been blocked for %d s; its lease is not renewed", STUCK)
                return
            if now - self._renewed() >= 1.5 * self._every:
                try:
                    asyncio.run(self._renew_once())
                except Exception as error:  # noqa: BLE001 - it is logged
                    what = "the lease of a blocked event loop cannot be renewed"
                    log_error(_logger, logging.ERROR, what, error)

    async def _renew_once(self) -> None:
        try:
            await self._renew()
        finally:
            if self._release is not None:
                await self._release()


async def workers(store: Store) -> dict[int, Json]:
    """Return the numbers of the workers that are alive, with their notes; those come first that renewed longest ago."""
    found: dict[int, Json] = {}
    after = 0
    while page := await store.listed(_NUMBERS, after=after):
        for key, record in page:
            value, after = _object(record), record.version
            if not process_has_ended(value.get("process")):
                found[int(key.rpartition("/")[2])] = value.get("note")
    return found


async def is_alive(store: Store, number: int) -> bool:
    """Return whether a worker's lease has not ended, nor its process if that is on this machine."""
    found = await store.read(_key(number))
    return found is not None and not process_has_ended(_object(found).get("process"))


def _key(number: int) -> str:
    return f"{_NUMBERS}/{number}"


def _object(record: Record) -> dict[str, Json]:
    try:
        found: dict[str, Json] = {**json.loads(record.value)}
    except MALFORMED as error:
        raise invalid_value("the numbers of workers") from error
    return found


def _last(value: dict[str, Json]) -> int:
    try:
        return int(value["last"])
    except MALFORMED as error:
        raise invalid_value("the numbers of workers") from error


def _bytes(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
