"""Runs a server on uvicorn (HTTP-3), with uvloop and our own connections if uvloop and httptools are installed.

uvicorn is imported on first use; `uvicorn_server` accepts connections and stops the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, cast

from mcprev.callbacks import at_once
from mcprev.core.limits import LINGER
from mcprev.errors import MissingExtra
from mcprev.serving.accepting import connection_limit
from mcprev.serving.access_log import access, log_access
from mcprev.serving.sockets import UNIX, bind, described, listen, port_of
from mcprev.transports.exiting import cancelled_by_signals, exit_guard
from mcprev.transports.gc_policy import reduced_collection
from mcprev.transports.http.security import is_loopback

if TYPE_CHECKING:
    from mcprev.core.store import Records
    from mcprev.serving.uvicorn_server import HttpServer
    from mcprev.serving.worker import SupervisedWorker
    from mcprev.transports.http.server.http_app import HttpApp

STOP: Final = 5
"""Seconds that clients have to read responses after the server has stopped."""
_logger: Final = logging.getLogger("mcprev.transport.http")


def run_http(app: HttpApp, host: str, port: int, *, listening: socket.socket | None = None) -> None:
    """Serve until the process receives a signal to stop; at a socket that the next process has too, if it is given."""
    hands_on = listening is not None
    _run(_server(app, hands_on=hands_on), lambda: listening or listen(host, port), None)


def run_worker(app: HttpApp, worker: SupervisedWorker, answers: Callable[[], Awaitable[bool]]) -> None:
    """Serve as a worker until the process receives a signal to stop, or its supervisor has gone.

    The worker is ready when the server listens and `answers` returns True.
    """
    _run(_server(app, worker), lambda: worker.listening, partial(worker.serves, app.settings.drain, answers))


def _run(server: HttpServer, listen: Callable[[], socket.socket], ready: Callable[[], object] | None) -> None:
    with (
        exit_guard() as guard,
        listen() as listening,
        asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner,
        contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError),  # a signal while the server starts
    ):
        runner.run(_serve_alone(server, listening, guard, ready))


async def _serve_alone(
    server: HttpServer,
    listening: socket.socket,
    guard: threading.Timer,
    ready: Callable[[], object] | None,
) -> None:
    try:
        with cancelled_by_signals(), reduced_collection():
            await _serve(server, listening, None if ready is None else lambda _: ready(), alone=True)
    finally:
        if threading.current_thread() is threading.main_thread():
            guard.start()


async def serve_http(
    app: HttpApp, host: str, port: int, *, ready: Callable[[int], object] | None = None
) -> None:
    """Serve in a running event loop; `ready` is called with the port when the server listens."""
    server = _server(app)
    with bind(host, port) as listening:
        await _serve(server, listening, ready)


async def _serve(
    server: HttpServer,
    listening: socket.socket,
    ready: Callable[[int], object] | None,
    *,
    alone: bool = False,
) -> None:
    try:
        await server.app.start()
        with server.capture_signals():  # from before anybody can know that it listens
            report(server.app, listening, alone=alone, worker=server.worker)
            if server.worker is None:
                server.app.try_store()
            if ready is not None:
                at_once(ready(port_of(listening)), "`ready`")
            await _until_stopped(server, listening)
    finally:
        await server.app.stop()


def report(
    app: HttpApp, listening: socket.socket, *, alone: bool, worker: SupervisedWorker | None = None
) -> None:
    """Log where the server listens and whom it lets in; `alone` in the process, print what nothing would log.

    Of several workers, one does so for all. An app of another kind than MCP says itself whom it lets in.
    """
    from mcprev.transports.http.server.asgi import AsgiApp

    where, host, beside = described(listening)
    settings = app.settings
    if not isinstance(app, AsgiApp):
        _logger.info("listening at %s%s", where, beside)
        return
    sse = "".join(f", {where}{path}" for path in settings.sse_paths[:1])
    names = ", ".join(revision.name for revision in app.server.identity.revisions)
    by = (
        "bearer tokens"
        if settings.auth is not None
        else "`principal`" if settings.principal is not None else None
    )
    text = f"listening at {where}{settings.path}{sse}{beside}; revisions: {names}; authentication: {by or 'none'}"
    place = _store_place(app.server.records)
    if worker is not None:
        text += f"; workers: {worker.settings.workers}; store: {place or 'none'}"
    elif place is not None:
        text += f"; store: {place}"
    if worker is None or worker.settings.reports:
        if alone and not (_logger.isEnabledFor(logging.INFO) and _logger.hasHandlers()):
            with contextlib.suppress(OSError, AttributeError):
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
        _logger.info("%s", text)
        if by is None and not is_loopback(host):
            _logger.warning(
                "the server listens at %s without authentication: everybody who reaches that address can use it; pass `auth`, "
                "or listen at 127.0.0.1",
                host,
            )
    if settings.auth is not None:
        settings.auth.reached_at(host if where.startswith(UNIX) else where.removeprefix("http://"))


def _store_place(records: Records | None) -> str | None:
    """Return where a store is, without credentials; its type for one of somebody else, None without a store."""
    if records is None:
        return None
    found: object = getattr(records, "place", None)
    return found if isinstance(found, str) else type(records).__name__


async def _until_stopped(server: HttpServer, listening: socket.socket) -> None:
    serving = asyncio.create_task(server.serve([listening]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        # uvicorn shuts down when asked to, not when its task is cancelled.
        server.linger, server.shutdown_delay = min(server.linger, LINGER), 0.0
        server.should_exit = True
        await asyncio.wait({serving}, timeout=2 * STOP)
        serving.cancel()
        raise


def _server(app: HttpApp, worker: SupervisedWorker | None = None, *, hands_on: bool = False) -> HttpServer:
    if find_spec("uvicorn") is None:
        raise MissingExtra("serving over HTTP", "uvicorn", "http")
    import uvicorn

    from mcprev.serving.uvicorn_server import HttpServer

    auth, settings = app.settings.auth, app.settings
    if auth is not None:
        auth.check_place(settings.path, settings.root_path)
    if access.isEnabledFor(logging.INFO):
        log_access(app)
    front = None
    http: str | type[asyncio.Protocol] = "h11"
    if find_spec("httptools") is not None:
        from mcprev.transports.http.server.http11_server import Http11Connection, Http11Server

        front = Http11Server(app, connection_limit(app.settings.max_connections))
        http = cast("type[asyncio.Protocol]", partial(Http11Connection, front))

    # The app logs what matters; uvicorn's access log would cost as much as a response.
    config = uvicorn.Config(
        app,
        http=http,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=cast("int", app.settings.keep_alive),  # which may have a fraction
        timeout_graceful_shutdown=STOP,
    )
    return HttpServer(config, app, front, worker, hands_on=hands_on)
