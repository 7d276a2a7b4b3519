"""Spans and durations by OpenTelemetry's conventions for MCP, of servers and of clients, at every revision."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

import mcprev
from api.transports import http, listening
from api.wire import served
from helpers import asgi_bridge
from helpers.named import C, rows_since
from mcprev.core.questions import form_of
from mcprev.errors import ConnectionLost, InvalidParams
from mcprev.middleware import telemetry as telemetry_module
from mcprev.revisions import DEFAULT, HttpShape, Revision
from mcprev.transforms import resources_as_tools, tools_by_search
from mcprev.transports.http.client.connection import network_at
from mcprev_types import Direction
from mcprev_types.latest import models

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SESSIONS = [row for row in DEFAULT if row.handshake]
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
        points: list[Any] = []
        for metric in (each for each in found if each.name == name):
            assert metric.unit == "s"
            points.extend(metric.data.data_points)
        return points


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

    @app.tool
    async def look(ctx: mcprev.Context) -> int:
        return len(await ctx.roots())

    @app.resource("notes://all")
    def notes() -> str:
        return "all"

    @app.prompt
    def greet() -> str:
        raise mcprev.InternalError("no greeting")

    return app


def three(_: object) -> dict[str, int]:
    return {"value": 3}


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


def test_the_secret_in_a_uri_is_not_exported() -> None:
    recorded = Recorded()
    uri = "notes://all?access_token=hunter2"

    async def read(client: mcprev.Client) -> None:
        with suppress(mcprev.McpError):
            await client.read_resource(uri)

    run(server_with(recorded.telemetry), read, telemetry=recorded.telemetry)
    for span in recorded.pair():
        assert (span.attributes or {})["mcp.resource.uri"] == "notes://all?access_token=[...]"
        assert "hunter2" not in span.to_json()


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
def test_over_http_spans_name_the_session_where_there_is_one(row: Revision) -> None:
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
    both = servers + recorded.spans(SpanKind.CLIENT)
    sessions = {str((span.attributes or {}).get("mcp.session.id")) for span in both}
    assert len(sessions) == 1
    assert (sessions != {"None"}) is (row.handshake and row.http is not HttpShape.SSE)
    parents = [span.parent.span_id for span in servers if span.parent is not None]
    clients = recorded.spans(SpanKind.CLIENT)
    assert parents == [span.context.span_id for span in clients if span.context is not None]


@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_a_request_of_the_server_is_a_span_on_both_sides(row: Revision) -> None:
    recorded, seen = Recorded(), list[dict[str, Any]]()

    class Handler(mcprev.ClientHandler):
        async def list_roots(self, ctx: mcprev.ClientContext, params: object) -> models.ListRootsResult:
            seen.append(dict(ctx.meta))
            return models.ListRootsResult(roots=[])

    run(
        server_with(recorded.telemetry),
        lambda client: client.call_tool("look"),
        handler=Handler(),
        telemetry=recorded.telemetry,
        mode=row.name,
    )
    names = ["roots/list", "tools/call look"]
    (asking, call), (answering, tool) = recorded.spans(SpanKind.CLIENT), recorded.spans(SpanKind.SERVER)
    assert [asking.name, call.name] == [answering.name, tool.name] == names
    chain = [call, tool, asking, answering]
    for parent, child in pairwise(chain):
        assert parent.context is not None
        assert child.parent is not None
        assert child.parent.span_id == parent.context.span_id
    assert asking.context is not None
    assert format(asking.context.span_id, "016x") in seen[0]["traceparent"]
    assert (asking.attributes or {})["jsonrpc.request.id"] == (answering.attributes or {})[
        "jsonrpc.request.id"
    ]
    for role in ("client", "server"):
        points = recorded.durations(f"mcp.{role}.operation.duration")
        assert sorted(str((point.attributes or {})["mcp.method.name"]) for point in points) == [
            "roots/list",
            "tools/call",
        ]


@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_a_server_asks_as_before_without_telemetry(row: Revision) -> None:
    seen = list[dict[str, Any]]()

    class Handler(mcprev.ClientHandler):
        async def list_roots(self, ctx: mcprev.ClientContext, params: object) -> models.ListRootsResult:
            seen.append(dict(ctx.meta))
            return models.ListRootsResult(roots=[])

    run(server_with(None), lambda client: client.call_tool("look"), handler=Handler(), mode=row.name)
    assert seen == [{}]


@every_revision
def test_the_duration_of_a_session_is_recorded_by_both_sides(row: Revision) -> None:
    recorded = Recorded()
    run(
        server_with(recorded.telemetry),
        lambda client: client.call_tool("ping"),
        telemetry=recorded.telemetry,
        mode=row.name,
    )
    for role in ("client", "server"):
        points = recorded.durations(f"mcp.{role}.session.duration")
        found = [(point.count, dict(point.attributes or {})) for point in points]
        assert found == ([(1, {"mcp.protocol.version": row.version})] if row.handshake else [])


def test_over_http_each_session_that_a_client_opens_is_recorded_and_what_is_no_session_is_not() -> None:
    recorded = Recorded()

    async def main() -> None:
        app = server_with(recorded.telemetry)
        async with listening(app.server) as origin:
            for row in DEFAULT:
                if row.http is not HttpShape.SSE:
                    async with mcprev.connect(origin + "/mcp", mode=row.name) as client:
                        await client.call_tool("ping")

    asyncio.run(asyncio.wait_for(main(), 20))
    points = recorded.durations("mcp.server.session.duration")
    versions = [row.version for row in DEFAULT if row.handshake and row.http is not HttpShape.SSE]
    assert sorted(str((point.attributes or {})["mcp.protocol.version"]) for point in points) == versions


@every_revision
@pytest.mark.parametrize("both", [False, True], ids=["inside", "inside and around"])
def test_a_mounted_app_records_the_calls_of_its_own_functions_once(row: Revision, *, both: bool) -> None:
    recorded, seen = Recorded(), list[dict[str, Any]]()
    middle, app = mcprev.App("middle", "1"), mcprev.App("outer", "1", middleware=[recorded.telemetry] * both)
    middle.mount(server_with(recorded.telemetry, seen), "y")
    app.mount(middle, "x")

    @app.tool
    def own() -> str:
        return "own"

    async def work(client: mcprev.Client) -> None:
        await client.call_tool("x_y_ping")
        await client.call_tool("x_y_fail")
        await client.read_resource("notes://x/y/all")
        await client.call_tool("own")

    run(app, work, telemetry=recorded.telemetry, mode=row.name)
    clients, servers = recorded.spans(SpanKind.CLIENT), recorded.spans(SpanKind.SERVER)
    names = ["tools/call x_y_ping", "tools/call x_y_fail", "resources/read", "tools/call own"]
    assert [span.name for span in clients] == names
    assert [span.name for span in servers] == names[: 4 if both else 3]
    assert (servers[2].attributes or {})["mcp.resource.uri"] == "notes://x/y/all"
    assert (servers[1].attributes or {})["error.type"] == "tool_error"
    for client, server in zip(clients, servers, strict=False):
        assert client.context is not None
        assert server.parent is not None
        assert server.parent.span_id == client.context.span_id
    points = recorded.durations("mcp.server.operation.duration")
    assert sum(point.count for point in points) == len(servers)
    # Sessions are those of the app that is served.
    sessions = recorded.durations("mcp.server.session.duration")
    assert len(sessions) == (1 if both and row.handshake else 0)


def test_each_provider_gets_the_spans_of_a_mounted_app_that_records_elsewhere() -> None:
    inner, outer = Recorded(), Recorded()
    app = mcprev.App("outer", "1", middleware=[outer.telemetry])
    app.mount(server_with(inner.telemetry), "x")
    run(app, lambda client: client.call_tool("x_ping"))
    for each in (inner, outer):
        assert [span.name for span in each.spans(SpanKind.SERVER)] == ["tools/call x_ping"]


@every_revision
def test_over_http_the_network_is_recorded_and_the_address_of_the_server_by_clients(row: Revision) -> None:
    recorded = Recorded()
    network = {"network.transport": "tcp", "network.protocol.name": "http"}

    async def main() -> None:
        telemetry = recorded.telemetry
        async with listening(server_with(telemetry).server, sse=True) as origin:
            path = "/sse" if row.http is HttpShape.SSE else "/mcp"
            target = mcprev.http(origin + path)
            async with mcprev.connect(target, mode=row.name, telemetry=telemetry) as client:
                await client.call_tool("ping")
            at.update({"server.address": "127.0.0.1", "server.port": int(origin.rpartition(":")[2])})

    at: dict[str, Any] = {}
    asyncio.run(asyncio.wait_for(main(), 20))
    expected: dict[str, dict[str, Any]] = {"client": {**network, **at}, "server": network}
    for role, wanted in expected.items():
        attributes = [span.attributes for span in recorded.spans(SpanKind[role.upper()])]
        for kind in ("operation", "session"):
            points = recorded.durations(f"mcp.{role}.{kind}.duration")
            assert bool(points) is (kind == "operation" or row.handshake)
            attributes += [point.attributes for point in points]
        for found in attributes:
            assert {
                key: value
                for key, value in (found or {}).items()
                if key.startswith(("network.", "server.", "client."))
            } == wanted


@pytest.mark.parametrize(
    ("url", "address", "port"),
    [
        ("https://mcp.example/mcp", "mcp.example", 443), ("http://mcp.example/mcp", "mcp.example", 80),
        ("https://MCP.example:8443/?token=secret", "mcp.example", 8443), ("http://[::1]:8000/mcp", "::1", 8000),
    ],
)  # fmt: skip
def test_the_address_of_a_server_has_no_more_of_its_url(url: str, address: str, port: int) -> None:
    found = network_at(url)
    assert (found["server.address"], found["server.port"]) == (address, port)
    assert "secret" not in str(found)


def test_over_pipes_the_network_is_one() -> None:
    recorded = Recorded()
    server = "import mcprev\napp = mcprev.App('a', '1')\n@app.tool\ndef t() -> None: ...\napp.run_stdio()"

    async def main() -> None:
        target = mcprev.stdio(sys.executable, "-c", server)
        async with mcprev.connect(target, telemetry=recorded.telemetry) as client:
            await client.call_tool("t")

    asyncio.run(asyncio.wait_for(main(), 20))
    (span,) = recorded.spans(SpanKind.CLIENT)
    assert (span.attributes or {})["network.transport"] == "pipe"


def test_a_session_whose_server_dies_ends_with_an_error() -> None:
    recorded = Recorded()
    server = (
        "import mcprev, os\napp = mcprev.App('a', '1')\n"
        "@app.tool\ndef die() -> None: os._exit(3)\napp.run_stdio()"
    )

    async def main() -> None:
        target = mcprev.stdio(sys.executable, "-c", server)
        options: dict[str, Any] = {"telemetry": recorded.telemetry, "restart": False}
        async with mcprev.connect(target, mode=SESSIONS[-1].name, **options) as client:
            with pytest.raises(ConnectionLost):
                await client.call_tool("die")

    asyncio.run(asyncio.wait_for(main(), 20))
    (point,) = recorded.durations("mcp.client.session.duration")
    assert dict(point.attributes or {}) == {
        "mcp.protocol.version": SESSIONS[-1].version,
        "network.transport": "pipe",
        "error.type": "ProcessExited",
    }


class Anything(mcprev.ServerHandler):
    """A server that answers for every tool that it is asked for: by an error of its own for names that are codes."""

    async def call_tool(
        self, ctx: mcprev.Context, params: models.CallToolRequestParams
    ) -> models.CallToolResult:
        if params.name.startswith("-"):
            raise mcprev.RpcError("no", code=int(params.name))
        return models.CallToolResult(content=[], is_error=True)


@pytest.mark.parametrize(
    ("first", "keys"),
    [("tool 0", {"gen_ai.tool.name"}), ("-1", {"rpc.response.status_code", "error.type"})],
    ids=["names", "codes"],
)
def test_what_a_peer_chooses_has_a_bound_in_metrics(
    first: str, keys: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_module, "DIFFERENT", 3)
    recorded = Recorded()
    server = mcprev.Server(Anything(), "a", "1", validate=False, middleware=[recorded.telemetry])

    async def main() -> None:
        async with mcprev.connect(server, telemetry=recorded.telemetry) as client:
            for number in range(10):
                name = f"tool {number}" if first.startswith("tool") else str(-1 - number)
                with suppress(mcprev.RpcError):
                    await client.call_tool(name)

    asyncio.run(asyncio.wait_for(main(), 20))
    for role in ("client", "server"):
        points = recorded.durations(f"mcp.{role}.operation.duration")
        for key in keys:
            values = {str((point.attributes or {})[key]) for point in points}
            # Names that a server does not list may be made up by its client.
            made_up = role == "server" and first.startswith("tool")
            assert len(values) == (1 if made_up else 4)
            assert "_OTHER" in values
        assert sum(point.count for point in points) == 10


def test_no_peer_sends_what_no_exporter_can_send() -> None:
    recorded = Recorded()
    server = mcprev.Server(Anything(), "a", "1", validate=False, middleware=[recorded.telemetry])

    async def main() -> None:
        async with mcprev.connect(server, telemetry=recorded.telemetry) as client:
            await client.call_tool("\ud800" + "n" * 1000)

    asyncio.run(asyncio.wait_for(main(), 20))
    for span in recorded.pair():
        for value in (span.name, *(span.attributes or {}).values()):
            assert len(str(value).encode()) < 300


def test_the_id_of_a_request_is_recorded_as_far_as_there_is_room() -> None:
    recorded = Recorded()

    async def main() -> None:
        async with served(server_with(recorded.telemetry).server, DEFAULT[0]) as hand:
            await hand.ask("tools/call", {"name": "ping", "arguments": {}}, id_="n" * 100_000)

    asyncio.run(asyncio.wait_for(main(), 20))
    (server,) = recorded.spans(SpanKind.SERVER)
    assert len(str((server.attributes or {})["jsonrpc.request.id"])) == 256


def test_the_text_of_an_exception_is_not_recorded() -> None:
    recorded = Recorded()
    app = mcprev.App("a", "1", middleware=[recorded.telemetry])

    @app.tool
    async def pay(card: str) -> str:
        raise ValueError(f"no such card: {card}")

    run(app, lambda client: client.call_tool("pay", {"card": "a secret"}), telemetry=recorded.telemetry)
    for span in recorded.pair():
        assert span.status.status_code is StatusCode.ERROR
        assert "a secret" not in span.to_json()


def test_an_exporter_that_raises_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            raise OSError("the collector is gone")

    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(Broken()))
    telemetry = mcprev.Telemetry(tracers, MeterProvider(shutdown_on_exit=False))

    async def work(client: mcprev.Client) -> None:
        assert (await client.call_tool("ping")).text == "pong"

    run(server_with(telemetry), work, telemetry=telemetry)
    assert "the collector is gone" in caplog.text


def test_the_span_that_is_current_besides_the_clients_is_linked() -> None:
    recorded = Recorded()
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("http")

    async def ambient(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        with tracer.start_as_current_span("POST /mcp"):
            return await call_next(call)

    app = mcprev.App("a", "1", middleware=[ambient, recorded.telemetry])

    @app.tool
    def ping() -> str:
        return "pong"

    run(app, lambda client: client.call_tool("ping"), telemetry=recorded.telemetry)
    client, server = recorded.pair()
    assert client.context is not None
    assert server.parent is not None
    assert server.parent.span_id == client.context.span_id
    assert len(server.links) == 1


def test_every_round_of_a_question_is_a_request_and_none_is_an_error() -> None:
    recorded = Recorded()
    app = server_with(recorded.telemetry)

    run(app, lambda client: client.call_tool("ask"), elicitation=three, telemetry=recorded.telemetry)
    clients, servers = recorded.spans(SpanKind.CLIENT), recorded.spans(SpanKind.SERVER)
    assert [span.name for span in clients] == [span.name for span in servers] == ["tools/call ask"] * 2
    assert all("error.type" not in (span.attributes or {}) for span in clients + servers)
    parents = [span.parent.span_id for span in servers if span.parent is not None]
    assert parents == [span.context.span_id for span in clients if span.context is not None]


@pytest.mark.parametrize("row", rows_since(C), ids=lambda row: row.name)
def test_a_handler_that_runs_again_is_recorded_again(row: Revision) -> None:
    recorded = Recorded()

    class Handler(mcprev.ServerHandler):
        async def call_tool(self, ctx: mcprev.Context, params: models.CallToolRequestParams) -> Any:
            if "x" in (params.input_responses or {}):
                return models.CallToolResult(content=[])
            return models.InputRequiredResult(input_requests={"x": form_of(int).request("How many?")})

    async def main() -> None:
        server = mcprev.Server(Handler(), "a", "1", middleware=[recorded.telemetry])
        async with mcprev.connect(server, mode=row.name, elicitation=three) as client:
            await client.call_tool("t")

    asyncio.run(asyncio.wait_for(main(), 20))
    assert [span.name for span in recorded.spans(SpanKind.SERVER)] == ["tools/call t"] * 2


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_without_the_library_the_extra_is_named() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import mcprev; mcprev.Telemetry()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra" in done.stderr
    assert "mcprev[otel]" in done.stderr


@pytest.mark.parametrize("method", ["resources/read", "tools/call"])
@every_revision
def test_a_request_that_a_tool_makes_has_a_span_of_its_own_inside_that_of_the_tool(
    method: str, row: Revision
) -> None:
    recorded = Recorded()
    app = tools_by_search(resources_as_tools(server_with(recorded.telemetry)))
    reads = method == "resources/read"
    tool = "read_resource" if reads else "call_tool"

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name, telemetry=recorded.telemetry) as client:
            await client.call_tool(tool, {"uri": "notes://all"} if reads else {"name": "ping"})

    asyncio.run(main())
    inner, outer = recorded.spans(SpanKind.SERVER)
    assert (inner.name, outer.name) == (
        "resources/read" if reads else "tools/call ping",
        f"tools/call {tool}",
    )
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert (inner.attributes or {}).get("mcp.resource.uri") == ("notes://all" if reads else None)


OTHER_PARENT = "00-11111111111111111111111111111111-2222222222222222-01"


@pytest.mark.parametrize("row", rows_since(C), ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("headers", "meta", "parent", "carried"),
    [
        ({"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=ann"}, {}, PARENT, {"user": "ann"}),
        ({"traceparent": OTHER_PARENT, "baggage": "user=bob"}, {"traceparent": PARENT, "baggage": "user=ann"}, PARENT, {"user": "ann"}),
        ({"traceparent": "00-odd", "baggage": "odd"}, {}, None, {}),
        ({"traceparent": PARENT}, {"traceparent": "00-odd"}, PARENT, {}),
        ({}, {"baggage": "user=ann"}, None, {"user": "ann"}),
    ],
    ids=["of HTTP", "of _meta first", "neither valid", "one valid", "of _meta alone"],
)  # fmt: skip
def test_the_trace_and_baggage_of_http_count_where_meta_has_none(
    row: Revision, headers: dict[str, str], meta: dict[str, Any], parent: str | None, carried: dict[str, str]
) -> None:
    recorded, seen = Recorded(), list[dict[str, object]]()
    app = mcprev.App("a", "1", middleware=[recorded.telemetry])

    @app.tool
    async def look() -> str:
        seen.append(dict(baggage.get_all()))
        return "seen"

    async def main() -> None:
        made = app.asgi()
        client = await asgi_bridge.Client(made).open(row)
        client.session.update(headers)
        assert (await client.call("look", **meta).done()).text == "seen"
        await made.aclose()

    asyncio.run(asyncio.wait_for(main(), 20))
    (span,) = [each for each in recorded.spans(SpanKind.SERVER) if each.name == "tools/call look"]
    found = span.parent and f"00-{span.parent.trace_id:032x}-{span.parent.span_id:016x}-01"
    assert (found, seen) == (parent, [carried])


@every_revision
def test_what_opens_a_connection_carries_the_span_and_baggage_of_its_caller(row: Revision) -> None:
    """And every call that is made later, whose own `baggage` counts first."""
    recorded, sent = Recorded(), list[dict[str, Any]]()
    tracer = trace.get_tracer("caller", tracer_provider=TracerProvider(shutdown_on_exit=False))

    def note(event: mcprev.WireEvent) -> None:
        if event.direction is Direction.CLIENT_TO_SERVER and b'"method"' in event.data:
            sent.append(json.loads(event.data))

    async def work() -> None:
        with tracer.start_as_current_span("caller") as span:
            token = context.attach(baggage.set_baggage("user", "ann"))
            options: dict[str, Any] = {"telemetry": recorded.telemetry, "mode": row.name, "tap": note}
            async with mcprev.connect(server_with(None), **options) as client:
                await client.call_tool("ping")
                await client.call_tool("ping", meta={"baggage": "user=bob"})
            context.detach(token)
            trace_id = f"{span.get_span_context().trace_id:032x}"
        asked = [each for each in sent if each["method"] in {"initialize", "server/discover", "tools/call"}]
        opening, *calls = [each["params"]["_meta"] for each in asked]
        assert all(each["traceparent"].split("-")[1] == trace_id for each in (opening, *calls))
        assert [each["baggage"] for each in (opening, *calls)] == ["user=ann", "user=ann", "user=bob"]

    asyncio.run(asyncio.wait_for(work(), 20))
