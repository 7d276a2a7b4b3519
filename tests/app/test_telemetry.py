"""Spans and durations by OpenTelemetry's conventions for MCP, of servers and of clients, at every revision."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import mcprev
from api.transports import http
from mcprev.errors import InvalidParams
from mcprev.revisions import DEFAULT, HttpShape, Revision

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
every_revision = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


class Recorded:
    """A `Telemetry` that records in memory, and what it has recorded."""

    def __init__(self) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.telemetry = mcprev.Telemetry(tracers, MeterProvider([self._metrics], shutdown_on_exit=False))

    def spans(self, kind: SpanKind) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.kind is kind]

    def pair(self) -> tuple[ReadableSpan, ReadableSpan]:
        """The spans of the only call: the client's and the server's."""
        (client,), (server,) = self.spans(SpanKind.CLIENT), self.spans(SpanKind.SERVER)
        return client, server

    def durations(self, name: str) -> list[HistogramDataPoint]:
        data = self._metrics.get_metrics_data()
        assert data is not None
        found = [
            each for group in data.resource_metrics for scope in group.scope_metrics for each in scope.metrics
        ]
        (metric,) = (each for each in found if each.name == name)
        assert metric.unit == "s"
        points: Any = metric.data.data_points
        return list(points)


def server_with(telemetry: mcprev.Telemetry | None, seen: list[dict[str, Any]] | None = None) -> mcprev.App:
    app = mcprev.App("a", "1", middleware=[] if telemetry is None else [telemetry])

    @app.tool
    async def ping(ctx: mcprev.Context) -> str:
        if seen is not None:
            seen.append({key: ctx.meta.get(key) for key in ("traceparent", "tracestate")})
        return "pong"

    @app.tool
    async def fail() -> str:
        raise mcprev.ToolError("no")

    @app.tool
    async def crash() -> str:
        raise RuntimeError("no")

    @app.tool
    async def ask(ctx: mcprev.Context) -> str:
        return str(await ctx.elicit("How many?", int))

    @app.resource("notes://all")
    def notes() -> str:
        return "all"

    @app.prompt
    def greet() -> str:
        raise mcprev.InternalError("no greeting")

    return app


def run(
    app: mcprev.App, work: Callable[[mcprev.Client], Coroutine[Any, Any, object]], **options: Any
) -> None:
    async def main() -> None:
        async with mcprev.connect(app, **options) as client:
            await work(client)

    asyncio.run(asyncio.wait_for(main(), 20))


@every_revision
def test_the_span_of_the_server_is_the_child_of_that_of_the_client(row: Revision) -> None:
    recorded, seen = Recorded(), list[dict[str, Any]]()
    app = server_with(recorded.telemetry, seen)
    run(app, lambda client: client.call_tool("ping"), telemetry=recorded.telemetry, mode=row.name)
    client, server = recorded.pair()
    assert client.context is not None
    assert server.context is not None
    assert client.parent is None
    assert server.parent is not None
    assert server.parent.is_remote
    assert (server.parent.span_id, server.context.trace_id) == (
        client.context.span_id,
        client.context.trace_id,
    )
    trace, span = format(client.context.trace_id, "032x"), format(client.context.span_id, "016x")
    assert seen[0]["traceparent"].startswith(f"00-{trace}-{span}-")
    common = {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": row.version,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "ping",
    }
    for each in (client, server):
        found = dict(each.attributes or {})
        assert found.pop("jsonrpc.request.id")
        assert (each.name, found, each.status.status_code) == ("tools/call ping", common, StatusCode.UNSET)
    assert (client.attributes or {})["jsonrpc.request.id"] == (server.attributes or {})["jsonrpc.request.id"]
    for role in ("client", "server"):
        (point,) = recorded.durations(f"mcp.{role}.operation.duration")
        assert (point.count, dict(point.attributes or {})) == (1, common)
        assert 0 < point.sum < 20


@every_revision
@pytest.mark.parametrize("tool", ["fail", "crash"])
def test_a_tool_that_fails_is_a_tool_error_on_both_sides(row: Revision, tool: str) -> None:
    recorded = Recorded()
    app = server_with(recorded.telemetry)
    run(app, lambda client: client.call_tool(tool), telemetry=recorded.telemetry, mode=row.name)
    for span in recorded.pair():
        assert (span.attributes or {})["error.type"] == "tool_error"
        assert span.status.status_code is StatusCode.ERROR
    for role in ("client", "server"):
        (point,) = recorded.durations(f"mcp.{role}.operation.duration")
        assert (point.attributes or {})["error.type"] == "tool_error"


@every_revision
def test_an_error_of_the_server_has_its_code_and_its_message(row: Revision) -> None:
    recorded = Recorded()

    async def work(client: mcprev.Client) -> None:
        with pytest.raises(mcprev.InternalError):
            await client.get_prompt("greet")

    run(server_with(recorded.telemetry), work, telemetry=recorded.telemetry, mode=row.name)
    for span in recorded.pair():
        found = dict(span.attributes or {})
        code = str(mcprev.InternalError.CODE)
        assert (span.name, found["gen_ai.prompt.name"]) == ("prompts/get greet", "greet")
        assert (found["rpc.response.status_code"], found["error.type"]) == (code, code)
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no greeting")


@every_revision
def test_a_wrong_request_is_an_error_of_the_client_alone_and_its_name_is_not_counted(row: Revision) -> None:
    recorded = Recorded()

    async def work(client: mcprev.Client) -> None:
        with pytest.raises(InvalidParams):
            await client.get_prompt("nobody" * 100)

    run(server_with(recorded.telemetry), work, telemetry=recorded.telemetry, mode=row.name)
    client, server = recorded.pair()
    code = str(InvalidParams.CODE)
    assert (client.attributes or {})["error.type"] == code
    assert (server.attributes or {})["rpc.response.status_code"] == code
    assert "error.type" not in (server.attributes or {})
    assert server.status.status_code is StatusCode.UNSET
    assert len(server.name) < 300
    (point,) = recorded.durations("mcp.server.operation.duration")
    assert "gen_ai.prompt.name" not in (point.attributes or {})


@every_revision
def test_a_resource_is_an_attribute_and_no_part_of_the_name(row: Revision) -> None:
    recorded = Recorded()
    app = server_with(recorded.telemetry)
    run(app, lambda client: client.read_resource("notes://all"), telemetry=recorded.telemetry, mode=row.name)
    for span in recorded.pair():
        assert (span.name, (span.attributes or {})["mcp.resource.uri"]) == ("resources/read", "notes://all")
    (point,) = recorded.durations("mcp.server.operation.duration")
    assert "mcp.resource.uri" not in (point.attributes or {})


@every_revision
def test_raw_calls_and_pings_are_recorded_and_carry_the_trace(row: Revision) -> None:
    recorded, seen = Recorded(), list[dict[str, Any]]()

    async def work(client: mcprev.Client) -> None:
        await client.raw("tools/call", {"name": "ping"})
        await client.ping()

    run(server_with(None, seen), work, telemetry=recorded.telemetry, mode=row.name)
    spans = recorded.spans(SpanKind.CLIENT)
    assert len(spans) == 2
    assert spans[0].context is not None
    assert format(spans[0].context.span_id, "016x") in seen[0]["traceparent"]


@every_revision
def test_over_http_the_span_of_the_server_names_the_session_where_there_is_one(row: Revision) -> None:
    recorded = Recorded()

    async def main() -> None:
        app, telemetry = server_with(recorded.telemetry), recorded.telemetry
        async with (
            http()(app.server, row) as target,
            mcprev.connect(target, mode=row.name, telemetry=telemetry) as client,
        ):
            await client.call_tool("ping")
            await client.call_tool("ping")

    asyncio.run(asyncio.wait_for(main(), 20))
    # A client over HTTP may list the tools by itself, to learn which arguments are headers.
    servers = [span for span in recorded.spans(SpanKind.SERVER) if span.name == "tools/call ping"]
    assert len(servers) == 2
    sessions = {str((span.attributes or {}).get("mcp.session.id")) for span in servers}
    assert len(sessions) == 1
    assert (sessions != {"None"}) is (row.handshake and row.http is not HttpShape.SSE)
    parents = [span.parent.span_id for span in servers if span.parent is not None]
    clients = recorded.spans(SpanKind.CLIENT)
    assert parents == [span.context.span_id for span in clients if span.context is not None]


def test_every_round_of_a_question_is_a_request_and_none_is_an_error() -> None:
    recorded = Recorded()
    app = server_with(recorded.telemetry)

    def three(_: object) -> dict[str, int]:
        return {"value": 3}

    run(app, lambda client: client.call_tool("ask"), elicitation=three, telemetry=recorded.telemetry)
    clients, servers = recorded.spans(SpanKind.CLIENT), recorded.spans(SpanKind.SERVER)
    assert [span.name for span in clients] == [span.name for span in servers] == ["tools/call ask"] * 2
    assert all("error.type" not in (span.attributes or {}) for span in clients + servers)
    parents = [span.parent.span_id for span in servers if span.parent is not None]
    assert parents == [span.context.span_id for span in clients if span.context is not None]


def test_a_call_that_names_its_trace_keeps_it() -> None:
    recorded, seen = Recorded(), list[dict[str, Any]]()
    meta = {"traceparent": PARENT, "tracestate": "a=1"}
    run(
        server_with(recorded.telemetry, seen),
        lambda client: client.call_tool("ping", meta=meta),
        telemetry=recorded.telemetry,
    )
    assert seen == [meta]
    (server,) = recorded.spans(SpanKind.SERVER)
    assert server.parent is not None
    assert format(server.parent.span_id, "016x") in PARENT
    assert server.parent.trace_state.to_header() == "a=1"


@pytest.mark.parametrize("wrong", [7, ["x"], {}, "00-zz", None])
def test_a_trace_that_is_none_is_ignored(wrong: object) -> None:
    recorded = Recorded()

    async def work(client: mcprev.Client) -> None:
        await client.raw("tools/call", {"name": "ping", "_meta": {"traceparent": wrong, "tracestate": wrong}})

    run(server_with(recorded.telemetry), work, mode=DEFAULT[0].name)
    (server,) = recorded.spans(SpanKind.SERVER)
    assert server.parent is None


@every_revision
def test_nothing_is_sent_or_imported_without_telemetry(row: Revision) -> None:
    seen: list[dict[str, Any]] = []
    run(server_with(None, seen), lambda client: client.call_tool("ping"), mode=row.name)
    assert seen == [{"traceparent": None, "tracestate": None}]


def test_a_client_and_a_server_without_telemetry_import_none() -> None:
    code = (
        "import asyncio, sys, mcprev\n"
        "app = mcprev.App('a', '1')\n"
        "async def main():\n"
        "    async with mcprev.connect(app): pass\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if 'telemetry' in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_library_the_extra_is_named() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import mcprev; mcprev.Telemetry()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra" in done.stderr
    assert "mcprev[otel]" in done.stderr
