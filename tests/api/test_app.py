"""Servers made of functions, at every revision: tools, resources, prompts and completions of an app."""

# pyright: reportPrivateUsage=false, reportUnusedFunction=false

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent import futures
from dataclasses import dataclass
from typing import Annotated, Any, assert_type

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import mcprev
from api.authors import Helpful, sample, text
from api.transports import reach
from api.wire import most_values
from fuzz.fuzzing import each_once
from helpers.corpus import Corpus
from helpers.named import NAMED, ROW_A, rows_since
from helpers.requirements import B, C, D, E, req
from helpers.running import Records, run, until
from helpers.support import GENERATED, load
from mcprev.app.handlers import PAGE
from mcprev.app.results import BLOCKS, ToolReturns
from mcprev.app.signatures import Function
from mcprev.errors import (
    InternalError,
    InvalidParams,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    ResourceNotFound,
    RpcError,
)
from mcprev.protocol.result_rules import MOST_VALUES
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_codegen.python.names import module_name
from mcprev_types import UnknownContent
from mcprev_types.latest import models as m

Work = Callable[[mcprev.Client], Awaitable[None]]
OBJECTS = rows_since(C)
"""The revisions with structured content, of objects at first."""
VALUES = rows_since(NAMED[4])
"""Those with structured content of any kind."""


@dataclass
class Point:
    x: int
    y: float = 0.5


class Box(TypedDict):
    size: int


class Tree(BaseModel):
    value: Annotated[int, Field(ge=0)]
    children: list[Tree] = []


def at(row: Revision, app: mcprev.App, work: Work, **options: Any) -> None:
    """Do something with a client of an app that speaks a revision."""

    async def main() -> None:
        async with (
            reach(app.server, row) as target,
            mcprev.connect(target, mode=row.name, **options) as client,
        ):
            assert client.revision == row.name
            await work(client)

    run(main())


def said(result: m.CallToolResult | m.InputRequiredResult) -> list[str]:
    assert isinstance(result, m.CallToolResult)
    return [block.text for block in result.content if isinstance(block, m.TextContent)]


async def raised(call: Coroutine[Any, Any, object]) -> McpError:
    with pytest.raises(McpError) as caught:
        await call
    return caught.value


class Logged:
    """What the server logs meanwhile."""

    def __enter__(self) -> list[logging.LogRecord]:
        self._records = Records()
        logging.getLogger("mcprev.server").addHandler(self._records)
        return self._records.records

    def __exit__(self, *_: object) -> None:
        logging.getLogger("mcprev.server").removeHandler(self._records)


# -- tools -----------------------------------------------------------------------------------------------


def returns(value: Any, hint: Any = inspect.Signature.empty) -> mcprev.App:
    """An app with a tool `t` that returns something."""
    app = mcprev.App("a", "1")

    async def t() -> Any:
        return value

    t.__annotations__ = {} if hint is inspect.Signature.empty else {"return": hint}
    app.tool(t)
    return app


NONE = object()
BARE = inspect.Signature.empty
BLOB = m.EmbeddedResource(
    resource=m.BlobResourceContents(uri="tool:t", mime_type="application/octet-stream", blob="AP8=")
)
LINK = m.ResourceLink(name="n", uri="a:b")
IMAGE = m.ImageContent(data="AA==", mime_type="image/png")
RESULTS: list[tuple[Any, Any, list[str], Any]] = [
    # the annotation, the value, the texts that are read, the structured content where there can be any
    (None, None, [], NONE),
    (str, "hi", ["hi"], NONE),
    (BARE, "hi", ["hi"], NONE),
    (BARE, None, [], NONE),
    (BARE, [], [], NONE),
    (BARE, {"a": 1}, ['{"a":1}'], NONE),
    (BARE, ["a", "b"], ['["a","b"]'], NONE),
    (BARE, Point(1), ['{"x":1,"y":0.5}'], NONE),
    (str, 5, ["5"], NONE),
    (m.TextContent, m.TextContent(text="hi"), ["hi"], NONE),
    (list[m.TextContent | str], [m.TextContent(text="a"), "b"], ["a", "b"], NONE),
    (list[m.ContentBlock], [IMAGE, m.TextContent(text="a")], ["a"], NONE),
    (m.CallToolResult, text("mine"), ["mine"], NONE),
    (dict[str, Any], {"a": [1.0, None]}, ['{"a":[1.0,null]}'], {"a": [1.0, None]}),
    (Point, Point(1), ['{"x":1,"y":0.5}'], {"x": 1, "y": 0.5}),
    (Point, {"x": 1}, ['{"x":1,"y":0.5}'], {"x": 1, "y": 0.5}),
    (Box, {"size": 1}, ['{"size":1}'], {"size": 1}),
    (Tree, Tree(value=1, children=[Tree(value=2)]), ['{"value":1,"children":[{"value":2,"children":[]}]}'], {"value": 1, "children": [{"value": 2, "children": []}]}),
    (Point | m.CallToolResult, Point(2), ['{"x":2,"y":0.5}'], {"x": 2, "y": 0.5}),
    (Point | m.CallToolResult, m.CallToolResult(content=[], structured_content={"x": 3}), ['{"x":3}'], {"x": 3}),
    (Point | m.CallToolResult, m.CallToolResult(content=[], is_error=True), [], NONE),
    (int | m.CallToolResult, m.CallToolResult(content=[], structured_content=4), ["4"], 4),
    (int | m.CallToolResult, m.CallToolResult(content=[m.TextContent(text="4")], structured_content=4), ["4"], 4),
    (int, 3, ["3"], 3),
    (float, 3.0, ["3.0"], 3.0),
    (bool, False, ["false"], False),
    (list[str], ["a", "é"], ['["a","é"]'], ["a", "é"]),
    (Point | None, None, ["null"], None),
]  # fmt: skip


def is_object(value: object) -> bool:
    return isinstance(value, dict)


@req("TOOL-1", "TOOL-4", "TOOL-5", "CONV-3", "CONV-4", "SEAM-1")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize(("hint", "value", "texts", "structured"), RESULTS)
@each_once
def test_what_a_tool_returns(row: Revision, hint: Any, value: Any, texts: Any, structured: Any) -> None:
    """Data is structured where the revision has that, of objects or of anything, and text everywhere."""

    async def work(client: mcprev.Client) -> None:
        [tool] = [tool async for tool in client.tools()]
        result = await client.call_tool("t")
        assert said(result) == texts
        wire = result.to_wire()
        there = structured is not NONE and row in OBJECTS
        wrapped = row not in VALUES and not is_object(structured)
        data = {"result": structured} if wrapped else structured
        assert wire.get("structuredContent", NONE) == (data if there else NONE)
        if there and wrapped and tool.output_schema is not None:
            assert tool.output_schema.to_wire()["required"] == ["result"]
        if there or row not in OBJECTS:
            assert (tool.output_schema is not None) is there

    at(row, returns(value, hint), work)


@req("TOOL-4", "CONV-4")
@pytest.mark.parametrize(
    ("hint", "value", "blocks"),
    [
        (bytes, b"\0\xff", [BLOB]), (BARE, b"\0\xff", [BLOB]), (bytes | None, b"\0\xff", [BLOB]),
        (list[bytes | str], [b"\0\xff", "a"], [BLOB, m.TextContent(text="a")]), (BARE, [b"\0\xff"], [BLOB]),
    ],
)  # fmt: skip
def test_bytes_are_sent_as_a_resource(row: Revision, hint: Any, value: Any, blocks: list[Any]) -> None:
    async def work(client: mcprev.Client) -> None:
        assert [tool.output_schema async for tool in client.tools()] == [None]
        assert (await client.call_tool("t")).to_wire()["content"] == [block.to_wire() for block in blocks]

    at(row, returns(value, hint), work)


@req("TOOL-4", "ERR-1", "SEAM-4")
@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "secret"), (Point, {"secret": 1}), (Point, None), (float, float("nan")), (Box, [1]),
        (Tree, Tree.model_construct(value="secret")), (Annotated[int, Field(ge=5)] , 3), (list[int], {"secret"}),
        (Point | m.CallToolResult, text("no data")),
    ],
)  # fmt: skip
def test_data_that_is_not_what_the_annotation_says_is_not_shipped(
    row: Revision, hint: Any, value: Any
) -> None:
    async def work(client: mcprev.Client) -> None:
        with Logged() as records:
            result = await client.call_tool("t")
        assert (result.is_error, said(result)) == (True, ["the tool 't' failed"])
        assert "'t'" in str(records[0].exc_info)

    at(row, returns(value, hint), work)


def asking() -> mcprev.App:
    """An app with tools that take arguments, fail and ask."""
    app = mcprev.App("a", "1")

    @app.tool
    async def add(a: int, b: Annotated[int, Field(ge=0)] = 1, *, ctx: mcprev.Context) -> str:
        """Adds."""
        return f"{a + b} at {ctx.revision}"

    @app.tool(
        name="fails",
        title="Fails",
        annotations=m.ToolAnnotations(read_only_hint=True),
        meta={"com.example/x": 1},
    )
    async def fail(how: str) -> str:
        raise {
            "told": mcprev.ToolError("the disk is full"),
            "crash": RuntimeError("secret"),
            "error": mcprev.RpcError("mine", code=-31000, data=1),
        }[how]

    @app.tool
    async def ask(ctx: mcprev.Context) -> str:
        return f"{(await ctx.ask('q', sample())).model} said it"

    @app.tool
    async def explicit(ctx: mcprev.Context) -> str | m.InputRequiredResult:
        answers = ctx.answers.given
        return f"{sorted(answers)}" if answers else m.InputRequiredResult(input_requests={"k": sample()})

    return app


@req("TOOL-2", "TOOL-3", "CONV-35")
def test_arguments(row: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        assert said(await client.call_tool("add", {"a": 2})) == [f"3 at {row.name}"]
        assert said(await client.call_tool("add", {"a": 2.0, "b": 10**20})) == [f"{10**20 + 2} at {row.name}"]
        wrong: tuple[tuple[Any, str], ...] = (
            (None, "arguments.a is missing"), ({}, "arguments.a is missing"), ({"a": "two"}, "arguments.a is wrong: "),
            ({"a": 1.5}, "arguments.a is wrong: "), ({"a": 1, "c": 1}, "arguments.c is not known here"),
            ({"a": 1, "b": -1}, "arguments.b is wrong: "), ({"a": 1, "ctx": {}}, "arguments.ctx is not known here"),
        )  # fmt: skip
        for arguments, says in wrong:
            wanted = f"Invalid arguments for tool 'add': {says}"
            if row.tool_argument_errors_are_results:
                result = await client.call_tool("add", arguments)
                assert result.is_error is True
                assert said(result)[0].startswith(wanted)
            else:
                error = await raised(client.call_tool("add", arguments))
                assert isinstance(error, InvalidParams)
                assert error.message.startswith(wanted)

    at(row, asking(), work)


@req("TOOL-1", "TOOL-8", "ERR-1")
def test_how_tools_fail(row: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        result = await client.call_tool("fails", {"how": "told"})
        assert (result.is_error, said(result)) == (True, ["the disk is full"])
        with Logged() as records:
            result = await client.call_tool("fails", {"how": "crash"})
        assert (result.is_error, said(result)) == (True, ["the tool 'fails' failed"])
        assert "secret" in str(records[0].exc_info)
        mine = await raised(client.call_tool("fails", {"how": "error"}))
        assert isinstance(mine, RpcError)
        assert (mine.code, mine.message, mine.data) == (-31000, "mine", 1)
        unknown = await raised(client.call_tool("nothing"))
        assert isinstance(unknown, InvalidParams)
        assert unknown.message == "Unknown tool: nothing"

    at(row, asking(), work)


@req("MRTR-1", "MRTR-11", "SEAM-1")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_tools_ask(row: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        assert said(await client.call_tool("ask")) == ["mm said it"]
        assert said(await client.call_tool("explicit")) == ["['k']"]

    at(row, asking(), work, handler=Helpful())


@req("TOOL-1", "TOOL-9", at=(B, C, D, E))
@pytest.mark.parametrize("row", rows_since(B), ids=lambda row: row.name)
def test_what_is_said_of_a_tool(row: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        tools = {tool.name: tool async for tool in client.tools()}
        assert list(tools) == ["add", "fails", "ask", "explicit"]
        assert tools["add"].description == "Adds."
        fails = tools["fails"]
        assert fails.annotations is not None
        assert fails.annotations.read_only_hint is True
        assert "Fails" in (fails.title, fails.annotations.title)
        if row in OBJECTS:
            assert fails.meta == {"com.example/x": 1}

    at(row, asking(), work)


# -- resources -------------------------------------------------------------------------------------------


def reading() -> mcprev.App:
    app = mcprev.App("a", "1")

    @app.resource("config://settings", title="Settings", mime_type="text/x-ini")
    async def settings(ctx: mcprev.Context) -> str:
        """All of them."""
        return f"a = {ctx.request.method}"

    @app.resource("data://bytes")
    def raw() -> bytes:
        return b"\0\1"

    @app.resource("data://json")
    def data(unused: int = 3) -> Point:
        return Point(unused)

    @app.resource("data://several")
    async def several() -> list[m.TextResourceContents]:
        return [m.TextResourceContents(uri=f"data://several/{part}", text=part) for part in "ab"]

    @app.resource("data://whole")
    async def whole() -> m.ReadResourceResult:
        return m.ReadResourceResult(contents=[m.TextResourceContents(uri="data://whole", text="w")], ttl_ms=7)

    @app.resource("data://ask")
    async def asks(ctx: mcprev.Context) -> str:
        return (await ctx.ask("q", sample())).model

    @app.resource("users://{number}/profile", mime_type="text/plain", description="Of one user.")
    async def by_number(number: int) -> str | None:
        return f"number {number + 0}" if number < 9 else None

    @app.resource("users://{name}/profile")
    async def by_name(name: str) -> str:
        return f"name {name}"

    @app.resource("users://7/profile")
    async def seven() -> str:
        return "seven"

    @app.resource("file:///{+path}")
    async def files(path: str) -> str:
        return path

    return app


@req("RES-1", "RES-2", "RES-3", "RES-4", "ERR-2")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_resources(row: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        async def read(uri: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await client.read_resource(uri)).to_wire()["contents"]
            return found

        names = [resource.name async for resource in client.resources()]
        assert names == ["settings", "raw", "data", "several", "whole", "asks", "seven"]
        templates = [template.uri_template async for template in client.resource_templates()]
        assert templates == ["users://{number}/profile", "users://{name}/profile", "file:///{+path}"]
        assert await read("config://settings") == [
            {"uri": "config://settings", "mimeType": "text/x-ini", "text": "a = resources/read"}
        ]
        assert await read("data://bytes") == [{"uri": "data://bytes", "blob": "AAE="}]
        assert await read("data://json") == [
            {"uri": "data://json", "mimeType": "application/json", "text": '{"x":3,"y":0.5}'}
        ]
        assert [part["text"] for part in await read("data://several")] == ["a", "b"]
        assert (await client.read_resource("data://whole")).ttl_ms == (7 if row in VALUES else 0)
        assert (await read("data://ask"))[0]["text"] == "mm"
        for uri, content in (
            ("users://8/profile", "number 8"),
            ("users://7/profile", "seven"),
            ("users://bob%20b/profile", "name bob b"),
            ("file:///a/b", "a/b"),
        ):
            assert [part["text"] for part in await read(uri)] == [content]
        for uri in ("config://other", "users://9/profile", "users://9/profile/x"):
            error = await raised(client.read_resource(uri))
            assert isinstance(error, ResourceNotFound)
            assert (error.code, error.data) == (row.resource_not_found, {"uri": uri})
        assert isinstance(await raised(client.read_resource("no uri")), InvalidParams)

    at(row, reading(), work, handler=Helpful())


# -- prompts and completions -----------------------------------------------------------------------------


def prompting() -> mcprev.App:
    app = mcprev.App("a", "1")

    @app.prompt
    def review(
        code: Annotated[str, Field(description="what to look at")], language: str = "python", times: int = 1
    ) -> str:
        """Reviews code."""
        return f"{language}: {code}" * times

    @app.prompt(name="talk", title="Talk")
    async def talking() -> list[m.PromptMessage | str | m.ContentBlock]:
        return [m.PromptMessage(role="assistant", content=m.TextContent(text="hi")), "you", IMAGE]

    @app.prompt
    async def whole(ctx: mcprev.Context) -> m.GetPromptResult:
        model = (await ctx.ask("q", sample())).model
        return m.GetPromptResult(
            description="mine", messages=[m.PromptMessage(role="user", content=m.TextContent(text=model))]
        )

    @app.prompt
    async def wrong() -> Any:
        return 5

    @app.resource("users://{name}")
    async def user(name: str) -> str:
        return name

    @app.completion("review", "language")
    def languages(value: str) -> list[str]:
        return [name for name in ("perl", "python", "rust") if name.startswith(value)]

    @app.completion("users://{name}", "name")
    async def names(value: str, arguments: dict[str, str], ctx: mcprev.Context) -> m.CompleteResultCompletion:
        return m.CompleteResultCompletion(values=[value, str(arguments), ctx.revision])

    @app.completion("review", "code")
    async def many(value: str) -> Any:
        return 5 if value else (str(number) for number in range(MOST_VALUES + 1))

    return app


@req("PROM-1", "PROM-2")
def test_prompts(row: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        prompts = {prompt.name: prompt async for prompt in client.prompts()}
        assert list(prompts) == ["review", "talk", "whole", "wrong"]
        assert prompts["review"].description == "Reviews code."
        arguments = [argument.to_wire() for argument in prompts["review"].arguments or []]
        assert arguments == [
            {"name": "code", "required": True, "description": "what to look at"},
            {"name": "language", "required": False},
            {"name": "times", "required": False},
        ]
        assert prompts["talk"].arguments is None
        result = await client.get_prompt("review", {"code": "x", "times": "2"})
        assert isinstance(result, m.GetPromptResult)
        assert result.description == "Reviews code."
        assert [message.to_wire() for message in result.messages] == [
            {"role": "user", "content": {"type": "text", "text": "python: xpython: x"}}
        ]
        talk = await client.get_prompt("talk")
        assert isinstance(talk, m.GetPromptResult)
        assert [(message.role, message.content.type) for message in talk.messages] == [
            ("assistant", "text"), ("user", "text"), ("user", "image"),
        ]  # fmt: skip
        whole = await client.get_prompt("whole")
        assert isinstance(whole, m.GetPromptResult)
        assert (whole.description, whole.messages[0].content.to_wire()["text"]) == ("mine", "mm")
        refused: tuple[tuple[str, Any, str], ...] = (
            ("nothing", {}, "Unknown prompt: nothing"),
            ("review", {}, "arguments.code is missing"),
            ("review", {"code": "x", "times": "many"}, "arguments.times is wrong"),
            ("review", {"code": "x", "more": "1"}, "arguments.more is not known here"),
        )
        for name, given, says in refused:
            error = await raised(client.get_prompt(name, given))
            assert isinstance(error, InvalidParams)
            assert says in error.message
        with Logged():
            assert isinstance(await raised(client.get_prompt("wrong")), InternalError)

    at(row, prompting(), work, handler=Helpful())


@req("COMP-1", "COMP-2", "COMP-3", "CONV-29", "CONV-30")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_completions(row: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        async def complete(ref: Any, name: str, value: str, settled: Any = None) -> dict[str, Any]:
            result = await client.complete(ref, name, value, settled)
            found: dict[str, Any] = result.to_wire()["completion"]
            return found

        review, users = m.PromptReference(name="review"), m.ResourceTemplateReference(uri="users://{name}")
        assert (await complete(review, "language", "p"))["values"] == ["perl", "python"]
        assert (await complete(review, "times", "p"))["values"] == []
        many = await complete(review, "code", "")
        assert (len(many["values"]), many["total"], many["hasMore"]) == (
            most_values(row),
            MOST_VALUES + 1,
            True,
        )
        found = await complete(users, "name", "x", {"a": "b"})
        assert found["values"] == ["x", str({"a": "b"} if row in OBJECTS else {}), row.name]
        for ref, name in (
            (review, "nothing"),
            (m.PromptReference(name="users://{name}"), "name"),
            (m.PromptReference(name="x"), "y"),
        ):
            assert isinstance(await raised(complete(ref, name, "")), InvalidParams)
        with Logged():
            assert isinstance(await raised(complete(review, "code", "x")), InternalError)

    at(row, prompting(), work)


# -- the server ------------------------------------------------------------------------------------------


@req("LIFE-11", "SEAM-3", "COMP-1", "CONV-30")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_capabilities_follow_from_what_is_registered(row: Revision) -> None:
    def nothing() -> None: ...
    def of_a_name(x: str) -> None: ...
    def values(value: str) -> list[str]:
        return [value]

    fixed, template, prompts, tools, completed = (mcprev.App(str(number), "1") for number in range(5))
    fixed.resource("a:b")(nothing)
    template.resource("a:{x}")(of_a_name)
    prompts.prompt(nothing)
    tools.tool(nothing)
    completed.prompt(of_a_name)
    completed.completion("of_a_name", "x")(values)
    changes = {"listChanged": True}
    resources = {"logging": {}, "resources": {"subscribe": True, **changes}}
    completions: dict[str, Any] = {} if row is ROW_A else {"completions": {}}
    for app, wanted in (
        (mcprev.App("none", "1"), {}),
        (fixed, resources),
        (template, resources),
        (prompts, {"logging": {}, "prompts": changes}),
        (tools, {"logging": {}, "tools": changes}),
        (completed, {"logging": {}, "prompts": changes, **completions}),
    ):

        async def work(client: mcprev.Client, wanted: Any = wanted) -> None:
            assert client.capabilities.to_wire() == wanted
            if "tools" not in wanted:
                assert isinstance(await raised(client.raw("tools/list", {})), MethodNotFound)
            if "resources" in wanted:
                assert (
                    len(
                        [r async for r in client.resources()] + [t async for t in client.resource_templates()]
                    )
                    == 1
                )

        at(row, app, work)


@req("PAGE-1", "PAGE-2", "TOOL-1")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_long_lists_come_in_pages(row: Revision) -> None:
    app = mcprev.App("many", "1")

    def many() -> None: ...

    for number in range(PAGE + 1):
        app.prompt(many, name=f"p{number}")
        app.resource(f"a:{number}")(many)

    async def work(client: mcprev.Client) -> None:
        first = await client.list_prompts()
        assert (len(first.prompts), first.next_cursor) == (PAGE, f"p{PAGE - 1}")
        # What is registered in between is on a later page.
        late = f"late {len(app.server._connections)}"
        app.prompt(many, name=f"{late} {row.name}")
        rest = await client.list_prompts(cursor=first.next_cursor)
        assert [prompt.name for prompt in rest.prompts][:1] == [f"p{PAGE}"]
        assert rest.next_cursor is None
        assert len([resource async for resource in client.resources()]) == PAGE + 1
        for cursor in ("nothing", ""):
            error = await raised(client.raw("prompts/list", {"cursor": cursor}))
            assert isinstance(error, InvalidParams)

    at(row, app, work)


@req("SUB-8", "TOOL-11")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_what_is_registered_later_is_announced(row: Revision) -> None:
    app = prompting()

    def later() -> str:
        return "late"

    app.tool(later, name="first")

    async def work(client: mcprev.Client) -> None:
        async with client.listen(tools=True, prompts=True, resources=True) as changes:
            assert said(await client.call_tool("first")) == [
                "late"
            ]  # so the server knows the session is open
            register: tuple[tuple[mcprev.Changed, Callable[[], object]], ...] = (
                (mcprev.Changed.TOOLS, lambda: app.tool(later, name=f"t{row.name}")),
                (mcprev.Changed.PROMPTS, lambda: app.prompt(later, name=row.name)),
                (mcprev.Changed.RESOURCES, lambda: app.resource(f"a:{row.name}")(later)),
            )
            for kind, add in register:
                add()
                assert await anext(changes) == mcprev.Change(kind)
        assert said(await client.call_tool(f"t{row.name}")) == ["late"]

    at(row, app, work)


@req("LIFE-11", everywhere=True)
def test_the_first_of_a_kind_cannot_come_late() -> None:
    app = mcprev.App("a", "1")

    def late() -> None: ...

    app.tool(late)
    assert app.server is app.server
    app.tool(late, name="other")
    for register in (app.prompt, app.resource("a:b")):
        with pytest.raises(LocalProtocolError, match="is the first of the"):
            register(late)
    assert not app._registered.prompts
    assert not app._registered.resources


@req("TOOL-7", at=(D, E))
def test_what_cannot_be_registered() -> None:
    app = mcprev.App("a", "1")

    def tool(x: str = "") -> None: ...
    def needs(x: str) -> None: ...
    def lists(x: list[str] | dict[str, int]) -> None: ...
    def point(x: Point) -> None: ...
    def two(value: str, other: str) -> None: ...
    def perhaps(x: list[str] | None = None) -> None: ...
    def mappings(x: list[dict[str, str]] | None = None) -> None: ...

    bare: Any = tool
    typo: Any = {"descripton": "x", "title": "y"}
    app.tool(tool)
    app.prompt(tool)
    app.resource("a:{x}")(tool)
    app.completion("tool", "x")(lambda_ := _values)
    wrong: tuple[tuple[Callable[[], object], type[Exception], str], ...] = (
        (lambda: app.tool(tool), ValueError, "'tool' is registered already"),
        (lambda: app.prompt(tool), ValueError, "'tool' is registered already"),
        (lambda: app.resource("a:{x}")(tool), ValueError, "registered already"),
        (lambda: app.completion("tool", "x")(lambda_), ValueError, "registered already"),
        (lambda: app.tool(tool, name="a b"), ValueError, "'a b' is not a valid tool name"),
        (lambda: app.tool(lambda: None), ValueError, "'<lambda>' is not a valid tool name"),
        (lambda: app.resource("a:b")(needs), TypeError, "'x' is not a variable of 'a:b'"),
        (lambda: app.resource("a:{y}")(tool), TypeError, "has no parameter 'y'"),
        (lambda: app.resource("nothing")(tool), ValueError, "begin with a scheme"),
        (lambda: app.prompt(lists), TypeError, "'x' cannot be converted from text"),
        (lambda: app.prompt(point), TypeError, "'x' cannot be converted from text"),
        (
            lambda: app.prompt(perhaps),
            TypeError,
            "'x' cannot be converted from text, and arguments of prompts",
        ),
        (
            lambda: app.resource("b:{x}")(mappings),
            TypeError,
            "'x' cannot be converted from text, and arguments of URIs",
        ),
        (lambda: app.resource(bare), TypeError, "is not a URI; pass one"),
        (
            lambda: app.tool(tool, **typo),
            TypeError,
            r"tool\(\): no option 'descripton'; .* description",
        ),
        (lambda: app.prompt(tool, **typo), TypeError, "no option 'descripton'"),
        (lambda: app.resource("b:{x}", **typo)(tool), TypeError, "no option 'descripton'; .* mime_type"),
        (lambda: app.tool(bare.__name__), TypeError, "'tool' is not a function; .* name="),
        (lambda: app.completion("tool", "y")(lambda_), ValueError, "is registered yet"),
        (lambda: app.completion("other", "x")(lambda_), ValueError, "is registered yet"),
        (lambda: app.completion("tool", "x")(two), TypeError, "must have the parameter `value: str`"),
    )
    for register, error, says in wrong:
        with pytest.raises(error, match=says):
            register()


def _values(value: str) -> list[str]:
    return [value]


@req("SEAM-1", everywhere=True)
def test_functions_stay_what_they_are() -> None:
    app = mcprev.App("a", "1")

    def add(a: int, b: int = 1) -> int:
        return a + b

    async def read(x: str) -> str:
        return x

    assert_type(app.tool(add)(1), int)
    assert_type(app.tool(name="other")(add)(1, b=2), int)
    assert assert_type(asyncio.run(app.prompt(title="x")(read)(x="1")), str) == "1"
    assert app.resource("a:{x}")(read) is read
    assert app.tool(add, name="third") is add


@req("SEAM-1", everywhere=True)
def test_an_app_takes_what_a_server_takes() -> None:
    mine = set(inspect.signature(mcprev.Server.__init__).parameters) - {"handler", "validate"}
    assert mine < set(inspect.signature(mcprev.App.__init__).parameters)
    app = mcprev.App("a", "1", revisions=[C], instructions="use it")
    assert [row.name for row in app.server.identity.revisions] == [C]
    assert app.asgi(path="/x") is not None


# -- threads ---------------------------------------------------------------------------------------------


@req("CANC-2", "CANC-3")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_functions_that_block_run_in_threads_and_are_abandoned(row: Revision) -> None:
    app = mcprev.App("a", "1")
    meet, gate, started, ended = threading.Barrier(2), threading.Event(), threading.Event(), threading.Event()

    @app.tool
    def where(ctx: mcprev.Context) -> str:
        meet.wait(10)  # with the other call: both run at a time
        assert threading.current_thread() is not threading.main_thread()
        return ctx.revision

    @app.tool
    def block() -> str:
        started.set()
        gate.wait(10)
        try:
            raise RuntimeError("secret")
        finally:
            ended.set()

    @app.tool
    def stops() -> str:
        raise StopIteration

    @app.tool
    def later():  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType]
        return asyncio.sleep(0, "awaited")

    async def work(client: mcprev.Client) -> None:
        both = await asyncio.gather(client.call_tool("where"), client.call_tool("where"))
        assert [said(result) for result in both] == [[row.name]] * 2
        with Logged() as records:
            assert said(await client.call_tool("stops")) == ["the tool 'stops' failed"]
            assert "StopIteration" in str(records.pop().exc_info)
            call = asyncio.ensure_future(client.call_tool("block"))
            await until(started.is_set)
            call.cancel()
            await until(lambda: any("abandoned" in record.getMessage() for record in records))
            assert not ended.is_set()
            gate.set()
            await until(
                lambda: any(
                    "after its request had been cancelled" in record.getMessage() for record in records
                )
            )
        assert said(await client.call_tool("later")) == ["awaited"]

    at(row, app, work)


@req("CANC-2", everywhere=True)
def test_functions_that_do_not_run_are_not_said_to_be_abandoned() -> None:
    """A call that is cancelled before there is a thread for it never runs."""
    gate, ran = threading.Event(), list[str]()
    context: Any = None

    def waits() -> None:
        ran.append("waits")

    def cancelled() -> None:
        raise futures.CancelledError

    async def main() -> None:
        with futures.ThreadPoolExecutor(1) as threads:
            try:
                threads.submit(gate.wait, 10)
                waiting = asyncio.ensure_future(Function(waits, threads)(context, {}))
                await until(lambda: threads._work_queue.qsize() > 0)
                waiting.cancel()
                await asyncio.wait({waiting})
            finally:
                gate.set()
            with pytest.raises(asyncio.CancelledError):
                await Function(cancelled, threads)(context, {})

    with Logged() as records:
        run(main())
    assert not ran
    assert not records


@req("TOOL-1", "SEAM-7", everywhere=True)
@pytest.mark.parametrize(
    "block", [member for member in BLOCKS if member is not UnknownContent], ids=lambda block: block.__name__
)
def test_every_block_that_the_schema_has_is_content(block: Any) -> None:
    """Whatever joins the union of content blocks is sent as it is, and is not made a text."""
    one = block.from_wire(next(iter(Corpus(load(LATEST.name)).samples(block.__name__))))

    def returns() -> Any:
        return one

    found = ToolReturns("t", Function(returns)).result(one, LATEST)
    assert isinstance(found, m.CallToolResult)
    assert found.content == [one]


@req("TOOL-1", "SEAM-7", everywhere=True)
def test_the_blocks_are_those_of_the_schema() -> None:
    document = json.loads((GENERATED / module_name(LATEST.name) / "schema.json").read_text())
    refs = {
        each["$ref"].rpartition("/")[2]
        for each in document["$defs"]["ContentBlock"]["anyOf"]
        if "$ref" in each
    }
    assert {block.__name__ for block in BLOCKS} - {"UnknownContent"} == refs
