"""`mcprev call --task` and `mcprev task`: a task is started, followed, left and found again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

import mcprev
from helpers.requirements import req
from helpers.running import run
from helpers.shell import serve_here
from mcprev.cli import main
from mcprev.errors import Json
from mcprev.revisions import DEFAULT, Revision, TaskSupport
from mcprev_types.latest import models as m

WITH_TASKS: Final = [row for row in DEFAULT if row.tasks is not TaskSupport.NONE]
each_row = pytest.mark.parametrize("row", WITH_TASKS, ids=lambda row: row.name)
SHOP: Final = """
import mcprev

app = mcprev.App("shop", "1.0", tasks=mcprev.Tasks({"bake": "optional", "burn": "optional"}, poll_interval=20))


@app.tool
async def bake(what: str, ctx: mcprev.Context) -> str:
    await ctx.detach()
    return f"a {what}"


@app.tool
async def burn(ctx: mcprev.Context) -> str:
    await ctx.detach()
    raise mcprev.ToolError("burnt")


@app.tool
def price(item: str) -> int:
    return 3
"""


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    serve_here("shop.py", SHOP, monkeypatch)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False, prog_name="mcprev")


@req("TASK-3", "TASKX-4")
@each_row
def test_a_call_is_followed_as_a_task(row: Revision) -> None:
    done = invoke("call", "shop.py", "bake", "what=cake", "--task", "--as", row.name)
    assert (done.exit_code, done.stdout) == (0, "a cake\n"), done.stderr
    told = done.stderr.splitlines()
    assert all(line.startswith("task ") for line in told)
    assert told[0].split(": ")[0] == told[-1].split(": ")[0]
    assert told[-1].split(": ")[1].startswith("completed")


@req("TASK-3", "TASKX-4")
@each_row
def test_a_task_that_fails_ends_the_command_as_a_call_does(row: Revision) -> None:
    done = invoke("call", "shop.py", "burn", "--task", "--as", row.name)
    assert done.exit_code == 1
    assert "burnt" in done.stdout + done.stderr


@req("TASK-3", "TASKX-4")
@each_row
def test_a_tool_that_never_runs_as_a_task(row: Revision) -> None:
    """Where the client asks, the server refuses; where the server decides, it answers at once."""
    done = invoke("call", "shop.py", "price", "item=tea", "--task", "--as", row.name)
    if row.tasks is TaskSupport.CORE:
        assert (done.exit_code, done.stdout) == (1, "")
        assert "price" in done.stderr
    else:
        assert (done.exit_code, done.stdout) == (0, "3\n")
        assert "the server has responded at once, without a task" in done.stderr


@req("TASK-1", everywhere=True)
@pytest.mark.parametrize(
    "row", [row for row in DEFAULT if row.tasks is TaskSupport.NONE], ids=lambda row: row.name
)
@pytest.mark.parametrize("words", [("call", "shop.py", "bake", "what=x", "--task"), ("task", "shop.py", "x")])
def test_a_revision_without_tasks_says_which_have_them(row: Revision, words: tuple[str, ...]) -> None:
    done = invoke(*words, "--as", row.name)
    assert done.exit_code == 4
    names = ", ".join(each.name for each in WITH_TASKS)
    assert f"{row.name} has no tasks; the server has to speak one of {names}" in done.stderr


SALT: Final = m.ElicitRequest(
    params=m.ElicitRequestFormParams(
        message="Salt?\x1b[2J",
        requested_schema=m.ElicitRequestFormParamsRequestedSchema(properties={"much": m.BooleanSchema()}),
    )
)


class Kitchen(mcprev.ServerHandler):
    """Bakes until it is told to stop."""

    def __init__(self) -> None:
        self.baked = asyncio.Event()
        self.answers: list[str] = []

    async def list_tools(self, ctx: Any, params: Any) -> m.ListToolsResult:
        schema = m.ToolInputSchema.from_wire({"type": "object"})
        return m.ListToolsResult(tools=[m.Tool(name="bake", input_schema=schema)])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        await ctx.detach()
        if params.arguments:
            await ctx.set_status("in the oven")
            self.answers.append((await ctx.ask("salt", SALT)).action)
        await self.baked.wait()
        return m.CallToolResult(content=[m.TextContent(text="a cake")])


async def kitchen(steps: Callable[[str, Kitchen, Any], Any]) -> None:
    """Serve a kitchen at a URL, and run commands in threads beside it."""
    cook = Kitchen()
    tasks = mcprev.Tasks({"bake": "required"}, poll_interval=20)
    server = mcprev.Server(cook, "kitchen", "1", tasks=tasks)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(server.serve_http(port=0, ready=port.set_result))
    url = f"http://127.0.0.1:{await port}/mcp"

    async def command(*words: str) -> Result:
        return await asyncio.to_thread(invoke, *words, "--no-login")

    try:
        await steps(url, cook, command)
    finally:
        serving.cancel()
        await asyncio.wait({serving})
        await server.aclose()


@req("TASK-3", "TASK-5", "TASKX-4")
@each_row
def test_a_task_is_left_and_found_again(row: Revision) -> None:
    async def steps(url: str, cook: Kitchen, command: Any) -> None:
        pinned = ("--as", row.name)
        left = await command("call", url, "bake", "--task", "--no-wait", *pinned)
        assert left.exit_code == 0, left.stderr
        name = left.stdout.strip()
        status = await command("task", url, name, "--status", "--json", *pinned)
        document: dict[str, Json] = json.loads(status.stdout)
        assert document["format"] == 1
        assert document["task"]["id"] == name
        assert document["task"]["status"] == "working"
        cook.baked.set()
        found = await command("task", url, name, *pinned)
        assert (found.exit_code, found.stdout) == (0, "a cake\n"), found.stderr
        assert f"task {name}: completed" in found.stderr

    run(kitchen(steps), limit=60)


@req("TASK-5", "TASKX-4")
@each_row
def test_a_task_is_cancelled(row: Revision) -> None:
    async def steps(url: str, cook: Kitchen, command: Any) -> None:
        pinned = ("--as", row.name)
        name = (await command("call", url, "bake", "--task", "--no-wait", *pinned)).stdout.strip()
        cancelled = await command("task", url, name, "--cancel", *pinned)
        assert (cancelled.exit_code, cancelled.stdout.split(",")[0].strip()) == (0, "cancelled")
        found = await command("task", url, name, *pinned)
        assert found.exit_code == 1
        assert "was cancelled" in found.stderr
        unknown = await command("task", url, "none-such", *pinned)
        assert unknown.exit_code == 1
        assert "none-such" in unknown.stderr

    run(kitchen(steps), limit=60)


@req("TASK-3", "TASK-4", "TASK-5", "TASKX-4")
@each_row
@pytest.mark.parametrize("answered", [False, True])
def test_status_and_cancel_answer_no_question(row: Revision, tmp_path: Path, *, answered: bool) -> None:
    """With an answer at hand and without one: the question is shown where the state has it, and stays open."""
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"elicitation": {"much": True}}))

    async def steps(url: str, cook: Kitchen, command: Any) -> None:
        pinned, answer = ("--as", row.name), ("--answer", str(answers))
        name = (
            await command("call", url, "bake", "salt=ask", "--task", "--no-wait", *pinned, *answer)
        ).stdout
        given = (name.strip(), *pinned, *(answer if answered else ()))
        while (shown := await command("task", url, *given, "--status")).stdout.startswith("working"):
            pass
        told = "input_required, in the oven" + ("" if row.tasks is TaskSupport.CORE else r": Salt?\x1b[2J")
        assert (shown.exit_code, shown.stdout) == (0, told + "\n"), shown.stderr
        document = json.loads((await command("task", url, *given, "--status", "--json")).stdout)["task"]
        messages = [each["params"]["message"] for each in document.get("inputRequests", {}).values()]
        assert messages == ([] if row.tasks is TaskSupport.CORE else ["Salt?\x1b[2J"])
        cancelled = await command("task", url, *given, "--cancel")
        assert (cancelled.exit_code, cancelled.stdout.split(",")[0].strip()) == (
            0,
            "cancelled",
        ), cancelled.stderr
        assert cook.answers == []

    run(kitchen(steps), limit=60)
