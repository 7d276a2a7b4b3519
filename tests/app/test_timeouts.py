"""`@app.tool(timeout=...)`: a call ends within its time, whatever it waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import pytest

import mcprev
from helpers.requirements import D, req
from helpers.running import run
from mcprev.transforms import transform_tool

TOO_LONG = "the tool took longer than 0.05 s, so it was cancelled"


async def opened(ctx: mcprev.Context) -> str:
    if "waits" in ctx.lifespan(set):
        await asyncio.Event().wait()
    return "there"


@req("TOOL-7", everywhere=True)
@pytest.mark.parametrize("way", ["async", "thread", "dependency", "question", "transformed"])
def test_a_tool_that_takes_too_long_is_ended_and_the_model_reads_so(way: str) -> None:
    ended: list[str] = []
    go = threading.Event()

    async def lifespan(_: mcprev.Server) -> AsyncGenerator[set[str], None]:
        yield {"waits"} if way == "dependency" else set()

    app = mcprev.App("slow", "1", lifespan=lifespan)

    async def slow(ctx: mcprev.Context, on: Annotated[str, mcprev.Depends(opened)]) -> str:
        try:
            if way == "question":
                await ctx.elicit("Who?", str)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return on

    def blocks() -> str:
        go.wait(20)
        return "late"

    app.tool(blocks if way == "thread" else slow, name="slow", timeout=0.05)
    if way == "transformed":
        transform_tool(app, "slow", name="slower")

    async def never(_: Any) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        name = "slower" if way == "transformed" else "slow"
        async with mcprev.connect(app, mode=D, elicitation=never) as client:
            result = await client.call_tool(name)
            assert (result.is_error, result.text) == (True, TOO_LONG)
        go.set()

    run(main())
    assert ended == ([] if way in {"thread", "dependency"} else ["cancelled"])


def test_what_ends_in_time_and_its_own_timeout_pass() -> None:
    app = mcprev.App("quick", "1", show_errors=True)

    @app.tool(timeout=20)
    async def quick(own: bool = False) -> str:
        if own:
            raise TimeoutError("the database")
        return "done"

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert (await client.call_tool("quick")).text == "done"
            assert "the database" in (await client.call_tool("quick", {"own": True})).text

    run(main())


@pytest.mark.parametrize("wrong", [0, -1, True, "5", None, float("nan"), float("inf")])
def test_a_timeout_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"the timeout .* is not a positive number of seconds"):
        mcprev.App("x", "1").tool(lambda: 1, name="x", timeout=wrong)
