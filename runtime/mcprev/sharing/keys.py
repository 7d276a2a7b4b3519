"""The keys of request states that the processes of one service share in a store (SEC-5, MRTR-4).

The keys are one record, which is only replaced by compare-and-set. A new key is added first; every process reads the
record at least every `REFRESH` seconds before it serves a request. The key signs when `SPREAD` seconds have passed, so
that by then all processes accept it. A key that signs no longer is accepted until its last state has expired.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple

from mcprev.core.method_binding import log_error
from mcprev.core.store import Records
from mcprev.error_text import MALFORMED, invalid_value
from mcprev.errors import Json, StoreError
from mcprev.protocol.request_state import KEY_BYTES, SKEW, RequestStateSealer
from mcprev.sharing.watching import TRIES
from mcprev.stores.waiting import PerLoop

REFRESH: Final = 30.0
"""Seconds after which a process reads the keys again."""
SPREAD: Final = 120.0
"""Seconds between adding a key and signing with it: more than `REFRESH` and what the clocks of processes differ by."""
ROTATION: Final = 30 * 86_400.0
"""Seconds for which a key signs before the next one is added."""
RETRY: Final = 1.0
"""Seconds until the keys are read again after the store failed."""
_NAME: Final = "keys"
_logger: Final = logging.getLogger("mcprev.server")


class StoredKey(NamedTuple):
    """A key, with times in seconds since the epoch."""

    key: bytes
    added: float
    signs: float | None
    """Since when it signs; None if it does not sign yet."""


def next_keys(keys: Sequence[StoredKey], now: float, keep: float, *, add: bool = False) -> list[StoredKey]:
    """Return the keys, oldest first, after the steps that are due; `add` adds one that is not due.

    A key that signs no longer is kept for `keep` seconds.
    """
    found = list(keys)
    if not found:
        return [StoredKey(secrets.token_bytes(KEY_BYTES), now, now)]
    last = found[-1]
    if last.signs is None and now - last.added >= SPREAD:
        last = found[-1] = last._replace(signs=now)
    if last.signs is not None and (add or now - last.signs >= ROTATION):
        found.append(StoredKey(secrets.token_bytes(KEY_BYTES), now, None))
    while len(found) > 1 and found[1].signs is not None and now - found[1].signs >= keep:
        del found[0]
    return found


def in_order(keys: Sequence[StoredKey]) -> tuple[bytes, ...]:
    """Return the keys as a `RequestStateSealer` takes them: the newest that signs, then all others."""
    signer = next(key for key in reversed(keys) if key.signs is not None)
    return (signer.key, *(key.key for key in reversed(keys) if key is not signer))


class SharedKeys:
    """The keys of a service, for `RequestStateSealer`: call `refresh` before a request is served."""

    def __init__(self, records: Records, lifetime: float) -> None:
        """`lifetime` is the longest time in seconds for which anything that is sealed is valid."""
        self._records, self._keep = records, lifetime + 2 * SKEW
        self._keys: tuple[bytes, ...] = ()
        self._due = float("-inf")
        self._reading: PerLoop[asyncio.Lock] = PerLoop(asyncio.Lock, lambda _: None)

    def __call__(self) -> Sequence[bytes]:
        """Return the keys that were read last. Raises `StoreError` if none could be read."""
        if not self._keys:
            raise StoreError("the keys of request states could not be read from the store")
        return self._keys

    async def refresh(self) -> None:
        """Read the keys if that is due; if the store fails, the keys stay as they are, and the failure is logged."""
        if time.monotonic() < self._due or (self._keys and self._reading.get().locked()):
            return
        async with self._reading.get():
            if time.monotonic() < self._due:
                return
            try:
                await self._step()
            except Exception as error:  # noqa: BLE001 - it is logged
                what = "the keys of request states cannot be read; the store is asked again"
                log_error(_logger, logging.ERROR, what, error)
                self._due = time.monotonic() + RETRY

    async def rotate(self) -> None:
        """Add a new key now, for example because an old one may be known to others. Raises `StoreError`.

        No key is removed: a server with a longer `lifetime` may still need it.
        """
        await self._step(add=True)

    async def _step(self, *, add: bool = False) -> None:
        for _ in range(TRIES):
            record = await self._records.read(_NAME)
            found = [] if record is None else _decoded(record.value)
            keys = next_keys(found, time.time(), math.inf if add else self._keep, add=add)
            seen = 0 if record is None else record.version
            if keys == found or await self._records.write(_NAME, _encoded(keys), seen=seen) is not None:
                self._keys, self._due = in_order(keys), time.monotonic() + REFRESH
                return
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("other processes keep changing the keys of request states; try again later")


def _encoded(keys: Sequence[StoredKey]) -> bytes:
    return json.dumps([[b64encode(key.key).decode(), key.added, key.signs] for key in keys]).encode()


def _decoded(value: bytes) -> list[StoredKey]:
    try:
        found: Json = json.loads(value)
        keys = [
            StoredKey(b64decode(key, validate=True), float(added), None if signs is None else float(signs))
            for key, added, signs in found
        ]
        RequestStateSealer(in_order(keys))  # raises for a key that is too short
    except (*MALFORMED, StopIteration) as error:
        raise invalid_value("the keys of request states") from error
    return keys
