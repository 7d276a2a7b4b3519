"""What a tool reads, gets, calls or lists for its client is recorded as that request, inside the call of the tool."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import pytest
from prometheus_client.samples import Sample
from pydantic import SecretStr

import mcprev
from fuzz.fuzzing import each_once
from helpers.running import run
from mcprev.middleware import Audit, Logging, Metrics, SizeLimit, Timing
from mcprev.revisions import DEFAULT, Revision
from mcprev.transforms import (
    Argument,
    CallTool,
    prompts_as_tools,
    resources_as_tools,
    tools_by_code,
    tools_by_search,
    transform_tool,
)

ROWS: Final = pytest.mark.parametrize("row", DEFAULT, ids=str)
INSIDE: Final[Mapping[str, tuple[dict[str, Any], list[str]]]] = {
    "read_resource": ({"uri": "notes://all"}, ["resources/read notes://all"]),
    "list_resources": ({}, ["resources/list", "resources/templates/list"]),
    "get_prompt": ({"name": "greet"}, ["prompts/get greet"]),
    "list_prompts": ({}, ["prompts/list"]),
    "call_tool": ({"name": "add", "arguments": {"one": 1}}, ["tools/call add"]),
    "search_tools": ({"query": "add"}, ["tools/list"]),
    "run_code": ({"code": "add"}, ["tools/call add"]),
}
"""By tool: its arguments, and what it asks of the app for its client."""


class Calling:
    """A sandbox whose code is the name of a tool to call."""

    async def run(self, code: str, call_tool: CallTool, write: object) -> object:
        del write
        return await call_tool(code, {"one": 1})


def office(tool: str, *middleware: mcprev.Middleware) -> mcprev.App:
    app = mcprev.App("office", "1", middleware=middleware)

    @app.resource("notes://all")
    async def notes() -> str:
        return "all notes"

    @app.prompt
    async def greet() -> str:
        return "hello"

    @app.tool
    async def add(one: int) -> int:
        return one + 1

    prompts_as_tools(resources_as_tools(app))
    return (
        tools_by_code(app, sandbox=Calling())
        if tool in {"run_code", "search_tools"}
        else tools_by_search(app)
    )


def serve(app: mcprev.App, row: Revision, tool: str, prefix: str | None = None) -> None:
    async def main() -> None:
        served, name, given = app, tool, dict(INSIDE[tool][0])
        if prefix is not None:
            served, name = mcprev.App("outer", "1"), f"{prefix}_{tool}"
            served.mount(app, prefix)
            given = {"uri": f"notes://{prefix}/all"} if "uri" in given else given
            given = {**given, "name": f"{prefix}_{given['name']}"} if "name" in given else given
        async with mcprev.connect(served, mode=row.name) as client:
            result = await client.call_tool(name, given)
            assert not result.is_error, result

    run(main())


def plain(name: object) -> str:
    return "" if name is None else f" {name}"


@each_once
@ROWS
@pytest.mark.parametrize("tool", INSIDE)
def test_each_recorder_sees_it_inside_the_call_of_the_tool(tool: str, row: Revision) -> None:
    lines: list[Mapping[str, Any]] = []
    logged: list[Any] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(vars(record)["mcp"])

    logger = logging.Logger("inside")
    logger.addHandler(Kept())
    wanted = INSIDE[tool][1]
    every = ["tools/call", *(each.partition(" ")[0] for each in wanted)]
    metrics, timing = Metrics(), Timing()
    serve(
        office(tool, Audit(lines.append, methods=every), Logging(logger, methods=every), metrics, timing),
        row,
        tool,
    )
    outer = f"tools/call {tool}"
    told = [line["event"] + " " + line["method"] + plain(line.get("name")) for line in lines]
    assert told == [
        f"call {outer}",
        *(part for each in wanted for part in (f"call {each}", f"end {each}")),
        f"end {outer}",
    ]
    assert [each["method"] + plain(each.get("name")) for each in logged] == [*wanted, outer]
    counted: set[str] = set()
    samples: list[Sample] = [sample for family in metrics.registry.collect() for sample in family.samples]
    for sample in samples:
        if sample.name == "mcp_calls_total":
            counted.add(f"{sample.labels['method']} {sample.labels['name']}".rstrip())
    named = {each for each in wanted if "/read" not in each} | {
        "resources/read" for each in wanted if "/read" in each
    }
    assert counted == {*named, outer}
    assert {method + plain(name) for method, name in timing.times} == {*wanted, outer}


@ROWS
def test_an_audit_of_reads_alone_records_those_through_tools(row: Revision) -> None:
    lines: list[Mapping[str, Any]] = []
    serve(office("read_resource", Audit(lines.append, methods=["resources/read"])), row, "read_resource")
    assert [(line["event"], line["name"]) for line in lines] == [
        ("call", "notes://all"),
        ("end", "notes://all"),
    ]
    assert json.loads(lines[0]["params"]) == {"uri": "notes://all"}


@pytest.mark.parametrize("tool", ["read_resource", "get_prompt", "call_tool", "run_code"])
def test_the_recorder_of_a_mounted_app_sees_it_by_its_own_names(tool: str) -> None:
    lines: list[Mapping[str, Any]] = []
    app = office(tool, Audit(lines.append))
    if tool == "run_code":
        outer = mcprev.App("outer", "1")
        outer.mount(app, "inner")

        async def main() -> None:
            async with mcprev.connect(outer) as client:
                assert not (await client.call_tool("inner_run_code", {"code": "inner_add"})).is_error

        run(main())
    else:
        serve(app, DEFAULT[-1], tool, "inner")
    names = [line["name"] for line in lines if line["event"] == "call"]
    assert names == [tool, INSIDE[tool][1][0].partition(" ")[2]]


@ROWS
def test_a_list_that_the_server_itself_reads_is_no_request_of_the_client(row: Revision) -> None:
    lines: list[Mapping[str, Any]] = []

    class Lists(mcprev.ServerHandler):
        async def list_tools(self, ctx: mcprev.Context, params: Any) -> Any:
            del ctx, params
            return {"tools": [{"name": "add", "inputSchema": {"type": "object"}}], "resultType": "complete"}

        async def call_tool(self, ctx: mcprev.Context, params: Any) -> Any:
            del ctx, params
            return {"content": [], "resultType": "complete"}

    audit = Audit(lines.append, methods=["tools/list", "tools/call"])
    server = mcprev.Server(Lists(), "lists", "1", middleware=[audit])

    async def main() -> None:
        async with mcprev.connect(server, mode=row.name) as client:
            await client.raw("tools/call", {"name": "add", "arguments": {}})

    run(main())
    assert {line["method"] for line in lines} == {"tools/call"}


@each_once
@ROWS
@pytest.mark.parametrize(
    "tool", ["read_resource", "get_prompt", "list_resources", "list_prompts", "search_tools"]
)
@pytest.mark.parametrize("limit", ["size", "rate"])
def test_what_middleware_refuses_of_an_inner_request_is_told_to_the_model(
    tool: str, limit: str, row: Revision
) -> None:
    method = {"search_tools": "tools/list"}.get(tool, INSIDE[tool][1][0].partition(" ")[0])
    middleware: mcprev.Middleware = (
        SizeLimit(256, methods=[method]) if limit == "size" else mcprev.RateLimit("1/hour", methods=[method])
    )
    app = office(tool, middleware)
    for number in range(20):  # results of more than 256 bytes
        app.resource(f"a://{number}")(lambda: "x")
        app.prompt(name=f"p{number}")(lambda: "x")
    app.resource("notes://long")(lambda: "x" * 300)
    app.prompt(name="long")(lambda: "x" * 300)
    given = {"uri": "notes://long", "name": "long", "query": "add"}

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            names = {"read_resource": "uri", "get_prompt": "name", "search_tools": "query"}
            arguments = {names[tool]: given[names[tool]]} if tool in names else {}
            results = [await client.call_tool(tool, arguments) for _ in range(2)]
            assert results[1].is_error
            assert ("bytes, more than" if limit == "size" else "too many calls") in results[1].text

    run(main())


@pytest.mark.parametrize("prefix", [None, "in"])
@pytest.mark.parametrize("tool", ["enter", "call_tool", "own"])
def test_what_a_schema_says_is_secret_is_masked_whatever_its_name(
    tool: str, prefix: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    records = list[Mapping[str, Any]]()
    middleware: list[mcprev.Middleware] = [Audit(records.append), Logging(payloads=True)]
    app = mcprev.App("office", "1", middleware=middleware)

    @app.tool
    async def login(user: str, password: str) -> str:
        return f"{user} {len(password)}"

    @app.tool
    async def own(user: str, word: SecretStr) -> str:
        return f"{user} {len(word.get_secret_value())}"

    transform_tool(app, "login", name="enter", arguments={"password": Argument(name="word")})
    tools_by_search(app)
    served, dot = app, ""
    if prefix is not None:
        served, dot = mcprev.App("outer", "1", middleware=[Audit(records.append)]), f"{prefix}_"
        served.mount(app, prefix)
    given: dict[str, Any] = {"user": "ann", "word": "hunter2"}
    if tool == "call_tool":
        given = {"name": f"{dot}enter", "arguments": given}

    async def main() -> None:
        async with mcprev.connect(served) as client:
            assert (await client.call_tool(dot + tool, given)).text == "ann 7"

    with caplog.at_level(logging.INFO):
        run(main())
    told = json.dumps([*records, caplog.text])
    assert "ann" in told
    assert "hunter2" not in told
