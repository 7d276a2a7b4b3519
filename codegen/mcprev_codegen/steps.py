"""The step module of a new revision: its skeleton, and the entries of a step module that are not decided yet.

A step module has the conversion rules that the generated deltas cannot contain. The skeleton has one entry for each
member that a delta lists as missing or retyped. A developer adds a rule for the member or accepts the difference, and
removes the entry. The generator parses existing step modules, and never changes them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcprev_codegen import lineage
from mcprev_codegen.errors import InputError, reason
from mcprev_codegen.naming import module_name
from mcprev_codegen.printer import print_inline
from mcprev_codegen.sources import Revision
from mcprev_codegen.writers import render, revision_name

_ROWS: Final = frozenset({"Revision", "replace"})
"""The functions whose calls make a row of the table."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The runtime of a checkout; the generator reads its revision table and step modules, and writes new ones."""

    folder: Path

    @property
    def table(self) -> Path:
        """The path of the table of revisions."""
        return self.folder / "revisions.py"

    @property
    def convert(self) -> Path:
        """The path of the folder of the step modules."""
        return self.folder / "convert"

    def steps(self) -> list[Path]:
        """Return the paths of all step modules."""
        return sorted(self.convert.glob("step_*.py"))

    def step(self, revision: str) -> Path:
        """Return the path of the step module between a revision and the one before it."""
        return self.convert / f"step_{module_name(revision).removeprefix('v')}.py"

    def rows(self) -> dict[str, int]:
        """Return the revisions in the table, each with its line."""
        return {
            str(keyword.value.value): node.lineno
            for node in ast.walk(_parsed(self.table))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ROWS
            for keyword in node.keywords
            if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
        }

    def undecided(self, revision: str) -> Iterator[tuple[int, str, str]]:
        """Yield the undecided entries of a step module: line, member and question."""
        for node in ast.walk(_parsed(self.step(revision))):
            if isinstance(node, ast.keyword) and node.arg == "undecided" and isinstance(node.value, ast.Dict):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    if key is not None:
                        yield key.lineno, _text(key), _text(value)


def runtime_of(folder: Path) -> Runtime | None:
    """Return the runtime next to a schema folder; None outside a checkout."""
    found = Runtime(folder.resolve().parent / "runtime" / "mcprev")
    return found if found.table.is_file() else None


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


# -- skeletons -------------------------------------------------------------------------------------------


def skeleton(old: Revision, new: Revision) -> str:
    """Return the text of a step module in which nothing is decided; a module without entries needs no changes."""
    from mcprev_codegen.emit import format_python

    down, up = questions(old, new)
    return format_python(
        render("step.py", old=revision_name(old.name), new=revision_name(new.name), down=down, up=up)
    )


def questions(old: Revision, new: Revision) -> tuple[dict[str, str], dict[str, str]]:
    """Return the undecided members as `Type.member`, each with its question: towards `old`, and towards `new`."""
    names = lineage.pairing(old, new)
    return _questions(new, old, names), _questions(old, new, {older: newer for newer, older in names.items()})


def _questions(here: Revision, there: Revision, names: Mapping[str, str]) -> dict[str, str]:
    """Return the undecided members as `Type.member`, each with its effect on data sent from `here` to `there`."""
    found: dict[str, str] = {}
    for name, delta in lineage.conversion_deltas(here, there, names).items():
        for member in delta.missing:
            found[f"{name}.{member}"] = (
                f"{there.name} requires it: a peer there would receive an object without it"
            )
        for member in delta.retyped:
            lost = dict(pair for child in delta.lost if child.member == member for pair in child.types)
            text = _unknown(there, lost) if lost else _retyped(here, there, name, delta.there, member)
            found.setdefault(f"{name}.{member}", text)
    return found


def _unknown(there: Revision, lost: Mapping[str, str]) -> str:
    tags, types = " or ".join(map(repr, lost)), ", ".join(lost.values())
    return f"{there.name} has no {tags}: a peer there receives nothing, unless {types} has a substitute"


def _retyped(here: Revision, there: Revision, name: str, name_there: str, member: str) -> str:
    mine, theirs = here.schema.flat(name).get(member), there.schema.flat(name_there).get(member)
    assert mine is not None
    assert theirs is not None
    old, new = print_inline(mine.type), print_inline(theirs.type)
    if old != new:
        return f"{there.name} has `{new}`: a peer there would receive any of `{old}`"
    bounds = {
        "at least": theirs.tags.minimum,
        "at most": theirs.tags.maximum,
        "items, at most": theirs.tags.max_items,
    }
    limits = ", ".join(f"{words} {value}" for words, value in bounds.items() if value is not None)
    if not limits:
        return f"{there.name} has other types in `{new}`: they cannot be distinguished, so objects are not converted"
    return f"{there.name} allows less ({limits}): a peer there would receive values beyond that"
