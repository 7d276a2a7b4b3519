"""Counts of calls that the processes of one service share in a store."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from mcprev.core.store import Records
from mcprev.error_text import MALFORMED, invalid_value
from mcprev.errors import Json, StoreError
from mcprev.sharing.watching import TRIES

PARTS: Final = 50
"""The parts of a window; a call counts until the part after its own is a window old, so never too short."""


async def count_call(records: Records, names: Sequence[str], most: int, seconds: float) -> float:
    """Count a call and return 0; or return the seconds until one is allowed, if `most` are in the window of `seconds`.

    Raises `StoreError` if the store fails, or if others count all the time.
    """
    key, part = f"count/{sha256(json.dumps(names).encode()).hexdigest()}", seconds / PARTS
    for _ in range(TRIES):
        record = await records.read(key)
        now, known = time.time(), {} if record is None else _decoded(record.value)
        # What a clock that is ahead has counted is not older than now.
        number = max([int(now // part), *known])
        calls = {at: calls for at, calls in known.items() if at >= number - PARTS}
        if sum(calls.values()) >= most:
            # The record ends that long after it was written last, whatever the clocks of processes say.
            return min(max((min(calls) + PARTS + 1) * part - now, 0.001), seconds + 2 * part)
        calls[number] = calls.get(number, 0) + 1
        value = json.dumps({str(at): count for at, count in calls.items()}).encode()
        seen = 0 if record is None else record.version
        if await records.write(key, value, seen=seen, ttl=seconds + 2 * part) is not None:
            return 0
        await asyncio.sleep(secrets.randbelow(10) / 1000)
    raise StoreError("other processes keep changing a count of calls; try again later")


def _decoded(value: bytes) -> dict[int, int]:
    try:
        found: Json = json.loads(value)
        return {int(at): int(calls) for at, calls in found.items()}
    except MALFORMED as error:
        raise invalid_value("a count of calls") from error
