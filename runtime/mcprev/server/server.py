"""A server: a handler, written once in the latest revision, that peers of every revision can talk to.

LIFE-11, SEAM-1..5, SEAM-9, MRTR-1..11, SUB-8, TOOL-1..5, RES-1, PROM-1, COMP-1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mcprev.convert import OnDowngrade
from mcprev.core.capabilities import ServerCapabilities, checked_handler, introduction, overridden
from mcprev.core.connection import Connection
from mcprev.core.keepalive import check_interval, keep_pinging
from mcprev.core.limits import MAX_HANDLERS
from mcprev.errors import LocalProtocolError
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import LATEST, revision_named, select
from mcprev.server.context import Context
from mcprev.server.dispatcher import RequestDispatcher
from mcprev.transports.lines import LineConnection
from mcprev.wire.jsonrpc import MAX_LINE
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

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
        on_downgrade: OnDowngrade | None = None,
        validate: bool = True,
        show_errors: bool = False,
        ping_interval: float | None = None,
        max_line: int = MAX_LINE,
        max_handlers: int = MAX_HANDLERS,
    ) -> None:
        """Say who this is and what it speaks.

        `title`, `description`, `website_url` and `icons` are told where the revision knows them. `revisions` narrows
        what is offered (the draft only when named); `exact` maps a revision's name to a handler of that revision's own
        `ServerHandler`, which is then served without conversion, and alone if there is no `handler`; `capabilities`
        are added to those that follow from the overridden stubs; `requires` names client capabilities without
        which a method is refused; `tasks` names the tools that can run as tasks; `states` seals request state with
        keys that other processes share; `on_downgrade` may say what takes the place of what an older peer cannot be told. Arguments and structured
        results of the tools that the handler lists are checked against their schemas, which are asked for once and
        again after `changed("tools")`, and a tool that is not listed for a principal is unknown to it;
        `validate=False` leaves all of that to the handler. A tool that raises has failed, and models read of which
        tool; they read the exception too if it is a `ToolError`, or with `show_errors`. With `ping_interval`
        clients with sessions are asked that often, in seconds, whether they are there. `max_line` and
        `max_handlers` bound one connection. Raises `ValueError` for an unknown revision and for a handler that
        overrides what the runtime serves itself.
        """
        if handler is not None:
            checked_handler(handler, "ServerHandler")
        own = {revision_named(key).name: value for key, value in (exact or {}).items()}
        if revisions is None and handler is None and own:
            revisions = tuple(own)  # there is nothing to offer at any other
        allowed = select(None if revisions is None else tuple(revisions))
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
            handler if handler is not None else object(),
            info,
            allowed,
            own,
            None if capabilities is None else capabilities.to_wire(),
            instructions,
            {method: needs.to_wire() for method, needs in (requires or {}).items()},
            tasks=tasks is not None,
        )
        self.tasks: TaskManager | None = None
        if tasks is not None:
            from mcprev.server.task_manager import TaskManager

            self.tasks = TaskManager(tasks)
        self.on_downgrade = on_downgrade
        """Replaces what an older peer cannot be told; None to use the defaults."""
        self.request_handler: RequestDispatcher = RequestDispatcher(
            self,
            self.identity,
            states or RequestStateSealer(),
            self.tasks,
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
        """The protocol for one more peer, to be given to a transport of the running event loop."""
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
        """Tell a connection of changes for as long as it lasts."""
        self._connections.add(connection)
        if self._ping_interval is not None:
            session = cast("ServerProtocol", connection.protocol).session
            connection.start(keep_pinging(connection, session, self._ping_interval))
        connection.closed.add_done_callback(lambda _: self._connections.discard(connection))

    def run_stdio(self) -> None:
        """Serve one client on stdin and stdout until it closes them. Blocks, and must not run inside a loop.

        The process is ended with exit code 0 where a handler has not come to its end soon after.
        """
        from mcprev.transports.stdio.server import run_stdio

        run_stdio(self.connection)

    async def serve_stdio(self) -> None:
        """The same within a running event loop."""
        from mcprev.transports.stdio.server import serve_stdio

        await serve_stdio(self.connection)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """An ASGI app that serves clients of every revision, to be run by an ASGI server or mounted in another app.

        The options are those of `mcprev.transports.http.server.options.HttpOptions`; none is needed. Mounted, it answers
        where it is mounted, and the lifespan of the outer app need not be forwarded to it. Frameworks redirect what
        is sent to a mount without its slash: as `Route("/mcp", app)`, or mounted at the root, it needs no redirect. Raises `ValueError` for
        an option that makes no sense. See the specification's pages on transports.
        """
        from mcprev.transports.http.server.asgi import AsgiApp
        from mcprev.transports.http.server.options import HttpSettings

        return AsgiApp(self, HttpSettings(**options))

    def run_http(self, host: str = HOST, port: int = PORT, **options: Unpack[HttpOptions]) -> None:
        """Serve over HTTP until the process is told to stop. Blocks, and must not run inside a loop.

        Raises `MissingExtra` where the ASGI server is not installed, `OSError` where the port is taken.
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
        """The same within a running event loop, until it is cancelled or the process is told to stop.

        `port` 0 takes a free one; `ready` is told which, as soon as it listens.
        """
        from mcprev.transports.http.server.running import serve_http

        await serve_http(self.asgi(**options), host, port, ready=ready)

    async def aclose(self) -> None:
        """End every connection and give up the tasks that still run; may be called again."""
        for connection in tuple(self._connections):
            await connection.aclose()
        if self.tasks is not None:
            await self.tasks.aclose()

    def changed(self, what: Changed | str, uri: str | None = None) -> None:
        """Tell every client that wants to know that `tools`, `prompts`, `resources` or one `resource` changed.

        Sessions hear of lists, and of the resources they subscribed to; listen streams of what they asked for.
        Raises `LocalProtocolError` for another word, or a resource without its URI.
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
