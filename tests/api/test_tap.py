"""`connect(tap=...)`: everything on the wire, in its order, as it is; and nothing changes because of it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import shlex
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import mcprev
from auth.guarded import ROWS, Guarded
from auth.world import world
from helpers.named import ROW_D, ROW_E, SOME_ROWS
from helpers.raw_server import Exchange, OldMcp, connected, serve, text
from helpers.requirements import req
from helpers.running import Records, run, until
from helpers.tcp_proxy import proxy
from mcprev import WireEvent
from mcprev.revisions import DEFAULT, HttpShape, Revision
from mcprev.transports.memory import MemoryTransport
from mcprev.wire.sse import Event, encode_event
from mcprev_types import Direction
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
TO_SERVER, TO_CLIENT = Direction
SERVER = """
import sys
from typing import Any
import mcprev
from mcprev_types.latest import models as m
{app}
sys.stderr.write("it begins\\n")
sys.stderr.flush()
app().run_stdio()
"""


def app() -> mcprev.App:
    made = mcprev.App("a", "1")

    @made.tool
    def greet(name: str) -> str:
        return f"hi {name}"

    @made.tool
    async def ask(ctx: mcprev.Context) -> str:
        answer: Any = await ctx.ask("roots", m.ListRootsRequest())
        await ctx.log("info", "asked")
        return str(len(answer.roots))

    return made


async def talk(target: Any, row: Revision, tap: Any) -> None:
    async with mcprev.connect(target, mode=row.name, roots=["/x"], tap=tap) as client:
        await client.set_log_level("debug")
        assert [tool.name async for tool in client.tools()] == ["greet", "ask"]
        assert (await client.call_tool("greet", {"name": "b\u00f6b"})).text == "hi b\u00f6b"
        assert (await client.call_tool("ask")).text == "1"


def messages(events: list[WireEvent], direction: Direction) -> list[bytes]:
    """The messages that went in one direction."""
    return [event.data for event in events if event.kind == "message" and event.direction is direction]


def summary(events: list[WireEvent]) -> list[str]:
    """A word or two for each event, with the verb and status of its exchange."""
    arrows = {TO_SERVER: ">", TO_CLIENT: "<"}
    return [
        f"{arrows[event.direction]} {event.kind}"
        + (f" {event.exchange.verb} {event.exchange.status}" if event.exchange else "")
        for event in events
    ]


def check_order(events: list[WireEvent]) -> None:
    """The numbers and the time go forward, and the time is that of the clock."""
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert sorted(event.at for event in events) == [event.at for event in events]
    assert abs(events[-1].at - time.time()) < 60


# -- lines ---------------------------------------------------------------------------------------------------------


@req("BASE-10")
@each_row
def test_lines_in_memory_are_those_that_were_written(row: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[Direction, list[bytes]] = {TO_SERVER: [], TO_CLIENT: []}
    write = MemoryTransport.write

    def written_too(self: MemoryTransport, data: bytes) -> None:
        at_client = type(getattr(self.protocol, "protocol")).__name__ == "ClientProtocol"  # noqa: B009
        written[TO_SERVER if at_client else TO_CLIENT].append(data)
        write(self, data)

    monkeypatch.setattr(MemoryTransport, "write", written_too)
    events: list[WireEvent] = []
    run(talk(app(), row, events.append), has_both_ends=True)
    for direction, data in written.items():
        assert messages(events, direction) == b"".join(data).splitlines()
    check_order(events)
    assert [event.kind for event in events if event.kind != "message"] == ["opened", "closed"]
    assert (events[0].kind, events[-1].kind) == ("opened", "closed")


@req("BASE-10")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_lines_of_a_process_are_those_of_its_pipes_and_its_stderr_is_reported(
    row: Revision, tmp_path: Path
) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER.format(app=inspect.getsource(app)))
    run_it = f"tee {tmp_path}/in | {shlex.quote(sys.executable)} {script} | tee {tmp_path}/out"
    events: list[WireEvent] = []
    run(talk(mcprev.stdio("sh", "-c", run_it), row, events.append))
    assert messages(events, TO_SERVER) == (tmp_path / "in").read_bytes().splitlines()
    assert messages(events, TO_CLIENT) == (tmp_path / "out").read_bytes().splitlines()
    assert b"".join(event.data for event in events if event.kind == "stderr") == b"it begins\n"
    check_order(events)


@req("BASE-10", everywhere=True)
def test_invalid_lines_and_the_exit_are_reported(tmp_path: Path) -> None:
    script = "import sys; sys.stdin.readline(); sys.stdout.buffer.write(b'no json \\xff\\n'); sys.stdout.flush(); sys.exit(3)"
    events: list[WireEvent] = []

    async def main() -> None:
        with pytest.raises(mcprev.McpError):
            await mcprev.connect(
                mcprev.stdio(sys.executable, "-c", script), mode=ROW_D.name, tap=events.append
            )

    run(main())
    assert messages(events, TO_CLIENT) == [b"no json \xff"]
    assert "exited with 3" in next(event.text for event in events if event.kind == "closed")


@req("BASE-10", everywhere=True)
def test_a_command_that_cannot_be_started_is_reported() -> None:
    events: list[WireEvent] = []

    async def main() -> None:
        with pytest.raises(mcprev.ProcessExited):
            await mcprev.connect(mcprev.stdio("no-such-command-here"), tap=events.append)

    run(main())
    assert [event.kind for event in events] == ["opened", "closed"]
    assert "cannot start" in events[1].text


# -- HTTP ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening() -> AsyncGenerator[int, None]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(app().server.serve_http(port=0, ready=port.set_result, sse=True))
    try:
        yield await port
    finally:
        serving.cancel()
        await asyncio.wait({serving})


@req("BASE-10")
@each_row
def test_messages_over_http_are_those_of_the_sockets_with_their_requests(row: Revision) -> None:
    """A proxy keeps the bytes: each message is in them, and no message of theirs is missing."""
    events: list[WireEvent] = []
    passed: dict[bool, list[bytes]] = {True: [], False: []}

    async def main() -> None:
        async with listening() as port, proxy(port) as between:
            between.harm = lambda up, _, data: passed[up].append(data)
            await talk(between.origin + ("/sse" if row.http is HttpShape.SSE else "/mcp"), row, events.append)

    run(main())
    check_order(events)
    for up, direction in ((True, TO_SERVER), (False, TO_CLIENT)):
        bytes_passed, found = b"".join(passed[up]), messages(events, direction)
        assert found
        assert all(message in bytes_passed for message in found)
        assert bytes_passed.count(b'"jsonrpc"') == b"".join(found).count(b'"jsonrpc"')
    exchanges = {event.exchange.number: event.exchange for event in events if event.exchange}
    assert list(exchanges) == list(range(1, len(exchanges) + 1))
    heads = b"".join(passed[True])
    for exchange in exchanges.values():
        assert exchange.status is not None
        assert {name.lower() for name, _ in exchange.sent} >= {"host", "user-agent"}
        assert exchange.received or exchange.verb == "DELETE"
        assert f"{exchange.verb} {urlsplit(exchange.url).path}".encode() in heads
    starts = heads.count(b" HTTP/1.1\r\n")
    assert starts == len(exchanges)


@req("BASE-10", "HTTP-15", everywhere=True)
def test_a_stream_that_is_resumed_is_one_stream_with_its_ids_and_delays() -> None:
    events: list[WireEvent] = []
    notice = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}

    async def begin(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.prime("e1", retry=1)
        await exchange.event(notice, "e2")
        await exchange.end()

    async def main() -> None:
        waiting: list[Any] = []

        async def called(exchange: Exchange) -> None:
            waiting.append(exchange.message["id"])
            await begin(exchange)

        async def resumed(exchange: Exchange) -> None:
            if exchange.headers.get("last-event-id") != "e2":
                await exchange.respond(405)
                return
            await exchange.stream()
            await exchange.send(b"data: \xff no message\n\n")
            await exchange.event({"jsonrpc": "2.0", "id": waiting[0], "result": text("x")}, "e3")
            await exchange.end()

        replies = {"tools/call": called, "GET": resumed}
        async with connected(ROW_D, replies, tap=events.append) as (client, _, _):
            await client.call_tool("x")

    run(main())
    calls = [e for e in events if e.exchange is not None and b"tools/call" in e.data]
    stream = [e for e in events if e.exchange is not None and e.exchange.stream == calls[0].exchange.number]  # type: ignore[union-attr]
    assert summary(stream) == [
        "> message POST 200",
        "< response POST 200",
        "< event POST 200",
        "< message POST 200",
        "< ended POST 200",
        "> request GET 200",
        "< response GET 200",
        "< message GET 200",
        "< message GET 200",
        "< ended GET 200",
    ]
    assert [(e.event_id, e.event_name, e.retry) for e in stream[2:4]] == [
        ("e1", "message", 1),
        ("e2", "message", None),
    ]
    assert stream[7].data == b"\xff no message"


@req("BASE-10", everywhere=True)
def test_what_comes_on_a_stream_after_the_response_is_reported_and_nothing_else() -> None:
    events: list[WireEvent] = []
    late = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "late"}}
    shown = asyncio.Event()

    async def called(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.event({"jsonrpc": "2.0", "id": exchange.message["id"], "result": text("x")})
        await shown.wait()
        await exchange.event(late)
        await exchange.end()

    def tap(event: WireEvent) -> None:
        events.append(event)
        if b'"content"' in event.data:
            shown.set()

    async def main() -> None:
        async with connected(ROW_E, {"tools/call": called}, session=None, tap=tap) as (client, _, _):
            assert (await client.call_tool("x")).text == "x"
            await until(lambda: any(event.kind == "ended" for event in events))

    run(main())
    assert b'"late"' in messages(events, TO_CLIENT)[-1]
    assert [event.direction for event in events if event.kind == "ended"] == [TO_CLIENT]


@req("BASE-10", "HTTP-23", everywhere=True)
def test_refusals_losses_and_the_end_by_the_client_are_reported() -> None:
    events: list[WireEvent] = []
    gone = asyncio.Event()

    async def cut(exchange: Exchange) -> None:
        await exchange.raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        assert exchange._writer is not None  # pyright: ignore[reportPrivateUsage]
        exchange._writer.close()  # pyright: ignore[reportPrivateUsage]

    async def silent(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.send(encode_event(Event(id="s1")))
        await exchange.gone.wait()
        gone.set()

    async def refused(exchange: Exchange) -> None:
        await exchange.respond(500, b"<h1>no</h1>", {"Content-Type": "text/html"})

    async def main() -> None:
        replies = {"tools/call": cut, "prompts/get": silent, "tools/list": refused}
        async with connected(ROW_E, replies, session=None, tap=events.append) as (client, _, _):
            with pytest.raises(mcprev.HttpStatusError):
                await client.list_tools()
            with pytest.raises(mcprev.ConnectionLost):
                await client.call_tool("x")
            waiting = asyncio.ensure_future(client.get_prompt("y"))
            await until(lambda: any(event.event_id == "s1" for event in events))
            waiting.cancel()
            await asyncio.wait({waiting})
            await gone.wait()

    run(main())
    assert b"<h1>no</h1>" in messages(events, TO_CLIENT)
    (lost,) = [event for event in events if event.kind == "lost"]
    assert lost.exchange is not None
    assert (lost.exchange.status, "broke" in lost.text) == (200, True)
    (ended,) = [event for event in events if event.kind == "ended"]
    assert ended.direction is TO_SERVER


@req("BASE-10", "SSE-2", everywhere=True)
@pytest.mark.parametrize(
    "row", [row for row in DEFAULT if row.http is HttpShape.SSE], ids=lambda row: row.name
)
def test_the_endpoint_and_the_end_of_the_stream_of_http_and_sse_are_reported(row: Revision) -> None:
    events: list[WireEvent] = []

    async def main() -> None:
        server = OldMcp(row, {"tools/list": {"tools": []}})
        async with (
            serve(server) as raw,
            mcprev.connect(raw.url, mode=row.name, tap=events.append) as client,
        ):
            await client.list_tools()
            assert server.stream is not None
            await server.stream.end()
            await until(lambda: any(event.kind == "ended" for event in events))

    run(main())
    (endpoint,) = [event for event in events if event.event_name == "endpoint"]
    assert (endpoint.kind, endpoint.data) == ("event", b"/messages?sessionId=1")
    assert [event.direction for event in events if event.kind == "ended"] == [TO_CLIENT]
    (answer,) = [event for event in events if b'"tools": []' in event.data]
    assert answer.exchange is not None
    assert answer.exchange.stream == answer.exchange.number


@req("BASE-10", everywhere=True)
def test_a_server_that_is_not_there_is_reported() -> None:
    events: list[WireEvent] = []

    async def main() -> None:
        with pytest.raises(mcprev.ConnectionLost):
            await mcprev.connect("http://127.0.0.1:9/mcp", mode=ROW_D.name, tap=events.append)

    run(main())
    assert "< failed POST None" in summary(events)
    assert "cannot connect" in next(event.text for event in events if event.kind == "failed")
    assert events[-1].kind == "closed"


# -- the function --------------------------------------------------------------------------------------------------


@req("BASE-10", everywhere=True)
def test_a_tap_that_raises_is_logged_once_and_not_called_again() -> None:
    called: list[WireEvent] = []

    def broken(event: WireEvent) -> None:
        called.append(event)
        raise LookupError("mine")

    records = Records()
    logging.getLogger("mcprev.client").addHandler(records)
    try:
        run(talk(app(), ROW_E, broken), has_both_ends=True)
    finally:
        logging.getLogger("mcprev.client").removeHandler(records)
    assert len(called) == 1
    assert [record.getMessage() for record in records.records if record.exc_info] == [
        "the function `tap` raised, so it is not called again"
    ]


@req("BASE-10", everywhere=True)
def test_a_tap_that_is_async_or_no_function_is_refused() -> None:
    async def later(event: WireEvent) -> None:
        raise AssertionError

    run(talk(app(), ROW_E, later), has_both_ends=True)
    tap: Any = "file.jsonl"
    with pytest.raises(TypeError, match="`tap` must not be a str"):
        mcprev.connect(app(), tap=tap)


@req("BASE-10", everywhere=True)
def test_events_of_several_servers_and_connections_are_told_apart() -> None:
    events: list[tuple[str, WireEvent]] = []

    async def main() -> None:
        config: Any = {"mcpServers": {"a": app(), "b": app()}}
        async with mcprev.connect_all(
            config, tap=lambda name, event: events.append((name, event))
        ) as clients:
            await clients.call_tool("a__greet", {"name": "x"})
        connecting = mcprev.connect(app(), tap=lambda event: events.append(("c", event)))
        for _ in range(2):
            async with connecting:
                pass

    run(main(), has_both_ends=True)
    assert {name for name, _ in events} == {"a", "b", "c"}
    assert {event.connection for name, event in events if name == "c"} == {1, 2}
    check_order([event for name, event in events if name == "c"])


@req("SEC-6", "AUTH-19")
@pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row.name)
def test_a_login_is_reported_without_its_secrets(row: Revision) -> None:
    events: list[WireEvent] = []
    tokens: list[str] = []

    async def main() -> None:
        async with world(row) as at:

            async def verify(token: str) -> mcprev.Access | None:
                tokens.append(token)
                scopes = at.good.get(token)
                return None if scopes is None else mcprev.Access("alice", audience=url, scopes=scopes)

            with socket.create_server(("127.0.0.1", 0)) as free:
                number = free.getsockname()[1]
            url = f"http://127.0.0.1:{number}/mcp"
            auth = mcprev.Bearer(
                verify, resource=url, authorization_servers=[at.auth.origin], scopes=["read"]
            )
            ready = asyncio.Event()
            server = mcprev.Server(Guarded(), "s", "1")
            serving = asyncio.ensure_future(
                server.serve_http(port=number, ready=lambda _: ready.set(), auth=auth)
            )
            await ready.wait()
            async with mcprev.connect(
                mcprev.http(url, auth=at.oauth()), mode=row.name, tap=events.append
            ) as client:
                await client.call_tool("access")
            serving.cancel()
            await asyncio.wait({serving})

    run(main())
    requests = [event for event in events if event.kind == "login" and event.exchange is not None]
    paths = {
        urlsplit(event.exchange.url).path: event.text for event in requests if event.exchange is not None
    }
    assert any("oauth-protected-resource" in path for path in paths)
    assert set(paths.values()) >= {"metadata", "token"}
    assert all((text == "metadata") == ("/.well-known/" in path) for path, text in paths.items())
    assert requests[-1].exchange is not None
    assert (requests[-1].exchange.verb, requests[-1].exchange.status) == ("POST", 200)
    (visit,) = [event for event in events if event.kind == "login" and event.exchange is None]
    assert visit.text.endswith("?...")
    for event in events:
        if event.exchange is not None and event.exchange in [one.exchange for one in requests]:
            assert (event.data, event.exchange.sent, event.exchange.received) == (b"", (), ())
            assert "?" not in event.exchange.url.replace("?...", "")
    assert tokens
    assert all(token not in repr(event) + event.text for token in tokens for event in events)
