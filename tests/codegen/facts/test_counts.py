"""The counts of each revision equal the recorded ones, and recorded tables are never changed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from counts import COUNTS, SETTLED, counted, recorded, renewed
from helpers.losses import LISTED, listed

HEAD: Final = "# About it.\n\n"
OLD: Final = '["2001-01-01"]\na   = 1 # as it is\n'
MIDDLE: Final = '["2002-01-01"]\na = 2\n'
NEW: Final = '["2003-01-01"]\na = 2003\nb = "x"\n'


@pytest.mark.parametrize("revision", SETTLED)
def test_a_revision_counts_what_it_counted_when_it_was_new(revision: str) -> None:
    """`make generate` writes the table of a revision that has none; one whose pin was replaced is deleted by hand."""
    assert revision in recorded(), "run `make generate`"
    assert recorded()[revision] == counted(revision)
    assert len(listed()[revision]) == counted(revision)["losses"]


@pytest.mark.parametrize("path", [COUNTS, LISTED], ids=lambda path: path.stem)
def test_only_settled_revisions_have_a_table(path: Path) -> None:
    assert tuple(tomllib.loads(path.read_text(encoding="utf-8"))) == SETTLED


def table(name: str) -> Mapping[str, int | str]:
    """What would be counted now."""
    return {"a": int(name[:4]), "b": "x"}


@pytest.mark.parametrize(
    ("before", "years", "after"),
    [
        ((OLD, MIDDLE), "12", (OLD, MIDDLE)),
        ((OLD, MIDDLE), "123", (OLD, MIDDLE, NEW)),
        ((OLD, MIDDLE), "2", (MIDDLE,)),
        ((OLD, MIDDLE), "23", (MIDDLE, NEW)),
        ((MIDDLE,), "3", (NEW,)),
        ((), "3", (NEW,)),
    ],
)
def test_tables_are_added_and_deleted_and_never_changed(
    before: tuple[str, ...], years: str, after: tuple[str, ...]
) -> None:
    names = tuple(f"200{year}-01-01" for year in years)
    assert renewed(HEAD + "\n".join(before), names, table) == HEAD + "\n".join(after)
