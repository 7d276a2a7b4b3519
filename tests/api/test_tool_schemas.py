"""Tools keep to their schemas: arguments before the handler runs, results before they are shipped, and on arrival."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

import mcprev
from helpers.named import rows_since, rows_until
from helpers.requirements import A, B, C, D, E, req
from helpers.running import Records, run, until
from mcprev.core import tool_schemas as tools
from mcprev.errors import InvalidParams, RemoteProtocolError, RpcError
from mcprev.revisions import DEFAULT, LATEST, Revision, load
from mcprev.server import tools as server_tools
from mcprev_types.latest import models as m

PLAIN = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["n"],
    "additionalProperties": False,
}
RICH = {
    "$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}
    },
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
}
OUTPUT = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}


class Tools(mcprev.ServerHandler):
    """Tools of any schemas, which give back whatever a test wants."""

    def __init__(self, **tools: dict[str, Any]) -> None:
        self.tools = tools
        self.lists = 0
        self.ran: list[tuple[str, Any]] = []
        self.result: Any = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> Any:
        self.lists += 1
        await self.gate.wait()
        names = sorted(self.tools)
        at = int(params.cursor or 0)
        page: dict[str, Any] = {
            "tools": [
                {"name": name, "inputSchema": {"type": "object"}, **self.tools[name]}
                for name in names[at : at + 2]
            ]
        }
        if at + 2 < len(names):
            page["nextCursor"] = str(at + 2)
        return page

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        self.ran.append((params.name, params.arguments))
        if params.name == "unknown":
            raise InvalidParams("Unknown tool: unknown")
        return (
            self.result if self.result is not None else m.CallToolResult(content=[m.TextContent(text="ok")])
        )


class Pair:
    """A server with such a handler, and a client of a revision."""

    def __init__(self, handler: Any, row: Revision, *, validate: bool = True, **options: Any) -> None:
        self.server = mcprev.Server(handler, "s", "1", validate=validate)
        self.connect = mcprev.connect(mcprev.memory(self.server), mode=row.name, **options)

    async def __aenter__(self) -> mcprev.Client:
        return await self.connect.__aenter__()

    async def __aexit__(self, *args: object) -> None:
        await self.connect.__aexit__(None, None, None)
        await until(lambda: not self.server._connections)


@contextmanager
def logged(name: str) -> Generator[list[logging.LogRecord], None, None]:
    log, records = logging.getLogger(name), Records()
    log.addHandler(records)
    try:
        yield records.records
    finally:
        log.removeHandler(records)


def failure(result: m.CallToolResult) -> str:
    assert result.is_error is True
    return said(result)


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


async def refusal(client: mcprev.Client, name: str, arguments: Any, row: Revision) -> str:
    """The text that a call with bad arguments is answered with, in the way of the revision."""
    if row.tool_argument_errors_are_results:
        result = await client.call_tool(name, arguments)
        assert result.is_error is True
        return said(result)
    with pytest.raises(InvalidParams) as caught:
        await client.call_tool(name, arguments)
    assert caught.value.code == -32602
    return str(caught.value)


# -- arguments -------------------------------------------------------------------------------------------


@req("TOOL-3", "TOOL-2", "CONV-35")
@pytest.mark.parametrize("schema", [PLAIN, {**PLAIN, "not": False}], ids=["plain", "rich"])
def test_arguments_fit_the_schema_before_the_handler_runs(row: Revision, schema: Any) -> None:
    async def main() -> None:
        handler = Tools(t={"inputSchema": schema})
        async with Pair(handler, row) as client:
            wrong: tuple[tuple[Any, str], ...] = (
                (None, "n"), ({}, "n"), ({"n": "1"}, "arguments.n"), ({"n": 1.5}, "arguments.n"), ({"n": True}, "arguments.n"),
                ({"n": 0}, "arguments.n"), ({"n": 1, "tags": ["a", 2]}, "arguments.tags.1"), ({"n": 1, "other": 1}, "other"),
            )  # fmt: skip
            for arguments, place in wrong:
                text = await refusal(client, "t", arguments, row)
                assert place in text
                assert "'t'" in text
            assert handler.ran == []
            right: tuple[Any, ...] = ({"n": 1}, {"n": 2.0, "tags": []}, {"n": 10**30, "tags": ["a"]})
            for arguments in right:
                assert said(await client.call_tool("t", arguments)) == "ok"
            assert handler.lists == 1

    run(main())


@req("TOOL-3")
def test_a_schema_that_refers_to_itself(row: Revision) -> None:
    async def main() -> None:
        handler = Tools(t={"inputSchema": RICH})
        async with Pair(handler, row) as client:
            assert said(await client.call_tool("t", {"root": {"next": {"n": 1}}})) == "ok"
            assert "root.next.n" in await refusal(client, "t", {"root": {"next": {"n": "1"}}}, row)

    run(main())


@req("TOOL-2")
def test_a_call_that_is_none_is_a_protocol_error(row: Revision) -> None:
    async def main() -> None:
        handler = Tools(t={"inputSchema": PLAIN})
        async with Pair(handler, row) as client:
            several: tuple[Any, ...] = (
                {"name": 5},
                {"arguments": {}},
                {"name": "t", "arguments": [1]},
                {"name": "t", "arguments": 5},
            )
            for params in several:
                with pytest.raises(RpcError) as caught:
                    await client.raw("tools/call", params)
                assert caught.value.code == -32602
            assert handler.ran == []

    run(main())


@req("TOOL-1")
def test_what_is_not_listed_is_the_handlers_business(row: Revision) -> None:
    """An unknown tool reaches the handler, which refuses it; the list is looked at for it once."""

    async def main() -> None:
        handler = Tools(a={}, b={}, c={}, d={}, e={"inputSchema": PLAIN})
        async with Pair(handler, row) as client:
            for _ in range(3):
                with pytest.raises(InvalidParams, match="Unknown tool"):
                    await client.call_tool("unknown")
            assert handler.lists == 3  # its pages
            assert await refusal(client, "e", {}, row)
            assert said(await client.call_tool("hidden", {"x": 1})) == "ok"
            assert handler.lists == 6

    run(main())


@req("TOOL-3", "TOOL-11")
def test_the_list_is_asked_for_again_when_it_changed(row: Revision) -> None:
    async def main() -> None:
        handler = Tools(t={"inputSchema": PLAIN})
        pair = Pair(handler, row)
        async with pair as client:
            await refusal(client, "t", {}, row)
            handler.tools["t"] = {"inputSchema": {"type": "object", "required": ["other"]}}
            pair.server.changed("tools")
            assert "other" in await refusal(client, "t", {"n": 1}, row)
            assert said(await client.call_tool("t", {"other": 1})) == "ok"
            handler.tools["new"] = {"inputSchema": PLAIN}
            assert await refusal(client, "new", {}, row)
            assert handler.lists == 3

    run(main())


@req("TOOL-3", at=(D, E))
@pytest.mark.parametrize("row", rows_since(D), ids=lambda row: row.name)
def test_many_calls_ask_for_the_list_once_and_a_change_in_between_counts(row: Revision) -> None:
    async def main() -> None:
        handler = Tools(t={"inputSchema": PLAIN})
        pair = Pair(handler, row)
        async with pair as client:
            handler.gate.clear()
            calls = [asyncio.create_task(client.call_tool("t", {"n": n})) for n in range(1, 30)]
            await until(lambda: handler.lists == 1)
            calls[0].cancel()
            pair.server.changed("tools")  # what is being listed is out of date already
            handler.gate.set()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [said(found) for found in results[1:] if isinstance(found, m.CallToolResult)] == [
                "ok"
            ] * 28
            assert 1 < handler.lists <= 3
            before = handler.lists
            await client.call_tool("t", {"n": 1})
            assert handler.lists == before

    run(main())


@req("TOOL-3")
def test_checking_can_be_left_to_the_handler(row: Revision) -> None:
    async def main() -> None:
        handler = Tools(t={"inputSchema": PLAIN, "outputSchema": OUTPUT})
        async with Pair(handler, row, validate=False) as client:
            assert said(await client.call_tool("t", {"n": "no"})) == "ok"
            assert handler.lists == 0

    run(main())


@req("TOOL-3")
def test_a_handler_without_a_list_has_no_schemas(row: Revision) -> None:
    class Bare(mcprev.ServerHandler):
        async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
            return m.CallToolResult(content=[m.TextContent(text="ok")])

    async def main() -> None:
        async with Pair(Bare(), row) as client:
            assert said(await client.call_tool("anything", {"x": 1})) == "ok"

    run(main())


@req("TOOL-3", "JSCH-1", "JSCH-2")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$schema": "https://json-schema.org/draft/2019-09/schema"}, "dialect"),
        ({"properties": {"a": {"$ref": "https://example.com/a"}}}, "does not resolve"),
        ({"properties": []}, "is not of type"),
    ],
)
def test_a_schema_that_cannot_be_used_refuses_the_calls(row: Revision, schema: Any, why: str) -> None:
    """Not checking would be worse; the log says why and what to do, the peer learns nothing."""

    async def main() -> None:
        handler = Tools(t={"inputSchema": {"type": "object", **schema}}, fine={})
        async with Pair(handler, row) as client:
            with logged("mcprev.server") as records:
                assert failure(await client.call_tool("t", {})) == "the tool 't' failed"
            assert why in str(records[0].exc_info)
            assert "validate=False" in str(records[0].exc_info)
            assert handler.ran == []
            assert said(await client.call_tool("fine", {})) == "ok"

    run(main())


@req("TOOL-3")
def test_a_list_that_fails_refuses_the_calls(row: Revision) -> None:
    class Failing(Tools):
        async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> Any:
            if self.tools:
                raise RuntimeError("secret")
            return {"tools": [], "nextCursor": "again"}

    async def main() -> None:
        for handler in (Failing(t={}), Failing()):
            async with Pair(handler, row) as client:
                with logged("mcprev.server"):
                    assert failure(await client.call_tool("t", {})) == "the tool 't' failed"
                assert handler.ran == []

    run(main())


# -- results ---------------------------------------------------------------------------------------------


def structured(value: Any) -> dict[str, Any]:
    return {"content": [], "structuredContent": value}


@req("TOOL-4")
@pytest.mark.parametrize("schema", [OUTPUT, {**OUTPUT, "not": False}], ids=["plain", "rich"])
def test_results_fit_the_schema_or_are_not_shipped(row: Revision, schema: Any) -> None:
    async def main() -> None:
        handler = Tools(t={"outputSchema": schema})
        async with Pair(handler, row, validate=True) as client:
            several: tuple[Any, ...] = (
                structured({}),
                structured({"sum": "1"}),
                structured([1]),
                structured(None),
                {"content": []},
            )
            for wrong in several:
                handler.result = wrong
                with logged("mcprev.server") as records:
                    assert failure(await client.call_tool("t")) == "the tool 't' failed"
                assert "outputSchema" in str(records[0].exc_info)
            handler.result = structured({"sum": 1.5, "more": 1})
            assert (await client.call_tool("t")).structured_content == {"sum": 1.5, "more": 1}
            # A failed tool has no structure to speak of.
            handler.result = {"content": [], "isError": True}
            assert (await client.call_tool("t")).is_error

    run(main())


@req("TOOL-4", at=E)
def test_any_json_can_be_a_structure() -> None:
    async def main() -> None:
        for schema, value in (({"type": "array"}, [1]), ({"type": "null"}, None), ({"type": "string"}, "x")):
            handler = Tools(t={"outputSchema": schema})
            handler.result = structured(value)
            async with Pair(handler, LATEST) as client:
                assert (await client.call_tool("t")).structured_content == value

    run(main())


@req("TOOL-5", "CONV-3")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_structure_alone_is_said_as_text_too(row: Revision) -> None:
    async def main() -> None:
        handler = Tools(t={})
        async with Pair(handler, row) as client:
            handler.result = structured({"a": "é"})
            result = await client.call_tool("t")
            assert said(result) == '{"a":"é"}'
            assert len(result.content) == 1
            # What the author says in its place is left alone, where both can be sent.
            handler.result = {"content": [{"type": "text", "text": "mine"}], "structuredContent": {"a": 1}}
            result = await client.call_tool("t")
            assert said(result) == "mine"
            assert len(result.content) == (2 if row in rows_until(B) else 1)

    run(main())


# -- on arrival ------------------------------------------------------------------------------------------


def wrong_server(row: Revision) -> tuple[Tools, Any]:
    handler = Tools(
        t={"outputSchema": OUTPUT},
        u={"outputSchema": {"type": "object", "$ref": "https://example.com/x"}},
        v={},
    )
    handler.result = structured({"sum": "no"})
    return handler, row


@req("TOOL-6")
def test_a_result_that_does_not_fit_is_warned_of_once(row: Revision) -> None:
    async def main() -> None:
        handler, _ = wrong_server(row)
        async with Pair(handler, row, validate=False) as client:
            with logged("mcprev.client") as records:
                assert (await client.call_tool("t")).structured_content == {"sum": "no"}
                assert not warnings(records)  # its schema is not known before it is listed
                assert [tool.name async for tool in client.tools()] == ["t", "u", "v"]
                for _ in range(3):
                    await client.call_tool("t")
                assert ["sum" in text for text in warnings(records)] == [True]
                await client.call_tool("u")
                assert "does not resolve" in warnings(records)[1]
                await client.call_tool("v")
                handler.result = {"content": [], "isError": True}
                await client.call_tool("t")
                assert len(warnings(records)) == 2

    run(main())


def warnings(records: list[logging.LogRecord]) -> list[str]:
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


@req("TOOL-6")
def test_a_result_that_does_not_fit_can_be_refused(row: Revision) -> None:
    async def main() -> None:
        handler, _ = wrong_server(row)
        pair = Pair(handler, row, validate=False)
        pair.connect = mcprev.connect(mcprev.memory(pair.server), mode=row.name, validate="strict")
        async with pair as client:
            await client.list_tools()
            for name in ("t", "u", "u"):  # an unusable schema is refused at every call
                with pytest.raises(RemoteProtocolError, match=f"'{name}'") as caught:
                    await client.call_tool(name)
                assert caught.value.raw["structuredContent"] == {"sum": "no"}
            handler.result = {"content": []}
            with pytest.raises(RemoteProtocolError, match="no structured content"):
                await client.call_tool("t")
            handler.result = structured({"sum": 1})
            assert (await client.call_tool("t")).structured_content == {"sum": 1}
            handler.result = {"content": [], "isError": True}
            assert (await client.call_tool("t")).is_error

    run(main())


@req("TOOL-6")
def test_results_can_be_taken_as_they_are(row: Revision) -> None:
    async def main() -> None:
        handler, _ = wrong_server(row)
        pair = Pair(handler, row, validate=False)
        pair.connect = mcprev.connect(mcprev.memory(pair.server), mode=row.name, validate="off")
        async with pair as client:
            await client.list_tools()
            with logged("mcprev.client") as records:
                await client.call_tool("t")
            assert not warnings(records)

    run(main())


@req("TOOL-6", at=(A, B))
@pytest.mark.parametrize("row", rows_until(B), ids=lambda row: row.name)
def test_revisions_without_structure_have_nothing_to_judge(row: Revision) -> None:
    async def main() -> None:
        handler, _ = wrong_server(row)
        pair = Pair(handler, row, validate=False)
        pair.connect = mcprev.connect(mcprev.memory(pair.server), mode=row.name, validate="strict")
        async with pair as client:
            await client.list_tools()
            assert said(await client.call_tool("t")) == '{"sum":"no"}'

    run(main())


@req("TOOL-6", at=C)
def test_the_policy_is_one_of_three() -> None:
    server = mcprev.Server(None, "s", "1")
    with pytest.raises(ValueError, match="strict"):
        mcprev.connect(mcprev.memory(server), validate="loud")  # type: ignore[arg-type]


@req("TOOL-3", "SEAM-9")
def test_a_handler_of_one_revision_keeps_to_its_own_schemas(row: Revision) -> None:
    package: Any = load(row, "dispatch")

    class Exact(package.ServerHandler[Any]):  # type: ignore[misc]
        async def list_tools(self, ctx: mcprev.Context, params: Any) -> Any:
            return {"tools": [{"name": "t", "inputSchema": PLAIN}]}

        async def call_tool(self, ctx: mcprev.Context, params: Any) -> Any:
            return {"content": [{"type": "text", "text": f"exact {params.arguments}"}]}

    async def main() -> None:
        pair = Pair(None, row)
        pair.server = mcprev.Server(None, "s", "1", exact={row.name: Exact()})
        pair.connect = mcprev.connect(mcprev.memory(pair.server), mode=row.name)
        async with pair as client:
            assert "arguments.n" in await refusal(client, "t", {"n": 0}, row)
            assert said(await client.call_tool("t", {"n": 1})) == "exact {'n': 1}"

    run(main())


@req("TOOL-1", "SEC-6", at=E)
def test_names_that_do_not_exist_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tools, "MAX_TOOLS", 50)

    async def main() -> None:
        handler = Tools(t={})
        pair = Pair(handler, LATEST)
        async with pair as client:
            await client.call_tool("x" * (tools.MAX_NAME + 1))
            for number in range(120):
                await client.call_tool(f"hidden{number}")
            served: Any = pair.server.request_handler
            (kept,) = served.tools.lists.values()
            assert len(kept) < 60
            assert "t" in kept
            assert not any(len(name) > tools.MAX_NAME for name in kept)

    run(main())
