"""The limits of values that tags state: their JSON Schema keywords, and when one set of limits lies within another."""

from __future__ import annotations

from typing import Final

from mcprev_codegen.ir.nodes import Tags

FLOORS: Final = ("minimum", "exclusive_minimum", "min_length", "min_items")
"""Limits for which a higher value is stricter."""
ORDERED: Final = (*FLOORS, "maximum", "exclusive_maximum", "max_length", "max_items")
"""Limits that can be compared; of those that are no floors, a lower value is stricter."""


def within(sent: Tags, wanted: Tags) -> bool:
    """Return whether the limits of the sender lie within those of the receiver."""
    return all(
        is_unset(limit) or (not is_unset(own) and (own == limit or not tightened(name, own, limit)))
        for name, limit, own in ((n, getattr(wanted, n), getattr(sent, n)) for n in CONSTRAINTS)
    )


def tightened(name: str, old: float | str | None, new: float | str | None) -> bool:
    """Return whether a changed limit is stricter, or may be."""
    if is_unset(old) or is_unset(new):
        return is_unset(old)
    if old is None or new is None or isinstance(old, str) or isinstance(new, str) or name not in ORDERED:
        return True
    return new > old if name in FLOORS else new < old


def is_unset(limit: object) -> bool:
    """Return whether a limit is not set."""
    return limit is None or limit is False


CONSTRAINTS: Final = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusive_minimum": "exclusiveMinimum",
    "exclusive_maximum": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "min_items": "minItems",
    "max_items": "maxItems",
    "unique_items": "uniqueItems",
}
"""The attributes of `Tags` that limit a value, each with its JSON Schema keyword; the JSDoc tag has the same name."""
