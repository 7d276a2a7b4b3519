"""Of the errors of a union, those of the types that a value is meant to be."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from mcprev_types import details_of, locate

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, ValidationError

Place: TypeAlias = tuple[int | str, ...]


def meant(errors: list[ErrorDetails], value: object) -> list[ErrorDetails]:
    """Return the errors without those of types that lack more members than another type of the same union.

    A resource with a wrong `text` is no resource that lacks its `blob`.
    """
    unions: dict[Place, dict[int | str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, one in enumerate(errors):
        _, skipped = locate(value, one["loc"], missing=one["type"] == "missing")
        for at, part in enumerate(one["loc"]):
            if part in skipped and str(part)[:1].isupper():  # the name of a type, not the tag of one
                unions[one["loc"][:at]][part].append(number)
    dropped = set[int]()
    for alternatives in unions.values():
        lacking = {
            part: sum(errors[each]["type"] == "missing" for each in numbers)
            for part, numbers in alternatives.items()
        }
        least = min(lacking.values())
        dropped.update(
            each for part, numbers in alternatives.items() if lacking[part] > least for each in numbers
        )
    return [one for number, one in enumerate(errors) if number not in dropped]


def alternatives(errors: list[ErrorDetails], value: object) -> list[ErrorDetails]:
    """Return the first error, and the first one of each other type that the value could have instead."""
    first = errors[0]
    _, skipped = locate(value, first["loc"], missing=first["type"] == "missing")
    for at in (at for at, part in enumerate(first["loc"]) if part in skipped):
        found: dict[int | str, ErrorDetails] = {}
        for one in errors:
            if one["loc"][:at] == first["loc"][:at] and len(one["loc"]) > at:
                found.setdefault(one["loc"][at], one)
        if len(found) > 1:
            return [*found.values()]
    return [first]


def of_meant_types(error: ValidationError, value: object) -> ValidationError:
    """Return an error of a validator with the errors that `meant` leaves; `value` was refused."""
    from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

    errors = details_of(error, include_input=True)
    kept = meant(errors, value)
    if len(kept) == len(errors):
        return error
    details = [
        InitErrorDetails(
            type=PydanticCustomError(cast("Any", one["type"]), cast("Any", one["msg"])),
            loc=one["loc"],
            input=one["input"],
        )
        for one in kept
    ]
    return ValidationError.from_exception_data(error.title, details)
