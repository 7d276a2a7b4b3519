"""Serves the requests of a server: from an incoming request to the handler, and back with its result or error.

SEAM-1..5, MRTR-1..11, TOOL-1..5, RES-1, PROM-1, COMP-1, HDR-8, MOD-11.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from mcprev.conversion import ConversionContext as Conversion, request_meta
from mcprev.core.capabilities import ServerCapabilities
from mcprev.core.connection import Connection
from mcprev.core.input_requests import check_askable, checked_request, unmet
from mcprev.core.interfaces import MessageOrigin, principal_of
from mcprev.core.method_binding import (
    HandlerTable,
    MethodBinding,
    Stub,
    answer_failure,
    as_exception,
    call_stub,
    log_error,
    log_failure,
)
from mcprev.core.tool_schemas import CALL, LIST, MAX_NAME, ToolSchemas
from mcprev.errors import ConversionError, HeaderMismatch, InvalidParams, Json, RpcError, ToolError, one_line
from mcprev.protocol import mrtr
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.endpoint import server_protocol
from mcprev.protocol.handshake import HandshakeServer
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.protocol.result_rules import RULES
from mcprev.protocol.stateless import COMPLETE, INPUT_REQUIRED
from mcprev.protocol.uris import SERVED, check_uri, with_uris
from mcprev.revisions import LATEST, Revision
from mcprev.server.context import Context, unasked
from mcprev.server.sending import ServerHooks
from mcprev.server.tools import UNKNOWN, ToolTable
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO, VERSION

if TYPE_CHECKING:
    from mcprev.server.task_manager import TaskManager

_logger: Final = logging.getLogger("mcprev.server")
PeerContext: TypeAlias = tuple[Mapping[str, Json], Conversion | None, Conversion]
"""The `_meta` of a client at the latest revision, and the contexts of the conversions up and down."""
RELIST: Final = 5.0
"""Seconds within which a header that does not match has the tools listed again only once."""
_RESULT_TYPES: Final = (COMPLETE, INPUT_REQUIRED)


class RequestDispatcher:
    """Serves the requests and notifications of every connection of one server."""

    def __init__(
        self,
        hooks: ServerHooks,
        identity: ServerCapabilities,
        states: RequestStateSealer,
        tasks: TaskManager | None,
        *,
        wrap: Callable[[str, Stub], Stub] | None = None,
        validate: bool,
        show_errors: bool,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._hooks = hooks
        self._identity = identity
        self._states = states
        self._tasks = tasks
        self._handlers = HandlerTable(identity, wrap)
        self.tools: ToolTable = ToolTable(self._handlers, () if tasks is None else tasks.settings.tools)
        """The schemas of the handler's tools."""
        self._validates = validate
        self._show_errors = show_errors
        self._prepare = prepare
        """Called before each request is served, to read what processes share."""

        @cache
        def down(revision: Revision) -> Conversion:
            return Conversion(revision.name, hooks.on_downgrade)

        self._down: Callable[[Revision], Conversion] = down
        """Returns the context of conversions down to a revision."""
        self._relisted = float("-inf")

    async def handle_request(self, incoming: IncomingRequest, connection: Connection, /) -> None:
        """Serve a request and send its response; a connection calls this for each request."""
        revision = incoming.revision
        try:
            if self._prepare is not None:
                await self._prepare()
            if incoming.method in SERVED and incoming.params is not None:
                spelled = with_uris(incoming.method, incoming.params, self._hooks.canonical_uri)
                incoming.params = dict(spelled)
            if self._tasks is not None and self._tasks.serves(revision, incoming.method):
                await self._tasks.serve(incoming, self.context(connection, incoming))
                return
            method_binding = self._handlers[revision, incoming.method]
            stamp, up, down = peer_context = self._peer_context(incoming, connection)
            tool = self._known_tool(incoming)
            repeats = tool is not None and tool.param_headers != ()
            if repeats and revision.routing_headers and incoming.origin is not None:
                await self._check_headers(incoming, connection)
                tool = self._known_tool(incoming)
            params, answers = incoming.params, None
            if (
                method_binding.may_ask
                and revision.input_in_results
                and params is not None
                and not mrtr.is_first(params)
            ):
                answers = mrtr.InputResponses.of_retry(
                    incoming, self._states, time.time(), principal=principal_of(incoming)
                )
                params = answers.into(params)
            context = Context(connection, incoming, self._hooks, stamp, answers)
            if self._tasks is not None and await self._tasks.takes(incoming, context):
                run = partial(self._run_task, method_binding, context, params, peer_context, tool)
                answer = await self._tasks.call(context, run)
                if answer is None:
                    return
                wire = answer
            else:
                wire = await self._run(method_binding, context, params, up, tool)
            if wire.get("resultType") == INPUT_REQUIRED:
                wire = await self._ask(method_binding, context, params, up, wire)
            result = method_binding.result(wire, down)
            if self._tasks is not None and incoming.method == LIST:
                result = self._tasks.mark(result, incoming.revision)
            incoming.respond(result)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is answered
            self._fail(as_exception(error, incoming.method), incoming)

    def _known_tool(self, incoming: IncomingRequest) -> ToolSchemas | None:
        """Return the tool of a call, or None if the handler lists none; `UNKNOWN` if it has to be asked first."""
        if incoming.method != CALL:
            return None
        revision, lists = incoming.revision, self.tools.lists
        tools = lists.get((revision.name, principal_of(incoming))) if lists else None
        if tools is not None:
            name: Json = None if incoming.params is None else incoming.params.get("name")
            return tools.get(name, UNKNOWN) if name.__class__ is str else None
        return UNKNOWN if LIST in self._identity.kinds(revision) else None

    def _fail(self, error: Exception, incoming: IncomingRequest) -> None:
        """Answer a request that failed: a tool with a result, which models see, any other with an error."""
        revision = incoming.revision
        if incoming.method != CALL or isinstance(error, RpcError):
            answer_failure(error, incoming, self._identity.handler_at(revision)[1], _logger)
        else:
            failed = self._failed_tool(error, incoming)
            incoming.respond(self._handlers[revision, CALL].result(failed, self._down(revision)))

    def _failed_tool(self, error: Exception, incoming: IncomingRequest) -> dict[str, Json]:
        """Return the result of a call whose tool raised. Only a `ToolError` is shown, unless all errors are."""
        name = str((incoming.params or {}).get("name"))[:MAX_NAME]
        text = str(error)
        if not isinstance(error, ToolError):
            log_error(_logger, logging.ERROR, f"the tool '{name}' failed (request {incoming.id!r})", error)
            shown = f": {type(error).__name__}: {text}" if self._show_errors else ""
            text = f"the tool '{name}' failed{shown}"
        return {
            "resultType": COMPLETE,
            "content": [{"type": "text", "text": text}],
            "isError": True,
        }  # makes CallToolResult

    async def _check_headers(self, incoming: IncomingRequest, connection: Connection) -> None:
        """Raise `HeaderMismatch` for a call whose headers do not repeat its arguments as its tool demands.

        The tools may have changed unannounced, so they are listed again before a call is refused.
        """
        origin, arguments = cast("MessageOrigin", incoming.origin), (incoming.params or {}).get("arguments")
        error: HeaderMismatch | None = None
        origin.checking = True
        try:
            for again in (False, True):
                tool = await self.tools.find(self.context(connection, incoming), incoming.params, None)
                error = None if tool is None else tool.header_mismatch(origin.headers, arguments)
                now = connection.now()
                if not error or again or now - self._relisted < RELIST:
                    break
                self._relisted = now
                self.tools.forget()
        except BaseException as raised:
            error, failure = None, as_exception(raised, LIST)
            _logger.warning(
                "the tools cannot be listed, so the headers of a call are not checked", exc_info=failure
            )
        finally:
            origin.checking = False
        if error:
            raise error

    async def _run_task(
        self,
        method_binding: MethodBinding,
        context: Context,
        params: dict[str, Json] | None,
        peer_context: PeerContext,
        tool: ToolSchemas | None,
    ) -> dict[str, Json]:
        """Return the result of a call that is, or may become, a task. Raises `RpcError` only."""
        _, up, down = peer_context
        try:
            wire = await self._run(method_binding, context, params, up, tool)
            if context.as_task is not None:
                if wire.get("resultType") == INPUT_REQUIRED:
                    wire = await self._ask(method_binding, context, params, up, wire)
                wire = RULES[CALL](wire)
                method_binding.result(wire, down)
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the event loop
            failure = as_exception(error, CALL)
            if isinstance(failure, RpcError):
                raise failure  # noqa: B904 - it is the error itself
            return self._failed_tool(failure, context.request)
        return wire

    def context(self, connection: Connection, incoming: IncomingRequest) -> Context:
        """Return the context of a request."""
        return Context(connection, incoming, self._hooks, self._peer_context(incoming, connection)[0])

    async def _ask(
        self,
        method_binding: MethodBinding,
        context: Context,
        params: dict[str, Json] | None,
        up: Conversion | None,
        wire: dict[str, Json],
    ) -> dict[str, Json]:
        """Return the result to respond with, where `wire` is a result of the handler that asks for input.

        In a session and in a task, the input requests are sent and the handler runs again, until it asks for nothing
        more. Elsewhere the client answers them: this returns `wire` with its state sealed.
        """  # MRTR-11
        incoming, answers = context.request, context.answers
        for _ in range(mrtr.MAX_ROUNDS):
            asked = mrtr.requests_of(wire)
            if not method_binding.may_ask or not (asked or wire.get(mrtr.STATE)):
                raise TypeError(f"the result of '{incoming.method}' cannot ask for input, or asks for none")
            task = context.as_task
            if incoming.revision.input_in_results and task is None:
                return self._sealed(context, wire)
            for key, request in asked.items():
                question = self._question(context, request)
                answer = context.send_request(question) if task is None else task.ask(key, question, None)
                answers.given[key] = await answer
            answers.state = wire.get(mrtr.STATE)
            context.asked = {}
            tool = self._known_tool(incoming)
            wire = await self._run(method_binding, context, answers.into(params or {}), up, tool)
            if not mrtr.is_input_required(wire):
                return wire
        raise TypeError(f"'{incoming.method}' asked for input more than {mrtr.MAX_ROUNDS} times")

    def _question(self, context: Context, request: Mapping[str, Json]) -> dict[str, Json]:
        """Return an input request of a result as it is sent. Raises an error if the client cannot answer it."""
        incoming = context.request
        error = check_askable(request, context.capabilities, incoming.revision)
        if error is not None and incoming.revision.input_in_results:
            raise error
        if error is not None:
            text = unmet(request, incoming.revision)
            raise ToolError(text) if incoming.method == CALL else InvalidParams(text)
        return checked_request(request, incoming.revision, context.capabilities)

    def _sealed(self, context: Context, wire: dict[str, Json]) -> dict[str, Json]:
        """Return a result that asks for input with its requests as they are sent and its state sealed."""
        incoming = context.request
        asked = {key: self._question(context, request) for key, request in mrtr.requests_of(wire).items()}
        return context.answers.seal(
            {**wire, "inputRequests": asked} if asked else wire,
            incoming,
            self._states,
            time.time(),
            principal=principal_of(incoming),
        )

    def notified(self, _notified: NotificationReceived, _connection: Connection, /) -> bool:
        """Have every notification handled in a task of its own."""
        return True

    async def handle_notification(self, notified: NotificationReceived, connection: Connection, /) -> None:
        """Pass a notification to the handler; a connection calls this for each notification."""
        try:
            binding = self._handlers[notified.revision, notified.method]
            # Only sessions have notifications for a handler.
            incoming = unasked(server_protocol(connection.protocol).session, notified)
            await binding.stub(self.context(connection, incoming), binding.params(notified.params, None))
        except BaseException as error:  # noqa: BLE001 - nothing else ends with it
            log_failure(error, notified.method, _logger)

    async def _run(
        self,
        method_binding: MethodBinding,
        context: Context,
        params: dict[str, Json] | None,
        up: Conversion | None,
        tool: ToolSchemas | None,
    ) -> dict[str, Json]:
        """Run the handler; if it needs input, return a result that asks for it.

        `tool` is the tool of a call as far as it is known, see `_known_tool`.
        """
        given = method_binding.params(params, up)
        if method_binding.method == CALL:
            if not self._validates:
                tool = None
            elif tool is UNKNOWN:
                tool = await self.tools.find(context, params, up)
            if tool is not None and not tool.listed and principal_of(context.request) is not None:
                raise InvalidParams(f"Unknown tool: {tool.name:.100}")
            refusal = tool and tool.check(params or {}, method_binding.revision)
            if refusal:
                return refusal
        elif method_binding.method == "resources/read":
            check_uri((params or {}).get("uri"))
        try:
            wire = await call_stub(method_binding.stub, context, given)
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
                f"no revision has a result of type {kind!r:.40}", path="$.resultType", revision=LATEST.name
            )
        return wire

    def _peer_context(self, incoming: IncomingRequest, connection: Connection) -> PeerContext:
        """Return the context of the client: cached per session; a stateless request carries it."""
        peer, revision = incoming.engine, incoming.revision
        if not isinstance(peer, HandshakeServer):
            meta = (incoming.params or {})["_meta"]
            return meta, None, self._down(revision)
        known: Any = connection.peer_context
        if known is None:
            stamp = _session_stamp(peer, revision)
            up = Conversion(LATEST.name, stamp=_read_stamp(stamp))
            known = connection.peer_context = (stamp, up, self._down(revision))
        peer_context: PeerContext = known
        return peer_context


def _session_stamp(peer: HandshakeServer, revision: Revision) -> Mapping[str, Json]:
    """Return the `_meta` that a stateless client like that of the session would send."""
    said = {"clientInfo": peer.client_info, "capabilities": peer.peer_capabilities or {}}
    try:
        return request_meta(said, from_=revision.name)
    except ConversionError as error:
        # The client's info is invalid; the client is served as one without capabilities.
        _logger.debug("the client sent invalid information about itself: %s", one_line(error))
        return {VERSION: LATEST.version, CLIENT_CAPABILITIES: {}}


def _read_stamp(stamp: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the same with info and capabilities validated once for all requests of a session."""
    models = LATEST.models
    read = {CLIENT_INFO: models.Implementation, CLIENT_CAPABILITIES: models.ClientCapabilities}
    return {key: read[key].from_wire(value) if key in read else value for key, value in stamp.items()}
