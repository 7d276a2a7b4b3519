"""What a client makes of the result of a tool: its text, and its data as a type of the caller's."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from pydantic import BaseModel

import mcprev
from api.wire import Json, Message, serving
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


class Forecast(BaseModel):
    city: str
    warm: float


def text(*texts: str) -> Message:
    return {"content": [{"type": "text", "text": each} for each in texts]}


def structured(value: Json) -> Message:
    return {**text("x"), "structuredContent": value}


WARM: Final = {"city": "Rome", "warm": 1.5}
TYPED: Final[dict[str, tuple[Message, type[Any], object]]] = {
    # a result, a type, and the data as that type or the beginning of the error
    "text in JSON": (text('{"city": "Rome", "warm": 1.5}'), Forecast, Forecast(city="Rome", warm=1.5)),
    "text": (text("so", "long"), str, "so\nlong"),
    "a number": (text("5"), int, 5),
    "no JSON": (text("a lot"), int, mcprev.RemoteProtocolError("the data of the result is not of type int")),
    "too deep": (text("[" * 100_000), int, mcprev.RemoteProtocolError("the data of the result is not of type int")),
    "too much": (text("[" + "[]," * 300_000 + "[]]"), list, mcprev.RemoteProtocolError("the data of the result is not of type list")),
    "nothing": ({"content": []}, Forecast, mcprev.RemoteProtocolError("the data of the result is not of type Forecast")),
    "an error": ({**text("no such city"), "isError": True}, Forecast, mcprev.ToolError("no such city")),
    "a silent error": ({"content": [], "isError": True}, str, mcprev.ToolError("the tool failed without a reason")),
}  # fmt: skip
STRUCTURED: Final[dict[str, tuple[Message, type[Any], object]]] = {
    "structured": (structured(WARM), Forecast, Forecast(city="Rome", warm=1.5)),
    "wrapped": (structured({"result": [1, 2]}), list[int], [1, 2]),
    "wrapped text": (structured({"result": "hi"}), str, "hi"),
    "not wrapped": (structured({"result": 1}), dict[str, int], {"result": 1}),
    "a wrong member": (
        structured({**WARM, "warm": "hot"}),
        Forecast,
        mcprev.RemoteProtocolError("not of type Forecast: warm: Input should be"),
    ),
    "wrongly wrapped": (structured({"result": "x"}), int, mcprev.RemoteProtocolError("is not of type int")),
}


@req("TOOL-5", "TOOL-6", "MOD-1")
@each_row
@pytest.mark.parametrize("case", [*TYPED, *STRUCTURED])
def test_the_data_of_a_result_as_a_type(row: Revision, case: str) -> None:
    """At revisions without structured content, it is an unknown member, which is not read."""
    reply, type_, wanted = {**TYPED, **STRUCTURED}[case]
    if case in STRUCTURED and "structured_content" not in row.models.CallToolResult.model_fields:
        return

    async def main() -> None:
        async with serving(row, {"tools/call": reply}, validate="off") as (client, _):
            if isinstance(wanted, Exception):
                with pytest.raises(type(wanted)) as caught:
                    await client.call_tool("t", as_=type_)
                assert str(wanted) in str(caught.value)
                assert str(caught.value).startswith("tool 't': ") is isinstance(
                    wanted, mcprev.RemoteProtocolError
                )
            else:
                assert await client.call_tool("t", as_=type_) == wanted
                assert (await client.call_tool("t", {})).read(type_) == wanted

    run(main())


@req("TOOL-5", "MOD-1")
@each_row
def test_a_result_is_the_model_with_more_to_read(row: Revision) -> None:
    async def main() -> None:
        image = {"type": "image", "data": "eA==", "mimeType": "image/png"}
        reply = {"content": [*text("one")["content"], image, *text("two")["content"]], "x": 1}
        async with serving(row, {"tools/call": reply}) as (client, _):
            result = await client.call_tool("t")
            assert isinstance(result, m.CallToolResult)
            assert isinstance(result, mcprev.ToolResult)
            assert (result.text, result.data) == ("one\ntwo", None)
            found = result.to_wire()
            assert (found["content"], found["x"]) == (reply["content"], 1)

    run(main())


@req("TOOL-5", "TASK-4", "TASKX-4")
@each_row
def test_results_of_an_app_and_of_its_tasks(row: Revision) -> None:
    app = mcprev.App("a", "1", tasks=mcprev.Tasks({"forecast": "optional"}))

    @app.tool
    async def forecast(city: str, ctx: mcprev.Context) -> Forecast:
        await ctx.detach()
        await asyncio.sleep(0)
        return Forecast(city=city, warm=2)

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            wanted = Forecast(city="Rome", warm=2)
            found: Forecast = await client.call_tool("forecast", {"city": "Rome"}, as_=Forecast)
            assert found == wanted
            task = await client.start_tool("forecast", {"city": "Rome"})
            assert (await task.result(5)).read(Forecast) == wanted
        await app.server.aclose()

    run(main())
