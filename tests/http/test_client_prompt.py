"""Calls that are posted without tasks of their own, where something else becomes of them than an answer in JSON."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio

import pytest

from mcprev.errors import ConnectionLost
from mcprev.protocol.correlate import Call
from mcprev.revisions import revision
from mcprev.transports.http_prompt import PromptConnection
from raw_server import Exchange, connected, text, tool
from requirements import E, req
from running import run, until

ROW = revision(E)
LISTED = {"tools": [tool("t")]}


def said(result: object) -> object:
    return getattr(result, "content")[0].text  # noqa: B009 - whatever model it is


@req("CANC-7", "HTTPM-6", at=E)
def test_what_is_given_up_as_its_answer_begins_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        heard = PromptConnection._heard

        def hear_and_give_up(self: PromptConnection, call: Call, message: bytes) -> None:
            heard(self, call, message)
            self._end_exchange(call)  # before the task that reads the stream has begun

        async def stream(exchange: Exchange) -> None:
            await exchange.stream()
            await exchange.gone.wait()

        async with connected(ROW, {"tools/list": LISTED, "tools/call": stream}) as (client, _, raw):
            await client.list_tools()
            monkeypatch.setattr(PromptConnection, "_heard", hear_and_give_up)
            calling = asyncio.create_task(client.call_tool("t"))
            await until(lambda: len(raw.asked(method="tools/call")) == 1)
            await raw.asked(method="tools/call")[0].gone.wait()
            monkeypatch.undo()
            calling.cancel()
            await asyncio.wait({calling})
            assert calling.cancelled()
            await client.list_tools()

    run(main())


@req("HTTP-4", "SEC-1", at=E)
@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_followed(status: int) -> None:
    async def main() -> None:
        async def elsewhere(exchange: Exchange) -> None:
            if exchange.path == "/mcp":
                await exchange.respond(status, b"", {"Location": "/other"})
            else:
                await exchange.result(answer.complete(text("hi")))

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
        async def cut(exchange: Exchange) -> None:
            exchange.cut()

        async with connected(ROW, {"tools/list": LISTED, "tools/call": cut}) as (client, answer, raw):
            await asyncio.gather(*(client.list_tools() for _ in range(20)))
            found = await asyncio.gather(*(client.call_tool("t") for _ in range(20)), return_exceptions=True)
            assert {type(error) for error in found} == {ConnectionLost}
            assert all(error.in_flight for error in found if isinstance(error, ConnectionLost))
            answer.replies["tools/call"] = text("hi")
            assert said(await client.call_tool("t")) == "hi"
            assert len(raw.asked(method="tools/call")) == 21

    run(main())
