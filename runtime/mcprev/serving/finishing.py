"""The time that the tasks of a server have to finish when what serves it over HTTP stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from mcprev.core.connection import Connection
from mcprev.core.interfaces import ServerApp

POLL: Final = 0.1
"""Seconds between two checks for a second signal, which stops the server at once."""


def runs_tasks(server: ServerApp[Connection]) -> bool:
    """Return whether a task of a server runs now."""
    return server.tasks is not None and bool(server.tasks.running)


@asynccontextmanager
async def finishing_tasks(
    server: ServerApp[Connection] | None, seconds: float, hurried: Callable[[], bool]
) -> AsyncGenerator[None, None]:
    """Keep the tasks of a server running in the block, and after it for what is left of `seconds`; then end them.

    They end at once when `hurried` returns True.
    """
    if server is None or (tasks := server.tasks) is None:
        yield
        return
    now, owner = asyncio.get_running_loop().time, object()
    until = now() + seconds
    if server.lifespan is not None:
        await server.lifespan.hold(owner)
    try:
        yield
        while (left := until - now()) > 0:
            if not tasks.running or hurried():
                break
            await asyncio.sleep(min(POLL, left))
    finally:
        await (tasks.aclose() if server.lifespan is None else server.lifespan.release(owner))
