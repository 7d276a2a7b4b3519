"""Middleware around every call of a handler's methods, at every revision."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import mcprev
from helpers.running import run, until
from mcprev.errors import InvalidRequest, McpError
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def app_with(*middleware: mcprev.Middleware) -> mcprev.App:
    app = mcprev.App("a", "1", middleware=middleware)

    @app.tool
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def fails() -> str:
        raise OSError("no")

    @app.resource("notes://all")
    def notes() -> str:
        return "all"

    return app


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_every_request_passes_all_of_them_the_first_one_outermost(row: Revision) -> None:
    seen: list[str] = []

    async def outer(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        seen.append(f"{call.method} at {call.ctx.revision}")
        result = await call_next(call)
        seen.append(type(result).__name__)
        return result

    async def inner(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        seen.append(type(call.params).__name__)
        return await call_next(call)

    async def main() -> None:
        async with mcprev.connect(app_with(outer, inner), mode=row.name) as client:
            assert text_of(await client.call_tool("echo", {"text": "x"})) == "x"
            assert seen == [f"tools/call at {row.name}", "CallToolRequestParams", "CallToolResult"]
            seen.clear()
            await client.read_resource("notes://all")
            assert seen == [
                f"resources/read at {row.name}",
                "ReadResourceRequestParams",
                "ReadResourceResult",
            ]

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_one_may_change_params_and_result(row: Revision) -> None:
    async def loud(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        if isinstance(call.params, m.CallToolRequestParams):
            params = call.params.model_copy(update={"arguments": {"text": "changed"}})
            result = await call_next(dataclasses.replace(call, params=params))
            assert isinstance(result, m.CallToolResult)
            return m.CallToolResult(content=[*result.content, m.TextContent(text="!")])
        return await call_next(call)

    async def main() -> None:
        async with mcprev.connect(app_with(loud), mode=row.name) as client:
            assert text_of(await client.call_tool("echo", {"text": "x"})) == "changed!"

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_one_may_answer_or_refuse_without_the_handler(row: Revision) -> None:
    async def guard(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        if isinstance(call.params, m.ReadResourceRequestParams):
            raise InvalidRequest("closed today")
        return m.CallToolResult(content=[m.TextContent(text="cached")])

    async def main() -> None:
        async with mcprev.connect(app_with(guard), mode=row.name) as client:
            assert text_of(await client.call_tool("echo", {"text": "x"})) == "cached"
            with pytest.raises(InvalidRequest, match="closed today"):
                await client.read_resource("notes://all")

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_one_sees_what_a_tool_raises(row: Revision) -> None:
    caught: list[BaseException] = []

    async def watch(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        try:
            return await call_next(call)
        except OSError as error:
            caught.append(error)
            raise

    async def main() -> None:
        async with mcprev.connect(app_with(watch), mode=row.name) as client:
            assert text_of(await client.call_tool("fails", {})) == "the tool 'fails' failed"

    run(main())
    assert [str(error) for error in caught] == ["no"]


@pytest.mark.parametrize("row", [row for row in DEFAULT if row.handshake], ids=lambda row: row.name)
def test_notifications_pass_them_too(row: Revision) -> None:
    seen: list[tuple[str, object]] = []
    received: list[str] = []

    class Handler(mcprev.ServerHandler):
        async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
            return m.CallToolResult(content=[])

        async def roots_list_changed(self, ctx: mcprev.Context, params: Any) -> None:
            received.append("changed")

    class Client(mcprev.ClientHandler):
        async def list_roots(self, ctx: mcprev.ClientContext, params: Any) -> m.ListRootsResult:
            return m.ListRootsResult(roots=[])

    async def watch(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        seen.append((call.method, call.ctx.request_id))
        return await call_next(call)

    async def main() -> None:
        server = mcprev.Server(Handler(), "s", "1", middleware=[watch])
        async with mcprev.connect(server, mode=row.name, handler=Client()) as client:
            client.roots_changed()
            await until(lambda: bool(received))

    run(main())
    assert seen == [("notifications/roots/list_changed", None)]


def test_a_result_that_is_none_is_the_middleware_s_mistake_and_not_sent() -> None:
    async def forgets(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        await call_next(call)
        return None

    async def main() -> None:
        async with mcprev.connect(app_with(forgets)) as client:
            assert text_of(await client.call_tool("echo", {"text": "x"})) == "the tool 'echo' failed"

    run(main())


# -- of mounted apps -------------------------------------------------------------------------------------


def seen_by(app: str, seen: list[str]) -> mcprev.Middleware:
    """A middleware that writes down what its app is asked for, and what it answers."""

    async def see(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        params: Any = call.params
        subject = params.ref if isinstance(params, m.CompleteRequestParams) else params
        name = getattr(subject, "uri", None) or getattr(subject, "name", None)
        seen.append(f"{app}: {call.method} {name}")
        result = await call_next(call)
        seen.append(f"{app}: {type(result).__name__}")
        return result

    return see


def shop(*middleware: mcprev.Middleware) -> mcprev.App:
    app = mcprev.App("shop", "1", middleware=middleware)

    @app.tool
    async def buy(thing: str) -> str:
        return f"bought {thing}"

    @app.tool
    async def sell(thing: str) -> str:
        return f"sold {thing}"

    @app.resource("shop://open")
    async def opened() -> str:
        return "yes"

    @app.resource("shop://items/{name}")
    async def item(name: str) -> str:
        return f"a {name}"

    @app.prompt
    async def ask(thing: str) -> str:
        return f"Which {thing}?"

    @app.completion("ask", "thing")
    async def things(value: str) -> list[str]:
        return [f"{value}!"]

    return app


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_that_of_a_mounted_app_runs_around_its_own_calls_with_the_names_of_that_app(row: Revision) -> None:
    seen: list[str] = []
    app = mcprev.App("outer", "1", middleware=[seen_by("outer", seen)])
    app.mount(shop(seen_by("first", seen), seen_by("second", seen)), "x")

    @app.tool
    async def own() -> str:
        return "own"

    def around(method: str, given: str, own: str, result: str) -> list[str]:
        calls = [f"outer: {method} {given}", f"first: {method} {own}", f"second: {method} {own}"]
        return [*calls, *(f"{each}: {result}" for each in ("second", "first", "outer"))]

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            assert text_of(await client.call_tool("x_buy", {"thing": "hat"})) == "bought hat"
            assert seen == around("tools/call", "x_buy", "buy", "CallToolResult")
            for uri, own_uri, text in (
                ("shop://x/open", "shop://open", "yes"),
                ("shop://x/items/hat", "shop://items/hat", "a hat"),
            ):
                seen.clear()
                read = (await client.read_resource(uri)).contents[0]
                assert isinstance(read, m.TextResourceContents)
                assert (read.uri, read.text) == (uri, text)
                assert seen == around("resources/read", uri, own_uri, "ReadResourceResult")
            seen.clear()
            await client.get_prompt("x_ask", {"thing": "hat"})
            assert seen == around("prompts/get", "x_ask", "ask", "GetPromptResult")
            seen.clear()
            assert (await client.complete("x_ask", "thing", "h")).completion.values == ["h!"]
            assert seen == around("completion/complete", "x_ask", "ask", "CompleteResult")
            seen.clear()
            assert text_of(await client.call_tool("own", {})) == "own"
            assert [tool.name async for tool in client.tools()] == ["x_buy", "x_sell", "own"]
            with pytest.raises(McpError, match="Unknown tool: x_steal"):
                await client.call_tool("x_steal", {})
            assert {line.partition(":")[0] for line in seen} == {"outer"}

    run(main())


def test_those_of_apps_that_are_mounted_in_mounted_apps_run_from_the_outside_in() -> None:
    seen: list[str] = []
    inner, middle = shop(seen_by("inner", seen)), mcprev.App("m", "1", middleware=[seen_by("middle", seen)])
    app = mcprev.App("outer", "1")
    middle.mount(inner, "x")
    app.mount(middle, "y")
    app.mount(inner)

    @inner.tool
    async def later() -> str:
        return "later"

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert text_of(await client.call_tool("y_x_later", {})) == "later"
            assert seen[:2] == ["middle: tools/call x_later", "inner: tools/call later"]
            seen.clear()
            assert text_of(await client.call_tool("later", {})) == "later"
            assert seen == ["inner: tools/call later", "inner: CallToolResult"]

    run(main())


def test_that_of_a_mounted_app_may_refuse_and_may_change_what_is_called() -> None:
    async def guard(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        if isinstance(call.params, m.ReadResourceRequestParams):
            raise InvalidRequest("closed today")
        assert isinstance(call.params, m.CallToolRequestParams)
        assert call.params.name == "buy"
        params = call.params.model_copy(update={"name": "sell", "arguments": {"thing": "scarf"}})
        return await call_next(dataclasses.replace(call, params=params))

    app = mcprev.App("outer", "1")
    app.mount(shop(guard), "x")

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert text_of(await client.call_tool("x_buy", {"thing": "hat"})) == "sold scarf"
            with pytest.raises(InvalidRequest, match="closed today"):
                await client.read_resource("shop://x/open")

    run(main())


def test_a_uri_without_slashes_after_its_scheme_gets_and_loses_the_prefix_there() -> None:
    seen: list[str] = []
    inner, app = mcprev.App("i", "1", middleware=[seen_by("inner", seen)]), mcprev.App("outer", "1")

    @inner.resource("page:{+url}")
    async def page(url: str) -> str:
        return url

    app.mount(inner, "x")

    async def main() -> None:
        async with mcprev.connect(app) as client:
            read = (await client.read_resource("page:x/http://a/b")).contents[0]
            assert isinstance(read, m.TextResourceContents)
            assert (read.uri, read.text) == ("page:x/http://a/b", "http://a/b")

    run(main())
    assert seen[0] == "inner: resources/read page:http://a/b"
