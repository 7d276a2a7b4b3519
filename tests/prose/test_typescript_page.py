"""docs/typescript.md: what is read means what it is said to mean, and what is refused says so."""

from __future__ import annotations

import re
from typing import Final

import pytest

from helpers.support import ROOT, parse
from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.typescript import bounds
from mcprev_codegen.typescript.printer import print_module
from mcprev_codegen.typescript.reader.unsupported import NOT_JSON, UNSUPPORTED

PAGE: Final = (ROOT / "docs" / "typescript.md").read_text(encoding="utf-8")


def rows(head: str) -> list[tuple[str, ...]]:
    """The rows of the table with these columns, without the marks of code."""
    lines = PAGE.partition(f"{head}\n")[2].split("\n")
    table = lines[1 : next(n for n, line in enumerate(lines) if not line.startswith("|"))]
    return [tuple(cell(text) for text in re.split(r"(?<!\\)\|", line)[1:-1]) for line in table]


def cell(text: str) -> str:
    """The text of a cell, which is a piece of code or has such pieces in it."""
    inner = text.strip().replace("\\|", "|")
    code = re.fullmatch(r"`` (.*) ``|`([^`]*)`", inner)
    return code[1] or code[2] if code else inner


READ: Final = rows("| construct | written as | read as |")
REFUSED: Final = rows("| construct | for example | what the error says |")


@pytest.mark.parametrize(("written", "meant"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_what_is_read_means_what_is_written_beside_it(written: str, meant: str) -> None:
    found, expected = ir.contract(parse(written)), ir.contract(parse(meant))
    assert found == expected
    assert parse(print_module(found)) == found
    assert [repr(c.value) for c in found.consts.values()] == [repr(c.value) for c in expected.consts.values()]


@pytest.mark.parametrize(("written", "told"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused_says_what_to_write_instead(written: str, told: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(written)
    assert caught.value.message == told
    assert caught.value.line == 1


def test_the_page_has_all_that_is_refused() -> None:
    told = [row[2] for row in REFUSED]
    for what, instead in UNSUPPORTED.values():
        assert any(text.startswith(f"{what} is not") and text.endswith(instead) for text in told), what
    for name, instead in NOT_JSON.items():
        assert f"the type '{name}' has no equivalent in JSON; {instead}" in told


def test_the_page_names_the_bounds() -> None:
    for bound in (
        bounds.MAX_DECLARATIONS, bounds.MAX_TYPES, bounds.MAX_DEPTH, bounds.MAX_INSTANCES, bounds.MAX_TEMPLATES,
    ):  # fmt: skip
        assert re.search(rf"\b{bound:,}\b", PAGE), bound
