"""Changes that say the same of several places, as one row: what every rendering for people is made of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from mcprev_codegen.diff.model import Change, Place


@dataclass(frozen=True, slots=True)
class Row:
    """One or more changes with the same rule, verdicts, reasons and senders."""

    changes: tuple[Change, ...]

    @property
    def first(self) -> Change:
        """The change that stands for all in what they have in common."""
        return self.changes[0]

    @property
    def says(self) -> tuple[str, ...]:
        """The headlines, each once."""
        return tuple(dict.fromkeys(change.says for change in self.changes))

    @property
    def places(self) -> tuple[str, ...]:
        """Where the changes are, each place once: methods, paths, or the types whose members the headlines name."""
        several = len(self.says) > 1
        return tuple(dict.fromkeys(_subject(c) if several else c.method or c.path for c in self.changes))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that carry any of it."""
        return tuple(sorted({method for change in self.changes for method in change.methods}))

    @property
    def affects(self) -> tuple[str, ...]:
        """Further types that inherit any of it, each once."""
        return tuple(dict.fromkeys(heir for change in self.changes for heir in change.affects))

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Each pair of texts before and after once; empty where a side has none."""
        return tuple(dict.fromkeys((_text(c.old), _text(c.new)) for c in self.changes))


def rows(changes: Iterable[Change]) -> tuple[Row, ...]:
    """The changes in their order, those of types that say the same joined with the first of them."""
    alike: dict[Hashable, list[Change]] = {}
    for change in changes:
        same: Hashable = (_common(change), change.says, _text(change.old), _text(change.new))
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
    """The type of a member that the headline names; the path where it names none."""
    name = _text(change.new or change.old).partition(":")[0].removesuffix("?")
    return change.path.removesuffix(f".{name}") if change.kind == "field" else change.path


def _text(place: Place | None) -> str:
    return place.text if place else ""
