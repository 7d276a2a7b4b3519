"""Accepts connections up to a limit, and waits while the process has no file descriptor left (SEC-6).

At the descriptor limit, the server of asyncio retries as often as its backlog is long, and logs each attempt. uvloop's
closes the connections that wait, and accepts one in each turn of the event loop. Here connections beyond the limit wait
in the queue of the kernel, and a turn accepts those that have arrived, up to `BATCH`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

from mcprev.core.background import Background
from mcprev.platforms import HERE

BATCH: Final = 32
"""The maximum number of connections that one turn of the event loop accepts, so that others are served in between."""
SHARED_BATCH: Final = 1
"""The same for a worker that shares the socket with others."""
POLL: Final = 0.01
"""Seconds between two attempts to accept where the event loop cannot watch a socket, as on Windows."""
BACK_OFF: Final = 0.1
"""Seconds between two attempts to accept while there is no room."""
QUIET: Final = 60.0
"""The minimum number of seconds between two log messages about missing room."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_logger: Final = logging.getLogger("mcprev.transport.http")


def connection_limit(wanted: int) -> int:
    """Return the maximum number of connections: `wanted`, or fewer to keep an eighth of the descriptors free."""
    soft = HERE.open_files_limit()
    if soft is None:
        return wanted
    limit = max(1, min(wanted, soft - max(32, soft // 8)))
    if limit < wanted:
        _logger.info(
            "at most %d connections at a time, because the process may open only %d file descriptors",
            limit,
            soft,
        )
    return limit


class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.Protocol],
        *,
        room: Callable[[], int],
        make_room: Callable[[], bool],
        batch: int = BATCH,
        wait: Callable[[], float] | None = None,
    ) -> None:
        """`make` creates the protocol of a connection, and `room` returns how many more of them may be open.

        `make_room` closes idle connections, and returns False if there are none. `batch` is how many connections a turn
        accepts. `wait` returns for how many seconds to let other processes accept what has arrived.
        """
        listening.settimeout(0)
        self._listening = listening
        self._make = make
        self._room, self._make_room, self._batch, self._wait = room, make_room, batch, wait
        self._waited = False
        """Whether others have had their time to accept what has arrived."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._logged = float("-inf")
        self._opening = Background(_logger, "a connection that was accepted")
        """Opens the connections of the last batch."""

    def start(self) -> None:
        """Accept connections until `stop`."""
        try:
            self._loop.add_reader(self._listening, self._accept)
        except NotImplementedError:
            self._timer = self._loop.call_later(POLL, self.start)
            self._accept()

    def stop(self) -> None:
        """Accept no more connections."""
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(NotImplementedError):
            self._loop.remove_reader(self._listening)

    def _accept(self) -> None:
        """Accept the connections that have arrived, up to the limit of a turn; `room` counts those of the last batch once they are open."""
        if self._opening or self._waits():
            return
        room = self._room()
        if room <= 0:
            self._pause("the limit of connections is reached", makes_room=True)
        for _ in range(min(room, self._batch)):
            try:
                connection, _ = self._listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:  # the client has disconnected already
                continue
            except OSError as error:
                self._pause(
                    f"no connection can be accepted: {error.strerror}", makes_room=error.errno in _EXHAUSTED
                )
                return
            self._opening.start(self._open(connection))

    def finish(self) -> None:
        """Accept what has arrived, because closing the socket would reset it with the requests in it, and then no more."""
        self.stop()
        for _ in range(self._room() - len(self._opening)):
            try:
                connection, _ = self._listening.accept()
            except ConnectionAbortedError:
                continue
            except OSError:
                return
            self._opening.start(self._open(connection))

    def _waits(self) -> bool:
        """Let other processes accept what has arrived, once; return whether to wait for that."""
        seconds = 0.0 if self._wait is None or self._waited else self._wait()
        self._waited = seconds > 0
        if self._waited:
            self.stop()
            self._timer = self._loop.call_later(seconds, self._go_on)
        return self._waited

    def _go_on(self) -> None:
        """Accept what is left, and go on as before."""
        self.start()
        self._accept()
        self._waited = False

    async def _open(self, connection: socket.socket) -> None:
        """Let a new protocol serve a connection."""
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except Exception:
            _logger.exception("a connection could not be served")
            connection.close()

    def _pause(self, why: str, *, makes_room: bool) -> None:
        """Close idle connections, or wait until others close."""
        now = self._loop.time()
        if now - self._logged >= QUIET:
            self._logged = now
            _logger.warning("%s; new connections wait", why)
        self.stop()
        self._timer = self._loop.call_later(0 if makes_room and self._make_room() else BACK_OFF, self.start)
