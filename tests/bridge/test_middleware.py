"""Middleware of a bridge: the same as that of a server, at every pair; what it sees, changes and refuses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

import mcprev
from api.wire import Error, Message
from bridge.hands import VENDOR, Downstream, Servers, Upstream, bridge_to, bridged, said, text
from bridge.joining import each_cell, ends, joined
from bridge.test_matrix import outcomes
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run
from mcprev.bridge.around import BridgedContext
from mcprev.middleware import Audit, Caching, ErrorMapping, Hooks, Logging, Metrics, Retries, SizeLimit
from mcprev.revisions import DEFAULT, Revision, revision_named

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
EXTRA: Final = {VENDOR + "key": 10**20 + 1}


async def echo(_up: Upstream, request: Message) -> Message:
    params = request["params"]
    meta = {key: value for key, value in params.get("_meta", {}).items() if key in EXTRA}
    return text([params["name"], params.get("arguments"), meta, params.get("unheard")])


async def fails(_up: Upstream, _request: Message) -> Error:
    return Error(-32001, "of the server", {"more": [1]})


def servers_of(there: Revision, **replies: Any) -> Servers:
    return Servers(lambda: Upstream(there, {"echo": echo, "fails": fails}, replies))


async def passes(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
    return await call_next(call)


class Seeing:
    """Keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.contexts: list[mcprev.Context] = []

    async def __call__(self, call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        self.seen.append((call.method, call.params))
        self.contexts.append(call.ctx)
        return await call_next(call)


@req("SEAM-10", everywhere=True)
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@each_once
def test_everything_passes_with_middleware_as_without(row: Revision, there: Revision) -> None:
    seeing = Seeing()
    assert outcomes(row, there, middleware=[passes, seeing]) == outcomes(row, there)
    methods = {method for method, _ in seeing.seen}
    assert {"tools/list", "tools/call", "resources/read", "prompts/get"} <= methods
    runtime = {"initialize", "server/discover", "ping", "logging/setLevel", "resources/subscribe"}
    assert not {*runtime, "subscriptions/listen", "tasks/get"} & methods, "these are the runtime's own"


@req("SEAM-10", everywhere=True)
@each_cell
def test_it_gets_the_params_of_the_clients_revision(row: Revision, there: Revision) -> None:
    """Members that no schema has pass where nothing converts."""
    client, servers, seeing = Downstream(row), servers_of(there), Seeing()

    async def main() -> None:
        async with bridged(bridge_to(servers, there, middleware=[seeing]), client):
            params = {"name": "echo", "arguments": {"n": 10**20}, "unheard": {"of": 1}}
            found = said((await client.ask("tools/call", params, meta=EXTRA)).result)
            assert found == ["echo", {"n": 10**20}, EXTRA, {"of": 1}]
            ((method, model),) = seeing.seen
            assert method == "tools/call"
            assert type(model) is row.models.CallToolRequestParams
            assert model.name == "echo"
            (ctx,) = seeing.contexts
            assert isinstance(ctx, BridgedContext)
            assert ctx.revision == row.name
            assert ctx.client_info is not None
            assert ctx.client_info.name == "by hand"
            assert list(ctx.passed_on) == [("by hand", there.name)]

    run(main())


@req("SEAM-10", everywhere=True)
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_methods_of_vendors_pass_it(row: Revision) -> None:
    client, seeing = Downstream(row), Seeing()
    servers = servers_of(row, **{VENDOR + "method": {"a": {"b": 1}}})

    async def main() -> None:
        async with bridged(bridge_to(servers, row, middleware=[seeing]), client):
            result = (await client.ask(VENDOR + "method", {"x": [1]})).result
            assert result["a"] == {"b": 1}
            assert [(method, params.x) for method, params in seeing.seen] == [(VENDOR + "method", [1])]

    run(main())


class Changing(Hooks):
    async def on_call_tool(self, call: Any, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        arguments = {**call.params.arguments, "added": True}
        params = call.params.model_copy(update={"arguments": arguments})
        result: Any = await call_next(replace(call, params=params))
        return {**result, "_meta": {**result.get("_meta", {}), "changed": 1}}

    async def on_read_resource(self, call: Any, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        del call_next
        models: Any = revision_named(call.ctx.revision).models
        contents: list[Any] = [models.TextResourceContents(uri=call.params.uri, text="its own")]
        if call.ctx.request.revision.handshake:
            hints: dict[str, Any] = {}
        else:
            hints = {"ttl_ms": 0, "cache_scope": "private"}
        result: mcprev.HandlerResult = models.ReadResourceResult(contents=contents, **hints)
        return result


@req("SEAM-10", everywhere=True)
@each_cell
def test_it_changes_params_and_results(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), servers_of(there)

    async def main() -> None:
        async with bridged(bridge_to(servers, there, middleware=[Changing()]), client):
            result = (await client.ask("tools/call", {"name": "echo", "arguments": {"a": 1}})).result
            assert said(result)[1] == {"a": 1, "added": True}
            assert result["_meta"]["changed"] == 1
            read = (await client.ask("resources/read", {"uri": "a:x"})).result
            assert read["contents"] == [{"uri": "a:x", "text": "its own"}]
            assert not servers.made or servers.upstreams[-1].asked("resources/read") == []

    run(main())


async def refuses(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
    match call.method:
        case "tools/call" if getattr(call.params, "name", "") == "echo":
            raise mcprev.ToolError("It is Sunday.")
        case "prompts/get":
            raise mcprev.InvalidRequest("No prompts on Sundays.")
        case "completion/complete":
            raise KeyError("a secret of the bridge")
        case _:
            return await call_next(call)


@req("SEAM-10", "ERR-1", "ERR-2", everywhere=True)
@each_cell
def test_its_errors_and_those_of_the_server(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), servers_of(there)

    async def main() -> None:
        async with bridged(bridge_to(servers, there, middleware=[refuses, passes]), client):
            failed = await client.ask("tools/call", {"name": "echo"})
            assert failed.failure == "It is Sunday."
            assert servers.upstreams[-1].asked("tools/call") == []
            assert (await client.ask("prompts/get", {"name": "p"})).error[
                "message"
            ] == "No prompts on Sundays."
            asked = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}}
            internal = (await client.ask("completion/complete", asked)).error
            assert internal["code"] == -32603
            assert "secret" not in str(internal)
            of_server = (await client.ask("tools/call", {"name": "fails"})).error
            assert of_server == {"code": -32001, "message": "of the server", "data": {"more": [1]}}

    run(main())


class Name(BaseModel):
    """What a client by hand answers."""

    name: str


@req("SEAM-10", "MRTR-1", "ERR-2", everywhere=True)
@each_cell
def test_it_can_ask_clients_with_a_session_alone(row: Revision, there: Revision) -> None:
    """A call of any other client is answered, too: with an error that says why."""

    async def asks(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        if call.method == "tools/call":
            asked.append(await call.ctx.elicit("who?", Name))
        return await call_next(call)

    client, servers = Downstream(row), servers_of(there)
    asked: list[object] = []

    async def main() -> None:
        async with bridged(bridge_to(servers, there, middleware=[asks]), client):
            answer = await client.ask("tools/call", {"name": "echo"})
            if row.handshake:
                assert asked == [mcprev.Accepted(Name(name="who?"))]
                assert len(servers.upstreams[-1].asked("tools/call")) == 1
            else:
                assert answer.error["code"] == -32603
                assert "asked a client without a session" in answer.error["message"]

    run(main())


@req("SEAM-10", everywhere=True)
def test_params_have_to_be_those_of_the_revision_then() -> None:
    client, servers = Downstream(SESSION), servers_of(SESSION)

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION, middleware=[passes]), client):
            client.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": 1}})
            answer = await client.get(lambda message: message.get("id") == 9)
            assert answer["error"]["code"] == -32602
            assert "name" in answer["error"]["message"]
            assert servers.upstreams[0].asked("tools/call") == []

    run(main())


@req("SEAM-10", everywhere=True)
@each_cell
def test_the_ready_made_ones(row: Revision, there: Revision, tmp_path: Path) -> None:
    metrics, file = Metrics(), tmp_path / "audit.jsonl"
    client, servers = Downstream(row), servers_of(there)
    middleware = [
        metrics,
        Logging(),
        Audit(file),
        mcprev.RateLimit("3/minute"),
        Caching(60, tools=["echo"]),
        SizeLimit(1_000),
        ErrorMapping({KeyError: "no"}),
        Retries(2),
    ]

    async def main() -> None:
        async with bridged(bridge_to(servers, there, middleware=middleware), client):
            for _ in range(2):
                result = (await client.ask("tools/call", {"name": "echo", "arguments": {"a": 1}})).result
                assert said(result)[1] == {"a": 1}
            assert len(servers.upstreams[-1].asked("tools/call")) == 1
            servers.upstreams[-1].tell("notifications/tools/list_changed")
            large = await client.ask("tools/call", {"name": "echo", "arguments": {"a": "x" * 2_000}})
            assert "bytes" in large.failure
            limited = await client.ask("tools/call", {"name": "echo", "arguments": {"a": 2}})
            assert "too many calls" in limited.failure

    run(main())
    lines = file.read_text().splitlines()
    assert len(lines) == 8
    assert '"name": "echo"' in lines[0]
    value = metrics.registry.get_sample_value
    pair = {"client_revision": row.name, "server_revision": there.name, "server": "by hand"}
    assert value("mcp_bridged_calls_total", {**pair, "outcome": "ok"}) == 1
    assert value("mcp_bridged_calls_total", {**pair, "outcome": "tool_error"}) == 1
    assert value("mcp_bridged_call_duration_seconds_count", pair) == 2
    assert value("mcp_calls_total", {"method": "tools/call", "name": "echo", "outcome": "ok"}) == 2


@req("SEAM-10", everywhere=True)
def test_names_that_a_server_gives_itself_are_counted_up_to_a_bound() -> None:
    metrics = Metrics(max_names=2)

    async def main() -> None:
        for number in range(4):

            def named(number: int = number) -> Upstream:
                info = {"name": f"server {number}", "version": "1"}
                said: Message = {
                    "protocolVersion": SESSION.version,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
                return Upstream(SESSION, {"echo": echo}, {"initialize": said})

            client = Downstream(SESSION)
            async with bridged(bridge_to(Servers(named), SESSION, middleware=[metrics]), client):
                await client.call("echo")

    run(main())
    names = {
        sample.labels["server"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if "server" in sample.labels
    }
    assert names == {"server 0", "server 1", "other"}


@req("SEAM-10", everywhere=True)
@each_cell
def test_with_several_servers(row: Revision, there: Revision) -> None:
    seeing, client, servers = Seeing(), Downstream(row), ends(there, "files", "bank")

    async def main() -> None:
        async with bridged(joined(servers, there, middleware=[seeing]), client):
            assert said(await client.call("bank__who", {"n": 1})) == ["bank", "who", {"n": 1}]
            _, (answer,) = said(await client.call("files__asks"))
            assert answer["content"] == {"name": "who? files"}
            await client.ask("tools/list")
            names = {getattr(params, "name", None) for _, params in seeing.seen}
            assert names == {"bank__who", "files__asks", None}
            first, last = seeing.contexts[0], seeing.contexts[-1]
            assert isinstance(first, BridgedContext)
            assert isinstance(last, BridgedContext)
            assert ("bank", there.name) in first.passed_on
            assert set(last.passed_on) <= {("bank", there.name), ("files", there.name)}

    run(main())


@req("SEAM-10", "CANC-2", everywhere=True)
@each_cell
def test_a_cancelled_call_is_cancelled_within(row: Revision, there: Revision) -> None:
    ended: list[str] = []

    async def notes(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        try:
            return await call_next(call)
        except asyncio.CancelledError:
            ended.append(call.method)
            raise

    async def hangs(up: Upstream, request: Message) -> None:
        up.progresses(request, 1)
        await asyncio.Event().wait()

    client, servers = Downstream(row), Servers(lambda: Upstream(there, {"hangs": hangs}))

    async def main() -> None:
        async with bridged(bridge_to(servers, there, middleware=[notes]), client):
            call = asyncio.ensure_future(
                client.ask("tools/call", {"name": "hangs"}, id_="c", meta={"progressToken": 1})
            )
            await client.heard("notifications/progress")
            client.tell("notifications/cancelled", {"requestId": "c", "reason": "enough"})
            while not servers.upstreams[-1].cancelled:
                await client.settle()
            assert servers.upstreams[-1].cancelled == ["enough"]
            assert ended == ["tools/call"]
            call.cancel()

    run(main())


def test_traces_name_the_pair_and_lead_to_the_server() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    simple = pytest.importorskip("opentelemetry.sdk.trace.export").SimpleSpanProcessor
    exporter, provider = export.InMemorySpanExporter(), trace.TracerProvider()
    provider.add_span_processor(simple(exporter))
    heard: list[Any] = []

    async def traced(_up: Upstream, request: Message) -> Message:
        heard.append(request["params"]["_meta"].get("traceparent"))
        return text("done")

    client, servers = Downstream(SESSION), Servers(lambda: Upstream(MODERN, {"traced": traced}))
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    async def main() -> None:
        telemetry = mcprev.Telemetry(provider)
        async with bridged(bridge_to(servers, MODERN, middleware=[telemetry]), client):
            await client.ask("tools/call", {"name": "traced"}, meta={"traceparent": parent})

    run(main())
    (span,) = exporter.get_finished_spans()
    assert span.attributes["mcp.protocol.version"] == SESSION.version
    assert span.attributes["mcprev.bridge.server.protocol.version"] == MODERN.name
    assert span.attributes["mcprev.bridge.server.name"] == "by hand"
    assert format(span.context.trace_id, "032x") in parent
    assert heard == [f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01"]
