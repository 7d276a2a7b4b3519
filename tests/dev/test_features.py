"""Lists, changes, subscriptions, logs, tasks, revisions and the end of a server, as the page is told of them."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

import pytest

import mcprev
from dev.inspected import in_memory, opened
from helpers.running import run
from mcprev.dev.launch import DirectLauncher, ignore
from mcprev.revisions import ALL
from mcprev_types.latest import models

REVISIONS = [revision.name for revision in ALL]
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}
TASKS = [revision.name for revision in ALL if revision.tasks.value != "none"]


def shop() -> mcprev.App:
    app = mcprev.App("shop", "1.0")
    stock = {"n": 1}
    go_on = asyncio.Event()

    @app.tool
    async def add() -> str:
        """Adds a tool and changes a resource."""

        @app.tool
        def extra() -> str:
            return "extra"

        stock["n"] += 1
        app.server.changed("resource", "shop://stock")
        return "added"

    @app.tool
    async def speak(ctx: mcprev.Context) -> str:
        await ctx.log("debug", "not wanted")
        await ctx.log("warning", {"low": "stock"})
        return "spoken"

    @app.tool(task="optional")
    async def build(ctx: mcprev.Context) -> str:
        await ctx.detach(message="queued")
        await go_on.wait()
        return "built"

    @app.tool
    async def finish() -> str:
        go_on.set()
        return "finished"

    @app.resource("shop://stock")
    def stock_now() -> str:
        return str(stock["n"])

    @app.resource("shop://items/{item}")
    def item(item: str) -> str:
        return item

    @app.prompt
    def greet(name: str) -> str:
        return f"greet {name}"

    @app.completion("greet", "name")
    def names(value: str) -> list[str]:
        return [name for name in ("Ann", "Bob") if name.startswith(value)]

    return app


def _has(kind: str, text: str, told: dict[str, Any]) -> bool:
    return told["kind"] == kind and told["state"] == "ready" and text in json.dumps(told["items"])


@pytest.mark.parametrize("pages", [False, True])
def test_tools_that_only_a_page_calls_are_listed_for_a_client_that_shows_pages(pages: bool) -> None:
    app = mcprev.App("clock", "1")
    clock = app.ui("ui://clock", "<!doctype html>")

    @app.tool
    def now() -> str:
        return "noon"

    @app.tool(ui=clock.app_only)
    def tick() -> str:
        return "43200"

    async def scenario() -> None:
        async with opened(in_memory(app), pages=pages) as page:
            await page.post("list", kind="tools")
            told = await page.until("lists", partial(_has, "tools", "now"))
            assert ("tick" in json.dumps(told["items"])) == pages

    run(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_lists_are_read_when_they_are_wanted_and_again_when_they_change(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop()), revision=revision) as page:
            assert (await page.get("state"))["lists"] == {}
            for kind, name in (
                ("tools", "add"), ("resources", "shop://stock"), ("templates", "shop://items/{item}"),
                ("prompts", "greet"),
            ):  # fmt: skip
                await page.post("list", kind=kind)
                await page.until("lists", partial(_has, kind, name))
            await page.call("tools/call", {"name": "add", "arguments": {}})
            await page.until("lists", lambda one: "extra" in json.dumps(one["items"]))
            problems = await page.post("check", tool="add", arguments={"x": 1})
            assert problems["status"] == 200

    run(scenario())


@pytest.mark.parametrize("revision", REVISIONS)
def test_prompts_resources_and_completions_are_called(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop()), revision=revision) as page:
            prompt = await page.call("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}})
            assert "greet Ann" in prompt["result"]
            resource = await page.call("resources/read", {"uri": "shop://items/7"})
            assert '"7"' in resource["result"]
            ref = {"type": "ref/prompt", "name": "greet"}
            typed = {"name": "name", "value": "B"}
            completed = await page.call("completion/complete", {"ref": ref, "argument": typed})
            assert json.loads(completed["result"])["completion"]["values"] == ["Bob"]
            missing = await page.call("resources/read", {"uri": "shop://none"})
            assert (missing["state"], missing["error"]["code"] < 0) == ("failed", True)
            unknown = await page.call("shop/unknown", {"x": 1})
            assert (unknown["state"], unknown["error"]["code"]) == ("failed", -32601)

    run(scenario())


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_resource_is_subscribed_to_and_its_changes_are_told(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop()), revision=revision) as page:
            found = await page.post("subscribe", uri="shop://stock", on=True)
            assert (found["status"], found["subscriptions"]) == (200, ["shop://stock"])
            await page.call("tools/call", {"name": "add", "arguments": {}})
            told = await page.until("updated", lambda _: True)
            assert told["uri"] == "shop://stock"
            assert (await page.get(f"event/{told['n']}"))["summary"]["dir"] == "in"
            assert (await page.post("subscribe", uri="shop://stock", on=False))["subscriptions"] == []

    run(scenario())


@pytest.mark.parametrize("revision", REVISIONS)
def test_log_messages_are_told_from_the_wanted_level_up(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop()), revision=revision) as page:
            assert (await page.post("level", level="info"))["status"] == 200
            call = await page.call("tools/call", {"name": "speak", "arguments": {}})
            line = await page.until("log", lambda _: True)
            assert (line["level"], line["data"], line["call"]) == ("warning", {"low": "stock"}, call["call"])
            state = await page.get("state")
            assert (state["level"], [one["level"] for one in state["logs"]]) == ("info", ["warning"])

    run(scenario())


@pytest.mark.parametrize("revision", TASKS)
@pytest.mark.parametrize("end", ["completed", "cancelled"])
def test_a_task_is_followed_and_cancelled(revision: str, end: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop()), revision=revision) as page:
            call = await page.post(
                "call", method="tools/call", params={"name": "build", "arguments": {}}, task=True
            )
            task = await page.until("task", lambda one: one["call"] == call["call"])
            assert task["status"] == "working"
            shown = await page.until("call", lambda one: one["task"] is not None)
            assert (shown["call"], shown["task"]) == (call["call"], task["task"])
            path = f"task/{task['task']}"
            assert (await page.post(path, do="get"))["task"] == task["task"]
            if end == "cancelled":
                assert (await page.post(path, do="cancel"))["status"] == 200
            else:
                await page.call("tools/call", {"name": "finish", "arguments": {}})
            ended = await page.ended(call["call"])
            if end == "completed":
                assert ("built" in ended["result"], ended["error"]) == (True, None)
            await page.post(path, do="get")
            told = await page.until("task", lambda one: one["status"] == end)
            assert told["task"] == task["task"]

    run(scenario())


def test_the_same_call_is_made_at_every_other_revision_on_connections_of_their_own() -> None:
    async def scenario() -> None:
        async with opened(in_memory(shop())) as page:
            seen: dict[str, dict[str, Any]] = {}
            for revision in REVISIONS:
                call = await page.call("tools/call", {"name": "finish", "arguments": {}}, revision=revision)
                assert (call["revision"], call["state"]) == (revision, "done")
                seen[revision] = (await page.get(f"event/{call['response']}"))["summary"]
            assert {revision: one["revision"] for revision, one in seen.items()} == {
                name: name for name in REVISIONS
            }
            assert len({one["conn"] for one in seen.values()}) == len(REVISIONS)
            target = (await page.get("state"))["target"]
            assert (target["pinned"], target["revision"]) == (None, REVISIONS[-2])
            page.told.clear()
            await page.post("revision", revision=REVISIONS[0])
            now = await page.until(
                "target", lambda one: one["state"] == "connected" and one["revision"] == REVISIONS[0]
            )
            assert (now["pinned"], now["era"]) == (REVISIONS[0], "session")

    run(scenario())


def liar() -> mcprev.Server:
    class Handler(mcprev.ServerHandler):
        async def list_tools(self, ctx: mcprev.Context, params: Any) -> models.ListToolsResult:
            output = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            tool = models.Tool.from_wire({"name": "count", "inputSchema": SCHEMA, "outputSchema": output})
            return models.ListToolsResult(tools=[tool])

        async def call_tool(
            self, ctx: mcprev.Context, params: models.CallToolRequestParams
        ) -> models.CallToolResult:
            return models.CallToolResult.from_wire({"content": [], **(params.arguments or {})})

    return mcprev.Server(Handler(), "liar", "1", validate=False)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"structuredContent": {"n": 1}}, None),
        ({"structuredContent": {"n": "one"}}, "$.result.structuredContent.n"),
        ({"structuredContent": {}}, "$.result.structuredContent.n"),
        ({}, "$.result.structuredContent"),
        ({"isError": True}, None),
    ],
)
def test_the_result_of_a_tool_is_judged_by_its_output_schema(
    arguments: dict[str, Any], path: str | None
) -> None:
    async def scenario() -> None:
        async with opened(in_memory(liar())) as page:
            await page.post("list", kind="tools")
            await page.until("lists", lambda one: one["state"] == "ready")
            assert (await page.post("check", tool="count", arguments={"x": 1}))["problems"] == [
                {"path": "$.x", "text": "is not of type string"}
            ]
            call = await page.call("tools/call", {"name": "count", "arguments": arguments})
            number = call["response"]
            found = (await page.get(f"event/{number}"))["problems"]
            assert [one["path"] for one in found] == ([] if path is None else [path])
            assert await page.verdict(number) == len(found)

    run(scenario())


DIES = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif message["method"] == "tools/call":
        print("about to die", file=sys.stderr, flush=True)
        sys.exit(3)
    elif "id" in message:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""


def command(*words: str) -> DirectLauncher:
    return DirectLauncher(
        " ".join(words), ("--", *words), lambda: mcprev.stdio(*words, stderr=ignore), kind="command",
        transport="stdio",
    )  # fmt: skip


def test_a_server_that_dies_is_told_of_and_started_again_by_the_next_call() -> None:
    async def scenario() -> None:
        async with opened(command(sys.executable, "-c", DIES)) as page:
            died = await page.call("tools/call", {"name": "x"})
            assert (died["state"], "exited with 3" in died["error"]["message"]) == ("failed", True)
            told = await page.until("target", lambda one: one["state"] == "stopped")
            assert "about to die" in told["error"]["traceback"]
            assert "about to die" in (await page.until("stderr", lambda _: True))["text"]
            assert (await page.post("list", kind="tools"))["status"] == 409
            again = await page.call("tools/list")
            assert (again["state"], again["error"]["code"]) == ("failed", -32601)
            assert (await page.get("state"))["target"]["state"] == "connected"

    run(scenario())


def test_a_server_that_does_not_start_says_why_and_can_be_started_again() -> None:
    async def scenario() -> None:
        async with opened(command("no-such-program-at-all")) as page:
            failed = (await page.get("state"))["target"]
            assert (failed["state"], failed["error"]["kind"]) == ("failed", "ProcessExited")
            assert "no-such-program-at-all" in failed["error"]["text"]
            page.told.clear()
            assert (await page.post("restart"))["status"] == 200
            assert (await page.until("target", lambda one: one["state"] == "failed"))["error"] == failed[
                "error"
            ]
            call = await page.call("ping")
            assert call["state"] == "failed"

    run(scenario())
