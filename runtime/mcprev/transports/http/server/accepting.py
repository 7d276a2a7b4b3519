"""Accepts connections up to a limit, and waits while the process has no file descriptor left (SEC-6).

At the descriptor limit, the server of asyncio retries as often as its backlog is long, and logs each attempt. Here each
listening socket has one task, and connections beyond the limit wait in the queue of the kernel.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

BACK_OFF: Final = 0.1
"""Seconds between two attempts to accept while there is no room."""
QUIET: Final = 60.0
"""The minimum number of seconds between two log messages about missing room."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_logger: Final = logging.getLogger("mcprev.transport.http")


def connection_limit(wanted: int) -> int:
    """Return the maximum number of connections: `wanted`, or fewer to keep an eighth of the descriptors free."""
    try:
        import resource
    except ImportError:  # on Windows
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    limit = max(1, min(wanted, soft - max(32, soft // 8)))
    if limit < wanted:
        _logger.info("at most %d connections at a time: the process may open %d descriptors", limit, soft)
    return limit


def stop_accepting(task: asyncio.Task[None]) -> None:
    """Cancel the task of an `Acceptor`, after the connections that have arrived.

    Timers run after the sockets that the selector has found ready. If the task were cancelled before them, asyncio
    would accept another connection, have nobody to give it to, and log an `InvalidStateError`.
    """
    asyncio.get_running_loop().call_later(0, task.cancel)


class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.Protocol],
        *,
        has_room: Callable[[], bool],
        make_room: Callable[[], bool],
    ) -> None:
        """`make` creates the protocol of a connection. `make_room` closes idle connections; False if there are none."""
        listening.settimeout(0)
        self._listening = listening
        self._make = make
        self._has_room, self._make_room = has_room, make_room
        self._logged = float("-inf")

    async def run(self) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            while not self._has_room():
                await self._wait("the limit of connections is reached")
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    await self._wait(f"no connection can be accepted: {error.strerror}")
                elif error.errno != errno.ECONNABORTED:  # the client has disconnected already
                    _logger.exception("a connection could not be accepted")
                    await asyncio.sleep(BACK_OFF)
                continue
            try:
                await loop.connect_accepted_socket(self._make, connection)
            except Exception:
                _logger.exception("a connection could not be served")
                connection.close()

    async def _wait(self, why: str) -> None:
        """Close idle connections, or wait until others close."""
        now = asyncio.get_running_loop().time()
        if now - self._logged >= QUIET:
            self._logged = now
            _logger.warning("%s; new connections wait until others are closed", why)
        await asyncio.sleep(0 if self._make_room() else BACK_OFF)
