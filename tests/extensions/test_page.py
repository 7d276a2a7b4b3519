"""Every program of docs/extensions.md runs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import runpy
from types import ModuleType
from typing import Any, Final, cast

import pytest

import mcprev
from helpers.support import ROOT
from mcprev.extensions import ui
from prose.test_guides import sections

PROGRAMS: Final = sections("extensions.md")


@pytest.mark.parametrize("heading", PROGRAMS)
def test_a_section_of_the_page_runs(heading: str, types: ModuleType) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    page = str(ROOT / "docs" / "extensions.md")
    code = compile(PROGRAMS[heading], page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    found: object = eval(code, names)  # noqa: S307 - our own page
    if inspect.iscoroutine(found):
        asyncio.run(asyncio.wait_for(cast("Any", found), 20))


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) == 6


def test_the_example_serves_its_page_and_text() -> None:
    app: mcprev.App = runpy.run_path(str(ROOT / "examples" / "clock.py"))["app"]

    async def main() -> None:
        async with mcprev.connect(app, extensions=[ui.HOST]) as client:
            tools = {tool.name: tool async for tool in client.tools()}
            interface = ui.tool_interface(tools["now"])
            assert interface is not None
            assert "ui/initialize" in (await ui.read_page(client, interface)).html
            assert [tool.name for tool in ui.for_model(tools.values())] == ["now"]
        async with mcprev.connect(app) as client:
            assert ":" in (await client.call_tool("now")).text

    asyncio.run(main())
