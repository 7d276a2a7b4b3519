"""The step module of a new revision: its skeleton, and the entries of a step module that are not decided yet.

A step module has the conversion rules that the generated deltas cannot contain. The skeleton has one entry for each
member that a delta lists as missing or retyped. A developer adds a rule for the member or accepts the difference, and
removes the entry. The generator parses existing step modules, and never changes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcprev_codegen import ir
from mcprev_codegen.facts import Revision
from mcprev_codegen.lineage import conversion_deltas, pairing
from mcprev_codegen.python import render, revision_name
from mcprev_codegen.typescript import print_inline


def skeleton(old: Revision, new: Revision) -> str:
    """Return the text of a step module in which nothing is decided; a module without entries needs no changes."""
    from mcprev_codegen.python.formatting import format_python

    down, up = questions(old, new)
    return format_python(
        render("step.py", old=revision_name(old.name), new=revision_name(new.name), down=down, up=up)
    )


def questions(old: Revision, new: Revision) -> tuple[dict[str, str], dict[str, str]]:
    """Return the undecided members as `Type.member`, each with its question: towards `old`, and towards `new`."""
    names = pairing(old, new)
    return _questions(new, old, names), _questions(old, new, {older: newer for newer, older in names.items()})


def _questions(here: Revision, there: Revision, names: Mapping[str, str]) -> dict[str, str]:
    """Return the undecided members as `Type.member`, each with its effect on data sent from `here` to `there`."""
    found: dict[str, str] = {}
    for name, delta in conversion_deltas(here, there, names).items():
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
    exceeded = ir.exceeded(mine.tags, theirs.tags).items()
    limits = ", ".join(row.text(limit) for row, limit in exceeded)
    if not limits:
        return f"{there.name} has other types in `{new}`: they cannot be distinguished, so objects are not converted"
    return f"{there.name} allows less ({limits}): a peer there would receive values beyond that"
