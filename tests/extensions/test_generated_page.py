"""A page that the model writes: who sees its tool, and what that takes. What the page does is tried in tests/browser/test_pages_shown.py."""

from __future__ import annotations

import re
from typing import Any

import pytest

import mcprev
from helpers.running import run
from mcprev.app.ready_pages import MAX_GENERATED, generated_page
from mcprev.extensions import ui
from mcprev.revisions import DEFAULT, Revision


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_only_clients_that_show_pages_see_the_tool(row: Revision) -> None:
    async def main() -> None:
        app = generated_page(mcprev.App("a", "1"))
        async with mcprev.connect(app, revisions=[row.name]) as client:
            assert [tool async for tool in client.tools()] == []
            with pytest.raises(mcprev.RpcError, match="Unknown tool"):
                await client.call_tool("show_page", {"html": "<p>"})
        async with mcprev.connect(app, revisions=[row.name], extensions=[ui.HOST]) as client:
            tools = [tool async for tool in client.tools()]
            assert bool(tools) == ("meta" in row.models.Tool.model_fields)
            for tool in ui.for_model(tools):
                interface = ui.tool_interface(tool)
                assert interface is not None
                page = await ui.read_page(client, interface)
                assert (page.uri, page.csp, page.permissions) == ("ui://generated", ui.Csp(), frozenset())
                assert (await client.call_tool(tool.name, {"html": "<p>"})).text == "The user sees the page."

    run(main())


def test_the_tool_takes_a_page_up_to_the_limit_that_the_page_has_too() -> None:
    async def main() -> None:
        async with mcprev.connect(generated_page(mcprev.App("a", "1")), extensions=[ui.HOST]) as client:
            [tool] = [tool async for tool in client.tools()]
            page = await ui.read_page(client, "ui://generated")
            properties: Any = tool.input_schema.to_wire()["properties"]
            assert properties["html"]["maxLength"] == MAX_GENERATED
            assert re.findall(r"MAX_LENGTH = (\d+);", page.html) == [str(MAX_GENERATED)]
            assert not (await client.call_tool("show_page", {"html": "x" * MAX_GENERATED})).is_error
            result = await client.call_tool("show_page", {"html": "x" * (MAX_GENERATED + 1)})
            assert result.is_error

    run(main())


def test_the_tool_and_the_page_may_have_other_names() -> None:
    async def main() -> None:
        app = generated_page(mcprev.App("a", "1"), name="draw", uri="ui://drawn")
        with pytest.raises(ValueError, match="ui://drawn"):
            generated_page(app, uri="ui://drawn")
        async with mcprev.connect(generated_page(app), extensions=[ui.HOST]) as client:
            assert sorted([tool.name async for tool in client.tools()]) == ["draw", "show_page"]

    run(main())
