"""A worker: one of the processes of a server that share a listening socket, started by a `Supervisor` (HTTP-3).

The supervisor tells a worker what it needs in its environment, and hears over a socket pair that the worker is ready. The
pair also tells the worker that its supervisor has gone: then it stops, as with SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

ENVIRONMENT: Final = "MCPREV_WORKER"
"""The environment variable that tells a process that it is a worker."""
LOOK: Final = 0.5
"""Seconds between two looks whether a worker that is not ready has become so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What a supervisor tells a worker."""

    number: int
    """Its number among the workers of the supervisor, from one; the one that replaces it has the same."""
    workers: int
    """The number of workers of the supervisor."""
    listening: int
    """The file descriptor of the listening socket."""
    link: int
    """The file descriptor of its end of the socket pair."""
    reports: bool = False
    """Whether it logs where the server listens, which one worker does for all."""

    def environment(self) -> dict[str, str]:
        """Return the environment variable for the worker."""
        return {ENVIRONMENT: json.dumps({name: getattr(self, name) for name in self.__slots__})}


class SupervisedWorker:
    """This process as a worker."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.listening: socket.socket = socket.socket(fileno=settings.listening)
        """The listening socket, which all workers of the supervisor accept connections of."""
        self.store: str | None = None
        """Where its store is, without credentials, for the log."""
        self._link = socket.socket(fileno=settings.link)
        self._link.setblocking(False)  # noqa: FBT003 - the name of the parameter is not public
        for inherited in (self.listening, self._link):
            inherited.set_inheritable(False)
        self._watching: set[asyncio.Task[None]] = set()

    def serves(self, drain: float, answers: Callable[[], Awaitable[bool]]) -> None:
        """Tell the supervisor that this worker is ready as soon as `answers` returns True.

        `drain` is the number of seconds that it may take to stop. Call this in the event loop, once the server listens.
        """
        for work in (self._tell(drain, answers), self._watch()):
            task = asyncio.get_running_loop().create_task(work)
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)

    async def _tell(self, drain: float, answers: Callable[[], Awaitable[bool]]) -> None:
        while not await answers():  # noqa: ASYNC110 - of something outside of this process
            await asyncio.sleep(LOOK)
        await asyncio.get_running_loop().sock_sendall(
            self._link, json.dumps({"drain": drain}).encode() + b"\n"
        )

    async def _watch(self) -> None:
        """Stop this process when its supervisor has gone."""
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_recv(self._link, 1)
        os.kill(os.getpid(), signal.SIGTERM)


def this_worker() -> SupervisedWorker | None:
    """Return this process as a worker, or None if no supervisor has started it.

    Processes that it starts itself are none. Raises `ValueError` for an environment that no supervisor has made.
    """
    told = os.environ.pop(ENVIRONMENT, None)
    if told is None:
        return None
    try:
        return SupervisedWorker(WorkerSettings(**json.loads(told)))
    except (ValueError, TypeError, OSError):
        raise ValueError(f"{ENVIRONMENT} is for the supervisor alone: unset it, and pass --workers") from None
