"""Tools made of what an app has: changed tools, versions side by side, a search, resources and prompts as tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Annotated, Any, Final

import pytest
from pydantic import BaseModel, Field

import mcprev
from helpers.running import run
from mcprev.revisions import DEFAULT
from mcprev.transforms import (
    Argument,
    ToolCall,
    prompts_as_tools,
    resources_as_tools,
    tools_by_code,
    tools_by_search,
    transform_tool,
)
from mcprev.transforms.tools import Wrapper
from mcprev_types.latest import models

REVISIONS: Final = [revision.name for revision in DEFAULT]


class Item(BaseModel):
    name: str


class Box(BaseModel):
    size: int


CLOSED: Final[list[str]] = []


async def session() -> AsyncGenerator[str, None]:
    yield "session"
    CLOSED.append("session")


def no_beta(_: mcprev.Context, tags: frozenset[str]) -> bool:
    return "beta" not in tags


def no_admin(_: mcprev.Context, tags: frozenset[str]) -> bool:
    return "admin" not in tags


def other() -> str:
    return "other"


def shop(**options: Any) -> mcprev.App:
    app = mcprev.App("shop", "1", **options)

    @app.tool(tags={"read"})
    async def find(
        q: Annotated[str, Field(min_length=2)], limit: int = 3, user: str = "nobody", box: Box | None = None
    ) -> list[Item]:
        """Find items."""
        return [Item(name=f"{q} {limit} {user} {box and box.size}")]

    return app


async def tools_of(client: mcprev.Client) -> dict[str, dict[str, Any]]:
    return {tool.name: tool.to_wire() async for tool in client.tools()}


def served(app: mcprev.App, mode: str = "auto") -> Any:
    return mcprev.connect(app, mode=mode)


async def text(client: mcprev.Client, name: str, /, **arguments: Any) -> str:
    """The text of a call that succeeds, or `error: ` and that of one that does not."""
    try:
        result = await client.call_tool(name, arguments)
    except mcprev.RpcError as error:
        return f"error: {error}"
    return ("error: " if result.is_error else "") + result.text


# -- changed tools -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_changed_tool_calls_the_original_at_every_revision(revision: str) -> None:
    app = shop()
    transform_tool(
        app,
        "find",
        name="find_hats",
        description="Find hats.",
        arguments={
            "q": Argument(name="text", description="A word."),
            "limit": Argument(default=5),
            "user": Argument(factory=lambda ctx: ctx.principal or "me"),
            "box": Argument(value={"size": 7}),
        },
    )

    async def main() -> None:
        async with served(app, revision) as client:
            [(name, tool)] = (await tools_of(client)).items()
            schema = tool["inputSchema"]
            assert (name, tool["description"], schema["required"]) == ("find_hats", "Find hats.", ["text"])
            assert schema["properties"].keys() == {"text", "limit"}
            assert schema["properties"]["text"]["description"] == "A word."
            assert schema["properties"]["limit"]["default"] == 5
            assert "$defs" not in schema, "what only hidden arguments refer to is hidden, too"
            result = await client.call_tool("find_hats", {"text": "hat"}, as_=list[Item])
            assert result == [Item(name="hat 5 me 7")]
            for arguments, why in (
                ({"text": "h"}, "text"),
                ({"text": "hat", "user": "root"}, "user"),
                ({"q": "hat"}, "q"),
                ({}, "text"),
                ({"text": "hat", "limit": "many"}, "limit"),
            ):
                told = await text(client, "find_hats", **arguments)
                assert told.startswith("error: Invalid arguments for tool 'find_hats'"), told
                assert f"arguments.{why} " in told
            assert (await text(client, "find", q="hat")).startswith("error: Unknown tool: find")

    run(main())


Change = Callable[[mcprev.App], object]
WRONG: Final[Mapping[str, tuple[list[Change], str]]] = {
    "no tool": ([lambda app: transform_tool(app, "fnd")], "did you mean 'find'"),
    "no argument": (
        [lambda app: transform_tool(app, "find", arguments={"p": Argument()})],
        "no argument 'p'",
    ),
    "a name": ([lambda app: transform_tool(app, "find", name="a b")], "not a valid tool name"),
    "kept under its name": ([lambda app: transform_tool(app, "find", keep=True)], "pass another name"),
    "one name twice": (
        [lambda app: transform_tool(app, "find", arguments={"q": Argument(name="limit")})],
        "the name 'limit'",
    ),
    "a value": ([lambda app: transform_tool(app, "find", arguments={"limit": Argument(value="x")})], "limit"),
    "a default": ([lambda app: transform_tool(app, "find", arguments={"q": Argument(default="x")})], "q"),
    "hidden, and required": (
        [lambda app: transform_tool(app, "find", arguments={"q": Argument(hide=True)})],
        "is required",
    ),
    "two at once": (
        [lambda app: transform_tool(app, "find", arguments={"q": Argument(value="ab", default="cd")})],
        "pass one of them",
    ),
    "twice": ([lambda app: transform_tool(app, "find")] * 2, "replaced already"),
    "a name in use": (
        [lambda app: transform_tool(app, "find", name="x", keep=True)] * 2,
        "replaced already",
    ),
    "search twice": ([tools_by_search] * 2, "registered already"),
    "a search limit": ([lambda app: tools_by_search(app, limit=0)], "use 1 to 50"),
    "always unknown": ([lambda app: tools_by_search(app, always=["fnd"])], "did you mean 'find'"),
    "versions and none": ([lambda app: app.tool(other, name="find", version="2")], "pass version="),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_change_is_refused(case: str) -> None:
    (*before, last), why = WRONG[case]
    app = shop()
    for change in before:
        change(app)
    with pytest.raises(ValueError, match=why):
        last(app)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="no option 'task'"):
        transform_tool(shop(), "find", task="required")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_function_around_the_original_changes_its_result(revision: str) -> None:
    app = shop()

    async def count(call: ToolCall) -> dict[str, int]:
        first: Any = await call()
        second: Any = await call({**call.arguments, "q": "scarf"})
        assert first.structured_content == [{"name": "hat 3 nobody None"}]
        return {"found": len(first.structured_content) + len(second.structured_content)}

    async def wrong(call: ToolCall) -> str:
        await call({"q": 5})
        return ""

    wraps: dict[str, Wrapper] = {"count": count, "same": lambda call: call(), "wrong": wrong}
    for name, wrap in wraps.items():
        transform_tool(app, "find", name=name, wrap=wrap, keep=True, arguments={"q": Argument(name="text")})

    async def main() -> None:
        async with served(app, revision) as client:
            tools = await tools_of(client)
            if "outputSchema" in tools["find"]:
                assert tools["same"]["outputSchema"] == tools["find"]["outputSchema"]
                assert tools["count"]["outputSchema"]["type"] == "object"
                assert "outputSchema" not in tools["wrong"]
                result = await client.call_tool("count", {"text": "hat"})
                assert result.structured_content == {"found": 2}
            assert await text(client, "count", text="hat") == '{"found":2}'
            assert await text(client, "same", text="hat") == await text(client, "find", q="hat")
            assert "arguments.text" in await text(client, "count", text="h")
            assert await text(client, "wrong", text="hat") == "error: the tool 'wrong' failed"

    run(main())


def test_questions_errors_progress_and_dependencies_of_the_original_hold() -> None:
    app = mcprev.App("shop", "1")

    @app.tool
    async def order(
        count: int, ctx: mcprev.Context, opened: Annotated[str, mcprev.Depends(session)], at: str = "x"
    ) -> str:
        if count == 0:
            raise mcprev.ToolError("order something")
        await ctx.progress(1, total=2)
        answer = await ctx.elicit("Where?", ["here", "to go"])
        return f"{count} {opened} {answer.data}"

    async def loud(call: ToolCall) -> str:
        content: Any = (await call()).content
        return str(content[0].text).upper()

    transform_tool(app, "order", name="buy", arguments={"count": Argument(name="n")}, wrap=loud)

    class Guest(mcprev.ClientHandler):
        async def elicit(self, ctx: Any, params: Any) -> models.ElicitResult:
            return models.ElicitResult(action="accept", content={"value": "here"})

    async def main(mode: str) -> None:
        told: list[float] = []
        async with mcprev.connect(app, handler=Guest(), mode=mode) as client:
            result = await client.call_tool(
                "buy", {"n": 2}, progress=lambda done, _total, _text: told.append(done)
            )
            assert result.text == "2 SESSION HERE"
            assert told
            assert CLOSED.pop() == "session"
            assert await text(client, "buy", n=0) == "error: order something"

    for mode in ("legacy", "auto"):
        run(main(mode))


def test_a_changed_tool_can_run_as_a_task_as_the_original() -> None:
    app = mcprev.App("builds", "1")

    @app.tool(task="optional")
    async def build(name: str, ctx: mcprev.Context) -> str:
        await ctx.detach()
        return f"built {name}"

    transform_tool(app, "build", name="make", arguments={"name": Argument(value="it")})

    async def main() -> None:
        async with mcprev.connect(app) as client:
            task = await client.start_tool("make")
            assert (await task.result(timeout=10)).text == "built it"

    run(main())


def test_only_those_who_see_the_original_see_what_is_made_of_it() -> None:
    asked: list[frozenset[str]] = []

    def allowed(ctx: mcprev.Context, tags: frozenset[str]) -> bool:
        asked.append(tags)
        return "admin" not in tags

    app = mcprev.App("shop", "1", visible=allowed)

    @app.tool(tags={"admin"})
    async def close() -> str:
        return "closed"

    @app.tool
    async def show() -> str:
        return "shown"

    transform_tool(app, "close", name="end", tags=set())
    transform_tool(app, "show", name="hidden", tags={"admin"}, keep=True)
    transform_tool(app, "show", name="unseen", visible=lambda _: False, keep=True)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert [*await tools_of(client)] == ["show"]
            for name in ("end", "hidden", "unseen"):
                assert await text(client, name) == f"error: Unknown tool: {name}"

    run(main())


@pytest.mark.parametrize("name", ["find", "search"])
def test_a_changed_tool_is_in_service_as_long_as_its_original(name: str) -> None:
    inner, app = shop(), mcprev.App("outer", "1")
    app.mount(inner, "s")
    new = "s_find" if name == "find" else name
    transform_tool(app, "s_find", name=new, arguments={"q": Argument(name="text")})
    again = mcprev.App("outermost", "1")
    again.mount(app)
    again.tool(other, name="other")

    async def main() -> None:
        async with mcprev.connect(again) as client:

            async def there() -> bool:
                found = new in await tools_of(client)
                told = await text(client, new, text="hat")
                assert found == ("hat 3" in told)
                assert "hat 3" not in await text(client, "s_find", q="hat"), "the original is never served"
                return found

            steps: list[tuple[Callable[[], None], bool]] = [
                (lambda: inner.disable("find"), False),
                (lambda: inner.enable("find"), True),
                (lambda: app.disable(new), False),
                (lambda: inner.disable("find"), False),
                (lambda: inner.enable("find"), False),
                (lambda: app.enable(new), True),
                (lambda: app.disable(new), False),
                (lambda: inner.disable("find"), False),
                (lambda: app.enable(new), False),
                (lambda: inner.enable("find"), False),
                (lambda: app.enable(new), True),
                (lambda: app.disable(tags={"read"}), False),
                (lambda: app.enable(tags={"read"}), True),
                (lambda: inner.remove_tool("find"), False),
            ]
            assert await there()
            for step, seen in steps:
                step()
                assert await there() is seen
            if name != "find":
                with pytest.raises(ValueError, match="registered already"):
                    app.tool(other, name="s_find")

    run(main())


def test_middleware_of_the_mounted_app_runs_around_the_original_with_its_own_names() -> None:
    calls: list[tuple[str, Any]] = []

    async def watch(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        params: Any = call.params
        if call.method == "tools/call":
            calls.append((params.name, params.arguments))
        return await call_next(call)

    inner, app = shop(middleware=[watch]), mcprev.App("outer", "1", middleware=[watch])
    app.mount(inner, "s")
    transform_tool(app, "s_find", name="search", arguments={"q": Argument(name="text")})

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert "hat 3" in await text(client, "search", text="hat")

    run(main())
    assert calls == [("search", {"text": "hat"}), ("find", {"q": "hat"})]


def test_a_hidden_value_that_does_not_fit_is_no_fault_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    app = shop()
    transform_tool(app, "find", arguments={"limit": Argument(factory=lambda _: "many")})

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert await text(client, "find", q="hat") == "error: the tool 'find' failed"

    run(main())
    assert "the hidden argument 'limit'" in caplog.text


# -- versions ----------------------------------------------------------------------------------------------


def versioned(**options: Any) -> mcprev.App:
    app = mcprev.App("shop", "1", **options)

    @app.tool(name="price", version="1.9")
    async def first() -> str:
        return "old"

    @app.tool(name="price", version="1.10", tags={"beta"})
    async def second(currency: str = "EUR") -> str:
        return f"new {currency}"

    return app


@pytest.mark.parametrize("revision", REVISIONS)
def test_clients_see_the_newest_version_and_can_call_each(revision: str) -> None:
    outer = mcprev.App("o", "1")
    outer.mount(versioned(), "s")

    async def main() -> None:
        for app, name in ((versioned(), "price"), (outer, "s_price")):
            async with served(app, revision) as client:
                [tool] = (await tools_of(client)).values()
                assert tool["name"] == name
                assert "currency" in tool["inputSchema"]["properties"]
                meta = tool.get("_meta")
                assert meta is None or meta == {"mcprev/version": "1.10", "mcprev/versions": ["1.10", "1.9"]}
                assert await text(client, name, currency="USD") == "new USD"
                assert await text(client, f"{name}@1.10") == "new EUR"
                assert await text(client, f"{name}@1.9") == "old"
                assert await text(client, f"{name}@3") == f"error: Unknown tool: {name}@3"
                app.disable(f"{name}@1.10")
                assert await text(client, name) == "old"
                app.enable(f"{name}@1.10")
                app.disable(name)
                assert await tools_of(client) == {}
                app.enable(name)
                assert await text(client, name) == "new EUR"
                app.remove_tool(name)
                assert await text(client, name) == f"error: Unknown tool: {name}"

    run(main())


def test_a_client_gets_the_newest_version_that_it_sees() -> None:
    app = versioned(visible=no_beta)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            [tool] = (await tools_of(client)).values()
            assert tool["_meta"]["mcprev/versions"] == ["1.9"]
            assert await text(client, "price") == "old"
            assert await text(client, "price@1.10") == "error: Unknown tool: price@1.10"

    run(main())


def test_versions_run_as_tasks() -> None:
    app = mcprev.App("builds", "1")

    @app.tool(name="build", version="1", task="required")
    async def build() -> str:
        return "built"

    async def other() -> str:
        return ""

    with pytest.raises(ValueError, match="different values of `task`"):
        app.tool(other, name="build", version="2")
    with pytest.raises(ValueError, match="has versions already"):
        app.tool(other, name="build")
    app.disable("build")
    with pytest.raises(ValueError, match="has versions already"):
        app.tool(other, name="build")
    app.enable("build")
    with pytest.raises(ValueError, match="registered already"):
        app.tool(other, name="build", version="1", task="required")
    for version in ("v1", "", "1.", "1..2", "latest"):
        with pytest.raises(TypeError, match="not numbers"):
            app.tool(other, name="build", version=version)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            for name in ("build", "build@1"):
                task = await client.start_tool(name)
                assert (await task.result(timeout=10)).text == "built"

    run(main())


# -- search ------------------------------------------------------------------------------------------------


def catalogue(**options: Any) -> mcprev.App:
    app = mcprev.App("many", "1", **options)
    for number in range(60):

        async def filler(number: int) -> str:
            return str(number)

        app.tool(filler, name=f"filler_{number}", description=f"Does number {number}.")

    @app.tool
    async def send_invoice(customer: str, ctx: mcprev.Context) -> dict[str, str]:
        """Send a bill to a customer by mail."""
        return {"sent": customer}

    @app.tool(name="sendMail")
    async def send_mail(to: str) -> str:
        """Send a letter."""
        return to

    @app.tool(tags={"admin"})
    async def void_invoices() -> str:
        """Void the invoice of a customer."""
        return "void"

    return app


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("transform", [tools_by_search, tools_by_code])
def test_a_search_says_that_more_tools_match_beside_its_list(
    revision: str, transform: Callable[[mcprev.App], mcprev.App]
) -> None:
    app = mcprev.App("office", "1")
    for number in range(7):
        app.tool(name=f"number_{number}")(lambda: None)
    transform(app)

    async def main() -> None:
        async with served(app, revision) as client:
            [schema] = [tool.input_schema async for tool in client.tools() if tool.name == "search_tools"]
            assert "more may match" in str(schema.to_wire())
            every = await client.call_tool("search_tools", {"query": "number", "limit": 7})
            tools = every.read(list[Any], "")
            assert (len(tools), len(every.content)) == (7, 1)
            some = await client.call_tool("search_tools", {"query": "number"})
            assert some.data == tools[:5]
            texts = [block.text for block in some.content if isinstance(block, models.TextContent)]
            assert json.loads(texts[0]) == some.data
            more = "These are the best 5 of 7 tools that match. For others, use a larger `limit`, up to 50, or other words."
            assert texts[1:] == ([more] if "structuredContent" in some.to_wire() else [])

    run(main())


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_model_finds_and_calls_one_of_many_tools(revision: str) -> None:
    app = tools_by_search(catalogue(visible=no_admin), always=["sendMail"])

    @app.tool
    async def late() -> str:
        """Registered after the search."""
        return "late"

    async def main() -> None:
        async with served(app, revision) as client:
            assert {*await tools_of(client)} == {"search_tools", "call_tool", "sendMail"}
            found = await client.call_tool("search_tools", {"query": "invoices customers"}, as_=list[Any])
            assert [tool["name"] for tool in found] == ["send_invoice"]
            assert found[0]["inputSchema"]["required"] == ["customer"]
            found = await client.call_tool("search_tools", {"query": "mail"}, as_=list[Any])
            assert [tool["name"] for tool in found] == ["sendMail", "send_invoice"]
            assert len(await client.call_tool("search_tools", {"query": "number"}, as_=list[Any])) == 5
            more = await client.call_tool("search_tools", {"query": "number", "limit": 9}, as_=list[Any])
            assert len(more) == 9
            assert await client.call_tool("search_tools", {"query": "zebra"}, as_=list[Any]) == []
            [found] = await client.call_tool("search_tools", {"query": "registered"}, as_=list[Any])
            assert found["name"] == "late"
            assert await text(client, "search_tools", query="x" * 1001) != ""
            for arguments in ({"customer": "ann"}, {"customer": 5}, {}):
                told = await text(client, "call_tool", name="send_invoice", arguments=arguments)
                assert told == await text(client, "send_invoice", **arguments)
            for name in ("void_invoices", "nothing", "call_tool", "search_tools"):
                told = await text(client, "call_tool", name=name)
                assert told == f"error: Unknown tool: {name}; find one with search_tools"

    run(main())


def test_middleware_refuses_what_is_called_by_another_tool() -> None:
    async def refuse(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        params: Any = call.params
        if (
            getattr(params, "name", None) in {"send_invoice", "secret"}
            or getattr(params, "uri", "") == "a://b"
        ):
            raise mcprev.ToolError("not today")
        result: Any = await call_next(call)
        if call.method == "tools/list":
            return {
                **result.to_wire(),
                "tools": [t for t in result.to_wire()["tools"] if t["name"] != "sendMail"],
            }
        changed: mcprev.HandlerResult = result
        return changed

    app = catalogue(middleware=[refuse])

    @app.resource("a://b")
    def secret_resource() -> str:
        return "secret"

    @app.prompt
    def secret() -> str:
        return "secret"

    tools_by_search(app)
    resources_as_tools(app)
    prompts_as_tools(app)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            told = await text(client, "call_tool", name="send_invoice", arguments={"customer": "ann"})
            assert told == "error: not today"
            assert await text(client, "read_resource", uri="a://b") == "error: not today"
            assert await text(client, "get_prompt", name="secret") == "error: not today"
            found = await client.call_tool("search_tools", {"query": "mail"}, as_=list[Any])
            assert [tool["name"] for tool in found] == ["send_invoice"]

    run(main())


def test_a_tool_that_runs_as_a_task_is_called_as_one_by_the_search() -> None:
    app = mcprev.App("builds", "1")

    @app.tool(task="optional")
    async def build(ctx: mcprev.Context) -> str:
        await ctx.detach()
        return "built"

    tools_by_search(app)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            task = await client.start_tool("call_tool", {"name": "build"})
            assert (await task.result(timeout=10)).text == "built"

    run(main())


def test_a_search_does_not_find_or_call_a_tool_that_calls_others_by_another_name() -> None:
    app = tools_by_search(catalogue())
    transform_tool(app, "call_tool", name="do", keep=True)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            found = await client.call_tool("search_tools", {"query": "call find do"}, as_=list[Any])
            assert "do" not in {tool["name"] for tool in found}
            told = await text(client, "call_tool", name="do", arguments={"name": "sendMail"})
            assert told == "error: Unknown tool: do; find one with search_tools"

    run(main())


# -- resources and prompts as tools ------------------------------------------------------------------------


def library() -> mcprev.App:
    app = mcprev.App("library", "1", visible=no_admin)

    @app.resource("books://all", mime_type="text/plain")
    def books() -> str:
        return "all books"

    @app.resource("books://{name}/cover", mime_type="image/png")
    def cover(name: str) -> bytes:
        return name.encode()

    @app.resource("books://{name}/data")
    def data(name: str) -> bytes:
        return name.encode()

    @app.resource("books://secret", tags={"admin"})
    def secret() -> str:
        return "secret"

    @app.prompt
    def summarize(book: str) -> str:
        """Summarize a book."""
        return f"Summarize {book}."

    @app.prompt(tags={"admin"})
    def burn() -> str:
        return "burn"

    resources_as_tools(app)
    prompts_as_tools(app)
    return app


@pytest.mark.parametrize("revision", REVISIONS)
def test_clients_that_know_only_tools_read_resources_and_get_prompts(revision: str) -> None:
    async def main() -> None:
        async with served(library(), revision) as client:
            found = await client.call_tool("list_resources", as_=dict[str, Any])
            assert [each["uri"] for each in found["resources"]] == ["books://all"]
            assert [each["uriTemplate"] for each in found["resourceTemplates"]] == [
                "books://{name}/cover",
                "books://{name}/data",
            ]
            assert await text(client, "read_resource", uri="books://all") == "all books"
            result = await client.call_tool("read_resource", {"uri": "books://x/cover"})
            assert (result.content[0].type, result.content[0].data) == ("image", "eA==")
            result = await client.call_tool("read_resource", {"uri": "books://x/data"})
            assert result.content[0].type == "resource"
            for uri in ("books://secret", "books://none"):
                assert await text(client, "read_resource", uri=uri) == f"error: Resource not found: {uri}"
            assert "not an absolute URI" in await text(client, "read_resource", uri="../x")
            prompts = await client.call_tool("list_prompts", as_=list[Any])
            assert [prompt["name"] for prompt in prompts] == ["summarize"]
            found = await client.call_tool(
                "get_prompt", {"name": "summarize", "arguments": {"book": "it"}}, as_=dict[str, Any]
            )
            assert found["messages"][0]["content"]["text"] == "Summarize it."
            assert await text(client, "get_prompt", name="burn") == "error: Unknown prompt: burn"
            assert "book" in await text(client, "get_prompt", name="summarize")

    run(main())


def test_a_search_does_not_hold_up_the_event_loop() -> None:
    app = catalogue()
    tools_by_search(app)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            await client.call_tool("search_tools", {"query": "mail"})
            async with asyncio.timeout(30):
                await client.call_tool("search_tools", {"query": "a b " * 250})

    run(main())
