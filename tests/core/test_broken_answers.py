"""Answers that have neither a result nor an error: a call learns of it at once, and does not wait for its time (BASE-6)."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

import mcprev
from api.scripted import sample, server, text
from api.wire import Message, served, serving
from engine.fakes import result
from helpers.requirements import req
from helpers.running import run, until
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

NOTHING: Final[list[Message]] = [{}, {"method": None}, {"resultx": {}}, {"params": {}}]


def silent(_: Message) -> None:
    """Answer later, or never."""


each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


@req("BASE-6", "BASE-10")
@each_row
@pytest.mark.parametrize("nothing", NOTHING, ids=str)
def test_an_answer_without_anything_fails_its_call_and_no_other(row: Revision, nothing: Message) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": silent}) as (ours, hand):
            calls = [asyncio.ensure_future(ours.call_tool(name, timeout=None)) for name in ("a", "b")]
            await until(lambda: len(hand.asked("tools/call")) == 2)
            first, second = (found["id"] for found in hand.requests[-2:])
            hand.send({"jsonrpc": "2.0", "id": first, **nothing})
            with pytest.raises(mcprev.RemoteProtocolError, match="neither"):
                await calls[0]
            # One that is for no open call is noise, which is not answered.
            hand.send({"jsonrpc": "2.0", "id": first, **nothing}, {"jsonrpc": "2.0", "id": 999, **nothing})
            done: Message = {"content": [], **({} if row.handshake else {"resultType": "complete"})}
            hand.send(result(second, done))
            assert (await calls[1]).content == []
            assert not [found for found in hand.got if "error" in found]

    run(main())


@req("BASE-6")
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.handshake], ids=lambda row: row.name)
def test_a_servers_own_call_fails_too_and_what_is_no_answer_is_answered(row: Revision) -> None:
    async def call(ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        try:
            await ctx.ask("s", sample(), timeout=None)
        except mcprev.RemoteProtocolError as error:
            return text(str(error))
        return text("answered")

    async def main() -> None:
        made = server(call_tool=call)
        async with served(
            made, row, capabilities={"sampling": {}}, replies={"sampling/createMessage": silent}
        ) as hand:
            calling = asyncio.ensure_future(hand.ask("tools/call", {"name": "x", "arguments": {}}))
            await until(lambda: "sampling/createMessage" in [found.get("method") for found in hand.got])
            asked = next(found for found in hand.got if found.get("method") == "sampling/createMessage")
            hand.send({"jsonrpc": "2.0", "id": asked["id"]})
            assert "neither" in (await calling).result["content"][0]["text"]
            assert not [found for found in hand.got if "error" in found]
            hand.send({"jsonrpc": "2.0", "id": "whose?"})
            refused = await hand.get(lambda found: found.get("id") == "whose?")
            assert refused["error"]["code"] == -32600

    run(main())
