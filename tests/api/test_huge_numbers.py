"""Numbers that no double holds: they are read as infinity, are no number to a schema, and are never written as one."""

from __future__ import annotations

import json
import math
from typing import Final

import pytest

import mcprev
from api.scripted import server, text
from api.wire import HandClient, Message, served, serving
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m
from requirements import req
from running import run

HUGE: Final = ["1e999", "-1e999", "1" + "0" * 400 + ".5"]
MARK: Final = "what the number takes the place of"
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
each_huge = pytest.mark.parametrize("huge", HUGE, ids=["e999", "-e999", "400 digits"])


async def call(hand: HandClient, tool: str, huge: str) -> Message:
    """Call a tool with a number as it is written."""
    params: Message = {"name": tool, "arguments": {"n": MARK}, "_meta": hand.stamp}
    message = json.dumps({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": params})
    hand._asked[tool] = "tools/call"  # pyright: ignore[reportPrivateUsage]
    hand.send(message.replace(json.dumps(MARK), huge).encode())
    return await hand.get(lambda found: found.get("id") == tool and "method" not in found)


@req("BASE-1", "BASE-17", "TOOL-3", everywhere=True)
@each_row
@each_huge
def test_a_schema_takes_none_and_a_handler_sees_infinity(row: Revision, huge: str) -> None:
    seen: list[float] = []
    number: Message = {"type": "object", "properties": {"n": {"type": "number"}}}

    async def list_tools(ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        schemas = {"strict": number, "lenient": {"type": "object"}}
        tools = [m.Tool(name=n, input_schema=m.ToolInputSchema.from_wire(s)) for n, s in schemas.items()]
        return m.ListToolsResult(tools=tools)

    async def call_tool(ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        seen.append((params.arguments or {})["n"])
        wire = {**text("x").to_wire(), "_meta": {"com.example/n": seen[-1]}}
        return m.CallToolResult.from_wire(wire)

    async def main() -> None:
        made = server(list_tools=list_tools, call_tool=call_tool)
        async with served(made, row) as hand:
            refused = await call(hand, "strict", huge)
            assert "error" in refused or refused["result"]["isError"] is True
            assert seen == []
            taken = await call(hand, "lenient", huge)
            assert [math.isinf(number) for number in seen] == [True]
            # JSON has no form for it: what a peer gets is null, as from every writer of JSON in JavaScript.
            assert taken["result"]["_meta"]["com.example/n"] is None

    run(main())


@req("BASE-1", "BASE-16", "PROG-2", everywhere=True)
@each_huge
def test_nothing_of_the_protocol_trips_over_one(huge: str) -> None:
    row = DEFAULT[-1]
    told: list[float] = []

    def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async def main() -> None:
        async with serving(row, {"tools/call": lambda _: None}) as (client, hand):

            def send(text_: str) -> None:
                hand.send(text_.replace(json.dumps(MARK), huge).encode())

            waiting = client.start(work(client))
            request = await hand.get(lambda found: found.get("method") == "tools/call")
            id_ = request["id"]
            token = {"progressToken": id_, "progress": MARK}
            said: list[Message] = [
                {"method": "notifications/progress", "params": token},
                {"method": "notifications/progress", "params": {"progressToken": MARK, "progress": 1}},
                {"method": "notifications/cancelled", "params": {"requestId": MARK}},
                {"id": MARK, "result": {}},
                {"id": id_, "result": {"resultType": "complete", "content": [], "x": MARK}},
            ]
            for message in said:
                send(json.dumps({"jsonrpc": "2.0", **message}))
            await waiting
            assert [math.isinf(progress) for progress in told] == [True]

    async def work(client: mcprev.Client) -> None:
        result = await client.call_tool("x", progress=progressed)
        assert math.isinf((result.model_extra or {})["x"])

    run(main())
