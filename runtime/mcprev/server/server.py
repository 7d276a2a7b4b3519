"""A server: a handler, written once in the latest revision, that peers of every revision can talk to.

LIFE-11, SEAM-1..5, SEAM-9, MRTR-1..11, SUB-8, TOOL-1..5, RES-1, PROM-1, COMP-1.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mcprev.convert import OnDowngrade
from mcprev.core.capabilities import ServerCapabilities, checked_handler, introduction, overridden, spoken
from mcprev.core.connection import Connection
from mcprev.core.keepalive import check_interval, keep_pinging
from mcprev.core.limits import MAX_HANDLERS
from mcprev.errors import LocalProtocolError
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import LATEST, select
from mcprev.server.context import Context
from mcprev.server.dispatcher import RequestDispatcher
from mcprev.transports.lines import LineConnection
from mcprev.wire.jsonrpc import MAX_LINE
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from typing_extensions import Unpack

    from mcprev.core.method_binding import Stub
    from mcprev.server.lifespan import LifespanRunner
    from mcprev.server.middleware import Middleware
    from mcprev.server.task_manager import TaskManager
    from mcprev.server.tasks import Tasks
    from mcprev.transports.http.server.asgi import AsgiApp
    from mcprev.transports.http.server.options import HttpOptions
    from mcprev_types.latest import models

ServerHandler: TypeAlias = dispatch.ServerHandler[Context]
"""What a server's author subclasses: override the stubs of what is served."""
_logger: Final = logging.getLogger("mcprev.server")
HOST: Final = "127.0.0.1"
PORT: Final = 8000
Lifespan: TypeAlias = "Callable[[Server], AbstractAsyncContextManager[object] | AsyncIterator[object]]"
"""A function that gets the server and returns an async context manager, or an async generator function that yields
once."""
_RUNTIME: Final = frozenset({"server/discover", "subscriptions/listen"})


class Server:
    """A handler with a name, ready to be served over any transport and to many peers at a time."""

    def __init__(
        self,
        handler: ServerHandler | None,
        name: str,
        version: str,
        *,
        revisions: tuple[str, ...] | list[str] | None = None,
        instructions: str | None = None,
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[models.Icon] = (),
        exact: Mapping[str, object] | None = None,
        capabilities: models.ServerCapabilities | None = None,
        requires: Mapping[str, models.ClientCapabilities] | None = None,
        states: RequestStateSealer | None = None,
        tasks: Tasks | None = None,
        lifespan: Lifespan | Sequence[Lifespan] = (),
        middleware: Sequence[Middleware] = (),
        on_downgrade: OnDowngrade | None = None,
        validate: bool = True,
        show_errors: bool = False,
        ping_interval: float | None = None,
        max_line: int = MAX_LINE,
        max_handlers: int = MAX_HANDLERS,
    ) -> None:
        """Set the handler, the name and version that clients see, and the options.

        - `title`, `description`, `website_url`, `icons` and `instructions` are sent at the revisions that have them.
        - `revisions` limits the revisions to offer; the draft is offered only if it is named.
        - `exact` maps revisions to handlers that subclass that revision's own `ServerHandler`. Their clients are served
          without conversion. Without `handler`, only these revisions are offered.
        - `capabilities` are declared in addition to those of the methods that the handler overrides.
        - `requires` maps methods to client capabilities; a client that does not declare them gets an error.
        - `states` signs request state; pass one with keys if several processes serve the same clients.
        - `tasks` names the tools that can run as tasks.
        - `lifespan` is an async generator function (or any function that returns an async context manager): it gets the
          server, opens what handlers need, yields it, and closes it. It runs once, from before the first request until
          after the last one, on every transport; `ctx.lifespan(Type)` returns what it yields. Several are entered in
          order.
        - `middleware` are functions `async def f(call, call_next)` around every call of the handler's methods, requests
          and notifications, the first one outermost. They do not see what the runtime serves itself: the handshake,
          pings, subscriptions and requests about tasks.
        - `on_downgrade` is called with each value that the revision of the client cannot represent, and may replace it.
        - `validate` checks arguments and structured results of tools against the schemas in the handler's list of
          tools. The list is requested once for each revision and principal, and again after `changed("tools")`. A call
          of a tool that is not in it is refused. False: the handler checks all of this itself.
        - `show_errors` sends the text of every exception of a tool to the model. Default: only that of `ToolError`;
          for any other exception the model reads only that the tool failed.
        - `ping_interval` pings clients that have a session that often, in seconds. The connection of a client that does
          not answer within 10 s is closed.
        - `max_line` is the maximum size of a message in bytes on stdio and in memory. `max_handlers` is the maximum
          number of requests of one connection that are served at a time.

        Raises `ValueError` for an unknown revision, and for a handler that overrides `discover` or
        `subscriptions_listen`, which the runtime serves.
        """
        if handler is not None:
            checked_handler(handler, "ServerHandler")
        if revisions is None and handler is None and exact:
            revisions = tuple(exact)  # there is nothing to offer at any other
        allowed, own = spoken(select(None if revisions is None else tuple(revisions)), exact, "ServerHandler")
        mine = _RUNTIME & set(overridden(handler, LATEST, "ServerHandler")) if handler is not None else ()
        if mine:
            raise ValueError(f"the runtime serves {', '.join(sorted(mine))} itself")
        info = introduction(
            name=name,
            version=version,
            title=title,
            description=description,
            websiteUrl=website_url,
            icons=icons,
        )
        self.identity: ServerCapabilities = ServerCapabilities(
            handler=handler if handler is not None else object(),
            info=info,
            revisions=allowed,
            exact=own,
            declared={} if capabilities is None else capabilities.to_wire(),
            instructions=instructions,
            requires={method: needs.to_wire() for method, needs in (requires or {}).items()},
            tasks=tasks is not None,
        )
        self.tasks: TaskManager | None = None
        if tasks is not None:
            from mcprev.server.task_manager import TaskManager

            self.tasks = TaskManager(tasks)
        self.lifespan: LifespanRunner | None = None
        """Runs the lifespan; None for a server without one."""
        if lifespan:
            from mcprev.server.lifespan import LifespanRunner

            several = (lifespan,) if callable(lifespan) else lifespan
            self.lifespan = LifespanRunner([partial(each, self) for each in several], self._end_tasks)
        self.on_downgrade = on_downgrade
        """Replaces what an older peer cannot be told; None to use the defaults."""
        around: Callable[[str, Stub], Stub] | None = None
        if middleware:
            from mcprev.server.middleware import wrap

            around = partial(wrap, tuple(middleware))
        self.request_handler: RequestDispatcher = RequestDispatcher(
            self,
            self.identity,
            states or RequestStateSealer(),
            self.tasks,
            wrap=around,
            validate=validate,
            show_errors=show_errors,
        )
        """Serves the requests of every connection."""
        self._max_line = max_line
        self.max_handlers: int = max_handlers
        self._ping_interval = check_interval(ping_interval)
        self._connections: set[Connection] = set()

    # -- connections ---------------------------------------------------------------------------------------

    def connection(self) -> LineConnection:
        """Return the connection of a new client: an `asyncio.Protocol`, to pass to a transport of the running loop."""
        made = LineConnection(
            ServerProtocol(self.identity),
            self.request_handler,
            _logger,
            max_line=self._max_line,
            max_handlers=self.max_handlers,
        )
        self.keep(made)
        return made

    def keep(self, connection: Connection, /) -> None:
        """Send a connection the notifications of `changed`, and pings if they are enabled, until it ends."""
        self._connections.add(connection)
        if self._ping_interval is not None:
            session = cast("ServerProtocol", connection.protocol).session
            connection.start(keep_pinging(connection, session, self._ping_interval))
        connection.closed.add_done_callback(lambda _: self._connections.discard(connection))

    def run_stdio(self) -> None:
        """Serve one client on stdin and stdout until it closes them or the process receives SIGINT or SIGTERM.

        Blocks; must not be called in a running event loop. Requests in progress then have one second to finish. If a
        handler still runs one second later, the process ends without it, with exit code 0.
        """
        from mcprev.transports.stdio.server import run_stdio

        run_stdio(self.connection, self.lifespan)

    async def serve_stdio(self) -> None:
        """Serve one client on stdin and stdout within a running event loop; see `run_stdio`. Handles no signals."""
        from mcprev.transports.stdio.server import serve_stdio

        await serve_stdio(self.connection, self.lifespan)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """Return an ASGI app for clients of every revision, to run in an ASGI server or to mount in another app.

        The options are those of `mcprev.transports.http.server.options.HttpOptions`; none is required. In a mounted app
        the endpoint is the mount path, and lifespan events need not be forwarded. Frameworks redirect a request to the
        mount path without a trailing slash; to avoid that, use `Route("/mcp", app)` or mount the app at the root.
        Raises `ValueError` for invalid options. See the specification's pages on transports.
        """
        from mcprev.transports.http.server.asgi import AsgiApp
        from mcprev.transports.http.server.options import HttpSettings

        return AsgiApp(self, HttpSettings(**options))

    def run_http(self, host: str = HOST, port: int = PORT, **options: Unpack[HttpOptions]) -> None:
        """Serve over HTTP until the process receives SIGINT or SIGTERM.

        Calls in progress then have `drain` seconds to finish. Blocks; must not be called in a running event loop.
        Raises `mcprev.errors.MissingExtra` if the HTTP server is not installed, and `OSError` if the port is in use.
        """
        from mcprev.transports.http.server.running import run_http

        run_http(self.asgi(**options), host, port)

    async def serve_http(
        self,
        host: str = HOST,
        port: int = PORT,
        *,
        ready: Callable[[int], object] | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:
        """Serve over HTTP within a running event loop, until cancelled or until the process receives SIGINT or SIGTERM.

        `port` 0 picks a free port; `ready` is called with the port when the server listens. Raises as `run_http`.
        """
        from mcprev.transports.http.server.running import serve_http

        await serve_http(self.asgi(**options), host, port, ready=ready)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Server, None]:
        """Run the lifespan within an `async with` block, whoever connects meanwhile; every transport does so by itself.

        Use it to keep the lifespan over several clients in this process, or with a transport of your own.
        """
        owner = object()
        try:
            if self.lifespan is not None:
                await self.lifespan.hold(owner)
            yield self
        finally:
            if self.lifespan is not None:
                await self.lifespan.release(owner)

    async def aclose(self) -> None:
        """Close every connection and cancel the tasks that still run; may be called again."""
        for connection in tuple(self._connections):
            await connection.aclose()
        await self._end_tasks()

    async def _end_tasks(self) -> None:
        if self.tasks is not None:
            await self.tasks.aclose()

    def changed(self, what: Changed | str, uri: str | None = None) -> None:
        """Notify clients that the list of `tools`, `prompts` or `resources` changed, or one `resource` with its `uri`.

        A session is notified of each changed list and of the resources that it subscribed to, a listen stream only of
        what it asked for. Raises `LocalProtocolError` for another `what`, for `resource` without `uri`, and for a `uri`
        with any other.
        """
        if what not in CHANGES:
            raise LocalProtocolError(f"'{what}' is none of {', '.join(CHANGES)}")
        kind = Changed(what)
        if (kind is Changed.RESOURCE) is (uri is None):
            raise LocalProtocolError("a URI goes with a resource and with nothing else")
        if kind is Changed.TOOLS:
            self.request_handler.tools.forget()
        for connection in tuple(self._connections):
            cast("ServerProtocol", connection.protocol).changed(kind, uri)
            connection.process_events()
