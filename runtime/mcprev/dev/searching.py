"""Finds events by text, method, direction and problems."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from mcprev.dev.event_log import EventLog
from mcprev.errors import Json

FOUND: Final = 10_000
"""How many events one search returns."""
SLICE: Final = 500
"""How many events are searched before other tasks have their turn."""
TEXT: Final = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is searched for; everything that is set must fit."""

    text: str = ""
    """A text in the message, whatever its case."""
    method: str = ""
    """The beginning of the method."""
    dir: str = ""
    problems: bool = False
    """Only messages with problems."""


async def search(log: EventLog, wanted: Wanted) -> dict[str, Json]:
    """Return the numbers of the events that fit, oldest first."""
    needle = wanted.text[:TEXT].lower().encode()
    found: list[Json] = []
    for count, event in enumerate(log.all()):
        if count % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        if wanted.method and not (event.method or "").startswith(wanted.method):
            continue
        if (wanted.dir and event.dir != wanted.dir) or (wanted.problems and not event.problems):
            continue
        if needle and needle not in event.label.lower().encode():
            body = log.body(event.n)
            if body is None or needle not in body.lower():
                continue
        found.append(event.n)
        if len(found) >= FOUND:
            return {"matches": found, "more": True}
    return {"matches": found, "more": False}
