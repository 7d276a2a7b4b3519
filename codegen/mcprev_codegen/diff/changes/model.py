"""The data model of a comparison: immutable changes with two verdicts each, and the report of all changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple

from mcprev_codegen.facts import Side
from mcprev_codegen.ir import Span

FINGERPRINT_DIGITS: Final = 12
METHOD_PREFIX: Final = "method:"


class Verdict(StrEnum):
    """The effect on data sent from a peer of one revision to a peer of the other."""

    OK = "ok"
    DANGEROUS = "dangerous"
    BREAKING = "breaking"

    @property
    def rank(self) -> int:
        """0 for ok; higher is worse."""
        return list(Verdict).index(self)


class Level(StrEnum):
    """The level of a change: data on the wire, names, generated code, or documentation only."""

    WIRE = "wire"
    NOMINAL = "nominal"
    SOURCE = "source"
    DOC = "doc"

    @property
    def depth(self) -> int:
        """0 for the wire; a level includes every level of less depth."""
        return list(Level).index(self)


class Effect(StrEnum):
    """The effect on the set of accepted values."""

    EQUAL = "equal"
    WIDER = "wider"
    NARROWER = "narrower"
    OTHER = "other"


class Judgement(NamedTuple):
    """A verdict and its reason."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Place:
    """One side of a change: path, text and position in the source."""

    path: str
    text: str
    stable: str
    """The text with unordered parts in a fixed order, for fingerprints."""
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two revisions."""

    id: str
    case: str
    kind: str
    action: str
    level: Level
    effect: Effect
    headline: str
    """The headline with both sides filled in."""
    old: Place | None
    new: Place | None
    old_to_new: Judgement
    new_to_old: Judgement
    senders: tuple[str, ...] = ()
    """The senders of the data: `client`, `server` or both; empty for a type that no message contains."""
    methods: tuple[str, ...] = ()
    """The methods whose messages or results contain the data."""
    affects: tuple[str, ...] = ()
    """Further types that inherit the change."""
    note: str = ""

    @property
    def path(self) -> str:
        """The path of the change: `Type.member`, `Type`, `method:NAME` or the name of a constant."""
        place = self.new or self.old
        return place.path if place else ""

    @property
    def type(self) -> str | None:
        """The declared type that the path starts with; None for methods."""
        return None if self.method else self.path.partition(".")[0]

    @property
    def method(self) -> str | None:
        """The method of a method-level change; None for any other change."""
        return self.path.removeprefix(METHOD_PREFIX) if self.path.startswith(METHOD_PREFIX) else None

    @property
    def worst(self) -> Verdict:
        """The worse of the two verdicts."""
        return worst((self.old_to_new.verdict, self.new_to_old.verdict))

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that do not change if declarations move or are reordered."""
        sides = [(place.path, place.stable) if place else ("", "") for place in (self.old, self.new)]
        text = "\x1f".join([self.id, *chain(*sides)])
        return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_DIGITS]

    def judged(self, sender_is_old: bool) -> Judgement:  # noqa: FBT001 - the two directions are a pair
        """Return the verdict for data of an old sender, or of a new one."""
        return self.old_to_new if sender_is_old else self.new_to_old


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of some verdicts; ok if there is none."""
    return max(verdicts, key=lambda v: v.rank, default=Verdict.OK)


@dataclass(frozen=True, slots=True)
class Subject:
    """One of the two compared revisions."""

    name: str
    source: str
    """The schema.ts: a pinned one relative to the schema folder, any other as given by the user."""
    file: str | None = None
    """The path of the schema.ts in the checkout, for tools that annotate files; None if it is not in the checkout."""


@dataclass(frozen=True, slots=True)
class Names:
    """Added and removed names; a renamed type counts as both."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ignored:
    """A change that an entry of the ignore file matches, and the entry's reason."""

    change: Change
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """Every change between two revisions, the worst first."""

    old: Subject
    new: Subject
    changes: tuple[Change, ...]
    requests: Names
    notifications: Names
    types: Names
    renamed: tuple[tuple[str, str], ...]
    """Renamed types: old and new name."""
    undescribed: str = ""
    """Why descriptions are not compared; empty if they are."""
    hidden: int = 0
    """The number of changes that a selection left out."""
    ignored: tuple[Ignored, ...] = ()
    """The changes that an ignore file left out."""
    notes: tuple[str, ...] = ()
    """Notes for the user, such as comparisons that were asked for but are not possible."""

    def counts(self) -> dict[Verdict, int]:
        """Return the number of changes by their worst verdict, the worst verdict first."""
        return {v: sum(c.worst is v for c in self.changes) for v in reversed(Verdict)}

    def pairing(self, *, client_is_old: bool) -> dict[Verdict, int]:
        """Return the number of changes by verdict for an old client with a new server, or the reverse."""
        met = [
            worst(
                c.judged(sender_is_old=(sender == Side.CLIENT) == client_is_old).verdict
                for sender in c.senders
            )
            for c in self.changes
        ]
        return {v: sum(m is v for m in met) for v in reversed(Verdict)}

    def at_least(self, verdict: Verdict) -> tuple[Change, ...]:
        """Return the changes whose worst verdict is at least as bad."""
        return tuple(c for c in self.changes if c.worst.rank >= verdict.rank)

    def with_changes(self, changes: Sequence[Change]) -> Report:
        """Return the report with fewer changes."""
        return replace(self, changes=tuple(changes), hidden=self.hidden + len(self.changes) - len(changes))


def ordered(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes sorted: methods, types, constants; in each the worst first, then by path."""
    areas = {"method": 0, "constant": 2}

    def key(change: Change) -> tuple[object, ...]:
        area = 0 if change.method else areas.get(change.kind, 1)
        harm = change.old_to_new.verdict.rank + change.new_to_old.verdict.rank
        return (area, -change.worst.rank, -harm, change.level.depth, change.path, change.id, change.headline)

    return tuple(sorted(changes, key=key))
