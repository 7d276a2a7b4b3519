"""Validation that stops early: a list of 100,000 wrong items is refused because of its first one (SEC-6).

pydantic collects every error, and to make 100,000 of them would hold up all other clients of the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pydantic_core import SchemaValidator

from mcprev.json_schema.bounds import LIST, OBJECT

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from mcprev.errors import Json

MAX_ALL: Final = 5_000
"""The maximum number of values in arguments of which all errors are looked for."""
MAX_UNKNOWN: Final = 100
"""The maximum number of unknown arguments of which each is an error."""
_SEVERAL: Final = frozenset({"list", "tuple", "set", "frozenset"})
"""The core schemas that may stop at the first item that is wrong."""
_NO_SCHEMAS: Final = frozenset({"metadata", "serialization", "default", "expected"})
"""The members of core schemas that hold no others."""


class Validator(Protocol):
    """What of pydantic's validators is used here, for the arguments of a function."""

    def validate_python(self, value: object, /, *, strict: bool) -> dict[str, Any]:
        """Return a value of Python as one of the type."""
        ...

    def validate_json(self, text: bytes, /, *, strict: bool) -> dict[str, Any]:
        """Return a value of JSON text as one of the type."""
        ...


def early_validator(adapter: TypeAdapter[Any]) -> Validator:
    """Return the validator of a type that finds one error at most in each list; valid values are as with any other."""
    schema = _stopping(adapter.core_schema)
    if schema is adapter.core_schema:
        return cast("Validator", adapter.validator)
    # Otherwise the validators of models would be taken as they are.
    made: Any = SchemaValidator
    return cast("Validator", made(schema, _use_prebuilt=False))


def _stopping(schema: Any) -> Any:  # noqa: ANN401 - any part of a core schema
    """Return a part of a core schema whose lists stop early; the same object if there is none."""
    if isinstance(schema, OBJECT):
        changed = {
            name: found
            for name, part in schema.items()
            if name not in _NO_SCHEMAS and (found := _stopping(part)) is not part
        }
        if schema.get("type") in _SEVERAL:
            changed["fail_fast"] = True
        return {**schema, **changed} if changed else schema
    if isinstance(schema, LIST | tuple):
        parts = [_stopping(part) for part in schema]
        if all(new is old for new, old in zip(parts, schema, strict=True)):
            return schema
        return type(schema)(parts)
    return schema


def has_more_values(most: int, value: Json) -> bool:
    """Return whether a value consists of more than so many."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        inside: Any = each.values() if isinstance(each, OBJECT) else each
        most -= len(inside)
        if most < 0:
            return True
        waiting += [part for part in inside if isinstance(part, OBJECT | LIST)]
    return False
