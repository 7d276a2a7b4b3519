"""Middleware around every call of a handler's methods, at every revision."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import mcprev
from mcprev.errors import InvalidRequest
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m
from running import run, until


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
