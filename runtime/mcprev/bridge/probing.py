"""Opens a connection to a server of unknown era without letting its client wait for the probe (NEG-4, NEG-5).

An old server may say nothing to a request that it does not know, and clients often give up after 5 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from mcprev.client.connect import Opener
from mcprev.client.session import OpenedConnection
from mcprev.errors import McpError
from mcprev.revisions import Era, Revision

SOON: Final = 1.0
"""Seconds after which a server that has not answered the probe is also asked by `initialize`."""


def preferred(client: Revision, allowed: tuple[Revision, ...]) -> Revision | None:
    """Return the revision to ask a server for first on behalf of a client; None to probe for the era first."""
    if not client.handshake or client in allowed:
        return client
    return next((revision for revision in reversed(allowed) if revision.handshake), None)


async def open_soon(
    new_opener: Callable[[], Opener],
    era: Era | None,
    prefer: Revision | None,
    allowed: tuple[Revision, ...],
    end_later: Callable[[asyncio.Task[None]], None],
) -> tuple[Opener, OpenedConnection]:
    """Return an open connection, and what has opened it. Raises the error of a server that cannot be reached.

    If the era has to be probed and that takes long, a second connection begins with `initialize`. The first one that is
    open is used; the other one is closed by a task that `end_later` gets.
    """
    first = new_opener()
    probes = era is None and (prefer is None or not prefer.handshake)
    if not (probes and len({revision.era for revision in allowed}) > 1):
        return first, await first.open(era, None, prefer)
    opening = {asyncio.create_task(first.open(None, None, prefer)): first}
    used: asyncio.Task[OpenedConnection] | None = None
    try:
        done, _ = await asyncio.wait(opening, timeout=SOON)
        if not done:
            second = new_opener()
            opening[asyncio.create_task(second.open(Era.HANDSHAKE, None, prefer))] = second
        used = await _first_open(opening)
        return opening[used], used.result()
    finally:
        for task, opener in opening.items():
            if task is not used:
                task.cancel()
                end_later(asyncio.create_task(_end(task, opener)))


async def _first_open(opening: Iterable[asyncio.Task[OpenedConnection]]) -> asyncio.Task[OpenedConnection]:
    """Return the first attempt that has succeeded. Raises the error of the first one if none has."""
    attempts = list(opening)
    waiting = set(attempts)
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for attempt in attempts:
            if attempt.done() and attempt.exception() is None:
                return attempt
    attempts[0].result()
    raise AssertionError("an attempt that has failed raises")


async def _end(attempt: asyncio.Task[OpenedConnection], opener: Opener) -> None:
    """Close what an attempt has opened that is not used."""
    await asyncio.wait({attempt})
    if attempt.cancelled() or attempt.exception() is not None:
        return  # it has closed that itself
    with suppress(McpError, OSError):
        await attempt.result().connection.aclose()
        await opener.close()
