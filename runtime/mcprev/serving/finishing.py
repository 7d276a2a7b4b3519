"""The time that the tasks of a server have to finish when what serves it over HTTP stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol, runtime_checkable

from mcprev.core.interfaces import LifespanHold

POLL: Final = 0.1
"""Seconds between two checks for a second signal, which stops the server at once."""


class TaskRunner(Protocol):
    """What runs the tasks of a server."""

    running: Mapping[str, object]
    """The tasks that run."""

    async def aclose(self) -> None:
        """End them, and log how many."""
        ...


@runtime_checkable
class TaskServer(Protocol):
    """A server whose tasks go on after the requests that began them, such as `mcprev.Server`."""

    tasks: TaskRunner | None
    lifespan: LifespanHold | None
    """Ends the tasks when nobody holds it."""


def runs_tasks(server: object) -> bool:
    """Return whether a task of a server runs now."""
    return isinstance(server, TaskServer) and server.tasks is not None and bool(server.tasks.running)


@asynccontextmanager
async def finishing_tasks(
    server: object, seconds: float, hurried: Callable[[], bool]
) -> AsyncGenerator[None, None]:
    """Keep the tasks of a server running in the block, and after it for what is left of `seconds`; then end them.

    They end at once when `hurried` returns True.
    """
    if not isinstance(server, TaskServer) or (tasks := server.tasks) is None:
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
