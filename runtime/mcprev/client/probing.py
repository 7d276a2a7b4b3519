"""Opens a connection to a server of unknown era without waiting for the probe (NEG-4, NEG-5).

A server with sessions may say nothing to a request that it does not know, and may be slow to start as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mcprev.client.session import OpenedConnection
from mcprev.errors import Json, McpError
from mcprev.protocol.negotiation import machine
from mcprev.protocol.negotiation.steps import Discover, Plan
from mcprev.revisions import Era, Revision

if TYPE_CHECKING:
    from mcprev.client.opener import Opener

SOON: Final = 1.0
"""Seconds after which a server that has not answered the probe is also asked by `initialize`."""
BESIDE: Final = 10.0
"""Seconds after which a process that has answered neither is started once more, for `initialize` alone."""
_SPARED: Final = "To spare the wait, use mode='legacy' (in the command: --as and the name of its revision)"
_logger: Final = logging.getLogger("mcprev.client.probing")


async def open_soon(
    new_opener: Callable[[], Opener],
    end_later: Callable[[Coroutine[Any, Any, None]], object],
    era: Era | None = None,
    prior: dict[str, Json] | None = None,
    prefer: Revision | None = None,
) -> tuple[Opener, OpenedConnection]:
    """Return an open connection, and what has opened it. Raises the error of a server that cannot be reached.

    If the era has to be probed and that takes long, `initialize` is sent too: at a URL over a second connection, else over
    the same pipe, and over a second one if a long time brings no response to either. The first connection that is open is
    used; the other one is closed by what `end_later` runs in the background. `Opener.open` describes the rest.
    """
    first = new_opener()
    plan = first.plan(era, prior, prefer)
    if era is not None or first.known is not None or not isinstance(plan.step, Discover):
        return first, await first.open(era, prior, prefer)
    opening = {asyncio.create_task(first.open(era, prior, prefer, SOON)): first}
    used: asyncio.Task[OpenedConnection] | None = None
    try:
        done, _ = await asyncio.wait(opening, timeout=SOON)
        if not done:
            _logger.info("%s", _waited_for(first, plan))
        if not done and plan.probe.process:
            done, _ = await asyncio.wait(opening, timeout=BESIDE - SOON)
        if not done and plan.legacy:
            second = new_opener()
            opening[asyncio.create_task(second.open(Era.HANDSHAKE, None, prefer))] = second
        used = await _first_open(opening)
        opener, opened = opening[used], used.result()
        if opener is not first:
            opened = replace(opened, plan=machine.without_answer(opened.plan, SOON))
            opener.learn(opened.plan)
        if machine.ignores_probes(opened.plan):
            _logger.warning("%s", _asked_in_vain(first))
        return opener, opened
    finally:
        for task, opener in opening.items():
            if task is not used:
                task.cancel()
                end_later(_end(task, opener))


def _waited_for(opener: Opener, plan: Plan) -> str:
    """Return what a client waits for."""
    text = f"{opener.target!r} has not responded to 'server/discover' for {SOON:g} s"
    if not plan.legacy:
        return f"{text}; it is waited for, because no allowed revision has `initialize`"
    where = "" if plan.probe.process else ", over a second connection"
    return f"{text}, so it is asked by `initialize` too{where}. {_SPARED}"


def _asked_in_vain(opener: Opener) -> str:
    """Return what is told of a server that has responded to `initialize` and not to the probe."""
    return f"{opener.target!r} responds to 'initialize', and not to 'server/discover' within {SOON:g} s. {_SPARED}"


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
