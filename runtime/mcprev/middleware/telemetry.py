"""Traces and durations of calls, by OpenTelemetry's semantic conventions for MCP; `opentelemetry-api` records them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

from typing_extensions import override

from mcprev.client.options import Options
from mcprev.client.request_handler import ClientContext
from mcprev.client.session import ClientSession, ClientSettings, OpenedConnection
from mcprev.core.connection import Connection
from mcprev.core.context import BaseContext
from mcprev.core.method_binding import Stub
from mcprev.core.tool_schemas import CALL
from mcprev.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    Json,
    MissingExtra,
    RpcError,
)
from mcprev.middleware.records import wire_of
from mcprev.protocol.meta import trace_error
from mcprev.protocol.mrtr import input_requests_of
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.subscriptions import LISTEN
from mcprev.revisions import Revision
from mcprev.server.context import Context
from mcprev.server.kept import Kept
from mcprev.server.known_names import KnownNames
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult, current_inner_request, is_own
from mcprev.server.sending import SendingContext, SendRequest
from mcprev.wire.payloads import mask_text

if TYPE_CHECKING:
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

T = TypeVar("T")
TRACE: Final = ("traceparent", "tracestate")
BAGGAGE: Final = "baggage"
Role: TypeAlias = Literal["client", "server"]
TARGETS: Final = {CALL: "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
"""The attribute for the `name` in the params of a method; the name is part of the span's name."""
REFUSED: Final = frozenset({INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND})
"""The error codes with which a server refuses a wrong request; they are no failures of the server."""
RECORDED: Final = 256
"""Characters of a name, URI, id or message that are recorded."""
DIFFERENT: Final = 1000
"""How many values of an attribute that peers can choose, such as names of tools, are told apart in metrics."""
OTHER: Final = "_OTHER"
"""The value of all others."""
SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The bounds of the histograms' buckets."""
_RECORDING: Final = Kept[list[tuple[object, object]]](list)
"""The providers that record the call of a context now: where an app is mounted, it passes several `Telemetry`."""


class Telemetry:
    """Records a span and a duration for each call: `App(..., middleware=[telemetry])`, `connect(..., telemetry=telemetry)`."""

    def __init__(
        self, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        """Set the providers of OpenTelemetry that record spans and durations. None: the global ones.

        Raises `mcprev.errors.MissingExtra` if `opentelemetry-api` is not installed (`pip install 'mcprev[otel]'`).
        """
        try:
            from opentelemetry import baggage, context, metrics, trace
            from opentelemetry.baggage.propagation import W3CBaggagePropagator
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise MissingExtra("telemetry", "opentelemetry-api", "otel") from error
        self._providers = tracer_provider, meter_provider
        self._trace = trace
        self._tracer = trace.get_tracer("mcprev", tracer_provider=tracer_provider)
        self._propagator, self._baggage = TraceContextTextMapPropagator(), W3CBaggagePropagator()
        self._context = context
        meter = metrics.get_meter("mcprev", meter_provider=meter_provider)
        self._durations, self._sessions = (
            {
                role: meter.create_histogram(
                    f"mcp.{role}.{kind}.duration",
                    unit="s",
                    description=f"Duration of an MCP {what}, as the {role} observes it",
                    explicit_bucket_boundaries_advisory=SECONDS,
                )
                for role in ("client", "server")
            }
            for kind, what in (("operation", "request or notification"), ("session", "session"))
        )
        self._counted: dict[str, set[str]] = {}
        self._names = KnownNames(DIFFERENT, _text)

        self._all_baggage = baggage.get_all

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on to a handler, in a span whose parent is the client's span if the request names it."""
        ctx, request = call.ctx, call.ctx.request
        recording = _RECORDING[ctx]
        inner = current_inner_request()
        key = self._providers, inner  # an app that mounts this one records the same request
        if is_own(call) or key in recording:
            result = await call_next(call)
            self._names.learn(call.method, result)
            return result
        recording.append(key)
        params, run = request.params or {}, partial(call_next, call)
        if inner is not None and call.params is not None:
            params = wire_of(call.params)
        try:
            with self._carried(ctx.meta, ctx.headers if inner is None else {}):
                result = await self.record(
                    "server", ctx.connection, request.revision, call.method, params, run, ctx, inner, call
                )
            self._names.learn(call.method, result)
            return result
        finally:
            recording.remove(key)

    def wrap(self, method: str, stub: Stub) -> Stub:
        """Return a method of a client's handler that records the requests of the server; `connect` calls this."""

        async def served(ctx: ClientContext, params: object) -> object:
            revision, run = ctx.client.spoken, partial(stub, ctx, params)
            with self._carried(ctx.meta, {}):
                return await self.record("server", ctx.connection, revision, method, {}, run, ctx)

        return stub if method.startswith("notifications/") else served

    async def ask(self, ctx: SendingContext, method: str, params: Json, send: SendRequest) -> dict[str, Json]:
        """Send a request of a server to its client; the server calls this."""

        def run() -> Awaitable[dict[str, Json]]:
            given: dict[str, Json] = params or {}
            meta: Mapping[str, Json] = {**(given.get("_meta") or {}), **self.trace_context()}
            call = send({**given, "_meta": meta} if meta else params)
            self.sent(call)
            return ctx.connection.wait(call)

        return await self.record("client", ctx.connection, ctx.request.revision, method, params or {}, run)

    def connected(
        self, connection: Connection, role: Role = "server", failed: Callable[[], bool] = bool
    ) -> None:
        """Record the duration of a connection that is a session; `failed` returns whether it ended with an error."""
        started = time.perf_counter()
        session = cast("Any", connection.protocol).session

        def ended(_: object) -> None:
            if session.agreed:
                wrong = {"error.type": type(connection.error).__qualname__} if failed() else {}
                common = {"mcp.protocol.version": session.revision.version, **connection.network}
                self._sessions[role].record(time.perf_counter() - started, {**common, **wrong})

        connection.closed.add_done_callback(ended)

    def session(self, settings: ClientSettings, opened: OpenedConnection) -> ClientSession:
        """Return a session whose requests are recorded; `connect` calls this."""
        return _RecordedSession(self, settings, opened)

    def trace_context(self) -> dict[str, str]:
        """Return the members of `_meta` that name the current span and carry its baggage; none if there is neither."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        self._baggage.inject(carrier)
        return _valid(carrier, (*TRACE, BAGGAGE))

    def sent(self, call: Call) -> None:
        """Add the id of a request to the current span."""
        self._trace.get_current_span().set_attribute("jsonrpc.request.id", _text(call.id))

    async def record(
        self,
        role: Role,
        connection: Connection,
        revision: Revision,
        method: str,
        params: Mapping[str, Json],
        run: Callable[[], Awaitable[T]],
        ctx: BaseContext[Any] | None = None,
        inner: object = None,
        call: HandlerCall | None = None,
    ) -> T:
        """Await `run` in a span and record its duration; `ctx` is the context of the handler that `run` calls.

        The span of an `inner` request, which a tool makes for its client, is part of the tool's span. `call` is the call
        of a server's handler, of which the client has chosen the name.
        """
        uri = params.get("uri")
        common = {
            "mcp.method.name": method,
            "mcp.protocol.version": revision.version,
            **connection.network,
        }
        details = {
            "jsonrpc.request.id": None if ctx is None else ctx.request_id,
            "mcp.session.id": connection.session_id if revision.handshake else None,
            "mcp.resource.uri": mask_text(str(uri)) if uri is not None and "resources/" in method else None,
        }
        alone = {key: _text(value) for key, value in details.items() if value is not None}
        target = {TARGETS[method]: _text(params.get("name"))} if method in TARGETS else {}
        if method == CALL:
            common["gen_ai.operation.name"] = "execute_tool"
        ambient = self._trace.get_current_span().get_span_context()
        parent = None if ctx is None or inner is not None else self._parent(ctx, alone=not ambient.is_valid)
        outcome: dict[str, str] = {}
        started = time.perf_counter()
        with self._tracer.start_as_current_span(
            " ".join([method, *target.values()]),
            parent,
            self._trace.SpanKind[role.upper()],
            {**common, **target, **alone},
            [self._trace.Link(ambient)] if parent is not None and ambient.is_valid else None,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            message = None
            try:
                result = await run()
                outcome = {"error.type": "tool_error"} if method == CALL and _is_error(result) else {}
            except BaseException as error:
                outcome = _outcome(error, role, method)
                message = _text(error.message) if isinstance(error, RpcError) else None
                if role == "server" and "rpc.response.status_code" in outcome and "error.type" not in outcome:
                    target = {}  # a peer may name any number of things that there are not
                raise
            else:
                return result
            finally:
                bridged = _bridged(ctx)
                span.set_attributes({**outcome, **bridged})
                if "error.type" in outcome:
                    span.set_status(self._trace.StatusCode.ERROR, message)
                if call is not None and not all(
                    self._names.tells_apart(call, name, served=not outcome) for name in target.values()
                ):
                    target = dict.fromkeys(target, OTHER)
                few = {key: self._few(key, value) for key, value in {**target, **outcome, **bridged}.items()}
                self._durations[role].record(time.perf_counter() - started, {**common, **few})

    def _parent(self, ctx: BaseContext[Any], *, alone: bool) -> TraceContext | None:
        """Return the context that `_meta` names as W3C defines, else the HTTP request if it is `alone`: nothing else has read it."""
        valid = _valid(ctx.meta, TRACE)
        if "traceparent" not in valid and alone and isinstance(ctx, Context):
            valid = _valid(ctx.headers, TRACE)
        return self._propagator.extract(valid) if "traceparent" in valid else None

    @contextmanager
    def _carried(self, meta: Mapping[str, Json], headers: Mapping[str, str]) -> Generator[None]:
        """Have the baggage of `_meta` in the block, else that of the HTTP request, unless something else has read that."""
        now = self._context.get_current()
        found = _valid(meta, (BAGGAGE,))
        if not found and not self._all_baggage(now):
            found = _valid(headers, (BAGGAGE,))
        if not found:
            yield
            return
        token = self._context.attach(self._baggage.extract(found, now))
        try:
            yield
        finally:
            self._context.detach(token)

    def _few(self, key: str, value: str) -> str:
        """Return the value of an attribute that a peer can choose; `_OTHER` after `DIFFERENT` different ones."""
        counted = self._counted.setdefault(key, set())
        if len(counted) < DIFFERENT and value != OTHER:
            counted.add(value)
        return value if value in counted else OTHER


def _bridged(ctx: BaseContext[Any] | None) -> dict[str, str]:
    """Return the attributes that name the servers a bridge has passed a request on to, and their revisions."""
    passed = cast("Mapping[tuple[str, str], None]", getattr(ctx, "passed_on", {}))
    if not passed:
        return {}
    names, revisions = (sorted({_text(part) for part in parts}) for parts in zip(*passed, strict=True))
    return {
        "mcprev.bridge.server.name": ", ".join(names),
        "mcprev.bridge.server.protocol.version": ", ".join(revisions),
    }


def _valid(said: Mapping[str, Json], names: Sequence[str]) -> dict[str, str]:
    """Return the members that are as W3C defines them."""
    return {name: str(said[name]) for name in names if name in said and trace_error(name, said[name]) is None}


def _text(value: object) -> str:
    """Return a value for an attribute: of bounded length, and without lone surrogates, which no exporter can send."""
    return str(value)[:RECORDED].encode(errors="replace").decode()


def _is_error(result: object) -> bool:
    """Whether the result of a tool, a model or JSON, says that the tool failed."""
    if isinstance(result, Mapping):
        return cast("Mapping[str, object]", result).get("isError") is True
    return getattr(result, "is_error", None) is True


def _outcome(error: BaseException, role: Role, method: str) -> dict[str, str]:
    """Return the attributes for what a call raised; none if a handler only asks for input."""
    if role == "server" and input_requests_of(error) is not None:
        return {}
    if isinstance(error, RpcError):
        status = {"rpc.response.status_code": str(error.code)}
        failed = role == "client" or error.code not in REFUSED
        return {**status, "error.type": str(error.code)} if failed else status
    if role == "server" and method == CALL and isinstance(error, Exception):
        return {"error.type": "tool_error"}
    return {"error.type": type(error).__qualname__}


class _RecordedSession(ClientSession):
    def __init__(self, telemetry: Telemetry, settings: ClientSettings, opened: OpenedConnection) -> None:
        self._telemetry, self._closed = telemetry, False
        super().__init__(settings, opened)

    @override
    def use(self, opened: OpenedConnection) -> None:
        super().use(opened)
        self._telemetry.connected(opened.connection, "client", lambda: not self._closed)

    @override
    def open(self, method: str, params: dict[str, Json] | None, options: Options, end: float | None) -> Call:
        call = super().open(method, params, options, end)
        if method != LISTEN:  # what streams is no part of the current span
            self._telemetry.sent(call)
        return call

    @override
    async def aclose(self) -> None:
        self._closed = self.connection.error is None
        await super().aclose()

    @override
    async def request(
        self,
        method: str,
        params: dict[str, Json] | None,
        options: Options,
        end: float | None,
        *,
        raw: bool = False,
    ) -> dict[str, Json]:
        request, plain = super().request, raw or params is None

        def run() -> Awaitable[dict[str, Json]]:
            found = (params or {}).get("_meta") if plain else options.get("meta")
            meta: dict[str, Json] = {**(found or {})}
            if "traceparent" not in meta:
                meta = {**self._telemetry.trace_context(), **meta}
            if plain:
                sent = {**(params or {}), "_meta": meta} if meta else params
                return request(method, sent, options, end, raw=True)
            return request(method, params, {**options, "meta": meta}, end)

        return await self._telemetry.record(
            "client", self.connection, self.revision, method, params or {}, run
        )
