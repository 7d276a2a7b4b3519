"""A proxy between every two revisions: the converters are enough for it (SEAM-10)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import mcprev
from api.authors import Helpful
from api.proxy import Proxy
from api.scripted import form, sample, server, text
from helpers.named import ROW_A, B, C, rows_since, rows_until
from helpers.requirements import req
from helpers.running import run, until
from mcprev.errors import InvalidParams
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_types.latest import models as m


async def list_tools(ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
    number = int(params.cursor or "0")
    tool = m.Tool(
        name=f"t{number}",
        title="A tool",
        input_schema=m.ToolInputSchema.from_wire(
            {"type": "object", "properties": {"a": {"type": "integer"}}}
        ),
        annotations=m.ToolAnnotations(read_only_hint=True),
        meta={"com.example/x": 1},
    )
    return m.ListToolsResult(tools=[tool], next_cursor=None if number else "1", ttl_ms=5)


async def call_tool(ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
    match params.name:
        case "sample":
            first, second = await ctx.ask("one", sample()), await ctx.ask("two", sample())
            return text([first.model, second.model, params.arguments])
        case "form":
            return text((await ctx.ask("who", form())).content)
        case "roots":
            return text([root.uri for root in (await ctx.ask("roots", m.ListRootsRequest())).roots])
        case "content":
            audio = m.AudioContent(data="AA==", mime_type="audio/wav")
            link = m.ResourceLink(uri="a:b", name="n")
            return m.CallToolResult(content=[audio, link], structured_content={"x": 1})
        case _:
            raise InvalidParams(f"Unknown tool: {params.name}")


def through(row: Revision, there: Revision, work: Callable[[mcprev.Client], Awaitable[None]]) -> Helpful:
    """Do something with a client of one revision whose server, behind the proxy, speaks another."""
    helpful = Helpful()

    async def main() -> None:
        made = server({"validate": False}, list_tools=list_tools, call_tool=call_tool)
        proxy: Any = Proxy(row, made, there)
        async with mcprev.connect(mcprev.memory(proxy), mode=row.name, handler=helpful) as client:
            try:
                await work(client)
            finally:
                proxy.check()
            proxy.check()
            proxy.up.check()
            assert proxy.up.revision is there
        await until(lambda: not made._connections)

    run(main())
    return helpful


def said(result: m.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, m.TextContent)
    return block.text


@req("SEAM-10", "CONV-36")
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
def test_tools_are_listed(row: Revision, there: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        assert client.revision == row.name
        assert client.server_info is not None
        assert client.server_info.name == "scripted"
        assert client.capabilities.tools is not None
        tools = [tool async for tool in client.tools()]
        assert [tool.name for tool in tools] == ["t0", "t1"]
        older = min(row, there, key=DEFAULT.index)
        annotations = tools[0].annotations
        assert (annotations is None) is (older is ROW_A)
        assert (tools[0].title is None) is (older in rows_until(B))
        assert (tools[0].meta is None) is (older in rows_until(B))

    through(row, there, work)


@req("SEAM-10")
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
def test_tools_are_called(row: Revision, there: Revision) -> None:
    async def work(client: mcprev.Client) -> None:
        found = await client.call_tool("content")
        older = min(row, there, key=DEFAULT.index)
        kinds = [block.type for block in found.content]
        assert kinds[0] == ("resource" if older is ROW_A else "audio")
        assert kinds[1] == ("text" if older in rows_until(B) else "resource_link")
        assert ("structuredContent" in found.to_wire()) is (older in rows_since(C))
        with pytest.raises(InvalidParams, match="Unknown tool: nothing"):
            await client.call_tool("nothing")

    through(row, there, work)


@req("SEAM-10", "MRTR-11", "MRTR-12", "CONV-17")
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
def test_what_a_server_asks_reaches_the_client(row: Revision, there: Revision) -> None:
    """Questions inside results become requests of sessions, and the other way round."""

    async def work(client: mcprev.Client) -> None:
        assert said(await client.call_tool("sample", {"a": 1})) == "['mm', 'mm', {'a': 1}]"
        assert said(await client.call_tool("roots")) == "['file:///x']"
        if row.elicitation_modes and there.elicitation_modes:
            assert said(await client.call_tool("form")) == "{'name': 'bob'}"
        else:
            with pytest.raises(mcprev.RpcError):
                await client.call_tool("form")

    helpful = through(row, there, work)
    assert helpful.asked[:3] == ["sampling", "sampling", "roots"]
    assert LATEST in DEFAULT
