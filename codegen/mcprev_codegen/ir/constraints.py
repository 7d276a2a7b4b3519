"""The limits of values that tags state: one row for each, and when one set of limits lies within another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from mcprev_codegen.ir.nodes import NO_TAGS, Tags

Limit: TypeAlias = int | float | str


@dataclass(frozen=True, slots=True)
class Constraint:
    """One kind of limit."""

    attribute: str
    """The attribute of `Tags`."""
    keyword: str
    """The keyword of JSON Schema, which is also the name of the JSDoc tag."""
    limits: Literal["number", "string", "array"]
    """The kind of value that it limits."""
    value: Literal["number", "count", "text", "flag"]
    """What its tag states; a count is a whole number that is not negative."""
    stricter: Literal["higher", "lower"] | None = None
    """Which of two limits is stricter; None if they cannot be compared."""
    argument: str | None = None
    """The argument of a pydantic `Field`; None if there is none."""
    whole: Callable[[Fraction], int] | None = None
    """Returns the equivalent limit of whole numbers."""

    def of(self, tags: Tags) -> Limit | None:
        """Return the limit that tags state; None if they state none."""
        limit = getattr(tags, self.attribute)
        return None if limit is False else limit

    def text(self, limit: Limit | None) -> str:
        """Return a limit in words: `minimum 1`, `uniqueItems`, `no pattern`."""
        if limit is None:
            return f"no {self.keyword}"
        return self.keyword if limit is True else f"{self.keyword} {limit}"

    def tightened(self, old: Limit | None, new: Limit | None) -> bool:
        """Return whether a changed limit is stricter, or may be."""
        if old == new or new is None:
            return False
        if old is None or self.stricter is None or isinstance(old, str) or isinstance(new, str):
            return True
        return new > old if self.stricter == "higher" else new < old


CONSTRAINTS: Final = (
    Constraint("minimum", "minimum", "number", "number", "higher", "ge", math.ceil),
    Constraint("maximum", "maximum", "number", "number", "lower", "le", math.floor),
    Constraint("exclusive_minimum", "exclusiveMinimum", "number", "number", "higher", "gt", math.floor),
    Constraint("exclusive_maximum", "exclusiveMaximum", "number", "number", "lower", "lt", math.ceil),
    Constraint(
        "multiple_of", "multipleOf", "number", "number", None, "multiple_of", lambda step: step.numerator
    ),
    Constraint("min_length", "minLength", "string", "count", "higher", "min_length"),
    Constraint("max_length", "maxLength", "string", "count", "lower", "max_length"),
    Constraint("pattern", "pattern", "string", "text", None, "pattern"),
    Constraint("min_items", "minItems", "array", "count", "higher", "min_length"),
    Constraint("max_items", "maxItems", "array", "count", "lower", "max_length"),
    Constraint("unique_items", "uniqueItems", "array", "flag"),
)
"""Every limit, in the order in which a printed schema states them."""


def limits_of(tags: Tags) -> dict[Constraint, Limit]:
    """Return the limits that tags state."""
    if tags is NO_TAGS or tags == NO_TAGS:  # as those of most members are
        return {}
    return {row: limit for row in CONSTRAINTS if (limit := row.of(tags)) is not None}


def exceeded(sent: Tags, wanted: Tags) -> dict[Constraint, Limit]:
    """Return the limits of the receiver that values within those of the sender may exceed."""
    return {row: limit for row, limit in limits_of(wanted).items() if row.tightened(row.of(sent), limit)}
