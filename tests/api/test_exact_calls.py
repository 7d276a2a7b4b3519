"""`client.exact` as the guide shows it, at every revision: what the runtime knows, the caller need not say (SEAM-9, MOD-1)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import mcprev
from mcprev.revisions import DEFAULT, Revision
from requirements import req
from running import run

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def app() -> mcprev.App:
    made = mcprev.App("a", "1")

    @made.tool
    async def who(ctx: mcprev.Context) -> str:
        return f"{ctx.client_info}" if ctx.client_info else "nobody"

    return made


def package(row: Revision) -> Any:
    return import_module(f"mcprev_types.v{row.name.replace('-', '_')}")


@req("SEAM-9", "MOD-1", everywhere=True)
@each_row
def test_params_of_the_package_need_no_meta(row: Revision) -> None:
    types = package(row)

    async def main() -> None:
        async with mcprev.connect(app(), mode=row.name, name="the-client", version="7") as client:
            calls = client.exact(types)
            for tools in (await calls.list_tools(), await calls.list_tools(types.PaginatedRequestParams())):
                assert [tool.name for tool in tools.tools] == ["who"]
            result = await calls.call_tool(types.CallToolRequestParams(name="who"))
            assert isinstance(result, types.CallToolResult)
            assert "the-client" in result.content[0].text

    run(main())


@req("MOD-3", everywhere=True)
@each_row
def test_a_message_without_its_meta_is_as_invalid_as_before(row: Revision) -> None:
    """Constructors fill in what the runtime states; of what was received, nothing is filled in."""
    types = package(row)
    made = types.PaginatedRequestParams().to_wire()
    assert types.PaginatedRequestParams.from_wire(made).to_wire() == made
    if made:
        with pytest.raises(ValueError, match="_meta"):
            types.PaginatedRequestParams.from_wire({})
