"""Selects the changes of a report to show: by level, sender, type, method and rule."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from mcprev_codegen.diff.changes import Change, Level, Report, table


class SelectionError(ValueError):
    """Raised for a selection by a rule that does not exist."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The changes to show; a filter that is not set selects all."""

    level: Level = Level.NOMINAL
    """The deepest level to show; it includes the levels above it."""
    docs: bool = False
    """Whether to show changes of descriptions as well."""
    direction: str | None = None
    """`client` or `server`: only data that this side sends."""
    types: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    """Only these rule ids or fingerprints; empty for all."""
    ignore: tuple[str, ...] = ()
    """Rule ids or fingerprints to leave out."""


def select(report: Report, selection: Selection) -> Report:
    """Return the report with the selected changes only. Raises `SelectionError` for a rule that does not exist."""
    fingerprints = {change.fingerprint for change in report.changes}
    for named in (*selection.only, *selection.ignore):
        if named not in table().rules and named not in fingerprints:
            raise SelectionError(f"'{named}' is neither a rule (see --rules) nor the fingerprint of a change")
    shown = report.with_changes([c for c in report.changes if _selected(c, selection)])
    notes = [report.undescribed] if selection.docs and report.undescribed else []
    ignored = tuple(entry for entry in report.ignored if _selected(entry.change, selection))
    return replace(shown, ignored=ignored, notes=(*report.notes, *notes))


def _selected(change: Change, selection: Selection) -> bool:
    return (
        (selection.docs if change.level is Level.DOC else change.level.depth <= selection.level.depth)
        and (selection.direction is None or selection.direction in change.senders)
        and (not selection.types or _concerns(change, selection.types))
        and (not selection.methods or not set(selection.methods).isdisjoint(change.methods))
        and (not selection.only or _named(change, selection.only))
        and not _named(change, selection.ignore)
    )


def _concerns(change: Change, types: Collection[str]) -> bool:
    places = [place.path.partition(".")[0] for place in (change.old, change.new) if place]
    return not set(types).isdisjoint([*places, *change.affects])


def _named(change: Change, ids: Collection[str]) -> bool:
    return change.id in ids or change.fingerprint in ids
