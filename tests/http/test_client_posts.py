"""Calls of a client where something else becomes of them than an answer: a redirect, or a connection that breaks."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from mcprev.errors import ConnectionLost
from mcprev.revisions import revision_named
from mcprev.transports.http.client.repeats import REPEATS
from raw_server import Exchange, connected, text, tool
from requirements import D, E, req
from running import run, until

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
            assert paths == (["/mcp", "/other"] * 2 if status == 307 else ["/mcp", "/other", "/other"])
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
