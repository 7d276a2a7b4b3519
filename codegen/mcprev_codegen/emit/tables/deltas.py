"""The differences of a revision from its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcprev_codegen.facts import Revision
from mcprev_codegen.lineage import conversion_deltas, pairing
from mcprev_codegen.support import TypeDelta


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The differences from one neighbour."""

    label: str
    """The constant that names it."""
    deltas: Mapping[str, TypeDelta]
    """The changes that objects need there, by their type here."""
    methods: tuple[str, ...]
    """Methods that it does not have."""


@dataclass(frozen=True, slots=True)
class DeltaTables:
    """The data of deltas.py."""

    previous: str | None
    next: str | None
    neighbours: Sequence[Neighbour]
    nested: bool
    """Whether some objects contain others that need changes."""


def delta_tables(revision: Revision, previous: Revision | None, following: Revision | None) -> DeltaTables:
    """Return the differences of a revision from those before and after it."""
    older = pairing(previous, revision) if previous else {}
    newer = pairing(revision, following) if following else {}
    inverse = {mine: other for other, mine in newer.items()}
    neighbours = [
        _neighbour("PREVIOUS", revision, previous, older),
        _neighbour("NEXT", revision, following, inverse),
    ]
    return DeltaTables(
        previous.name if previous else None,
        following.name if following else None,
        neighbours,
        any(delta.lost or delta.children for each in neighbours for delta in each.deltas.values()),
    )


def _neighbour(label: str, revision: Revision, other: Revision | None, names: Mapping[str, str]) -> Neighbour:
    if other is None:
        return Neighbour(label, {}, ())
    missing = tuple(sorted(revision.methods.keys() - other.methods.keys()))
    deltas = conversion_deltas(revision, other, names)
    return Neighbour(label, {name: delta for name, delta in deltas.items() if revision.owns(name)}, missing)
