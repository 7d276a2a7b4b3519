"""Rows of a report: equal changes at several places form one row, which all formats for people show."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from mcprev_codegen.diff.changes import Change, Place


@dataclass(frozen=True, slots=True)
class Row:
    """One or more changes with the same rule, verdicts, reasons and senders."""

    changes: tuple[Change, ...]

    @property
    def first(self) -> Change:
        """The first change, for the values that all changes have in common."""
        return self.changes[0]

    @property
    def headlines(self) -> tuple[str, ...]:
        """The headlines without duplicates."""
        return tuple(dict.fromkeys(change.headline for change in self.changes))

    @property
    def places(self) -> tuple[str, ...]:
        """The places without duplicates: methods, paths, or the types whose members the headlines name."""
        several = len(self.headlines) > 1
        return tuple(dict.fromkeys(_subject(c) if several else c.method or c.path for c in self.changes))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that carry any of the changes."""
        return tuple(sorted({method for change in self.changes for method in change.methods}))

    @property
    def affects(self) -> tuple[str, ...]:
        """Further types that inherit any of the changes, without duplicates."""
        return tuple(dict.fromkeys(heir for change in self.changes for heir in change.affects))

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """The pairs of texts before and after, without duplicates; a text is empty if the change has no such side."""
        return tuple(dict.fromkeys((_text(c.old), _text(c.new)) for c in self.changes))


def in_rows(changes: Iterable[Change]) -> tuple[Row, ...]:
    """Return the changes in their order, with equal changes of types joined into the row of the first one."""
    alike: dict[Hashable, list[Change]] = {}
    for change in changes:
        same: Hashable = (_common(change), change.headline, _text(change.old), _text(change.new))
        alike.setdefault(same if _joinable(change) else change, []).append(change)
    joined: dict[Hashable, list[Change]] = {}
    for group in alike.values():
        key: Hashable = (_common(group[0]), frozenset(map(_subject, group)))
        joined.setdefault(key if _joinable(group[0]) else group[0], []).extend(group)
    return tuple(Row(tuple(group)) for group in joined.values())


def _joinable(change: Change) -> bool:
    return change.method is None and change.kind != "constant"


def _common(change: Change) -> Hashable:
    judged = change.old_to_new, change.new_to_old
    return change.id, change.case, change.level, *judged, change.senders, change.affects, change.note


def _subject(change: Change) -> str:
    """Return the type of the member that the headline names; else the path."""
    name = _text(change.new or change.old).partition(":")[0].removesuffix("?")
    return change.path.removesuffix(f".{name}") if change.kind == "field" else change.path


def _text(place: Place | None) -> str:
    return place.text if place else ""
