"""A tool that the page calls many times: how far it is, what came out, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mcprev
from dev.inspected import Page, in_memory, opened
from helpers.running import run
from mcprev.dev.repeating import MAX_CALLS
from mcprev.revisions import DEFAULT


def shop(gate: asyncio.Event | None = None) -> mcprev.App:
    app = mcprev.App("shop", "1.0")

    @app.tool
    async def price(item: str) -> str:
        if gate is not None:
            await gate.wait()
        return item

    @app.tool
    def broken() -> str:
        raise mcprev.ToolError("sold out")

    return app


async def over(page: Page) -> Any:
    return await page.until("repeat", lambda one: one["state"] not in ("running", "warming up"))


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_tool_is_called_so_often_and_the_figures_are_told(row: Any) -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop()), revision=row.name) as page:
            asked = await page.post("repeat", tool="price", arguments={"item": "tea"}, calls=7, at_once=3)
            assert asked["status"] == 200
            found = await over(page)
            assert (found["state"], found["error"], found["tool"]) == ("done", None, "price")
            assert (found["calls"], found["succeeded"], found["failed"]) == (7, 7, 0)
            assert (
                0
                < found["milliseconds"]["min"]
                <= found["milliseconds"]["p95"]
                <= found["milliseconds"]["max"]
            )
            assert (await page.get("state"))["repeat"] == found
            sent = [one for one in page.events if one.get("method") == "tools/call" and one["dir"] == "out"]
            assert (len(sent), {one["own"] for one in sent}) == (7, {True})

    run(scenario())


def test_calls_that_fail_are_counted_by_their_error() -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop())) as page:
            await page.post("repeat", tool="broken", calls=2)
            found = await over(page)
            assert (found["succeeded"], found["errors"]) == (0, {"the tool failed: sold out": 2})
            await page.post("repeat", tool="nowhere", calls=2)
            found = await page.until(
                "repeat", lambda one: one["tool"] == "nowhere" and one["state"] == "done"
            )
            assert (found["succeeded"], found["failed"]) == (0, 2)

    run(scenario())


def test_calls_are_stopped_and_a_second_run_waits_for_the_first() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with opened(in_memory(shop(gate))) as page:
            await page.post(
                "repeat", tool="price", arguments={"item": "tea"}, seconds=600, rate=100, warm_up=600
            )
            await page.until("repeat", lambda one: one["state"] == "warming up")
            second = await page.post("repeat", tool="price", arguments={"item": "tea"}, calls=1)
            assert (second["status"], second["error"]) == (400, "calls are being repeated; stop them first")
            assert (await page.post("repeat/stop"))["status"] == 200
            assert (await over(page))["state"] == "stopped"
            gate.set()
            await page.post("repeat", tool="price", arguments={"item": "tea"}, calls=1)
            assert (await page.until("repeat", lambda one: one["state"] == "done"))["succeeded"] == 1

    run(scenario())


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({}, "$.calls"),
        ({"calls": 0}, "$.calls"),
        ({"calls": MAX_CALLS + 1}, "$.calls"),
        ({"calls": True}, "$.calls"),
        ({"calls": "7"}, "$.calls"),
        ({"seconds": -1}, "$.seconds"),
        ({"seconds": 1e9}, "$.seconds"),
        ({"calls": 1, "rate": 0}, "$.rate"),
        ({"calls": 1, "at_once": 1001}, "$.at_once"),
        ({"calls": 1, "warm_up": []}, "$.warm_up"),
        ({"calls": 1, "arguments": []}, "$.arguments"),
        ({"calls": 1, "tool": 5}, "$.tool"),
    ],
    ids=range(12),
)
def test_what_cannot_be_repeated_is_refused(members: dict[str, Any], path: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop())) as page:
            found = await page.post("repeat", **{"tool": "price", **members})
            assert (found["status"], found["path"]) == (400, path)

    run(scenario())
