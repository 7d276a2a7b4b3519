"""The reference: each public name stands on one of its pages, and what is written from the code is what the code says."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from functools import cache
from typing import Final

import pytest

import mcprev
from helpers.support import ROOT
from reference_pages import FOLDER, PAGES, pages

NAMES: Final = (*PAGES, "command", "limits")


@cache
def written() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == written()[name], "run `make reference`"


def test_every_public_name_stands_on_one_page() -> None:
    assert {*written()} == {*NAMES}
    listed = re.findall(r"^::: mcprev\.(\w+)$", "".join(written().values()), re.MULTILINE)
    assert (
        sorted(listed)
        == sorted({*listed})
        == sorted(name for names in mcprev._HOMES.values() for name in names)
    )


def test_the_navigation_has_every_page() -> None:
    named = set(re.findall(r'"([\w./-]+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8")))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert named == there
