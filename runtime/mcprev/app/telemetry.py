"""Traces and durations of calls, by OpenTelemetry's semantic conventions for MCP; `opentelemetry-api` records them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, cast

from typing_extensions import override

from mcprev.client.calls import RequestSender
from mcprev.client.options import Options
from mcprev.client.reconnecting import OpenedConnection
from mcprev.client.session import ClientSession, SessionArguments
from mcprev.core.interfaces import message_origin
from mcprev.core.tool_schemas import CALL
from mcprev.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    Json,
    MissingExtra,
    RpcError,
    ToolError,
)
from mcprev.protocol.http_classify import session_id
from mcprev.protocol.meta import trace_error
from mcprev.protocol.mrtr import input_requests_of
from mcprev.protocol.pending_calls import Call
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult

if TYPE_CHECKING:
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

T = TypeVar("T")
Role: TypeAlias = Literal["client", "server"]
TARGETS: Final = {CALL: "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
"""The attribute for the `name` in the params of a method; the name is part of the span's name."""
REFUSED: Final = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND}
)
"""The error codes with which a server refuses a wrong request; they are no failures of the server."""
RECORDED: Final = 256
"""Characters of a name or URI that are recorded."""
SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The bounds of the histograms' buckets."""


class Telemetry:
    """Records a span and a duration for each call: `App(..., middleware=[telemetry])`, `connect(..., telemetry=telemetry)`."""

    def __init__(
        self, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        """Set the providers of OpenTelemetry that record spans and durations. None: the global ones.

        Raises `mcprev.errors.MissingExtra` if `opentelemetry-api` is not installed (`pip install 'mcprev[otel]'`).
        """
        try:
            from opentelemetry import metrics, trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise MissingExtra("telemetry", "opentelemetry-api", "otel") from error
        self._kinds: Final = {"client": trace.SpanKind.CLIENT, "server": trace.SpanKind.SERVER}
        self._error = trace.StatusCode.ERROR
        self._current_span = trace.get_current_span
        self._tracer = trace.get_tracer("mcprev", tracer_provider=tracer_provider)
        self._propagator = TraceContextTextMapPropagator()
        meter = metrics.get_meter("mcprev", meter_provider=meter_provider)
        self._durations = {
            role: meter.create_histogram(
                f"mcp.{role}.operation.duration",
                unit="s",
                description=f"Duration of an MCP request or notification, as the {role} observes it",
                explicit_bucket_boundaries_advisory=SECONDS,
            )
            for role in self._kinds
        }

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on to a handler, in a span whose parent is the client's span if the request names it."""
        ctx, request = call.ctx, call.ctx.request
        if request.method != call.method:
            return await call_next(call)  # the server itself lists its tools, to check the headers of a call
        details = {} if ctx.request_id is None else {"jsonrpc.request.id": str(ctx.request_id)}
        origin = message_origin(request)
        session = session_id(origin.headers) if origin is not None and request.revision.handshake else None
        if session is not None:
            details["mcp.session.id"] = session[:RECORDED]
        named = {key: ctx.meta[key] for key in ("traceparent", "tracestate") if key in ctx.meta}
        valid = {key: value for key, value in named.items() if trace_error(key, value) is None}
        return await self.record(
            "server",
            call.method,
            request.params or {},
            request.revision.version,
            lambda: call_next(call),
            details=details,
            parent=self._propagator.extract(valid) if "traceparent" in valid else None,
        )

    def session(self, *arguments: *SessionArguments) -> ClientSession:
        """Return a session whose requests are recorded; `connect` calls this."""
        return _RecordedSession(self, *arguments)

    def trace_context(self) -> dict[str, str]:
        """Return the members of `_meta` that name the current span; none if there is no span."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier

    def sent(self, call: Call) -> None:
        """Add the id of a request to the current span."""
        self._current_span().set_attribute("jsonrpc.request.id", str(call.id))

    async def record(
        self,
        role: Role,
        method: str,
        params: Mapping[str, Json],
        version: str,
        run: Callable[[], Awaitable[T]],
        *,
        details: Mapping[str, str] | None = None,
        parent: TraceContext | None = None,
    ) -> T:
        """Await `run` in a span and record its duration; `details` are attributes of the span alone."""
        common = {"mcp.method.name": method, "mcp.protocol.version": version}
        alone = {**(details or {})}
        target = {TARGETS[method]: str(params.get("name"))[:RECORDED]} if method in TARGETS else {}
        if method == CALL:
            common["gen_ai.operation.name"] = "execute_tool"
        if method.startswith("resources/") and "uri" in params:
            alone["mcp.resource.uri"] = str(params["uri"])[:RECORDED]
        outcome: dict[str, str] = {}
        started = time.perf_counter()
        with self._tracer.start_as_current_span(
            " ".join([method, *target.values()]),
            parent,
            self._kinds[role],
            {**common, **target, **alone},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            message = None
            try:
                result = await run()
                outcome = {"error.type": "tool_error"} if method == CALL and _is_error(result) else {}
            except BaseException as error:
                outcome, message = _outcome(error, role, method), str(error)
                if role == "server" and "rpc.response.status_code" in outcome and "error.type" not in outcome:
                    target = {}  # a peer may name any number of things that there are not
                raise
            else:
                return result
            finally:
                span.set_attributes(outcome)
                if "error.type" in outcome:
                    span.set_status(self._error, message)
                self._durations[role].record(time.perf_counter() - started, {**common, **target, **outcome})


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
    if isinstance(error, ToolError) or (role == "server" and method == CALL and isinstance(error, Exception)):
        return {"error.type": "tool_error"}
    return {"error.type": type(error).__qualname__}


class _RecordedSender(RequestSender):
    telemetry: Telemetry

    @override
    def open(self, method: str, params: dict[str, Json] | None, options: Options, end: float | None) -> Call:
        call = super().open(method, params, options, end)
        self.telemetry.sent(call)
        return call


class _RecordedSession(ClientSession):
    def __init__(self, telemetry: Telemetry, *arguments: *SessionArguments) -> None:
        self._telemetry = telemetry
        super().__init__(*arguments)

    @override
    def _use(self, opened: OpenedConnection) -> None:
        super()._use(opened)
        sender = self._sender = _RecordedSender(opened.connection, self.identity, self._idle_timeout)
        sender.telemetry = self._telemetry

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
            meta: Mapping[str, Json] = found or {}
            trace = {} if "traceparent" in meta else self._telemetry.trace_context()
            if not trace:
                return request(method, params, options, end, raw=raw)
            if plain:
                return request(method, {**(params or {}), "_meta": {**meta, **trace}}, options, end, raw=True)
            return request(method, params, {**options, "meta": {**meta, **trace}}, end)

        return await self._telemetry.record(
            "client", method, params or {}, self.protocol.revision.version, run
        )
