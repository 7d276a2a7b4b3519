"""docs/names.md: what packages of others export, and the table from our names to theirs, which is made of the tables above it.

`python tools/names_page.py` writes that table; a test fails where it is not what the tables say. tests/interop/test_names.py compares
the first columns with the packages themselves.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import public_names

import mcprev
from helpers.support import ROOT

PAGE: Final = ROOT / "docs" / "names.md"
HEADING: Final = "## From ours to theirs\n"
INTRODUCTION: Final = """
Every name that `import mcprev` offers, and the members that the tables above have. A dash says that none of the two has it.

| mcprev | FastMCP | mcp |
|---|---|---|
"""


class Row(NamedTuple):
    """A row of a table: whose names are in the first column, and what the columns have."""

    whose: str
    theirs: tuple[str, ...]
    ours: str


def rows(text: str) -> Iterator[Row]:
    """The rows from theirs to ours."""
    whose = ""
    for line in text.partition(HEADING)[0].splitlines():
        if heading := re.fullmatch(r"\| (\w+) \| mcprev \|", line):
            whose = heading[1]
        elif line.startswith("| `"):
            theirs, _, ours = line.strip("| ").partition(" | ")
            yield Row(whose, tuple(re.findall(r"`([^`]+)`", theirs)), ours)


def ours_in(cell: str) -> list[str]:
    """The public names of a cell as the table from ours to theirs writes them, such as `Context.log` for `ctx.log`.

    Those of which something is an option, as in `ttl_ms=` of `app.resource`, are not meant.
    """
    written = re.findall(r"(?<! of )`@?((?:mcprev\.)?\w+(?:\.\w+)*)(?:\([^`]*\))?`", cell)
    full = filter(None, map(public_names.target, written))
    return [each.removeprefix("mcprev.").removeprefix("server.session_state.") for each in full]


def pairs(row: Row) -> Iterator[tuple[str, Sequence[str]]]:
    """Our names of a row, each with theirs: one by one where there are as many of both, or by equal names, or all."""
    ours = ours_in(row.ours)
    if len(ours) == len(row.theirs):
        yield from zip(ours, ((theirs,) for theirs in row.theirs), strict=True)
        return
    last = {name: name.rpartition(".")[2] for name in (*ours, *row.theirs)}
    rest = [theirs for theirs in row.theirs if last[theirs] not in {last[name] for name in ours}]
    for name in ours:
        yield name, [theirs for theirs in row.theirs if last[theirs] == last[name]] + rest or row.theirs


def inverse(text: str) -> str:
    """The table from ours to theirs."""
    known: dict[str, dict[str, list[str]]] = {name: {} for names in mcprev._HOMES.values() for name in names}
    for row in rows(text):
        for name, theirs in pairs(row):
            known.setdefault(name, {}).setdefault(row.whose, []).extend(theirs)
    lines = [
        f"| `{written(name)}` | {listed(theirs.get('FastMCP'))} | {listed(theirs.get('mcp'))} |"
        for name, theirs in sorted(known.items(), key=lambda item: item[0].lower())
    ]
    return HEADING + INTRODUCTION + "\n".join(lines) + "\n"


def written(name: str) -> str:
    """A name as guides write it, so that it leads to the reference."""
    return name if name.startswith("SessionState.") else f"mcprev.{name}"


def listed(names: list[str] | None) -> str:
    """Some names in a cell."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names)) if names else "–"


def page() -> str:
    """The page with the table as it should be."""
    text = PAGE.read_text(encoding="utf-8").partition(HEADING)[0].rstrip()
    return f"{text}\n\n{inverse(text)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
