"""Compiles the common keywords of JSON Schema to closures (TOOL-3, TOOL-4, JSCH-1).

Most schemas of tools only list members and their types. These closures validate them as the dialects specify, in a few
microseconds and without the jsonschema library. `compile_plain` returns None for a schema with any keyword that is not
supported here, because an unsupported keyword could change the meaning of the others. Every supported keyword has the
same meaning in both dialects.

A `$ref` leads to the root or to one of its `$defs`, as pydantic and zod write them; any other is not supported.

Each keyword visits a value once, so validation takes time linear in the value, with one exception: `anyOf`, `oneOf`
and `allOf` visit it once for each of their schemas. They check the deadline that `within_time` sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from operator import ge, gt, le, lt
from typing import Any, Final

from mcprev.errors import Json
from mcprev.json_schema.bounds import (
    LIST,
    OBJECT,
    ValidationIssue,
    Validator,
    canonical_json,
    has_twice,
    in_time,
    pattern,
)

MAX_DEPTH: Final = 32
"""Schemas that nest deeper are validated by the library."""
ANNOTATIONS: Final = frozenset(
    {
        "$comment", "contentEncoding", "contentMediaType", "default", "deprecated", "description", "discriminator",
        "examples", "format", "readOnly", "title", "writeOnly",
    }
)  # fmt: skip
"""Keywords that never make a value invalid; `format` is one of them by default in both dialects."""
VALID: Final[list[ValidationIssue]] = []
"""The shared result for a valid value; never modified."""
_ROOT: Final = "#"
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_REFERENCE: Final = re.compile(r"#(?:/(?:\$defs|definitions)/[\w.-]+)?", re.ASCII)
"""The references that are supported: to names that a JSON pointer in a URI writes as they are."""


class UnsupportedKeywordError(Exception):
    """The schema uses a keyword that is not supported here."""


def compile_plain(schema: Json, *, beside_references: bool = True) -> Validator | None:
    """Return the validator for a schema without `$schema`, or None if the schema uses an unsupported keyword.

    `beside_references` says whether keywords beside a `$ref` count, as they do in 2020-12; in draft-07 they do not.
    """
    try:
        return _compile_root(schema, beside_references)
    except (UnsupportedKeywordError, CycleError):
        return None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands."""

    definitions: _Definitions
    owner: str | None
    """The definition that applies this schema to its own value; None for the schema of a member or an item."""
    depth: int = 0

    def for_the_same_value(self) -> _Place:
        return _Place(self.definitions, self.owner, self.depth + 1)

    def for_a_part(self) -> _Place:
        return _Place(self.definitions, None, self.depth + 1)


@dataclass(frozen=True, slots=True)
class _Definitions:
    """The schemas that a `$ref` may lead to, by reference."""

    beside_references: bool
    schemas: Mapping[str, Json]
    compiled: dict[str, Validator] = field(default_factory=dict[str, Validator])
    applied: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The references that each definition applies to its own value; a cycle of them would never end."""


def _compile_root(schema: Json, beside_references: bool) -> Validator:  # noqa: FBT001
    schemas: dict[str, Json] = {_ROOT: schema}
    for keyword in _DEFINITIONS & schema.keys() if isinstance(schema, OBJECT) else ():
        _require(isinstance(schema[keyword], OBJECT))
        schemas |= {f"{_ROOT}/{keyword}/{name}": inner for name, inner in schema[keyword].items()}
    definitions = _Definitions(beside_references, schemas)
    for reference, inner in schemas.items():
        definitions.compiled[reference] = _compile(inner, _Place(definitions, reference))
    TopologicalSorter(definitions.applied).prepare()
    return definitions.compiled[_ROOT]


def _compile(schema: Json, place: _Place) -> Validator:
    if schema is True:
        return always_valid
    if not isinstance(schema, OBJECT) or place.depth > MAX_DEPTH:
        raise UnsupportedKeywordError
    given = schema
    passive = ANNOTATIONS | (_DEFINITIONS if (place.owner, place.depth) == (_ROOT, 0) else frozenset[str]())
    if "$ref" in given and not place.definitions.beside_references:
        _require(given.keys() <= passive | {"$ref"})
    checks: list[Validator] = []
    for keyword, value in given.items():
        if keyword in _KEYWORDS:
            checks.append(_KEYWORDS[keyword](value, place))
        elif keyword not in passive and keyword not in _OBJECT_KEYWORDS and not keyword.startswith("x-"):
            raise UnsupportedKeywordError
    if _OBJECT_KEYWORDS & given.keys():
        checks.append(_members(given, place))
    if not checks:
        return always_valid
    return checks[0] if len(checks) == 1 else _all(checks)


def always_valid(_: Json) -> list[ValidationIssue]:
    """Return no issues for any value."""
    return VALID


def _all(checks: list[Validator]) -> Validator:
    def check(value: Json) -> list[ValidationIssue]:
        found = VALID
        for one in checks:
            if more := one(value):
                found = [*found, *more]
                if len(found) > _MAX_ISSUES:
                    break
        return found

    return check


def _require(condition: object) -> None:
    if not condition:
        raise UnsupportedKeywordError


def _ref(value: Json, place: _Place) -> Validator:
    definitions = place.definitions
    _require(isinstance(value, str) and _REFERENCE.fullmatch(value) and value in definitions.schemas)
    if place.owner is not None:
        definitions.applied.setdefault(place.owner, set()).add(value)

    def check(given: Json) -> list[ValidationIssue]:
        return definitions.compiled[value](given)  # compiled later, if the references form a cycle

    return check


# -- any value -------------------------------------------------------------------------------------------


def is_number(value: Json) -> bool:
    """Return whether a value is a number that JSON can represent: a finite int or float, not a bool."""
    return value.__class__ is int or (value.__class__ is float and isfinite(value))


def _is_integer(value: Json) -> bool:
    return value.__class__ is int or (value.__class__ is float and value.is_integer())


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: value.__class__ is dict,
    "array": lambda value: value.__class__ is list,
    "string": lambda value: value.__class__ is str,
    "boolean": lambda value: value.__class__ is bool,
    "null": lambda value: value is None,
    "number": is_number,
    "integer": _is_integer,
}


def _type(value: Json, _: _Place) -> Validator:
    names: list[Any] = value if isinstance(value, LIST) else [value]
    _require(names and all(isinstance(name, str) and name in _TYPES for name in names))
    _require(len(set(names)) == len(names))
    tests = [_TYPES[name] for name in names]
    issues: list[ValidationIssue] = [((), f"is not of type {' or '.join(names)}")]
    if len(tests) == 1:
        test = tests[0]
        return lambda given: VALID if test(given) else issues
    return lambda given: VALID if any(test(given) for test in tests) else issues


def _enum(value: Json, _: _Place) -> Validator:
    _require(isinstance(value, LIST) and value)
    shown = ", ".join(f"{option!r:.40}" for option in value[:10])
    return _one_of_values(value, f"is not one of {shown:.300}")


def _const(value: Json, _: _Place) -> Validator:
    return _one_of_values([value], f"is not {value!r:.80}")


def _one_of_values(options: list[Any], what: str) -> Validator:
    strings = {option for option in options if isinstance(option, str)}
    others = {canonical_json(option) for option in options if not isinstance(option, str)}
    containers = any(isinstance(option, dict | list) for option in options)
    issues: list[ValidationIssue] = [((), what)]

    def check(given: Json) -> list[ValidationIssue]:
        if given.__class__ is str:
            return VALID if given in strings else issues
        if given.__class__ is int:
            return VALID if f"{given:x}," in others else issues  # the format of `canonical_json`
        if not others or (not containers and isinstance(given, dict | list)):
            return issues
        return VALID if canonical_json(given) in others else issues

    return check


def _any_of(value: Json, place: _Place) -> Validator:
    checks = _compile_all(value, place)

    def check(given: Json) -> list[ValidationIssue]:
        found = VALID
        for one in checks:
            more = one(given)
            if not more:
                return VALID
            found = found or more
        # No option matches; the issues of the first one explain why.
        return [*found, ((), f"matches none of {len(checks)} schemas")]

    return check


def _one_of(value: Json, place: _Place) -> Validator:
    checks = _compile_all(value, place)

    def check(given: Json) -> list[ValidationIssue]:
        matching = sum(not one(given) for one in checks)
        return (
            VALID if matching == 1 else [((), f"matches {matching} of {len(checks)} schemas instead of one")]
        )

    return check


def _all_of(value: Json, place: _Place) -> Validator:
    return _all(_compile_all(value, place))


def _compile_all(value: Json, place: _Place) -> list[Validator]:
    _require(isinstance(value, LIST) and value)
    return [_timed(_compile(item, place.for_the_same_value())) for item in value]


def _timed(check: Validator) -> Validator:
    def timed(value: Json) -> list[ValidationIssue]:
        in_time()
        return check(value)

    return timed


# -- numbers, strings, arrays ----------------------------------------------------------------------------


def _bound(
    keyword: str, keeps: Callable[[Any, Any], bool], of: type | None = None
) -> Callable[[Json, _Place], Validator]:
    """Return the compiler of a keyword that bounds numbers or, with `of`, the sizes of values of a type."""

    def make(value: Json, _: _Place) -> Validator:
        _require(is_number(value) if of is None else _is_integer(value) and value >= 0)
        issues: list[ValidationIssue] = [((), f"does not satisfy {keyword} {value}")]

        def check(given: Json) -> list[ValidationIssue]:
            kind = given.__class__
            if of is None:
                bounded = kind is int or kind is float
                return issues if bounded and not keeps(given, value) else VALID
            return issues if kind is of and not keeps(len(given), value) else VALID

        return check

    return make


def _pattern(value: Json, _: _Place) -> Validator:
    _require(isinstance(value, str))
    try:
        matches = pattern(value)
    except ValueError:
        raise UnsupportedKeywordError from None

    def check(given: Json) -> list[ValidationIssue]:
        issues = matches(given) if given.__class__ is str else None
        return VALID if issues is None else [((), issues)]

    return check


def _items(value: Json, place: _Place) -> Validator:
    inner = _compile(value, place.for_a_part())

    def check(given: Json) -> list[ValidationIssue]:
        found = VALID
        if given.__class__ is list:
            for index, item in enumerate(given):
                if more := inner(item):
                    found = [*found, *(((index, *path), text) for path, text in more)]
                    if len(found) > _MAX_ISSUES:
                        break
        return found

    return check


def _unique_items(value: Json, _: _Place) -> Validator:
    _require(isinstance(value, bool))
    return _unique if value else always_valid


def _unique(given: Json) -> list[ValidationIssue]:
    return [((), "contains the same item twice")] if given.__class__ is list and has_twice(given) else VALID


_MAX_ISSUES: Final = 20
"""Validation of one value stops after more issues than this."""


# -- objects ---------------------------------------------------------------------------------------------

_OBJECT_KEYWORDS: Final = frozenset({"properties", "required", "additionalProperties"})


def _members(schema: Mapping[str, Any], place: _Place) -> Validator:
    """Return the validator for the three keywords about members, which share one loop over the object."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    _require(isinstance(properties, OBJECT) and isinstance(required, LIST))
    names = required
    _require(all(isinstance(name, str) for name in names) and len(set(names)) == len(names))
    known = {name: _compile(value, place.for_a_part()) for name, value in properties.items()}
    more = schema.get("additionalProperties", True)
    other = None if more is False else _compile(more, place.for_a_part())

    def check(given: Json) -> list[ValidationIssue]:
        if given.__class__ is not dict:
            return VALID
        found = VALID
        for name in names:
            if name not in given:
                found = [*found, ((name,), "is missing")]
                if len(found) > _MAX_ISSUES:
                    break
        for name, value in given.items():
            inner = known.get(name, other)
            if inner is None:
                found = [*found, ((name,), "is not a known property")]
            elif inner is not always_valid and (issues := inner(value)):
                found = [*found, *(((name, *path), text) for path, text in issues)]
            if len(found) > _MAX_ISSUES:
                break
        return found

    return check


_KEYWORDS: Final[Mapping[str, Callable[[Json, _Place], Validator]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "minimum": _bound("minimum", ge),
    "maximum": _bound("maximum", le),
    "exclusiveMinimum": _bound("exclusiveMinimum", gt),
    "exclusiveMaximum": _bound("exclusiveMaximum", lt),
    "minLength": _bound("minLength", ge, str),
    "maxLength": _bound("maxLength", le, str),
    "minItems": _bound("minItems", ge, list),
    "maxItems": _bound("maxItems", le, list),
    "minProperties": _bound("minProperties", ge, dict),
    "maxProperties": _bound("maxProperties", le, dict),
    "pattern": _pattern,
    "items": _items,
    "uniqueItems": _unique_items,
    "$ref": _ref,
}
