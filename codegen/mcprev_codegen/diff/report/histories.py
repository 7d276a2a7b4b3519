"""The history of one type or method over all revisions: added, changed, removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mcprev_codegen.diff.changes import Change, Level, Report
from mcprev_codegen.diff.comparison import View, compare_revisions
from mcprev_codegen.facts import Revision, load_revision
from mcprev_codegen.inputs import SchemaFolder, load_pins


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """The state of the type or method in one revision, and its changes since the revision before."""

    revision: str
    state: str
    """`absent`, `present` (in the first revision), `added`, `changed`, `unchanged` or `removed`."""
    name: str | None
    """Its name in this revision; None if it does not exist there."""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The history of one type or method, oldest revision first."""

    name: str
    kind: str
    """`type` or `method`."""
    entries: tuple[HistoryEntry, ...]


def history(folder: SchemaFolder, name: str) -> History:
    """Return the history of a type or method. Raises `LookupError` if no revision has one of that name."""
    revisions = [load_revision(folder, revision) for revision in load_pins(folder)]
    reports = [compare_revisions(folder, old, new) for old, new in pairwise(revisions)]
    return history_of(name, revisions, reports)


def history_of(name: str, revisions: Sequence[Revision], reports: Sequence[Report]) -> History:
    """Return the history over given revisions, with the reports of each two neighbours. Raises as `history` does."""
    is_method = any(name in revision.methods for revision in revisions)
    if not is_method and all(name not in revision.declared.types for revision in revisions):
        raise LookupError(f"no pinned revision has a type or method '{name}'")
    if is_method:
        names = [name if name in revision.methods else None for revision in revisions]
        parts = [_parts(View(revision), name) for revision in revisions]
    else:
        names = _names(name, revisions, reports)
        parts = [frozenset[str]() if known is None else frozenset({known}) for known in names]
    entries = [HistoryEntry(revisions[0].name, "present" if names[0] else "absent", names[0])]
    for index, report in enumerate(reports):
        changes = tuple(
            c
            for c in report.changes
            if (c.method == name or _part_of(c, parts[index], parts[index + 1])) and c.level is not Level.DOC
        )
        before, after = names[index], names[index + 1]
        state = _state(before, after, changes)
        entries.append(HistoryEntry(revisions[index + 1].name, state, after, changes))
    return History(name, "method" if is_method else "type", tuple(entries))


def _parts(side: View, name: str) -> frozenset[str]:
    """Return the paths of a method's types: its message, its params and its results."""
    method = side.revision.methods.get(name)
    if method is None:
        return frozenset()
    names = [method.type, *([method.params] if method.params else []), *method.results]
    return frozenset(side.path(n) for n in names if n in side.schema.types)


def _names(name: str, revisions: Sequence[Revision], reports: Sequence[Report]) -> list[str | None]:
    """Return the name of the type in each revision, with renames followed in both directions."""
    found: list[str | None] = [name if name in r.declared.types else None for r in revisions]
    steps = [(index, index + 1, dict(report.renamed)) for index, report in enumerate(reports)]
    back = [(there, here, {new: old for old, new in names.items()}) for here, there, names in steps[::-1]]
    for here, there, renamed in (*steps, *back):
        known = found[here]
        if known is not None and found[there] is None:
            same = known if known in revisions[there].declared.types else None
            found[there] = renamed.get(known, same)
    return found


def _part_of(change: Change, old: frozenset[str], new: frozenset[str]) -> bool:
    """Return whether a change belongs to these types, on each side that it has."""
    sides = ((change.old, old), (change.new, new))
    inside = all(_within(place.path, names) for place, names in sides if place is not None)
    return inside or not new.isdisjoint(change.affects)


def _within(path: str, names: frozenset[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _state(before: str | None, after: str | None, changes: Sequence[Change]) -> str:
    if before and after:
        return "changed" if changes else "unchanged"
    return "added" if after else "removed" if before else "absent"
