"""A uvicorn server with its own way to accept connections and to stop (HTTP-3, SEC-6); imported only to serve.

When it stops, it accepts no more connections, ends listen streams and idle sessions at once, lets calls in progress and
tasks finish for `drain` seconds, responds to the remaining calls with an error, closes the connections, and ends the
remaining tasks.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import uvicorn
from typing_extensions import override
from uvicorn.server import HANDLED_SIGNALS

from mcprev.serving.accepting import BATCH, SHARED_BATCH, Acceptor, connection_limit
from mcprev.serving.finishing import POLL, finishing_tasks
from mcprev.transports.exiting import stop_signals

if TYPE_CHECKING:
    from mcprev.serving.worker import SupervisedWorker
    from mcprev.transports.http.server.http11_server import Http11Server
    from mcprev.transports.http.server.http_app import HttpApp


class HttpServer(uvicorn.Server):
    """Serves one app; `front` holds the connections if they are not uvicorn's own."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: HttpApp,
        front: Http11Server | None,
        worker: SupervisedWorker | None = None,
        *,
        hands_on: bool = False,
    ) -> None:
        """With `hands_on`, connections that are not accepted at the end wait for the next process at the same socket."""
        super().__init__(config)
        self.app: HttpApp = app
        self.worker = worker
        """The process as one of several workers; None if it is the only one."""
        self._hands_on = hands_on or worker is not None
        self._front = front
        self.linger: float = app.settings.drain
        """Seconds that calls in progress have to finish when the server stops."""
        self.shutdown_delay: float = app.settings.shutdown_delay
        """Seconds of these in which new calls are served on open connections."""
        self._limit = connection_limit(app.settings.max_connections) if front is None else front.most
        self._acceptors: list[Acceptor] = []

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        for listening in sockets or ():
            acceptor = Acceptor(
                listening,
                self._protocol,
                room=self._room,
                make_room=self._make_room,
                batch=BATCH if self.worker is None else SHARED_BATCH,
                wait=None if self.worker is None else partial(self._wait, self.worker),
            )
            acceptor.start()
            self._acceptors.append(acceptor)
        if self.should_exit:
            # A signal has come already: uvicorn would return without `shutdown`.
            self.should_exit = False
            asyncio.get_running_loop().call_soon(setattr, self, "should_exit", True)  # noqa: FBT003

    def _protocol(self) -> asyncio.Protocol:
        make = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    def _wait(self, worker: SupervisedWorker) -> float:
        return worker.wait(len(self.server_state.connections))

    def _room(self) -> int:
        return self._limit - len(self.server_state.connections)

    def _make_room(self) -> bool:
        return self._front is not None and self._front.make_room()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.stop() if self._hands_on else acceptor.finish()
        if self.worker is not None:
            self.worker.accepts_no_more()  # the queue of the socket goes on for the others
        for listening in sockets or ():
            listening.close()
        from mcprev.transports.http.server.asgi import AsgiApp  # not loaded for an authorization server alone

        server = self.app.server if isinstance(self.app, AsgiApp) else None
        async with finishing_tasks(server, self.linger, lambda: self.force_exit):
            await self._end_connections()

    async def _end_connections(self) -> None:
        """Let calls in progress finish, and close the connections."""
        leaves, most = self.app.leave(), min(self.shutdown_delay, self.linger)
        seconds = await self._leave(self._front, most) if leaves and most and self._front is not None else 0.0
        ending = asyncio.create_task(self.app.aclose(linger=self.linger - seconds))
        while not ending.done():
            await asyncio.wait({ending}, timeout=POLL)
            if self.force_exit:
                self.app.fail_requests()
        ending.result()
        if seconds and self._front is not None:  # connections whose last response had begun before
            await self._leave(self._front, most)
        await super().shutdown([])
        if self._front is not None:
            self._front.abort()

    async def _leave(self, front: Http11Server, most: float) -> float:
        """Serve calls on the connections that are open, until all are closed; return the seconds, `most` at most."""
        now = asyncio.get_running_loop().time
        began = now()
        front.leave()
        while (left := most - (now() - began)) > 0:
            if not self.server_state.connections or self.force_exit:
                break
            await asyncio.sleep(min(POLL, left))
        front.close_idle()
        return min(now() - began, most)

    @override
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop at SIGINT, SIGTERM and SIGHUP, without raising the signal again: the caller sets the exit code."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self.handle_exit) for number in {*HANDLED_SIGNALS, *stop_signals()}
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
