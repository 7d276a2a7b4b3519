"""Middleware around the requests that a bridge passes on (SEAM-10).

Params and results are those of the client's revision. A request whose params are not replaced passes on as it came, with
members that no schema has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic_core import ValidationError
from typing_extensions import override

from mcprev.bridge.introduction import DISCOVER, INITIALIZE, ClientIntroduction
from mcprev.bridge.relay import Exchange, Serve
from mcprev.bridge.sessions import SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE
from mcprev.bridge.several.parts import Outcome, Part, PartExchange
from mcprev.client.tasks import CALL
from mcprev.conversion.rules import JsonObject, as_object
from mcprev.core.method_binding import call_stub, first, reader
from mcprev.errors import ConversionError, InternalError, InvalidParams, Json, McpError, RpcError, ToolError
from mcprev.protocol.mrtr import InputRequired, is_first
from mcprev.protocol.subscriptions import LISTEN
from mcprev.protocol.uris import SERVED, has_long_uris, spelled_as_usual, too_long, with_uris
from mcprev.revisions import LATEST
from mcprev.server.context import Context
from mcprev.server.middleware import wrap
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO
from mcprev_types import Model

if TYPE_CHECKING:
    from mcprev.bridge.relay import BridgeState
    from mcprev.protocol.connection_state import IncomingRequest
    from mcprev.server.middleware import Middleware
    from mcprev.server.service import Service

_OWN: Final = frozenset({INITIALIZE, DISCOVER, LISTEN, SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE})
"""The methods that the runtime of a server serves itself, beside those about tasks."""
_TASKS: Final = "tasks/"


@dataclass(eq=False, repr=False)
class BridgedContext(Context):
    """The context of a request that a bridge passes on."""

    passed_on: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    """The name and the revision of each server that the request was passed on to."""


class _Inner(PartExchange):
    """The exchange of a request within the middleware, which gets its answer."""

    def __init__(self, exchange: Exchange, part: Part, context: BridgedContext) -> None:
        def send(method: str, params: dict[str, Json] | None) -> None:
            exchange.incoming.reports_progress = part.reports_progress
            exchange.send(method, params)

        super().__init__(exchange.relay, part, exchange, send)
        self._context = context

    @override
    def reaches(self, relay: BridgeState, revision: str) -> None:
        """Note that the request is passed on to a server."""
        self._context.passed_on[relay.server_name, revision] = None

    @override
    def has_asked(self) -> None:
        """Note that the client was asked during the request."""
        self._context.asked["bridge"] = self._context.asked.get("bridge", 0) + 1


class Around:
    """Puts middleware around the requests of clients."""

    def __init__(self, server: Service, middleware: Sequence[Middleware]) -> None:
        self._server = server
        self._middleware = tuple(middleware)
        self._trace: Callable[[], dict[str, str]] | None = getattr(server.observer, "trace_context", None)
        """Returns the members of `_meta` that name the current span; None if nothing records spans."""

    async def __call__(self, exchange: Exchange, serve: Serve) -> None:
        """Answer a request by a function, within the middleware. Raises `McpError`."""
        incoming = exchange.incoming
        if incoming.method in _OWN or incoming.method.startswith(_TASKS):
            await serve(exchange)
            return
        given = incoming.params
        if incoming.method in SERVED and given is not None:
            if has_long_uris(incoming.method, given):
                raise too_long()
            given = dict(with_uris(incoming.method, given, spelled_as_usual))
        params, context = _model(incoming, given), self._context(exchange)
        served: list[BaseException] = []
        """The errors of servers, which pass as they are."""

        async def pass_on(_context: Context, changed: Model | None) -> JsonObject:
            # The server gets the spelling of the client, which may be the one that it lists.
            raw = incoming.params if changed is params else None if changed is None else changed.to_wire()
            return await self._pass_on(exchange, context, raw, serve, served)

        try:
            result = await call_stub(wrap(self._middleware, incoming.method, pass_on), context, params)
        except InputRequired:
            raise InternalError(
                "middleware of a bridge asked a client without a session; only clients with one can be asked by it"
            ) from None
        except ToolError as error:
            if incoming.method != CALL:
                raise
            exchange.answer(_failed(str(error), incoming))
        except RpcError as error:
            if any(error is each for each in served):
                exchange.refuse(as_object(error.raw))
            else:
                exchange.refuse(error.to_wire(), own=True)
        else:
            exchange.answer(result)

    def _context(self, exchange: Exchange) -> BridgedContext:
        incoming = exchange.incoming
        client = ClientIntroduction(incoming.revision, incoming.capabilities, incoming.client_info)
        info = incoming.client_info or getattr(incoming.engine, "client_info", None)
        stamp: JsonObject = {CLIENT_CAPABILITIES: client.capabilities_at(LATEST)}
        if info:
            stamp[CLIENT_INFO] = info
        context = BridgedContext(exchange.connection, incoming, self._server, stamp)
        if not is_first(incoming.params or {}):
            context.asked["client"] = 1
        return context

    async def _pass_on(
        self,
        exchange: Exchange,
        context: BridgedContext,
        params: JsonObject | None,
        serve: Serve,
        served: list[BaseException],
    ) -> JsonObject:
        """Return the result of a request. Raises its error: the one of a server is added to `served`."""
        if self._trace is not None and (trace := self._trace()):
            params = {**(params or {}), "_meta": {**as_object((params or {}).get("_meta")), **trace}}
        outcome = Outcome()
        part = Part(exchange.incoming, outcome.take, params)
        inner = _Inner(exchange, part, context)
        try:
            await serve(inner)
        except (McpError, ConversionError) as error:
            inner.fail(error, None)
        if outcome.result is not None:
            return outcome.result
        refusal = outcome.refusal
        if refusal is not None and not isinstance(refusal, RpcError | ConversionError):
            raise refusal
        if outcome.error is None:
            raise InternalError("the request got no response")
        failed = RpcError.from_wire(outcome.error)
        if not isinstance(refusal, RpcError) or refusal.raw is not None:
            served.append(failed)
        raise failed


def _model(incoming: IncomingRequest, params: JsonObject | None) -> Model | None:
    """Return the params of a request as a model of the client's revision. Raises `InvalidParams`."""
    spec = incoming.revision.methods.get(incoming.method)
    if params is None:
        return None
    try:
        if spec is None or spec.params is None:
            return Model.from_wire(params)
        found: Model | None = reader(incoming.revision, spec.params)(params)
    except ValidationError as error:
        raise InvalidParams(f"Invalid params: {first(error, params)}") from None
    return found


def _failed(text: str, incoming: IncomingRequest) -> JsonObject:
    """Return the result of a tool that failed with a text, at the client's revision."""
    result: JsonObject = {
        "content": [{"type": "text", "text": text}],
        "isError": True,
    }  # makes CallToolResult
    return result if incoming.revision.handshake else {"resultType": "complete", **result}
