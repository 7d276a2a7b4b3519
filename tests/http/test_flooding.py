"""One client takes all that it can of what clients share, and another one is served (SEC-6)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import mcprev
from helpers.flooding import FLOOD, client_of, each, ended, two, ways
from helpers.requirements import req
from helpers.running import run, until
from helpers.served import listening
from mcprev.middleware import Metrics
from mcprev.middleware.rate_limit import RateLimit
from mcprev.revisions import DEFAULT, Revision
from mcprev.transforms import tools_by_code
from mcprev.transports.http.server.event_store import MemoryEvents
from mcprev_types.latest import models as m


class Sleeps:
    """A sandbox whose code is `sleep`, or is done at once."""

    def __init__(self) -> None:
        self.asleep = 0

    async def run(self, code: str, call_tool: object, write: object) -> object:
        if code == "sleep":
            self.asleep += 1
            await asyncio.Event().wait()
        return code


@req("SEC-6")
@each
@ways
@pytest.mark.parametrize("most", [16, 4])
def test_code_that_sleeps_refuses_nobody_else(row: Revision, way: str, most: int) -> None:
    app, sandbox = mcprev.App("office", "1"), Sleeps()
    tools_by_code(app, sandbox=sandbox, max_running=most)

    async def main() -> None:
        async with two(app, row, way) as (flood, honest):
            asleep = [flood.call("run_code", {"code": "sleep"}, number) for number in range(most // 4)]
            await until(lambda: sandbox.asleep == most // 4)
            refused = await flood.call("run_code", {"code": "sleep"}, 100).done()
            assert "of this client runs at present" in refused.result["content"][0]["text"]
            assert (await honest.call("run_code", {"code": "1"}).done()).text == "1"
            await ended(flood, asleep)
            assert (await flood.call("run_code", {"code": "2"}).done()).text == "2"

    run(main())


@req("SEC-6", everywhere=True)
def test_a_share_of_runs_can_be_set_and_a_client_on_a_pipe_has_all() -> None:
    app, sandbox = mcprev.App("office", "1"), Sleeps()
    tools_by_code(app, sandbox=sandbox, max_running=3, max_running_each=2)

    async def main() -> None:
        async with two(app, DEFAULT[-1], "principal") as (flood, honest):
            asleep = [flood.call("run_code", {"code": "sleep"}, number) for number in range(2)]
            await until(lambda: sandbox.asleep == 2)
            assert "of this client" in (await flood.call("run_code", {"code": "1"}).done()).text
            asleep.append(honest.call("run_code", {"code": "sleep"}))
            await until(lambda: sandbox.asleep == 3)
            assert "too much code runs" in (await honest.call("run_code", {"code": "1"}).done()).text
            await ended(flood, asleep)
        async with mcprev.connect(app) as piped:
            runs = [asyncio.create_task(piped.call_tool("run_code", {"code": "sleep"})) for _ in range(3)]
            await until(lambda: sandbox.asleep == 6)
            for task in runs:
                task.cancel()
            await asyncio.wait(runs)

    run(main())


@req("SEC-6")
@each
def test_a_rate_is_that_of_each_address_where_nothing_authenticates(row: Revision) -> None:
    app = mcprev.App("office", "1", middleware=[RateLimit("2/minute")])
    app.tool(name="fine")(lambda: "fine")

    async def main() -> None:
        async with two(app, row, "address") as (flood, honest):
            assert [(await flood.call("fine").done()).text for _ in range(2)] == ["fine"] * 2
            assert "too many calls" in (await flood.call("fine").done()).text
            assert (await honest.call("fine").done()).text == "fine"

    run(main())


class Lenient(mcprev.ServerHandler):
    """Lists one tool, and answers calls of others as many servers do: the tool has failed."""

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        return m.CallToolResult(content=[], is_error=params.name != "served")

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(
            tools=[m.Tool(name=name, input_schema=m.ToolInputSchema()) for name in ("real", "served")]
        )


@req("SEC-6")
@pytest.mark.parametrize("validate", [True, False])
@each
def test_names_that_a_client_makes_up_are_one_label(row: Revision, *, validate: bool) -> None:
    metrics = Metrics(max_names=20)
    server = mcprev.Server(Lenient(), "lenient", "1", middleware=[metrics], validate=validate)

    async def main() -> None:
        async with two(server, row, "address") as (flood, honest):
            for number in range(50):
                await flood.call(f"made-up-{number}").done()
            await honest.request("tools/list").done()
            await honest.call("real").done()
            await honest.call("served").done()

    run(main())
    labels = {
        sample.labels["name"]
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "mcp_calls_total" and sample.labels["method"] == "tools/call"
    }
    assert labels == {"other", "real", "served"}


class Waits(mcprev.ServerHandler):
    """Has a tool that is never done, and one that is."""

    def __init__(self) -> None:
        self.waiting = 0

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        if params.name == "wait":
            self.waiting += 1
            await asyncio.Event().wait()
        return m.CallToolResult(content=[m.TextContent(text="done")])

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        ctx.changed("tools")
        return m.ListToolsResult(tools=[])


@req("SEC-6", everywhere=True)
@ways
def test_requests_without_a_session_leave_some_to_others(way: str) -> None:
    handler = Waits()
    server = mcprev.Server(handler, "waits", "1", validate=False)

    async def main() -> None:
        async with two(server, DEFAULT[-1], way, max_requests=16) as (flood, honest):
            waiting = [flood.call("wait", id_=number) for number in range(14)]
            await until(lambda: handler.waiting == 14)
            assert (await flood.call("quick").done()).error["message"] == "too many requests in progress"
            for number in range(2):
                assert (await honest.call("quick").done()).text == "done"
                waiting.append(honest.call("wait", id_=number))
                await until(lambda number=number: handler.waiting == 15 + number)  # type: ignore[misc]
            assert (await honest.call("quick").done()).error["message"] == "too many requests in progress"
            await ended(flood, waiting)

    run(main())


@req("SEC-6", "SUB-2", everywhere=True)
@ways
def test_listen_streams_leave_some_to_others(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprev.transports.http.server.dispatcher.MAX_STREAMS", 16)
    server = mcprev.Server(Waits(), "waits", "1")
    wanted = {"notifications": {"toolsListChanged": True}}

    async def main() -> None:
        async with two(server, DEFAULT[-1], way) as (flood, honest):
            streams = [flood.request("subscriptions/listen", wanted, number) for number in range(20)]
            await until(lambda: sum(stream.status == 200 for stream in streams) == 14)
            for stream in streams[14:]:
                assert (await stream.done()).status == 503
            heard = honest.request("subscriptions/listen", wanted)
            await until(lambda: heard.status == 200)
            await ended(flood, [*streams[:14], heard])
            again = flood.request("subscriptions/listen", wanted)
            await until(lambda: again.status == 200)
            await ended(flood, [again])

    run(main())


@req("SEC-6", "HTTP-31")
@each
@ways
def test_bodies_that_do_not_end_leave_memory_to_others(row: Revision, way: str) -> None:
    server = mcprev.Server(Waits(), "waits", "1", validate=False)

    async def main() -> None:
        async with two(server, row, way, max_bodies=160_000, max_body=40_000) as (flood, honest):
            slow = [flood.send("POST", open_body=True) for _ in range(8)]
            for exchange in slow:
                exchange.give(b"[" + b" " * 30_000, more=True)
            await until(lambda: sum(exchange.status == 503 for exchange in slow) == 4)
            assert (await honest.call("quick", {"text": "x" * 1_000}).done()).text == "done"
            large = honest.send("POST", open_body=True)
            large.give(b"[" + b" " * 15_000, more=True)
            await until(lambda: large.awaited)
            assert not large.status
            await ended(flood, [*slow, large])

    run(main())


@req("SEC-6", "HTTP-31", everywhere=True)
def test_connections_of_one_address_leave_some_to_others() -> None:
    """At 16 connections, an eighth is kept for addresses with fewer than four."""
    begun = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10\r\n\r\n"

    async def connect(port: int, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        found[1].write(begun)
        return found

    async def main() -> None:
        server = mcprev.Server(Waits(), "waits", "1")
        async with listening(server, max_connections=16) as url:
            port = int(url.rpartition(":")[2])
            flood = [await connect(port, "127.0.0.2") for _ in range(24)]
            for reader, _ in flood[14:]:
                with suppress(ConnectionResetError):  # the server has not read what it was sent
                    assert await reader.read() == b""
            honest = [await connect(port, "127.0.0.3") for _ in range(2)]
            for reader, writer in honest:
                writer.write(b"0123456789")
                assert (await reader.readline()).startswith(b"HTTP/1.1 4")
            for _, writer in (*flood, *honest):
                writer.close()

    run(main())


@req("SEC-6", "HTTP-15", everywhere=True)
def test_stored_events_have_a_bound_for_each_session() -> None:
    events = MemoryEvents(session_bytes=100, total_bytes=1_000)
    events.append("honest", 1, 1, b"x" * 50, droppable=False)
    for number in range(1_000):
        events.append("flood", 1, number, b"x" * 50, droppable=False)
    assert events.size == 150, "a session displaces its own events"


@req("SEC-6", "HTTP-15", everywhere=True)
@pytest.mark.parametrize("droppable", [True, False])
def test_who_has_events_stored_in_many_sessions_displaces_its_own(*, droppable: bool) -> None:
    events = MemoryEvents(total_bytes=1_000)
    for client in ("honest", "flood"):
        for number in range(50):
            events.belongs(f"{client} {number}", client)
    for number in range(4):
        events.append(f"honest {number}", 1, 1, b"x" * 50, droppable=droppable)
    events.append("of nobody", 1, 1, b"x" * 50, droppable=droppable)
    for number in range(50):
        events.append(f"flood {number}", 1, 1, b"x" * 50, droppable=False)
    honest: list[Any] = []

    async def main() -> None:
        sessions = [*(f"honest {number}" for number in range(5)), "of nobody"]
        honest.extend([await events.after(session, 1, 0, 1) for session in sessions])
        assert await events.after("flood 49", 1, 0, 1)

    run(main())
    assert [bool(found) for found in honest] == [True] * 4 + [False, True]
    events.append("honest 4", 1, 1, b"x" * 50, droppable=droppable)
    assert events.size == 1_000
    for number in range(50):
        events.discard(f"flood {number}")
    assert events.size == 300


@req("SEC-6", "HTTP-15", everywhere=True)
def test_events_of_a_session_count_for_its_client() -> None:
    events = MemoryEvents(total_bytes=20_000)
    app = mcprev.App("office", "1")

    @app.tool()
    async def fine(ctx: mcprev.Context, text: str) -> str:
        await ctx.info("begun")
        return text

    row = next(row for row in reversed(DEFAULT) if row.handshake)

    async def main() -> None:
        async with two(app, row, "address", events=events, json_response=False) as (flood, honest):
            before = events.size
            assert "xxx" in (await honest.call("fine", {"text": "x" * 3_000}).done()).text
            kept = events.size - before
            for _ in range(12):
                more = await client_of(flood.app, row, None, **FLOOD)
                assert (await more.call("fine", {"text": "y" * 3_000}).done()).text
            own = [await events.after(honest.session["mcp-session-id"], at, 0, 9) for at in (2, 3)]
            assert sum(len(message) for stream in own for _, message in stream) == kept

    run(main())


@req("SEC-6", "TASKX-2", everywhere=True)
@ways
def test_tasks_of_one_address_have_its_share(way: str) -> None:
    """Also without a session, which no other request of the client names."""
    app = mcprev.App("office", "1", tasks=mcprev.Tasks({}, max_running=8, max_running_each=2))
    gate, done = asyncio.Event(), list[int]()

    @app.tool(task="optional")
    async def slow(ctx: mcprev.Context) -> str:
        await ctx.detach()
        await gate.wait()
        done.append(1)
        return ""

    knows: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}

    async def main() -> None:
        async with two(app, DEFAULT[-1], way) as (flood, honest):
            answers = [
                await each.call("slow", id_=number, clientCapabilities=knows).done()
                for each in (flood, honest)
                for number in range(3)
            ]
            assert [answer.result.get("resultType") for answer in answers[:2]] == ["task"] * 2
            assert [answer.result.get("resultType") for answer in answers[3:5]] == ["task"] * 2
            for place in (2, 5):
                assert "too many tasks of this client" in answers[place].body.decode()
            gate.set()
            await until(lambda: len(done) == 4)

    run(main())
