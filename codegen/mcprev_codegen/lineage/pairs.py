"""Pairs the types of neighbouring revisions."""

from __future__ import annotations

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
