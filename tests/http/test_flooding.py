"""One client takes all that it can of what clients share, and another one is served (SEC-6)."""

from __future__ import annotations

import asyncio

import pytest

import mcprev
from flooding import each, ended, two, ways
from mcprev.extras.rate_limit import RateLimit
from mcprev.middleware import Metrics
from mcprev.revisions import DEFAULT, Revision
from mcprev.transforms import tools_by_code
from mcprev_types.latest import models as m
from requirements import req
from running import run, until


class Sleeps:
    """A sandbox whose code is `sleep`, or is done at once."""

    def __init__(self) -> None:
        self.asleep = 0

    async def run(self, code: str, call_tool: object, write: object) -> object:
        if code == "sleep":
            self.asleep += 1
            await asyncio.Event().wait()
        return code


@req("SEC-6")
@each
@ways
@pytest.mark.parametrize("most", [16, 4])
def test_code_that_sleeps_refuses_nobody_else(row: Revision, way: str, most: int) -> None:
    app, sandbox = mcprev.App("office", "1"), Sleeps()
    tools_by_code(app, sandbox=sandbox, max_running=most)

    async def main() -> None:
        async with two(app, row, way) as (flood, honest):
            asleep = [flood.call("run_code", {"code": "sleep"}, number) for number in range(most // 4)]
            await until(lambda: sandbox.asleep == most // 4)
            refused = await flood.call("run_code", {"code": "sleep"}, 100).done()
            assert "of this client runs at present" in refused.result["content"][0]["text"]
            assert (await honest.call("run_code", {"code": "1"}).done()).text == "1"
            await ended(flood, asleep)
            assert (await flood.call("run_code", {"code": "2"}).done()).text == "2"

    run(main())


def test_a_share_of_runs_can_be_set_and_a_client_on_a_pipe_has_all() -> None:
    app, sandbox = mcprev.App("office", "1"), Sleeps()
    tools_by_code(app, sandbox=sandbox, max_running=3, max_running_each=2)

    async def main() -> None:
        async with two(app, DEFAULT[-1], "principal") as (flood, honest):
            asleep = [flood.call("run_code", {"code": "sleep"}, number) for number in range(2)]
            await until(lambda: sandbox.asleep == 2)
            assert "of this client" in (await flood.call("run_code", {"code": "1"}).done()).text
            asleep.append(honest.call("run_code", {"code": "sleep"}))
            await until(lambda: sandbox.asleep == 3)
            assert "too much code runs" in (await honest.call("run_code", {"code": "1"}).done()).text
            await ended(flood, asleep)
        async with mcprev.connect(app) as piped:
            runs = [asyncio.create_task(piped.call_tool("run_code", {"code": "sleep"})) for _ in range(3)]
            await until(lambda: sandbox.asleep == 6)
            for task in runs:
                task.cancel()
            await asyncio.wait(runs)

    run(main())


@req("SEC-6")
@each
def test_a_rate_is_that_of_each_address_where_nothing_authenticates(row: Revision) -> None:
    app = mcprev.App("office", "1", middleware=[RateLimit("2/minute")])
    app.tool(name="fine")(lambda: "fine")

    async def main() -> None:
        async with two(app, row, "address") as (flood, honest):
            assert [(await flood.call("fine").done()).text for _ in range(2)] == ["fine"] * 2
            assert "too many calls" in (await flood.call("fine").done()).text
            assert (await honest.call("fine").done()).text == "fine"

    run(main())


class Lenient(mcprev.ServerHandler):
    """Lists one tool, and answers calls of others as many servers do: the tool has failed."""

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        return m.CallToolResult(content=[], is_error=params.name != "served")

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(
            tools=[m.Tool(name=name, input_schema=m.ToolInputSchema()) for name in ("real", "served")]
        )


@req("SEC-6")
@pytest.mark.parametrize("validate", [True, False])
@each
def test_names_that_a_client_makes_up_are_one_label(row: Revision, *, validate: bool) -> None:
    metrics = Metrics(max_names=20)
    server = mcprev.Server(Lenient(), "lenient", "1", middleware=[metrics], validate=validate)

    async def main() -> None:
        async with two(server, row, "address") as (flood, honest):
            for number in range(50):
                await flood.call(f"made-up-{number}").done()
            await honest.request("tools/list").done()
            await honest.call("real").done()
            await honest.call("served").done()

    run(main())
    labels = {
        sample.labels["name"]
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "mcp_calls_total" and sample.labels["method"] == "tools/call"
    }
    assert labels == {"other", "real", "served"}
