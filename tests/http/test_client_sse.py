"""A client of the oldest HTTP transport: a stream, and an endpoint to post to (SSE-3, SSE-8)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

import mcprev
from api.authors import Helpful
from helpers.named import D, row_of, rows_until
from helpers.raw_server import Exchange, OldMcp, Raw, numbered, serve, text
from helpers.requirements import A, req
from helpers.running import passing, run, until
from mcprev.errors import (
    ConnectionLost,
    HttpStatusError,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from mcprev.revisions import Revision
from mcprev.transports.http.client.legacy_sse import LegacySse
from mcprev.transports.http.client.repeats import REPEATS

OLDEST = row_of(A)


@pytest.mark.parametrize(
    "endpoint", ["/messages?sessionId=1", "messages", "?x=1", "http://127.0.0.1:{port}/else", "/sse"]
)
@req("SSE-3")
def test_everything_is_posted_where_the_stream_says(endpoint: str) -> None:
    """SSE-3: resolved against the URL of the stream."""

    async def main() -> None:
        server = OldMcp(OLDEST, {"tools/call": text("x"), "ping": {}})

        async def answer(response_stream: Exchange) -> None:
            if response_stream.verb == "POST" and len(raw.asked("GET")) == 0:
                await response_stream.respond(405)
            elif response_stream.verb == "POST":
                response_stream.path = server.endpoint
                await server(response_stream)
            else:
                await server(response_stream)

        async with serve(answer) as raw:
            server.endpoint = endpoint.format(port=raw.port)
            async with mcprev.connect(mcprev.http(f"{raw.origin}/sse")) as client:
                assert client.revision == A
                await client.call_tool("t")
                await client.ping()
            wanted = server.endpoint
            posts = raw.seen[raw.seen.index(raw.asked("GET")[0]) + 1 :]
            assert {post.path for post in posts} == {wanted}
            messages = [post.message for post in posts]
            assert [message["method"] for message in messages] == [
                "initialize", "notifications/initialized", "tools/call", "ping",
            ]  # fmt: skip

    run(main())


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://evil.example/x",
        "https://127.0.0.1/x",
        "http://127.0.0.1:1/x",
        "//evil.example/x",
        "",
        "ftp://x",
    ],
)
@req("SSE-3", "SEC-1", at=A)
def test_an_endpoint_of_another_origin_is_refused(endpoint: str) -> None:
    async def main() -> None:
        async with serve(OldMcp(OLDEST, endpoint=endpoint)) as raw:
            with pytest.raises(RemoteProtocolError):
                await mcprev.connect(mcprev.http(f"{raw.origin}/sse", headers={"Authorization": "x"}), mode=A)
            assert raw.asked()[0].path == "/sse"
            assert len(raw.asked()) == 1

    run(main())


async def connected_to(server: OldMcp, raw: Raw, handler: object = None) -> mcprev.Client:
    target = mcprev.http(f"{raw.origin}/sse")
    return await mcprev.connect(target, mode=server.revision.name, handler=handler)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["cut", "end"])
@req("SSE-8", "SSE-6")
def test_losing_the_stream_fails_every_call_at_once(how: str) -> None:
    async def main() -> None:
        async def silent(response_stream: Exchange) -> None:
            """Take it and say nothing."""

        server = OldMcp(OLDEST, {"tools/call": silent})
        async with serve(server) as raw:
            client = await connected_to(server, raw)
            calls = [
                asyncio.create_task(client.call_tool("t", timeout=None, total_timeout=None)) for _ in range(5)
            ]
            await until(lambda: len(raw.asked(method="tools/call")) == 5)
            assert server.stream is not None
            if how == "end":
                await server.stream.end()
            server.stream.cut()
            for call in calls:
                with pytest.raises(ConnectionLost) as caught:
                    await call
                assert caught.value.in_flight
            await client.aclose()

    run(main())


@req("SSE-8", "NEG-7", at=A)
def test_the_next_call_opens_another_stream() -> None:
    async def main() -> None:
        server = OldMcp(OLDEST, {"tools/call": text("x")})
        async with serve(server) as raw:
            client = await connected_to(server, raw)
            await client.call_tool("t")
            assert server.stream is not None
            server.stream.cut()
            await client.connection.closed
            assert "x" in str(await client.call_tool("t"))
            assert client.reopened == 1
            await client.aclose()

    run(main())


@req("PING-1", "ROOT-2", "HTTP-5", at=A)
def test_what_the_server_asks_is_answered_by_a_post() -> None:
    handler = Helpful()

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            assert server.stream is not None
            for message in numbered(3):
                await server.stream.event(message)
            for method in ("ping", "roots/list"):
                await server.stream.event({"jsonrpc": "2.0", "id": method, "method": method})
            await until(lambda: len([post for post in raw.asked() if not post.method]) == 2)
            await server.stream.event({**response_stream.response, "result": text("x")})

        server = OldMcp(OLDEST, {"tools/call": called})
        async with serve(server) as raw:
            client = await connected_to(server, raw, handler)
            await client.call_tool("t")
            answers = {post.message["id"]: post.message["result"] for post in raw.asked() if not post.method}
            assert answers["ping"] == {}
            assert answers["roots/list"]["roots"]
            assert [data for _, data in handler.logs] == [0, 1, 2]
            await client.aclose()
        assert server.stream is not None

    run(main())


@req("CANC-7", "CONV-40", at=A)
def test_giving_up_is_said_by_a_message() -> None:
    async def main() -> None:
        async def silent(response_stream: Exchange) -> None:
            """Take it and say nothing."""

        server = OldMcp(OLDEST, {"tools/call": silent})
        async with serve(server) as raw:
            client = await connected_to(server, raw)
            with pytest.raises(RequestTimeout):
                await passing(
                    5, client.call_tool("t", timeout=5), lambda: bool(raw.asked(method="tools/call"))
                )
            await until(lambda: bool(raw.asked(method="notifications/cancelled")))
            (message,) = raw.asked(method="notifications/cancelled")
            assert message.message["params"]["requestId"] == raw.asked(method="tools/call")[0].message["id"]
            await client.aclose()

    run(main())


@req("SSE-4", "ERR-7", at=A)
def test_a_post_that_is_refused_fails_its_call() -> None:
    async def main() -> None:
        server = OldMcp(OLDEST, {"ping": {}})

        async def answer(response_stream: Exchange) -> None:
            if response_stream.method == "tools/call":
                await response_stream.respond(404, b"unknown session")
            else:
                await server(response_stream)

        async with serve(answer) as raw:
            client = await connected_to(server, raw)
            with pytest.raises(HttpStatusError, match="unknown session"):
                await client.call_tool("t")
            await client.ping()
            await client.aclose()

    run(main())


@req("SSE-3", "SSE-4", at=A)
def test_neither_a_second_endpoint_nor_a_text_behind_a_post_has_an_effect() -> None:
    async def main() -> None:
        server = OldMcp(OLDEST, {"tools/call": text("right")})

        async def answer(response_stream: Exchange) -> None:
            if response_stream.method == "tools/call":
                assert server.stream is not None
                await server.stream.send(b"event: endpoint\ndata: /else\n\n")
                wrong = {**response_stream.response, "result": text("wrong")}
                await response_stream.respond(202, json.dumps(wrong).encode(), {"Content-Type": "text/plain"})
                response_stream.later(later(response_stream))
            else:
                await server(response_stream)

        async def later(response_stream: Exchange) -> None:
            await asyncio.sleep(0.02)  # the client has read the text by then
            await server.reply(response_stream)

        async with serve(answer) as raw:
            client = await connected_to(server, raw)
            for _ in range(2):
                assert (await client.call_tool("t")).to_wire()["content"] == text("right")["content"]
            await client.aclose()

    run(main())


@req("SSE-8", "ERR-7", at=A)
def test_a_stream_that_ends_before_the_session_is_open_is_a_lost_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a worker is killed right after it has begun the stream."""
    opens = LegacySse.open

    async def opened(self: LegacySse, seconds: float) -> None:
        await opens(self, seconds)
        await until(lambda: self._connection.error is not None)

    monkeypatch.setattr(LegacySse, "open", opened)

    async def main() -> None:
        async def answer(exchange: Exchange) -> None:
            if exchange.verb == "GET":
                endpoint = b"event: endpoint\ndata: /messages\n\n"
                await exchange.respond(200, endpoint, {"Content-Type": "text/event-stream"})
            else:
                await exchange.respond(405)

        async with serve(answer) as raw:
            with pytest.raises(ConnectionLost):
                await mcprev.connect(mcprev.http(f"{raw.origin}/sse"), mode=A, restart=False)

    run(main())


@req("SSE-3", "LIFE-5", at=A)
@pytest.mark.parametrize("how", ["refused", "cut"])
@pytest.mark.parametrize("times", [1, REPEATS, REPEATS + 1])
def test_what_another_worker_may_take_is_posted_again(how: str, times: int) -> None:
    """Without the confirmation, the server would tell the client of nothing; a call that may have run is sent once."""

    async def main() -> None:
        server, seen = OldMcp(OLDEST, {"tools/call": text("x")}), Counter[str]()

        async def answer(exchange: Exchange) -> None:
            seen[exchange.method] += 1
            if (
                exchange.method not in ("notifications/initialized", "tools/call")
                or seen[exchange.method] > times
            ):
                await server(exchange)
            elif how == "cut":
                exchange.cut()
            else:
                error = {"code": -32603, "message": "the server is shutting down"}
                message = {"jsonrpc": "2.0", "id": exchange.message.get("id"), "error": error}
                await exchange.json(message, 503, {"Retry-After": "0"})

        async with serve(answer) as raw:
            client = await connected_to(server, raw)
            if how == "refused" and times <= REPEATS:
                await client.call_tool("t")
                assert seen["tools/call"] == times + 1
            else:
                with pytest.raises(McpError) as caught:
                    await client.call_tool("t")
                assert isinstance(caught.value, ConnectionLost if how == "cut" else RpcError)
                assert seen["tools/call"] == (1 if how == "cut" else REPEATS + 1)
            assert seen["notifications/initialized"] == min(times, REPEATS) + 1
            await client.aclose()

    run(main())


@req("SSE-7", "LIFE-3")
@pytest.mark.parametrize("row", rows_until(D), ids=lambda row: row.name)
def test_sessions_of_any_revision_can_be_spoken_over_it(row: Revision) -> None:
    async def main() -> None:
        server = OldMcp(row, {"tools/call": text("x")})
        async with serve(server) as raw:
            async with mcprev.connect(mcprev.http(f"{raw.origin}/sse")) as client:
                assert client.revision == row.name
                await client.call_tool("t")
            last = raw.asked()[-1]
            assert last.headers.get("mcp-protocol-version") == (row.version if row.version_header else None)

    run(main())
