"""A worker: one of the processes of a server that share a listening socket, started by a `Supervisor` (HTTP-3).

The supervisor tells a worker what it needs in its environment, and hears over a socket pair that the worker is ready. The
pair also tells the worker that its supervisor has gone: then it stops, as with SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import mmap
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mcprev.core.background import Background
from mcprev.platforms import HERE

ENVIRONMENT: Final = "MCPREV_WORKER"
"""The environment variable that tells a process that it is a worker."""
YIELD: Final = 0.002
"""Seconds for which a worker lets those accept a connection that have fewer of them."""
ABSENT: Final = 2**31 - 1
"""The number of connections of a worker that accepts none."""
LOOK: Final = 0.5
"""Seconds between two looks whether a worker that is not ready has become so."""
_logger: Final = logging.getLogger("mcprev.server")


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
    counts: int
    """The file descriptor of the `ConnectionCounts`."""
    reports: bool = False
    """Whether it logs where the server listens, which one worker does for all."""

    def environment(self) -> dict[str, str]:
        """Return the environment variable for the worker."""
        return {ENVIRONMENT: json.dumps({name: getattr(self, name) for name in self.__slots__})}


class ConnectionCounts:
    """How many connections each worker has, in memory that all of them share.

    The system wakes all workers for a new connection, and mostly the same one is the first, also when it has most of the
    connections already. So a worker with more than another lets that one be first.
    """

    def __init__(self, descriptor: int, workers: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, 4 * workers)
        self._counts = memoryview(self._memory).cast("i")

    @classmethod
    def made(cls, workers: int) -> ConnectionCounts:
        """Return the counts of workers that have not started."""
        counts = cls(HERE.nameless_file(4 * workers), workers)
        for number in range(1, workers + 1):
            counts.set(number, ABSENT)
        return counts

    def set(self, number: int, connections: int) -> None:
        """Set the count of a worker."""
        self._counts[number - 1] = min(connections, ABSENT)

    def fewest(self) -> int:
        """Return the lowest count of a worker."""
        return min(self._counts)

    def close(self) -> None:
        """Release the memory."""
        self._counts.release()
        self._memory.close()
        os.close(self.descriptor)


class SupervisedWorker:
    """This process as a worker."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.listening: socket.socket = socket.socket(fileno=settings.listening)
        """The listening socket, which all workers of the supervisor accept connections of."""
        self._counts = ConnectionCounts(settings.counts, settings.workers)
        os.set_inheritable(settings.counts, False)  # noqa: FBT003 - the name of the parameter is not public
        self._link = socket.socket(fileno=settings.link)
        self._link.setblocking(False)  # noqa: FBT003 - the name of the parameter is not public
        for inherited in (self.listening, self._link):
            inherited.set_inheritable(False)
        self._background = Background(_logger, "a worker and its supervisor")

    def serves(self, drain: float, answers: Callable[[], Awaitable[bool]]) -> None:
        """Tell the supervisor that this worker is ready as soon as `answers` returns True.

        `drain` is the number of seconds that it may take to stop. Call this in the event loop, once the server listens.
        """
        self._background.start(self._tell(drain, answers))
        self._background.start(self._watch())

    def wait(self, connections: int) -> float:
        """Return for how many seconds to let other workers accept a connection, because this one has more of them."""
        self._counts.set(self.settings.number, connections)
        return YIELD if connections > self._counts.fewest() else 0.0

    def accepts_no_more(self) -> None:
        """Let other workers wait for this one no more."""
        self._counts.set(self.settings.number, ABSENT)

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
        raise ValueError(
            f"{ENVIRONMENT} is set by the supervisor only: unset it, and pass --workers"
        ) from None
