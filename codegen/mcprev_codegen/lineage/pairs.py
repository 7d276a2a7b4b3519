"""Pairs the types of revisions by their names and the new names that overlays state; `diff` guesses further pairs."""

from __future__ import annotations

from collections.abc import Sequence

from mcprev_codegen.facts import Revision


def pairing(older: Revision, newer: Revision) -> dict[str, str]:
    """Return the types that two neighbouring revisions share, as a mapping of newer to older names.

    A name whose meaning changed is not paired; the overlay states the new name of the old type.
    """
    renamed = {
        new: old
        for new, old in newer.facts.was.items()
        if new not in older.schema.types and old in older.schema.types
    }
    same = {name: name for name in newer.schema.types if name in older.schema.types}
    moved = set(renamed.values())
    return {new: old for new, old in (same | renamed).items() if new in renamed or old not in moved}


def stated_renames(revisions: Sequence[Revision]) -> dict[str, str]:
    """Return the renames that overlays state over consecutive revisions: first name to last name."""
    names: dict[str, str] = {name: name for name in revisions[0].schema.types}
    for revision in revisions[1:]:
        renamed = {was: name for name, was in revision.facts.was.items()}
        names = {first: renamed.get(last, last) for first, last in names.items()}
    return {first: last for first, last in names.items() if first != last}
