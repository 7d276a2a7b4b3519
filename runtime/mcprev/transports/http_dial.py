"""Sockets that are connected to a host by whichever of its addresses answers first (HTTP-4, RFC 8305).

asyncio does this too, but where its caller is cancelled it may lose a socket that has just been connected.
"""

from __future__ import annotations

import asyncio
import socket
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

ATTEMPT: Final = 0.25
"""Seconds that one address of a host gets before the next is tried beside it."""
_Found: TypeAlias = tuple[int, int, int, str, Any]
"""An address as the system says it."""


async def dial(host: str, port: int) -> socket.socket:
    """Connect to a host, which is a name or an address. Raises `OSError`, or `ValueError` for what cannot be a name."""
    found = await _resolve(host, port)
    if len(found) == 1:
        return await _attempt(found[0])
    running: set[asyncio.Task[socket.socket]] = set()
    won: socket.socket | None = None
    errors: list[str] = []
    try:
        while won is None and (found or running):
            if found:
                running.add(asyncio.create_task(_attempt(found.pop(0))))
            done, running = await asyncio.wait(
                running, timeout=ATTEMPT if found else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if (error := task.exception()) is not None:
                    errors.append(str(error))
                elif won is None:
                    won = task.result()
                else:
                    task.result().close()
    finally:
        for task in running:
            task.add_done_callback(_drop)
            task.cancel()
        if running:
            await asyncio.wait(running)
    if won is None:
        raise OSError("; ".join(dict.fromkeys(errors)))
    return won


async def _resolve(host: str, port: int) -> list[_Found]:
    """The addresses of a host, those of one family beside those of the other."""
    for family in (socket.AF_INET, socket.AF_INET6):
        if _is_address(family, host):
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    first = [one for one in found if one[0] == found[0][0]]
    others = [one for one in found if one[0] != found[0][0]]
    return [one for one in chain(*zip_longest(first, others)) if one is not None]


def _is_address(family: int, host: str) -> bool:
    try:
        return bool(socket.inet_pton(family, host))
    except OSError:
        return False


async def _attempt(found: _Found) -> socket.socket:
    family, kind, protocol, _, address = found
    made = socket.socket(family, kind, protocol)
    try:
        made.settimeout(0)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _drop(task: asyncio.Task[socket.socket]) -> None:
    """An attempt that came too late, or was given up."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
