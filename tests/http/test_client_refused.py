"""A client that is refused for a moment, with 503 and `Retry-After`: what it sends again, how often, and what not.

HTTP-3, HTTPM-7, ERR-7, TOOL-9. A server that stops, or whose store is away, refuses so.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
from typing import Any

import pytest

import mcprev
from helpers.named import ROW_D, ROW_E
from helpers.raw_server import Exchange, connected, text, tool
from helpers.requirements import D, E, req
from helpers.running import passing, run, until
from mcprev.errors import HttpStatusError, InternalError
from mcprev.revisions import Revision
from mcprev.transports.http.client.repeats import REPEATS


class Refusing:
    """Refuses some requests of a method, then answers them."""

    def __init__(self, times: int, after: str | None, *, speaks: bool = True) -> None:
        self.left, self.after, self.speaks = times, after, speaks
        self.result: dict[str, Any] = text("done")

    async def __call__(self, exchange: Exchange) -> None:
        if not self.left:
            await exchange.result({**self.result, "resultType": "complete"})
            return
        self.left -= 1
        headers = {} if self.after is None else {"Retry-After": self.after}
        error = {
            "jsonrpc": "2.0",
            "id": exchange.message["id"],
            "error": {"code": -32603, "message": "later"},
        }
        if self.speaks:
            await exchange.json(error, 503, headers)
        else:
            await exchange.respond(503, b"<html>later", headers)


def listed(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [*tools], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}


@pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)
@pytest.mark.parametrize("times", [1, REPEATS])
@req("HTTPM-7", "HTTP-3", at=(D, E))
def test_a_call_that_a_server_refuses_for_a_moment_is_sent_again(row: Revision, times: int) -> None:
    async def main() -> None:
        replies: dict[str, Any] = {"tools/call": Refusing(times, "0"), "tools/list": listed()}
        async with connected(row, replies) as (client, _, raw):
            assert (await client.call_tool("t")).text == "done"
            posts = raw.asked(method="tools/call")
            assert len(posts) == 1 + times
            assert len({json.dumps(post.message) for post in posts}) == 1  # the same id, too

    run(main())


REFUSED = {
    "too often": Refusing(REPEATS + 1, "0"),
    "without Retry-After": Refusing(1, None),
    "for too long": Refusing(1, "11"),
    "for very long": Refusing(1, "9" * 400),
    "with a date": Refusing(1, "Wed, 21 Oct 2026 07:28:00 GMT"),
    "with nonsense": Refusing(1, "-1"),
}


@pytest.mark.parametrize("case", REFUSED)
@req("HTTPM-7", "ERR-7", at=E)
def test_a_call_is_sent_again_within_bounds_only(case: str) -> None:
    async def main() -> None:
        refusing = REFUSED[case]
        times = refusing.left
        async with connected(ROW_E, {"tools/call": refusing, "tools/list": listed()}) as (client, _, raw):
            with pytest.raises(InternalError, match="later") as caught:
                await client.call_tool("t")
            assert caught.value.http_status == 503
            delay = {"too often": 0, "for too long": 11}.get(case)
            assert caught.value.retry_after == delay
            assert len(raw.asked(method="tools/call")) == times

    run(main())


@pytest.mark.parametrize(("hint", "again"), [({"idempotentHint": True}, True), ({}, False)])
@req("HTTPM-7", "TOOL-9", "ERR-7", at=E)
def test_what_is_no_mcp_server_may_have_passed_the_call_on(hint: dict[str, bool], again: bool) -> None:
    """Then it is sent again only if the tool says that it may be called twice."""

    async def main() -> None:
        named = {**tool("t"), "annotations": hint}
        replies: dict[str, Any] = {"tools/call": Refusing(1, "0", speaks=False), "tools/list": listed(named)}
        async with connected(ROW_E, replies) as (client, _, raw):
            await client.list_tools()
            if again:
                assert (await client.call_tool("t")).text == "done"
            else:
                with pytest.raises(HttpStatusError) as caught:
                    await client.call_tool("t")
                assert caught.value.retry_after == 0
            assert len(raw.asked(method="tools/call")) == 1 + again

    run(main())


@req("HTTPM-7", "TIME-1", at=E)
def test_a_call_waits_no_longer_than_its_timeout() -> None:
    async def main() -> None:
        replies: dict[str, Any] = {"tools/call": Refusing(1, "10"), "tools/list": listed()}
        async with connected(ROW_E, replies) as (client, _, raw):
            with pytest.raises(mcprev.RequestTimeout):
                await passing(
                    5, client.call_tool("t", timeout=5), lambda: bool(raw.asked(method="tools/call"))
                )
            assert len(raw.asked(method="tools/call")) == 1

    run(main())


@req("HTTP-5", "HTTP-9", at=D)
@pytest.mark.parametrize("times", [1, REPEATS, REPEATS + 1])
def test_an_answer_whose_connection_breaks_is_sent_again_within_bounds(times: int) -> None:
    """The server may have lost the process that took it, and would wait for it for long."""
    left = times

    async def main() -> None:
        async def called(exchange: Exchange) -> None:
            await exchange.stream()
            await exchange.event({"jsonrpc": "2.0", "id": 7, "method": "ping"})
            await until(lambda: len(answers()) == min(times, REPEATS) + 1)
            await exchange.event({**exchange.response, "result": text("done")})
            await exchange.end()

        def answers() -> list[Exchange]:
            return [seen for seen in raw.asked() if not seen.method]

        async with connected(ROW_D, {"tools/call": called}) as (client, _, raw):
            answer = raw._answer

            async def flaky(exchange: Exchange) -> None:
                nonlocal left
                if exchange.body and not exchange.method and left:
                    left -= 1
                    exchange.cut()
                else:
                    await answer(exchange)

            raw._answer = flaky
            assert (await client.call_tool("t")).text == "done"
            assert {json.dumps(each.message) for each in answers()} == {
                '{"jsonrpc": "2.0", "id": 7, "result": {}}'
            }

    run(main())


@req("HTTP-3", at=D)
def test_a_session_opens_and_is_told_things_although_the_server_refuses_at_first() -> None:
    """`initialize`, a notification and the server's own stream."""
    refused: list[str] = []

    async def main() -> None:
        refuse: dict[str, Any] = {}

        async with connected(ROW_D) as (_, _, raw):
            raw.seen.clear()
            answer = raw._answer

            async def flaky(exchange: Exchange) -> None:
                what = exchange.method or exchange.verb
                if refuse.setdefault(what, True):
                    refuse[what] = False
                    refused.append(what)
                    await exchange.respond(503, b"", {"Retry-After": "0"})
                else:
                    await answer(exchange)

            raw._answer = flaky
            async with mcprev.connect(mcprev.http(raw.url), mode=D) as client:
                assert client.revision == D
                await until(lambda: len(raw.asked(method="notifications/initialized")) == 2)
                await until(lambda: len([seen for seen in raw.seen if seen.verb == "GET"]) >= 2)

    run(main())
    assert {"initialize", "notifications/initialized", "GET"} <= set(refused)
