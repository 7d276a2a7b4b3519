"""What a client makes of answers: JSON or a stream, any status, arrays, and what is no answer at all."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import mcprev
from api.authors import Helpful
from helpers.named import ROW_D, B, row_of, rows_since
from helpers.raw_server import Exchange, Mcp, OldMcp, Reply, connected, numbered, serve, text
from helpers.requirements import NAMES, A, E, req
from helpers.running import run, until
from mcprev.errors import (
    ConnectionLost,
    HttpStatusError,
    RemoteProtocolError,
    RpcError,
)
from mcprev.revisions import DEFAULT, Revision
from mcprev.wire.sse import encode_message
from mcprev_types.latest import models as m

SESSIONS = NAMES[:4]
LATEST = row_of(E)
POSTS = rows_since(B)


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


# -- forms -----------------------------------------------------------------------------------------------


@req("HTTP-7", "HTTPM-4", "BASE-14")
@pytest.mark.parametrize(
    "media",
    ["application/json", "application/json; charset=utf-8", "text/event-stream", "TEXT/event-stream;x=y"],
)
def test_both_forms_of_an_answer_are_read(row: Revision, media: str) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            answer = {**response_stream.response, "result": server.complete(text(media))}
            if "json" in media:
                await response_stream.respond(200, json.dumps(answer).encode(), {"Content-Type": media})
            else:
                await response_stream.stream({"Content-Type": media} if media.startswith("TEXT") else None)
                await response_stream.event(answer)
                await response_stream.end()

        async with connected(row, {"tools/call": called}) as (client, server, _):
            assert said(await client.call_tool("t")) == media

    run(main())


@req("HTTP-13", "BASE-5")
def test_answers_find_their_calls_on_whichever_stream(row: Revision) -> None:
    """HTTP-13: two streams are open, and each brings the answer to the other's call."""

    async def main() -> None:
        waiting: list[Exchange] = []
        both = asyncio.Event()

        async def called(response_stream: Exchange) -> None:
            waiting.append(response_stream)
            await response_stream.stream()
            if len(waiting) == 2:
                both.set()
            await both.wait()
            other = waiting[0] if response_stream is waiting[1] else waiting[1]
            name = other.message["params"]["name"]
            await response_stream.event({**other.response, "result": server.complete(text(name))})
            await response_stream.gone.wait()

        async with connected(row, {"tools/call": called}) as (client, server, _):
            results = await asyncio.gather(client.call_tool("a"), client.call_tool("b"))
            assert [said(result) for result in results] == ["a", "b"]

    run(main())


@req("HTTP-13", "PROG-1", "PROG-2", "LOG-5")
def test_what_comes_before_an_answer_is_heard(row: Revision) -> None:
    handler = Helpful()
    told: list[float] = []

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            token = response_stream.message["params"]["_meta"]["progressToken"]
            for number in (1, 2):
                params = {"progressToken": token, "progress": number}
                await response_stream.event(
                    {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                )
            for message in numbered(3):
                await response_stream.event(message)
            await response_stream.event({**response_stream.response, "result": server.complete(text("x"))})
            await response_stream.end()

        async with connected(row, {"tools/call": called}, handler=handler) as (client, server, _):
            await client.call_tool("t", progress=lambda done, _total, _text: told.append(done))
            assert told == [1, 2]
            await until(lambda: len(handler.logs) == 3)
            assert handler.logs == [("error", number) for number in range(3)]

    run(main())


@req("BATCH-1", "BATCH-2")
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
def test_an_array_is_read_as_its_members(row: Revision, stream: bool) -> None:
    """BATCH-1, BATCH-2: what the members ask is answered by messages of their own."""
    handler = Helpful()

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            roots = [{"jsonrpc": "2.0", "id": f"r{n}", "method": "roots/list"} for n in range(2)]
            answer = {**response_stream.response, "result": text("x")}
            array = [*roots, *numbered(1), {"no": "message"}, answer]
            if stream:
                await response_stream.stream()
                await response_stream.event(array)
                await response_stream.end()
            else:
                await response_stream.json(array)

        async with connected(row, {"tools/call": called}, handler=handler) as (client, _, raw):
            assert said(await client.call_tool("t")) == "x"
            await until(lambda: len(answers(raw.asked())) == 2)
            assert {found["id"] for found in answers(raw.asked())} == {"r0", "r1"}
            assert all("roots" in found["result"] for found in answers(raw.asked()))
            assert handler.logs == [("error", 0)]

    run(main())


def answers(posts: list[Exchange]) -> list[dict[str, Any]]:
    return [post.message for post in posts if not post.method]


@req("BATCH-6", at=(A, *SESSIONS[2:], E))
@pytest.mark.parametrize("row", [row for row in DEFAULT if not row.accepts_batch], ids=lambda row: row.name)
def test_an_array_is_no_message_elsewhere(row: Revision) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.json([{**response_stream.response, "result": server.complete(text("x"))}])

        async with connected(row, {"tools/call": called}) as (client, server, _):
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("t")

    run(main())


# -- what servers ask ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in POSTS if row.handshake], ids=lambda row: row.name)
@req("HTTP-5", "PING-1", "SAMP-1", "ROOT-2")
def test_requests_of_the_server_are_answered_by_a_post(row: Revision) -> None:
    asks: dict[str, Any] = {
        "sampling/createMessage": {"messages": [], "maxTokens": 5},
        "roots/list": None,
        "ping": None,
        "unknown/method": None,
    }

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            for method, params in asks.items():
                request = {"jsonrpc": "2.0", "id": method, "method": method}
                await response_stream.event(request if params is None else {**request, "params": params})
            await until(lambda: len(answers(raw.asked())) == len(asks))
            await response_stream.event({**response_stream.response, "result": server.complete(text("x"))})
            await response_stream.end()

        async with connected(row, {"tools/call": called}, handler=Helpful()) as (client, server, raw):
            assert said(await client.call_tool("t")) == "x"
            found = {answer["id"]: answer for answer in answers(raw.asked())}
            assert set(found) == set(asks)
            assert found["ping"]["result"] == {}
            assert found["roots/list"]["result"]["roots"][0]["uri"] == "file:///x"
            assert found["sampling/createMessage"]["result"]["model"] == "mm"
            assert found["unknown/method"]["error"]["code"] == -32601
            assert all(
                post.headers["mcp-session-id"] == "session-1" for post in raw.asked() if not post.method
            )

    run(main())


@req("BASE-11", "BASE-12", "HTTPM-2", at=E)
def test_a_server_that_asks_in_the_stateless_era_is_not_answered() -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            for method in ("roots/list", "ping", "nonsense"):
                await response_stream.event({"jsonrpc": "2.0", "id": method, "method": method})
            await response_stream.event({**response_stream.response, "result": server.complete(text("x"))})
            await response_stream.end()

        async with connected(LATEST, {"tools/call": called}, handler=Helpful()) as (client, server, raw):
            await client.call_tool("t")
            await client.call_tool("t")
        assert answers(raw.asked()) == []

    run(main())


@req("PROG-3", at=SESSIONS)
@pytest.mark.parametrize("row", [row for row in POSTS if row.handshake], ids=lambda row: row.name)
def test_reports_of_the_client_come_in_order_and_before_the_answer(row: Revision) -> None:
    """Each when the server has taken the one before it; a report ends when the server has taken it."""
    taken: list[int] = []
    early: list[int] = []

    class Reporting(mcprev.ClientHandler):
        async def list_roots(self, ctx: mcprev.ClientContext, params: Any) -> m.ListRootsResult:
            for number in range(7):
                await ctx.progress(number)
                early.extend(set(range(number + 1)).difference(taken))
            await asyncio.gather(ctx.progress(7), ctx.progress(8))
            await ctx.progress(9)
            early.extend(set(range(10)).difference(taken))
            return m.ListRootsResult(roots=[])

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            ask = {
                "jsonrpc": "2.0",
                "id": 7,
                "method": "roots/list",
                "params": {"_meta": {"progressToken": "p"}},
            }
            await response_stream.event(ask)
            await until(lambda: bool(answers(raw.asked())))
            await response_stream.event({**response_stream.response, "result": server.complete(text("x"))})
            await response_stream.end()

        async def slowly(response_stream: Exchange) -> None:
            if response_stream.message["params"]["progress"] % 3 == 0:
                await asyncio.sleep(0.01)  # later ones could pass it on another connection
            assert raw.asked()[-1] is response_stream
            taken.append(response_stream.message["params"]["progress"])
            await response_stream.respond(202)

        replies = {"tools/call": called, "notifications/progress": slowly}
        async with connected(row, replies, handler=Reporting()) as (client, server, raw):
            await client.call_tool("t")
            posts = raw.asked()[-11:]
            assert [post.message.get("params", {}).get("progress") for post in posts] == [*range(10), None]
            assert early == []

    run(main())


# -- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 405, 418, 500, 503])
@req("ERR-7", "BASE-9", "ERR-1")
def test_an_error_body_is_read_whatever_the_status(row: Revision, status: int) -> None:
    # Any other code would mean that the session is gone (HTTP-23).
    code = -32601 if status == 404 and row.handshake else -31999

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.error(code, status, "no good", {"x": [1]})

        async with connected(row, {"tools/call": called}) as (client, _, _):
            with pytest.raises(mcprev.TokenRejected if status == 401 else RpcError) as caught:
                await client.call_tool("t")
            error = caught.value.__cause__ if status == 401 else caught.value
            assert isinstance(error, RpcError)
            assert (error.code, error.message, error.data) == (code, "no good", {"x": [1]})

    run(main())


@pytest.mark.parametrize("id_", [..., None], ids=["without id", "null id"])
@req("ERR-7", "BASE-7")
def test_an_error_without_an_id_is_about_the_request_it_answers(row: Revision, id_: Any) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            body = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "bad"}}
            await response_stream.json(body if id_ is ... else {**body, "id": id_}, 400)

        async with connected(row, {"tools/call": called}) as (client, _, _):
            with pytest.raises(mcprev.RpcError, match="bad"):
                await client.call_tool("t")

    run(main())


@pytest.mark.parametrize(
    ("status", "body"), [(400, b"Bad \x1b[2Jthing"), (500, b""), (501, b"<html>\xff"), (429, b'{"a":1}')]
)
@req("ERR-7", "ERR-5")
def test_any_other_failure_is_the_status(row: Revision, status: int, body: bytes) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.respond(status, body, {"X-Why": "w"})

        async with connected(row, {"tools/call": called}) as (client, _, _):
            with pytest.raises(HttpStatusError) as caught:
                await client.call_tool("t")
            error = caught.value
            assert error.status == status
            assert error.headers["x-why"] == "w"
            assert error.body.isprintable()
            assert str(status) in str(error)
            assert not isinstance(error, RpcError)

    run(main())


@pytest.mark.parametrize(
    ("status", "body"), [(503, b"later"), (400, b'{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}')]
)
@req("ERR-7", at=A)
def test_the_oldest_transport_reads_failures_too(status: int, body: bytes) -> None:
    row = row_of(A)

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            if response_stream.method == "tools/call":
                await response_stream.respond(status, body)
            else:
                await old(response_stream)

        old = OldMcp(row)
        async with (
            serve(called) as raw,
            mcprev.connect(mcprev.http(f"{raw.origin}/sse"), mode=row.name) as client,
        ):
            with pytest.raises(HttpStatusError if status == 503 else RpcError):
                await client.call_tool("t")

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        (202, "text/plain", b""),
        (204, "text/plain", b""),
        (200, "application/json", b""),
        (200, "application/json", b"{"),
        (200, "text/html", b"<html>"),
        (200, "application/json", b'{"jsonrpc":"2.0","id":99,"result":{}}'),
        (200, "application/json", b'{"jsonrpc":"2.0","method":"notifications/message"}'),
        (200, "application/json", b'{"jsonrpc":"2.0","result":{}}'),
    ],
    ids=lambda answer: f"{answer[0]} {answer[1]} {len(answer[2])}",
)
@req("HTTP-29", "BASE-6", "BASE-10", "HTTPM-7")
def test_what_is_no_answer_fails_the_call_at_once(row: Revision, answer: tuple[int, str, bytes]) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.respond(answer[0], answer[2], {"Content-Type": answer[1]})

        async with connected(row, {"tools/call": called}) as (client, _, _):
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("t")

    run(main())


@req("HTTP-29", "BASE-6", "BASE-10", "SEC-6")
@pytest.mark.parametrize("form", ["json", "event"])
@pytest.mark.parametrize("bad", ["1e999", "NaN", "[" * 300 + "]" * 300, "9" * 5000], ids=lambda bad: bad[:5])
def test_an_answer_that_is_refused_unread_fails_its_call_at_once(row: Revision, form: str, bad: str) -> None:
    """The stream that brought it stays open: nothing else would end the call."""

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            complete = server.complete({**text("x"), "_meta": {"x": "bad"}})
            answer = (
                json.dumps({"result": complete, **response_stream.response}).replace('"bad"', bad).encode()
            )
            if form == "json":
                await response_stream.respond(200, answer, {"Content-Type": "application/json"})
                return
            await response_stream.stream()
            await response_stream.send(encode_message(answer))
            await response_stream.gone.wait()

        async with connected(row, {"tools/call": called}) as (client, server, _):
            with pytest.raises(RemoteProtocolError, match=r"^Parse error: "):
                await client.call_tool("t")

    run(main())


@pytest.mark.parametrize("form", ["length", "chunked", "event"])
@req("SEC-6", everywhere=True)
def test_an_answer_over_the_limit_is_not_kept(form: str) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            big = json.dumps({**response_stream.response, "result": text("y" * 200_000)}).encode()
            if form == "length":
                await response_stream.respond(200, big, {"Content-Type": "application/json"})
            elif form == "chunked":
                head = (
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                await response_stream.raw(head)
                await response_stream.send(big)
                await response_stream.gone.wait()
            else:
                await response_stream.stream()
                await response_stream.send(b"data: " + big)
                await response_stream.gone.wait()

        server = Mcp(LATEST, {"tools/call": called})
        async with serve(server) as raw:
            target = mcprev.http(raw.url, max_message=100_000)
            async with mcprev.connect(target, mode=LATEST.name) as client:
                with pytest.raises(RemoteProtocolError, match="more than 1"):
                    await client.call_tool("t")

    run(main())


# -- redirects -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@req("SEC-1", everywhere=True)
def test_a_redirect_within_the_origin_is_followed_as_it_was(status: int) -> None:
    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            if response_stream.path == "/mcp":
                await response_stream.respond(status, b"", {"Location": "/mcp/?x=1"})
            else:
                await server(response_stream)

        server = Mcp(LATEST, {"tools/call": text("x")})
        async with serve(answer) as raw:
            async with mcprev.connect(
                mcprev.http(raw.url, headers={"X-Secret": "s"}), mode=LATEST.name
            ) as client:
                assert said(await client.call_tool("t")) == "x"
            assert {seen.verb for seen in raw.seen} == {"POST"}
            arrived = [seen for seen in raw.seen if seen.path != "/mcp"]
            assert {seen.path for seen in arrived} == {"/mcp/?x=1"}
            assert all(seen.headers["x-secret"] == "s" for seen in arrived)
            # A permanent one is gone through once.
            assert len([seen for seen in raw.seen if seen.path == "/mcp"]) == (
                1 if status == 308 else len(arrived)
            )

    run(main())


@req("SEC-1", everywhere=True)
def test_no_secret_goes_to_another_origin() -> None:
    async def main() -> None:
        async with serve(Mcp(LATEST)) as other:

            async def answer(response_stream: Exchange) -> None:
                await response_stream.respond(307, b"", {"Location": other.url})

            async with serve(answer) as raw:
                target = mcprev.connect(
                    mcprev.http(raw.url, headers={"Authorization": "secret"}), mode=LATEST.name
                )
                with pytest.raises(mcprev.McpError, match="another origin"):
                    await target
                assert other.seen == []

    run(main())


@req("SEC-1", everywhere=True)
def test_redirects_in_a_circle_end() -> None:
    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            await response_stream.respond(307, b"", {"Location": response_stream.path})

        async with serve(answer) as raw:
            with pytest.raises(mcprev.McpError, match="redirects"):
                await mcprev.connect(mcprev.http(raw.url), mode=LATEST.name)
            assert len(raw.seen) < 20

    run(main())


@req("ERR-5", everywhere=True)
def test_nobody_there() -> None:
    async def main() -> None:
        async with serve(Mcp(LATEST)) as raw:
            pass
        with pytest.raises(ConnectionLost) as caught:
            await mcprev.connect(mcprev.http(raw.url))
        assert (caught.value.in_flight, caught.value.retry_safe) == (False, True)
        assert str(raw.port) in str(caught.value)

    run(main())


# -- anything --------------------------------------------------------------------------------------------

MEDIA = st.sampled_from(
    ["application/json", "text/event-stream", "text/html", "", "application/json;;=", "\u00e9/x"]
)
EVENTS = st.lists(
    st.sampled_from(
        [
            b"data: ", b"id: 1\n", b"retry: 0\n", b"\n\n", b"\r", b":", b"event: message\n", b"{", b"}",
            b'{"jsonrpc":"2.0","id":2,"result":{"content":[],"resultType":"complete"}}', b'{"jsonrpc":"2.0"',
            b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b"\xff", b"[]",
        ]
    ),
    max_size=12,
).map(b"".join)  # fmt: skip


@pytest.mark.slow
@given(
    status=st.sampled_from([200, 202, 204, 299, 304, 400, 404, 418, 500, 599]),
    media=MEDIA,
    body=st.one_of(st.binary(max_size=60), EVENTS),
    cut=st.booleans(),
)
@settings(max_examples=60)
@pytest.mark.parametrize("row", [ROW_D, LATEST], ids=lambda row: row.name)
@req("HTTP-29", "HTTPM-7", "ERR-7", "BASE-10", at=(ROW_D.name, E))
def test_whatever_comes_is_an_answer_or_an_error_with_a_type(
    row: Revision, status: int, media: str, body: bytes, cut: bool
) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            length = len(body) + cut  # one byte that never comes
            head = f"HTTP/1.1 {status} X\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n"
            await response_stream.raw(head.encode() + body)
            if cut:
                await asyncio.sleep(0)
                response_stream.cut()

        replies: dict[str, Reply] = {"tools/call": called, "prompts/list": {"prompts": []}}
        async with connected(row, replies) as (client, _, _):
            with suppress(mcprev.McpError):
                await client.call_tool("t")
            await client.list_prompts()

    run(main())


@pytest.mark.slow
@given(data=st.binary(max_size=80))
@settings(max_examples=40)
@req("ERR-5", "ERR-7", everywhere=True)
def test_what_is_no_http_is_a_lost_connection(data: bytes) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.raw(data)
            await asyncio.sleep(0)
            response_stream.cut()

        replies: dict[str, Reply] = {"tools/call": called, "prompts/list": {"prompts": []}}
        async with connected(LATEST, replies) as (client, _, _):
            with pytest.raises(mcprev.McpError):
                await client.call_tool("t")
            await client.list_prompts()

    run(main())
