"""Messages that are refused unread, numbers beyond a double among them: the call fails at once, and only that call."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import pytest

import mcprev
from api.scripted import server, text
from api.wire import HandClient, Message, served, serving
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run
from mcprev.errors import INVALID_REQUEST, PARSE_ERROR
from mcprev.revisions import DEFAULT, Revision
from mcprev.wire.bounds import json_bounds
from mcprev_types.latest import models as m

VALUES: Final = {
    "e999": ("1e999", PARSE_ERROR),
    "-e999": ("-1e999", PARSE_ERROR),
    "400 digits": ("1" + "0" * 400 + ".5", PARSE_ERROR),
    "NaN": ("NaN", PARSE_ERROR),
    "an integer of 5,000 digits": ("9" * 5000, PARSE_ERROR),
    "nested 250 deep": ("[" * 250 + "]" * 250, PARSE_ERROR),
    "2,000 values": ("[" + "{}," * 1999 + "{}]", INVALID_REQUEST),
}
MARK: Final = "what the value takes the place of"
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
each_value = pytest.mark.parametrize(("value", "code"), VALUES.values(), ids=VALUES)


@pytest.fixture(autouse=True)
def few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_bounds, "max_values", 1000)


@req("BASE-1", "BASE-10", "BASE-17", "SEC-6", everywhere=True)
@each_row
@each_value
def test_a_request_that_is_refused_unread_is_answered(row: Revision, value: str, code: int) -> None:
    seen: list[object] = []

    async def call_tool(ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        seen.append((params.arguments or {})["n"])
        return text("x")

    async def call(hand: HandClient, request_id: str, written: str) -> Message:
        params: Message = {"name": "t", "arguments": {"n": MARK}, "_meta": hand.stamp}
        message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        hand._asked[request_id] = "tools/call"  # pyright: ignore[reportPrivateUsage]
        hand.send(json.dumps(message).replace(json.dumps(MARK), written).encode())
        return await hand.get(lambda found: found.get("id") == request_id and "method" not in found)

    async def main() -> None:
        async with served(server(call_tool=call_tool), row) as hand:
            assert (await call(hand, "bad", value))["error"]["code"] == code
            assert "result" in await call(hand, "good", "1e308")
            assert seen == [1e308]

    run(main())


@req("BASE-1", "BASE-10", "BASE-16", "PROG-2", "SEC-6", everywhere=True)
@each_row
@each_value
@pytest.mark.parametrize("last", [False, True], ids=["id first", "id last"])
@each_once
def test_an_answer_that_is_refused_unread_fails_its_call(
    row: Revision, value: str, code: int, last: bool
) -> None:
    told: list[float] = []

    def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async def main() -> None:
        async with serving(row, {"tools/call": lambda _: None}) as (client, hand):

            def send(members: Message) -> None:
                ordered = {**members, "jsonrpc": "2.0"} if last else {"jsonrpc": "2.0", **members}
                hand.send(json.dumps(ordered).replace(json.dumps(MARK), value).encode())

            waiting = asyncio.create_task(client.call_tool("x", progress=progressed))
            other = asyncio.create_task(client.call_tool("y"))
            first = await hand.get(lambda found: found.get("params", {}).get("name") == "x")
            second = await hand.get(lambda found: found.get("params", {}).get("name") == "y")
            token = {"progressToken": first["id"], "progress": MARK}
            send({"method": "notifications/progress", "params": token})
            send({"method": "notifications/progress", "params": {"progressToken": MARK, "progress": 1}})
            send({"method": "notifications/cancelled", "params": {"requestId": MARK}})
            send({"id": MARK, "result": {}})
            complete: Message = {"resultType": "complete", "content": []}
            answer: Message = {"id": first["id"], "result": {**complete, "x": MARK}}
            send({"result": answer["result"], "id": answer["id"]} if last else answer)
            with pytest.raises(mcprev.RemoteProtocolError, match=r"^(Parse error|Invalid Request): "):
                await waiting
            assert told == []
            send({"id": second["id"], "result": complete})
            assert (await other).content == []

    run(main())
