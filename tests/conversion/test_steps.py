"""Steps decide what the generated deltas leave open, and one that does not is refused with the file to write."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import pytest

from helpers.requirements import req
from mcprev.conversion.ladder import decided_rules, neighbours
from mcprev.conversion.rules import Rules
from mcprev.errors import RevisionError, UndecidedStep
from mcprev.revisions import ALL, LATEST, Revision
from mcprev_types import TypeDelta

OPEN: Final = {"Thing": TypeDelta("Thing", drop=("old",), missing=("name",), retyped=("size",))}
ABOUT: Final = "a peer would get 'size' as it is"
HEADER: Final = "from mcprev.conversion.rules import Rules\n"


class Row:
    """As much of a row as the search for its step looks at."""

    def __init__(self, name: str, *, negotiable: bool = True) -> None:
        self.name, self.negotiable = name, negotiable


def decide(row: Row, deltas: Mapping[str, TypeDelta], *, down: bool = True) -> Any:
    return decided_rules(cast("Revision", row), LATEST, deltas, down=down)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules are steps too."""
    package = sys.modules["mcprev.conversion"]
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    return tmp_path


@req("SEAM-7", everywhere=True)
@pytest.mark.parametrize(("older", "younger"), list(pairwise(ALL)), ids=lambda row: row.name)
def test_every_step_decides_what_its_deltas_leave_open(older: Revision, younger: Revision) -> None:
    for here, there in ((older, younger), (younger, older)):
        assert neighbours(here, there).rules.undecided == {}


@req("SEAM-7", "SEAM-4", everywhere=True)
def test_a_step_without_a_module_is_refused_with_the_file_to_write() -> None:
    with pytest.raises(
        UndecidedStep, match=r"nothing converts between .* and new: write .*step_new\.py"
    ) as caught:
        decide(Row("new"), {})
    assert Path(caught.value.file).name == "step_new.py"
    assert caught.value.members == ()
    with pytest.raises(UndecidedStep) as caught:
        decide(Row("new"), OPEN)
    assert caught.value.members == ("Thing.name", "Thing.size")


@req("SEAM-7", "SEAM-8", everywhere=True)
def test_a_draft_needs_a_module_only_where_its_deltas_leave_something_open() -> None:
    draft = Row("new", negotiable=False)
    assert decide(draft, {"Thing": TypeDelta("Thing", drop=("old",))}) == Rules()
    with pytest.raises(UndecidedStep, match=r"Thing\.size"):
        decide(draft, OPEN)


@req("SEAM-7", "SEAM-4", everywhere=True)
def test_an_undecided_entry_is_refused_with_its_line(folder: Path) -> None:
    text = HEADER + f"""
DOWN = Rules(
    accepted={{"Thing.name": "it is always there"}},
    undecided={{
        "Thing.size": "{ABOUT}",
    }},
)
UP = Rules(accepted={{"Thing.size": "any will do"}})
"""
    (folder / "step_undecided_one.py").write_text(text, encoding="utf-8")
    line = text.split("\n").index(next(each for each in text.split("\n") if ABOUT in each)) + 1
    with pytest.raises(UndecidedStep) as caught:
        decide(Row("undecided-one"), OPEN)
    assert (Path(caught.value.file), caught.value.line) == (folder / "step_undecided_one.py", line)
    assert f"write {folder / 'step_undecided_one.py'}:{line}\n  Thing.size: {ABOUT}" in str(caught.value)
    with pytest.raises(UndecidedStep, match=r"UP .* does not decide all members") as caught:
        decide(Row("undecided-one"), OPEN, down=False)
    assert caught.value.members == ("Thing.name",)


@req("SEAM-7", everywhere=True)
def test_rows_that_are_not_neighbours_have_no_step() -> None:
    with pytest.raises(RevisionError, match=f"the generated deltas of {ALL[0].name} lead to {ALL[1].name}"):
        neighbours(ALL[0], ALL[2])
    with pytest.raises(RevisionError, match="write the row that is missing, or run `mcprev generate`"):
        neighbours(ALL[2], ALL[0])
