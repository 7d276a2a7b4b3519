"""JSON paths of validation errors: pydantic's locations without the union members that it tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Located: TypeAlias = tuple[tuple[int | str, ...], tuple[str, ...]]

MAX_ERRORS: Final = 1_000
"""The maximum number of errors of one value that are listed; to list half a million takes seconds."""


def details_of(error: ValidationError, *, include_input: bool = False) -> list[ErrorDetails]:
    """Return the errors of a validator; of one with more than `MAX_ERRORS`, one error that says how many there are."""
    count = error.error_count()
    if count > MAX_ERRORS:
        return [
            {
                "type": "too_many_errors",
                "loc": (),
                "msg": f"{count:,} errors, too many to list",
                "input": None,
            }
        ]
    return error.errors(include_url=False, include_context=False, include_input=include_input)


def locate(value: object, loc: Sequence[int | str], *, missing: bool) -> Located:
    """Return the members and indexes in a validator's location, and the other parts of the location.

    The other parts are tags and types of unions. Since they may equal names of members (`text`), the interpretation
    with the most members is used. `missing` says that the last part is an absent member.
    """
    known: dict[tuple[int, int], Located] = {}

    def best(at: object, n: int) -> Located:
        if n == len(loc):
            return (), ()
        key = (id(at), n)
        if key in known:
            return known[key]
        part, last = loc[n], n == len(loc) - 1
        steps, skipped = best(at, n + 1)
        found: Located = (steps, (str(part), *skipped))
        for inner in _inside(at, part):
            steps, skipped = best(inner, n + 1)
            if 1 + len(steps) >= len(found[0]):
                found = ((part, *steps), skipped)
        if missing and last and isinstance(at, dict):
            found = ((part,), ())
        known[key] = found
        return found

    return best(value, 0)


def _inside(value: object, part: int | str) -> list[Any]:
    """Return the value at a member or index in a list; an empty list if there is none."""
    if isinstance(value, dict):
        members = cast("Mapping[int | str, object]", value)
        return [members[part]] if part in members else []
    if isinstance(value, list) and isinstance(part, int):
        return cast("list[Any]", value)[part : part + 1]  # type: ignore[redundant-cast]
    return []


def with_json_paths(error: ValidationError, value: object) -> ValidationError:
    """Return the error of a validator with JSON paths as locations and no duplicates; `value` was refused."""
    from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

    found: dict[object, InitErrorDetails] = {}
    for one in details_of(error, include_input=True):
        path, _ = locate(value, one["loc"], missing=one["type"] == "missing")
        kind = PydanticCustomError(cast("Any", one["type"]), cast("Any", one["msg"]))
        found.setdefault((path, one["msg"]), InitErrorDetails(type=kind, loc=path, input=one["input"]))
    return ValidationError.from_exception_data(error.title, [*found.values()])
