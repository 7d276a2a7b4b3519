"""Calls of the page at every revision: what is sent, what comes back, and which events belong to them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mcprev
from dev.inspected import in_memory, opened
from helpers.running import run
from mcprev.revisions import ALL

REVISIONS = [revision.name for revision in ALL]


def weather() -> mcprev.App:
    app = mcprev.App("weather", "1.0")

    @app.tool
    async def forecast(city: str, days: int = 3, *, ctx: mcprev.Context) -> dict[str, Any]:
        """Forecasts."""
        await ctx.progress(1, days, "day 1")
        return {"city": city, "celsius": [0.0, 1.5]}

    @app.tool
    def broken() -> str:
        raise ValueError("no weather")

    @app.resource("weather://now")
    def now() -> str:
        return "sunny"

    return app


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_call_tells_its_progress_and_the_text_of_its_result_on_the_wire(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(weather()), revision=revision) as page:
            call = await page.call("tools/call", {"name": "forecast", "arguments": {"city": "Rome"}})
            assert (call["state"], call["revision"], call["error"]) == ("done", revision, None)
            assert call["progress"] == {"progress": 1, "total": 3, "message": call["progress"]["message"]}
            assert "[0.0,1.5]" in call["result"].replace(" ", "").replace("\\", "")
            event = await page.get(f"event/{call['response']}")
            assert json.loads(event["text"])["result"] == json.loads(call["result"])
            mine = [one for one in page.events if one.get("call") == call["call"]]
            assert [(one["dir"], one["shape"]) for one in mine] == [
                ("out", "request"), ("in", "notification"), ("in", "result"),
            ]  # fmt: skip
            assert [one["own"] for one in mine] == [False] * 3
            assert mine[1]["answers"] == mine[2]["answers"] == mine[0]["n"] == call["first"]
            assert all(one["own"] for one in page.events if one["dir"] == "out" and one not in mine)

    run(scenario())
