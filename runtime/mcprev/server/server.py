"""A server: a handler, written once in the latest revision, that peers of every revision can talk to.

LIFE-11, SEAM-1..5, SEAM-9, MRTR-1..11, SUB-8, TOOL-1..5, RES-1, PROM-1, COMP-1.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import override

from mcprev.conversion import OnDowngrade
from mcprev.core.capabilities import (
    DeclaredExtension,
    ServerCapabilities,
    checked_handler,
    introduction,
    overridden,
    spoken,
    with_extensions,
)
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.limits import MAX_HANDLERS
from mcprev.core.options.names import names_options
from mcprev.core.options.server import check_server_kinds
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import LATEST, select
from mcprev.server.context import Context
from mcprev.server.dispatcher import RequestDispatcher
from mcprev.server.guarded_changes import Check, GuardedChanges
from mcprev.server.service import Service
from mcprev.wire.jsonrpc import MAX_LINE
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcprev.auth.bearer import Bearer
    from mcprev.core.method_binding import Stub
    from mcprev.core.store import Records
    from mcprev.protocol.request_state import RequestStateSealer
    from mcprev.server.middleware import Middleware
    from mcprev.server.session_state import StateLimits
    from mcprev.server.tasks import Tasks
    from mcprev.transports.http.server.options import HttpOptions
    from mcprev_types.latest import models

ServerHandler: TypeAlias = dispatch.ServerHandler[Context]
"""The base class of a server's handler: override the method of each MCP request or notification that it serves."""
Lifespan: TypeAlias = "Callable[[Server], AbstractAsyncContextManager[object] | AsyncIterator[object]]"
"""A function of the server that returns an async context manager, or an async generator function that yields once."""
_RUNTIME: Final = frozenset({"server/discover", "subscriptions/listen"})


class Server(Service):
    """A server: a handler with a name and options, for any transport and any number of clients at a time.

    `run_stdio` and `run_http` serve it; `asgi` returns an ASGI app; `mcprev.connect(server)` connects to it in memory.
    """

    @names_options("Server", check_server_kinds)
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
        extensions: Sequence[DeclaredExtension] = (),
        requires: Mapping[str, models.ClientCapabilities] | None = None,
        states: RequestStateSealer | None = None,
        store: Records | None = None,
        state: StateLimits | None = None,
        tasks: Tasks | None = None,
        lifespan: Lifespan | Sequence[Lifespan] = (),
        middleware: Sequence[Middleware] = (),
        auth: Bearer | None = None,
        http: HttpOptions | None = None,
        on_downgrade: OnDowngrade | None = None,
        validate: bool = True,
        show_errors: bool = False,
        ping_interval: float | None = None,
        max_line: int = MAX_LINE,
        max_handlers: int = MAX_HANDLERS,
    ) -> None:
        """Set the handler, the name and version that clients see, and the options.

        - `handler` overrides the methods that the server serves; the server declares the capabilities of these methods.
          None: only the handlers in `exact` serve.
        - `revisions` are the revisions to offer, such as `["2025-11-25"]`. None: every dated revision, or those in
          `exact` without a `handler`. The draft is offered only if it is named.
        - `instructions` advise the client's model how to use the server. They and `title`, `description`, `website_url`
          and `icons`, which clients display, are sent at the revisions that have them.
        - `exact` maps revisions to handlers that subclass the `ServerHandler` of that revision's package, such as
          `mcprev_types.v2025_06_18.ServerHandler`. Clients of that revision are served without conversion.
        - `capabilities` are declared in addition to those of the methods that the handler overrides.
        - `extensions` are the extensions to declare, each a `mcprev.Extension`, with the methods that they add.
        - `requires` maps methods to client capabilities. A request for such a method by a client that does not declare
          them gets the error `MissingClientCapability`.
        - `states` signs the request state that clients of stateless revisions carry. Pass a `RequestStateSealer` with
          keys if several processes serve the same clients. None: keys in the `store`, or a key of this process.
        - `store` is shared by processes that serve the same clients under the same `name`. It keeps what handlers store
          in `ctx.session`, tasks, the keys of request states, the versions of what `changed` announces, and counts of
          `mcprev.RateLimit`. None: the memory of this process. `state` limits the size and lifetime of `ctx.session`;
          None: the defaults of `mcprev.StateLimits`.
        - `tasks` says which tools can run as tasks, and sets their limits. None: no tool can.
        - `lifespan` is an async generator function, or any function that returns an async context manager. It gets the
          server, opens what handlers need, yields it, and closes it. It runs once, from before the first request until
          after the last one, on every transport; `ctx.lifespan(Type)` returns the value that it yields. A sequence of
          such functions is entered in order.
        - `middleware` are functions `async def f(call, call_next)` around every call of the handler's methods, requests
          and notifications, the first one outermost. They are not called for the messages that the runtime serves
          itself: the handshake, pings, subscriptions and requests about tasks.
        - `auth` requires and verifies tokens of HTTP clients, such as a `mcprev.Bearer`. `http` are the other options of
          `asgi`, such as `{"origins": ["https://app.example"], "drain": 10}`. Both hold wherever the server is served over
          HTTP: `run_http`, `serve_http`, `asgi` and `mcprev serve`, whose own options replace them one by one.
        - `on_downgrade(value, reason, revision)` is called with each value that the revision of the client cannot
          represent. It returns the value to send instead, or None for the default replacement. None: the defaults.
        - `validate` checks arguments and structured results of tools against the schemas in the handler's list of
          tools. The list is requested once for each revision and principal, and again after `changed("tools")`. A call
          of a tool that is not in it is refused. False: the handler checks all of this itself.
        - `show_errors` sends the text of every exception of a tool to the model. Default: only that of `ToolError`;
          for any other exception the model reads only that the tool failed.
        - `ping_interval`: seconds between pings to clients with a session; one that does not respond within 10 s is disconnected. None: no pings.
        - `max_line` is the maximum size of a message in bytes on stdio and in memory, 16 MiB by default. `max_handlers`
          is the maximum number of requests of one connection that are served at a time, 1,024 by default.

        Raises `TypeError` for a handler that is a class, or that has a method whose name is almost one of `ServerHandler`, for
        an unknown option, also in `http`, and for one of another kind. Raises `ValueError` for an unknown revision,
        invalid options of HTTP, a limit that is not above 0, and a handler that overrides `discover` or `subscriptions_listen`, which the runtime serves itself.
        """
        if handler is not None:
            checked_handler(handler, "ServerHandler")
        if revisions is None and handler is None and exact:
            revisions = tuple(exact)  # there is nothing to offer at any other
        allowed, own = spoken(select(None if revisions is None else tuple(revisions)), exact, "ServerHandler")
        mine = _RUNTIME & set(overridden(handler, LATEST, "ServerHandler")) if handler is not None else ()
        if mine:
            raise ValueError(f"the runtime serves {', '.join(sorted(mine))} itself; do not override it")
        info = introduction(
            name, version, icons, title=title, description=description, websiteUrl=website_url
        )
        own_capabilities = {} if capabilities is None else capabilities.to_wire()
        declared, added = with_extensions(own_capabilities, extensions, "ServerHandler")
        identity = ServerCapabilities(
            handler=handler if handler is not None else object(),
            info=info,
            revisions=allowed,
            exact=own,
            declared=declared,
            added=added,
            instructions=instructions,
            requires={method: needs.to_wire() for method, needs in (requires or {}).items()},
            tasks=tasks is not None,
        )
        several = (lifespan,) if callable(lifespan) else lifespan
        super().__init__(
            identity,
            states=states,
            store=store,
            state=state,
            tasks=tasks,
            lifespans=[partial(each, self) for each in several],
            middleware=middleware,
            auth=auth,
            http=http,
            on_downgrade=on_downgrade,
            ping_interval=ping_interval,
            max_line=max_line,
            max_handlers=max_handlers,
        )
        around: Callable[[str, Stub], Stub] | None = None
        if middleware:
            from mcprev.server.middleware import wrap

            around = partial(wrap, tuple(middleware))
        dispatcher = RequestDispatcher(
            self,
            identity,
            self._states,
            self.tasks,
            wrap=around,
            validate=validate,
            show_errors=show_errors,
            prepare=self._prepare,
        )
        self.request_handler: RequestHandler[Connection] = dispatcher
        self.forget.insert(0, dispatcher.tools.changed)
        self.guard: Callable[[str], Check | None] = lambda _: None
        """Returns how to find out whether a client sees the resource at a URI; None: every client sees it."""
        self._guarded = GuardedChanges(dispatcher.context)

    @override
    def notify_of(self, connection: Connection, kind: Changed, uri: str | None) -> list[asyncio.Task[None]]:
        """Notify one client of a change, if it has subscribed to such changes and sees what changed."""
        return self._guarded.tell(connection, kind, uri, None if uri is None else self.guard(uri))
