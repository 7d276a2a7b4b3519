"""Calls of a client where something else becomes of them than an answer: a redirect, or a connection that breaks."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.raw_server import Exchange, Mcp, connected, serve, text, tool
from helpers.requirements import D, E, req
from helpers.running import run, until
from mcprev.errors import ConnectionLost
from mcprev.revisions import HttpShape, Revision, revision_named
from mcprev.transports.http.client.repeats import REPEATS

ROW = revision_named(E)
LISTED = {"tools": [tool("t")]}


def said(result: object) -> object:
    return getattr(result, "content")[0].text  # noqa: B009 - whatever model it is


@req("HTTP-4", "SEC-1", at=E)
@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_followed(status: int) -> None:
    async def main() -> None:
        async def elsewhere(response_stream: Exchange) -> None:
            if response_stream.path == "/mcp":
                await response_stream.respond(status, b"", {"Location": "/other"})
            else:
                await response_stream.result(answer.complete(text("hi")))

        async with connected(ROW, {"tools/list": LISTED, "tools/call": elsewhere}) as (client, answer, raw):
            for _ in range(2):
                assert said(await client.call_tool("t")) == "hi"
            paths = [seen.path for seen in raw.asked(method="tools/call")]
            assert paths == ["/mcp", "/other"] * 2
            assert raw.connections == 1

    run(main())


@req("ERR-5", at=E)
def test_many_calls_whose_connections_break_all_fail_and_the_next_is_well() -> None:
    async def main() -> None:
        async def cut(response_stream: Exchange) -> None:
            response_stream.cut()

        async with connected(ROW, {"tools/list": LISTED, "tools/call": cut}) as (client, answer, raw):
            await asyncio.gather(*(client.list_tools() for _ in range(20)))
            found = await asyncio.gather(*(client.call_tool("t") for _ in range(20)), return_exceptions=True)
            assert {type(error) for error in found} == {ConnectionLost}
            assert all(error.in_flight for error in found if isinstance(error, ConnectionLost))
            answer.replies["tools/call"] = text("hi")
            assert said(await client.call_tool("t")) == "hi"
            assert len(raw.asked(method="tools/call")) == 21

    run(main())


@req("LIFE-5", "HTTP-12", at=D)
@pytest.mark.parametrize("times", [1, REPEATS, REPEATS + 1])
def test_a_confirmation_and_an_answer_are_sent_again_where_their_connection_breaks(times: int) -> None:
    """Another worker may take them; a call would wait for what is lost. What is not to come twice is sent once."""

    async def main() -> None:
        breaks: Counter[str] = Counter()

        async def breaking(exchange: Exchange) -> None:
            breaks[exchange.method] += 1
            if breaks[exchange.method] <= times:
                exchange.cut()
            else:
                await exchange.respond(202)

        async def asking(exchange: Exchange) -> None:
            await exchange.stream()
            await exchange.event({"jsonrpc": "2.0", "id": 9, "method": "ping"})
            await until(lambda: breaks[""] > min(times, REPEATS))
            await exchange.event({**exchange.response, "result": text("hi")})
            await exchange.end()

        names = ("notifications/initialized", "notifications/own")
        replies: dict[str, Any] = {
            **dict.fromkeys(names, breaking),
            "answer": breaking,
            "tools/call": asking,
            "tools/list": LISTED,
        }
        async with connected(revision_named(D), replies) as (client, _, raw):
            assert said(await client.call_tool("t")) == "hi"
            client.session.connection.protocol.notify("notifications/own", {})
            client.session.connection.process_events()
            await until(lambda: breaks["notifications/own"] > 0)
            await asyncio.sleep(0.3)
            assert breaks["notifications/initialized"] == min(times, REPEATS) + 1
            assert breaks[""] == min(times, REPEATS) + 1
            assert breaks["notifications/own"] == 1
            assert raw.problems == []

    run(main())


def _redirecting(server: Mcp, status: int, elsewhere: str, key: str) -> Any:
    """Answers as the server does; requests of one method, or with one verb, have to go elsewhere for it."""

    async def answer(exchange: Exchange) -> None:
        if exchange.path == "/mcp" and key in (exchange.method, exchange.verb, "all"):
            await exchange.respond(status, b"", {"Location": elsewhere})
        else:
            await server(exchange)

    return answer


PER_REQUEST = ("tools/call", "tools/list", "prompts/list", "notifications/initialized", "GET")


@each_once
@req("HTTP-4", "SEC-1", everywhere=True)
@pytest.mark.parametrize("elsewhere", ["/mcp/docs/one", "/mcp/"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_of_one_request_moves_no_other(row: Revision, status: int, elsewhere: str) -> None:
    """A gateway may send a call on to where its tool is; everything else stays at the endpoint."""

    async def main(key: str) -> None:
        server = Mcp(row, {"tools/list": LISTED, "tools/call": text("hi"), "prompts/list": {"prompts": []}})
        async with serve(_redirecting(server, status, elsewhere, key)) as raw:
            async with mcprev.connect(mcprev.http(raw.url), mode=row.name) as client:
                for _ in range(2):
                    await client.list_tools(fresh=True)
                    assert said(await client.call_tool("t")) == "hi"
                    await client.list_prompts(fresh=True)
            moved = [seen for seen in raw.seen if seen.path != "/mcp"]
            assert all(key in (seen.method, seen.verb) and seen.path == elsewhere for seen in moved)
            assert moved or (not row.handshake and key in ("GET", "notifications/initialized"))

    for key in PER_REQUEST:
        run(main(key))


@req("HTTP-4", "SEC-1", everywhere=True)
def test_a_permanent_redirect_of_the_endpoint_is_remembered_for_the_connection(row: Revision) -> None:
    """What opens the connection is led there; what it is led to for the time being is asked for again."""

    async def main(status: int, elsewhere: str) -> None:
        server = Mcp(row, {"tools/list": LISTED, "tools/call": text("hi")})
        async with serve(_redirecting(server, status, elsewhere, "all")) as raw:
            for _ in range(2):
                async with mcprev.connect(mcprev.http(raw.url), mode=row.name) as client:
                    assert said(await client.call_tool("t")) == "hi"
            asked = [seen for seen in raw.seen if seen.path == "/mcp"]
            led = [seen for seen in raw.seen if seen.path == elsewhere]
            assert len(led) > 2
            assert len(asked) == (len(led) if status == 307 and elsewhere != "/mcp/" else 2)

    for status, elsewhere in ((308, "/v2"), (307, "/v2"), (307, "/mcp/")):
        run(main(status, elsewhere))


@req("HTTP-4", "NEG-4", everywhere=True)
def test_where_a_refused_opening_was_led_to_is_forgotten(row: Revision) -> None:
    """The endpoint is where a request to open the connection succeeds."""

    async def main() -> None:
        server = Mcp(row, {"tools/list": LISTED, "tools/call": text("hi")})

        async def answer(exchange: Exchange) -> None:
            if exchange.path == "/none":
                await exchange.respond(404)
            else:
                await _redirecting(server, 308, "/none", "server/discover")(exchange)

        async with serve(answer) as raw, mcprev.connect(mcprev.http(raw.url)) as client:
            assert said(await client.call_tool("t")) == "hi"
            assert [seen.method for seen in raw.seen if seen.path != "/mcp"] == ["server/discover"]

    if row.handshake and row.http is HttpShape.STREAMABLE:
        run(main())
