"""Jobs that one process of a server does at a time, such as a sweep every hour."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from mcprev.core.store import Records
from mcprev.errors import Json, StoreError
from mcprev.sharing.processes import process_has_ended, this_process
from mcprev.wire.json_values import is_json_object

LEASE: Final = 15.0
"""Seconds for which a process is the leader after it has last said so."""
RENEW: Final = 3.0
"""Seconds between two attempts to become or to stay the leader."""
CERTAIN: Final = 10.0
"""Seconds for which a process that cannot reach the store goes on as the leader; then it has the rest of the lease to end the job."""
_logger: Final = logging.getLogger("mcprev.sharing")


async def run_as_leader(records: Records, name: str, job: Callable[[], Awaitable[object]]) -> None:
    """Run a job in one process at a time of all that call this with the same store and name; wait while another does.

    `records` is the store, such as `server.store` or `ctx.store`. Each process calls this in a task of its own, for example
    in its lifespan, and cancels it at the end. If the process that runs the job ends, another one begins it within 15 s,
    and within 3 s on the same machine or if it is cancelled. A process that cannot renew its lease, because the store
    is away, cancels the job before another one may begin it, and waits again. A process that was frozen for so long
    cancels the job when it goes on.

    Returns when the job has returned here, and raises what the job raises. The other processes go on then: a job that is
    to be done once for all time has to note in the store that it is done.
    """
    key = f"leader/{name}"
    token = json.dumps({"token": secrets.token_hex(16), "process": this_process()}).encode()
    while True:
        version, said = await _claimed(records, key, token, name)
        running = asyncio.ensure_future(job())
        try:
            while version and not running.done():
                version, said = await _stay(records, key, token, version, said, running)
        finally:
            cancelled = running.cancel()
            await asyncio.wait({running})
            with suppress(StoreError):
                await records.remove(key, seen=version)
        if not cancelled:
            await running
            return
        _logger.warning("this process no longer runs the job '%s'; another one may", name)


async def _claimed(records: Records, key: str, token: bytes, name: str) -> tuple[int, float]:
    """Wait until no other process runs the job; return the version of the record that says that this one does, and since when.

    The time is that before the record was written: the lease does not end earlier than `LEASE` seconds after it.
    """
    loop = asyncio.get_running_loop()
    while True:
        said = loop.time()
        try:
            found = await records.read(key)
            if found is not None and _leader_has_ended(found.value):
                await records.remove(key, seen=found.version)
            version = await records.write(key, token, seen=0, ttl=LEASE)
        except StoreError as error:
            _logger.warning("it is unknown which process runs the job '%s': %s", name, error)
            version = None
        if version is not None and loop.time() < said + CERTAIN:
            return version, said
        await asyncio.sleep(RENEW)


def _leader_has_ended(value: bytes) -> bool:
    """Return whether the process of a leader has ended, on this machine."""
    try:
        found: Json = json.loads(value)
    except (ValueError, RecursionError):
        return False
    return is_json_object(found) and process_has_ended(found.get("process"))


async def _stay(
    records: Records, key: str, token: bytes, version: int, said: float, running: asyncio.Future[object]
) -> tuple[int, float]:
    """Wait a moment, then stay the leader; return the new version and time, version 0 if another one may be the leader soon."""
    loop = asyncio.get_running_loop()
    until = said + CERTAIN
    while not running.done():
        await asyncio.wait({running}, timeout=min(RENEW, max(until - loop.time(), 0)))
        before = loop.time()
        try:
            async with asyncio.timeout_at(until):
                renewed = await records.write(key, token, seen=version, ttl=LEASE)
                if renewed is not None:
                    return renewed, before
                found = await records.read(key)
                if found is None or found.value != token:
                    return 0, said
                version = found.version  # an earlier attempt has written it without saying so
        except (StoreError, TimeoutError) as error:
            _logger.warning(
                "the leader cannot renew its lease: %s", str(error) or "the store does not respond"
            )
        if loop.time() >= until:
            return 0, said
    return version, said
