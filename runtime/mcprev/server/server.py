"""A server: a handler, written once in the latest revision, that peers of every revision can talk to.

LIFE-11, SEAM-1..5, SEAM-9, MRTR-1..11, SUB-8, TOOL-1..5, RES-1, PROM-1, COMP-1.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from mcprev.convert import ConversionContext as Conversion
from mcprev.convert import OnDowngrade, PayloadKind, make_context, request_meta, unmet_input
from mcprev.core.capabilities import ServerCapabilities, introduction, overridden
from mcprev.core.connection import Connection
from mcprev.core.keepalive import check_interval, keep_pinging
from mcprev.core.limits import MAX_HANDLERS
from mcprev.core.method_binding import HandlerTable, MethodBinding, answer_failure, is_cancelled, to_wire
from mcprev.core.tool_schemas import CALL
from mcprev.errors import ConversionError, Json, LocalProtocolError
from mcprev.protocol import mrtr
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.handshake import HandshakeServer
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.protocol.stateless import CLIENT_CAPABILITIES, CLIENT_INFO, COMPLETE, INPUT_REQUIRED, VERSION
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.protocol.uris import check_uri
from mcprev.revisions import LATEST, Revision, revision_named, select
from mcprev.server.context import Context, unasked
from mcprev.server.tools import UNKNOWN, ToolTable
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
PeerContext: TypeAlias = tuple[Mapping[str, Json], Conversion | None, Conversion]
"""What is known of a client when it is served, in the words of the latest revision: what its requests would carry if
they described themselves, and the contexts of the conversions up and down."""
_RESULT_TYPES: Final = (COMPLETE, INPUT_REQUIRED)
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
        ping_interval: float | None = None,
        max_line: int = MAX_LINE,
        max_handlers: int = MAX_HANDLERS,
    ) -> None:
        """Say who this is and what it speaks.

        `title`, `description`, `website_url` and `icons` are told where the revision knows them. `revisions` narrows what is offered (the draft only when named); `exact` maps a revision's name to a
        handler of that revision's own `ServerHandler`, which is then served without conversion; `capabilities`
        are added to those that follow from the overridden stubs; `requires` names client capabilities without
        which a method is refused; `tasks` names the tools that can run as tasks; `states` seals request state with
        keys that other processes share; `on_downgrade` may say what takes the place of what an older peer cannot be told. Arguments and structured
        results of the tools that the handler lists are checked against their schemas, which are asked for once and
        again after `changed("tools")`; `validate=False` leaves all of that to the handler. With `ping_interval`
        clients with sessions are asked that often, in seconds, whether they are there. `max_line` and
        `max_handlers` bound one connection. Raises `ValueError` for an unknown revision and for a handler that
        overrides what the runtime serves itself.
        """
        allowed = select(None if revisions is None else tuple(revisions))
        own = {revision_named(key).name: value for key, value in (exact or {}).items()}
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
        self._routes = HandlerTable(self.identity, "ServerHandler")
        self.listed: ToolTable = ToolTable(self._routes, self.identity.kinds)
        """What is known of the handler's tools."""
        self.tools: ToolTable | None = self.listed if validate else None
        """The same where calls are checked against it."""
        self._states = states or RequestStateSealer()
        self.on_downgrade = on_downgrade
        self._contexts: dict[str, Conversion] = {}
        self._max_line = max_line
        self.max_handlers: int = max_handlers
        self._ping_interval = check_interval(ping_interval)
        self._connections: set[Connection] = set()

    # -- connections ---------------------------------------------------------------------------------------

    def connection(self) -> LineConnection:
        """The protocol for one more peer, to be given to a transport of the running event loop."""
        made = LineConnection(
            ServerProtocol(self.identity),
            self,
            _logger,
            max_line=self._max_line,
            max_handlers=self.max_handlers,
        )
        self.keep(made)
        return made

    def keep(self, connection: Connection) -> None:
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

        run_stdio(self)

    async def serve_stdio(self) -> None:
        """The same within a running event loop."""
        from mcprev.transports.stdio.server import serve_stdio

        await serve_stdio(self)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """An ASGI app that serves clients of every revision, to be run by an ASGI server or mounted in another app.

        The options are those of `mcprev.transports.http.server.options.HttpOptions`; none is needed. Mounted, it answers
        where it is mounted, and the lifespan of the outer app need not be forwarded to it. Raises `ValueError` for
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
            self.listed.forget()
        for connection in tuple(self._connections):
            cast("ServerProtocol", connection.protocol).changed(kind, uri)
            connection.process_events()

    # -- requests ------------------------------------------------------------------------------------------

    async def handle_request(self, incoming: IncomingRequest, connection: Connection, /) -> None:
        """Answer a request: what a connection calls for each."""
        revision = incoming.revision
        try:
            if self.tasks is not None and self.tasks.serves(revision, incoming.method):
                await self.tasks.serve(incoming, self._context(connection, incoming))
                return
            method_binding = self._routes.find(revision, incoming.method)
            params, answers = incoming.params, None
            if (
                method_binding.may_ask
                and revision.input_in_results
                and params is not None
                and not mrtr.is_first(params)
            ):
                answers = mrtr.InputResponses.of_retry(
                    incoming.method, params, self._states, time.time(), principal=incoming.principal
                )
                params = answers.into(params)
            told = self._peer_context(incoming)
            stamp, up, down = told
            context = Context(self, connection, incoming, stamp, answers)
            if self.tasks is not None and self.tasks.takes(incoming, context):
                await self._call(method_binding, context, params, told)
                return
            wire = await self._run(method_binding, context, params, up)
            if wire.get("resultType") == INPUT_REQUIRED:
                await self._ask(method_binding, context, params, wire)
            elif self.tasks is not None and incoming.method == "tools/list":
                incoming.respond(self.tasks.mark(method_binding.result(wire, down), revision))
            else:
                incoming.respond(method_binding.result(wire, down))
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            wrong = RuntimeError(f"what the handler of '{incoming.method}' waited for was cancelled")
            wrong.__cause__ = error
            answer_failure(wrong, incoming, self.identity.handler_at(revision)[1], _logger)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is answered
            answer_failure(error, incoming, self.identity.handler_at(revision)[1], _logger)

    async def _call(
        self,
        method_binding: MethodBinding,
        context: Context,
        params: dict[str, Json] | None,
        told: PeerContext,
    ) -> None:
        """Answer a call that may become a task: with its result, what it asks, or the task."""
        assert self.tasks is not None
        _, up, down = told

        async def run(context: Context, params: dict[str, Json] | None) -> dict[str, Json]:
            return await self._run(method_binding, context, params, up)

        wire = await self.tasks.call(context, params, run, lambda wire: method_binding.result(wire, down))
        if wire is None:
            return
        if wire.get("resultType") == INPUT_REQUIRED:
            await self._ask(method_binding, context, params, wire)
        else:
            context.request.respond(method_binding.result(wire, down))

    def _context(self, connection: Connection, incoming: IncomingRequest) -> Context:
        return Context(self, connection, incoming, self._peer_context(incoming)[0])

    async def _ask(
        self,
        method_binding: MethodBinding,
        context: Context,
        params: dict[str, Json] | None,
        wire: dict[str, Json],
    ) -> None:
        """Get the input that a result asks for: by sending the result, or request by request and then again."""
        incoming, (_, _, down) = context.request, self._peer_context(context.request)
        if not method_binding.may_ask or not (mrtr.requests_of(wire) or wire.get(mrtr.STATE)):
            raise TypeError(f"the result of '{incoming.method}' cannot ask for input, or asks for none")
        if not incoming.revision.input_in_results:
            await self._ask_in_session(method_binding, context, params or {}, wire)
            return
        asked: dict[str, Json] = {}
        for key, request in mrtr.requests_of(wire).items():
            error = mrtr.check_askable(request, context.capabilities)
            if error is not None:
                raise error
            asked[key] = mrtr.checked_request(request, incoming.revision, context.capabilities)
        if asked:
            wire = {**wire, "inputRequests": asked}
        sealed = context.answers.seal(
            wire,
            incoming.method,
            incoming.params or {},
            self._states,
            time.time(),
            principal=incoming.principal,
        )
        incoming.respond(method_binding.result(sealed, down))

    async def _ask_in_session(
        self, method_binding: MethodBinding, context: Context, params: dict[str, Json], wire: dict[str, Json]
    ) -> None:
        """Ask with requests of this server's, then run the handler again, until it has what it needs (MRTR-11)."""
        incoming, answers = context.request, context.answers
        _, up, down = self._peer_context(incoming)
        for _ in range(mrtr.MAX_ROUNDS):
            for key, request in mrtr.requests_of(wire).items():
                if mrtr.check_askable(request, context.capabilities) is not None:
                    unmet = unmet_input(incoming.method, request)
                    if unmet.kind is PayloadKind.RESULT:
                        incoming.respond(unmet.payload)
                    else:
                        incoming.fail(unmet.payload)
                    return
                question = mrtr.checked_request(request, incoming.revision, context.capabilities)
                answers.given[key] = await context.send_request(question)
            answers.state = wire.get(mrtr.STATE)
            wire = await self._run(method_binding, context, answers.into(params), up)
            if not mrtr.is_input_required(wire):
                incoming.respond(method_binding.result(wire, down))
                return
        raise TypeError(f"'{incoming.method}' asked for input more than {mrtr.MAX_ROUNDS} times")

    async def handle_notification(self, notified: NotificationReceived, connection: Connection, /) -> None:
        """Pass on a notification: what a connection calls for each."""
        try:
            method_binding = self._routes.find(notified.revision, notified.method)
            # Only sessions have notifications for a handler.
            incoming = unasked(cast("ServerProtocol", connection.protocol).session, notified, connection)
            await method_binding.stub(
                self._context(connection, incoming), method_binding.params(notified.params, None)
            )
        except Exception:
            _logger.exception("the handler of '%s' raised", notified.method)

    async def _run(
        self,
        method_binding: MethodBinding,
        context: Context,
        params: dict[str, Json] | None,
        up: Conversion | None,
    ) -> dict[str, Json]:
        """Run the handler; one that cannot go on without input gives a result that asks for it."""
        given = method_binding.params(params, up)
        tool = None
        if method_binding.method == CALL:
            tools = self.tools
            if tools is not None:
                tool = tools.known(context.request)
                if tool is UNKNOWN:
                    tool = await tools.find(context, params, up)
            refusal = tool and tool.check(params or {}, method_binding.revision)
            if refusal:
                return refusal
        elif method_binding.method == "resources/read":
            check_uri((params or {}).get("uri"))
        try:
            wire = to_wire(await method_binding.stub(context, given))
            if tool is not None:
                tool.conform(wire)
        except BaseException as error:
            needs = mrtr.input_requests_of(error)
            if needs is None:
                raise
            return mrtr.input_required(needs, context.state)
        kind = wire.get("resultType", COMPLETE)
        if kind not in _RESULT_TYPES:
            raise ConversionError(
                f"no client takes a result of type {kind!r:.40}", path="$.resultType", revision=LATEST.name
            )
        return wire

    def _peer_context(self, incoming: IncomingRequest) -> PeerContext:
        """What is known of the client: of a session it is found out once, of a request that says it never."""
        peer, revision = incoming.engine, incoming.revision
        if not isinstance(peer, HandshakeServer):
            meta = (incoming.params or {})["_meta"]
            return meta, None, self._contexts.get(revision.name) or self._down(revision)
        known: Any = peer.peer_context
        if known is None:
            stamp = _session_stamp(peer, revision)
            known = peer.peer_context = (
                stamp,
                make_context(LATEST.name, meta=_read_stamp(stamp)),
                self._down(revision),
            )
        told: PeerContext = known
        return told

    def _down(self, revision: Revision) -> Conversion:
        found = self._contexts.get(revision.name)
        if found is None:
            found = make_context(revision.name, on_downgrade=self.on_downgrade)
            self._contexts[revision.name] = found
        return found


def _session_stamp(peer: HandshakeServer, revision: Revision) -> Mapping[str, Json]:
    """What a session's requests would carry if they described themselves."""
    said = {"clientInfo": peer.client_info, "capabilities": peer.peer_capabilities or {}}
    try:
        return request_meta(said, from_=revision.name)
    except ConversionError as error:
        # The client's own words are not valid; it is served all the same, as one that can do nothing.
        _logger.debug("the client introduced itself badly: %s", error)
        return {VERSION: LATEST.version, CLIENT_CAPABILITIES: {}}


def _read_stamp(stamp: Mapping[str, Json]) -> Mapping[str, Json]:
    """The same with its objects read already: what a session's client said of itself is shared by its requests."""
    models = LATEST.models
    read = {CLIENT_INFO: models.Implementation, CLIENT_CAPABILITIES: models.ClientCapabilities}
    return {key: read[key].from_wire(value) if key in read else value for key, value in stamp.items()}
