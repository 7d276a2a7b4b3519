"""Every program of docs/extensions.md runs."""

from __future__ import annotations

import ast
import asyncio
import inspect
from types import ModuleType
from typing import Any, Final, cast

import pytest

from support import ROOT
from test_guides import sections

PROGRAMS: Final = sections("extensions.md")


@pytest.mark.parametrize("heading", PROGRAMS)
def test_a_section_of_the_page_runs(heading: str, types: ModuleType) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    page = str(ROOT / "docs" / "extensions.md")
    code = compile(PROGRAMS[heading], page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    found: object = eval(code, names)  # noqa: S307 - our own page
    assert inspect.iscoroutine(found)
    asyncio.run(asyncio.wait_for(cast("Any", found), 20))


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) == 3
