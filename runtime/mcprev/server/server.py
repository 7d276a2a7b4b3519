"""A server: a handler, written once in the latest revision, that peers of every revision can talk to.

LIFE-11, SEAM-1..5, SEAM-9, MRTR-1..11, SUB-8, TOOL-1..5, RES-1, PROM-1, COMP-1.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from typing_extensions import override

from mcprev.core.capabilities import (
    ServerCapabilities,
    checked_handler,
    introduction,
    overridden,
    spoken,
    with_extensions,
)
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.options import Takes, check_named, check_options, fits, is_a, several, shows_options
from mcprev.core.store import SPARE_STORE
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import LATEST, select
from mcprev.server.context import Context
from mcprev.server.dispatcher import RequestDispatcher
from mcprev.server.guarded_changes import Check, GuardedChanges
from mcprev.server.options import OfferOptions, ServiceOptions
from mcprev.server.service import Service
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from typing_extensions import Unpack

    from mcprev.core.method_binding import Stub

ServerHandler: TypeAlias = dispatch.ServerHandler[Context]
"""The base class of a server's handler: override the method of each MCP request or notification that it serves."""
Lifespan: TypeAlias = "Callable[[Server], AbstractAsyncContextManager[object] | AsyncIterator[object]]"
"""A function of the server that returns an async context manager, or an async generator function that yields once."""
_RUNTIME: Final = frozenset({"server/discover", "subscriptions/listen"})


class ServerOptions(OfferOptions, ServiceOptions, total=False):
    """The options of `mcprev.Server` that `mcprev.App` has too, which passes them on."""

    lifespan: Annotated[
        "Lifespan | Sequence[Lifespan]",
        Takes(
            several(fits(callable), or_one=True),
            "an async generator function that yields once, or several in a list",
            (),
        ),
    ]
    """An async generator function, or any function that returns an async context manager. It gets the server, opens what
    handlers and functions need, yields it, and closes it; or several, entered in order. It runs once, from before the first
    request until after the last one, on every transport; `ctx.lifespan(Type)` returns the value that it yields."""
    show_errors: Annotated[bool, Takes(is_a(bool), "True or False", default=False)]
    """Whether the text of every exception of a tool is sent to the model. Default: only that of `ToolError`; for any other
    exception the model reads only that the tool failed."""


class HandlerOptions(ServerOptions, total=False):
    """The options of `mcprev.Server`."""

    validate: Annotated[bool, Takes(is_a(bool), "True or False", default=True)]
    """Whether arguments and structured results of tools are checked against the schemas in the handler's list of tools. The list
    is requested once for each revision and principal, and again after `changed("tools")`. A call of a tool that is not in
    it is refused. False: the handler checks all of this itself. True by default."""


class Server(Service):
    """A server: a handler with a name and options, for any transport and any number of clients at a time.

    `run_stdio` and `run_http` serve it; `asgi` returns an ASGI app; `mcprev.connect(server)` connects to it in memory.
    """

    @shows_options(HandlerOptions)
    def __init__(
        self, handler: ServerHandler | None, name: str, version: str, **options: "Unpack[HandlerOptions]"
    ) -> None:
        """Set the handler, the name and version that clients see, and the options: those of `HandlerOptions`.

        `handler` overrides the methods that the server serves; the server declares the capabilities of these methods.
        None: only the handlers in the option `exact` serve.

        Raises `TypeError` for a handler that is a class, or that has a method whose name is almost one of `ServerHandler`, for
        an unknown option, also in `http`, and for one of another kind. Raises `ValueError` for an unknown revision,
        invalid options of HTTP, a limit that is not above 0, and a handler that overrides `discover` or `subscriptions_listen`, which the runtime serves itself.
        """
        check_named(name, version)
        check_options("Server", HandlerOptions, options)
        identity = _identity(handler, name, version, options)
        lifespan, middleware = options.get("lifespan", ()), options.get("middleware", ())
        lifespans = (lifespan,) if callable(lifespan) else lifespan
        if options.get("store") is None and (spare := SPARE_STORE.get()) is not None:
            options["store"] = spare
        super().__init__(identity, options, lifespans=[partial(each, self) for each in lifespans])
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
            validate=options.get("validate", True),
            show_errors=options.get("show_errors", False),
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


def _identity(
    handler: ServerHandler | None, name: str, version: str, options: HandlerOptions
) -> ServerCapabilities:
    """Return what a server declares. Raises the errors of `Server`."""
    if handler is not None:
        checked_handler(handler, "ServerHandler")
    revisions, exact, capabilities = (
        options.get("revisions"), options.get("exact"), options.get("capabilities"),
    )  # fmt: skip
    if revisions is None and handler is None and exact:
        revisions = tuple(exact)  # there is nothing to offer at any other
    allowed, own = spoken(select(None if revisions is None else tuple(revisions)), exact, "ServerHandler")
    mine = _RUNTIME & set(overridden(handler, LATEST, "ServerHandler")) if handler is not None else ()
    if mine:
        raise ValueError(f"the runtime serves {', '.join(sorted(mine))} itself; do not override it")
    own_capabilities = {} if capabilities is None else capabilities.to_wire()
    declared, added = with_extensions(own_capabilities, options.get("extensions", ()), "ServerHandler")
    requires = options.get("requires") or {}
    return ServerCapabilities(
        handler=handler if handler is not None else object(),
        info=introduction(
            name,
            version,
            options.get("icons", ()),
            title=options.get("title"),
            description=options.get("description"),
            websiteUrl=options.get("website_url"),
        ),
        revisions=allowed,
        exact=own,
        declared=declared,
        added=added,
        instructions=options.get("instructions"),
        requires={method: needs.to_wire() for method, needs in requires.items()},
        tasks=options.get("tasks") is not None,
    )
