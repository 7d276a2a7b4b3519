"""What a comparison yields: typed, immutable changes with two verdicts each, and the report that holds them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from mcprev_codegen.ir import Span

FINGERPRINT_DIGITS: Final = 12
METHOD_PREFIX: Final = "method:"


class Verdict(StrEnum):
    """What happens to data that crosses from one revision to the other."""

    OK = "ok"
    DANGEROUS = "dangerous"
    BREAKING = "breaking"

    @property
    def rank(self) -> int:
        """0 for ok, growing with the harm."""
        return list(Verdict).index(self)


class Level(StrEnum):
    """How deep a change goes: what is sent, names, the generated code, or only its documentation."""

    WIRE = "wire"
    NOMINAL = "nominal"
    SOURCE = "source"
    DOC = "doc"

    @property
    def depth(self) -> int:
        """0 for the wire; a level contains every level of less depth."""
        return list(Level).index(self)


class Effect(StrEnum):
    """What happens to the set of accepted values."""

    EQUAL = "equal"
    WIDER = "wider"
    NARROWER = "narrower"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict and why."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Place:
    """One side of a change: where it stands and what stands there."""

    path: str
    text: str
    stable: str
    """The text with unordered things in a fixed order; what fingerprints are made of."""
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
    says: str
    """The headline, with the two sides filled in."""
    old: Place | None
    new: Place | None
    old_to_new: Judgement
    new_to_old: Judgement
    senders: tuple[str, ...] = ()
    """Who sends the data: `client`, `server`, both, or nobody for a type that no message reaches."""
    methods: tuple[str, ...] = ()
    """The methods whose messages or results carry the data."""
    affects: tuple[str, ...] = ()
    """Further types that inherit the change."""
    note: str = ""

    @property
    def path(self) -> str:
        """Where the change is: `Type.member`, `Type`, `method:NAME` or the name of a constant."""
        place = self.new or self.old
        return place.path if place else ""

    @property
    def type(self) -> str | None:
        """The declared type the path starts with; None for methods."""
        return None if self.method else self.path.partition(".")[0]

    @property
    def method(self) -> str | None:
        """The method a method-level change is about."""
        return self.path.removeprefix(METHOD_PREFIX) if self.path.startswith(METHOD_PREFIX) else None

    @property
    def worst(self) -> Verdict:
        """The worse of the two verdicts."""
        return worst((self.old_to_new.verdict, self.new_to_old.verdict))

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that no move of lines and no reordering alters."""
        sides = [part for place in (self.old, self.new) for part in _identity(place)]
        text = "\x1f".join([self.id, *sides])
        return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_DIGITS]

    def judged(self, sender_is_old: bool) -> Judgement:  # noqa: FBT001 - the two directions are a pair
        """The verdict for data of an old sender, or of a new one."""
        return self.old_to_new if sender_is_old else self.new_to_old


def _identity(place: Place | None) -> tuple[str, str]:
    return (place.path, place.stable) if place else ("", "")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; ok when there are none."""
    return max(verdicts, key=lambda v: v.rank, default=Verdict.OK)


@dataclass(frozen=True, slots=True)
class Subject:
    """One of the two compared revisions."""

    name: str
    source: str
    """The schema.ts it was read from: a pinned one relative to the schema folder, a file as it was given."""
    file: str | None = None
    """The same where it is a file of the checkout that tools can point at."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names that came and went; a renamed type counts on both sides."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ignored:
    """A change that is known and accepted."""

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
    """Types with another name, old and new."""
    undescribed: str = ""
    """Why descriptions are not compared; empty where they are."""
    hidden: int = 0
    """How many changes a selection left out."""
    ignored: tuple[Ignored, ...] = ()
    """The changes that an ignore file left out."""
    notes: tuple[str, ...] = ()
    """Sentences about what the selection asked for and cannot be had."""

    def counts(self) -> dict[Verdict, int]:
        """How many changes have each verdict as their worst, the worst verdict first."""
        return {v: sum(c.worst is v for c in self.changes) for v in reversed(Verdict)}

    def pairing(self, *, client_is_old: bool) -> dict[Verdict, int]:
        """The verdicts that one pairing of peers meets when it talks without negotiation."""
        met = [
            worst(
                c.judged(sender_is_old=(sender == "client") == client_is_old).verdict for sender in c.senders
            )
            for c in self.changes
        ]
        return {v: sum(m is v for m in met) for v in reversed(Verdict)}

    def at_least(self, verdict: Verdict) -> tuple[Change, ...]:
        """The changes whose worst verdict is that bad or worse."""
        return tuple(c for c in self.changes if c.worst.rank >= verdict.rank)

    def with_notes(self, notes: Sequence[str]) -> Report:
        """The same report with other notes."""
        return replace(self, notes=tuple(notes))

    def with_changes(self, changes: Sequence[Change]) -> Report:
        """The same report about fewer changes."""
        return replace(self, changes=tuple(changes), hidden=self.hidden + len(self.changes) - len(changes))


def ordered(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Methods before types before constants, in each the worst first, then by path."""
    areas = {"method": 0, "constant": 2}

    def key(change: Change) -> tuple[object, ...]:
        area = 0 if change.method else areas.get(change.kind, 1)
        harm = change.old_to_new.verdict.rank + change.new_to_old.verdict.rank
        return (area, -change.worst.rank, -harm, change.level.depth, change.path, change.id, change.says)

    return tuple(sorted(changes, key=key))
