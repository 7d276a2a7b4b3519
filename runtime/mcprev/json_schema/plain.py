"""The plain part of JSON Schema, compiled to closures (TOOL-3, TOOL-4, JSCH-1, design §9).

Most schemas of tools say no more than which members there are and of what type they are. Those are checked here,
exactly as the dialects want it and in a few microseconds, without a library for the rest. What is compiled is
decided by the schema alone: `compile_plain` gives None for a schema with any keyword that is not known here, whose
meaning could then be changed by what is left out. The keywords of both dialects that are known mean the same.

A value is looked at once for each keyword that is about it, so a check takes time linear to the value, with one
exception: `anyOf`, `oneOf` and `allOf` look at it once for each of their schemas. They keep to the deadline of the
check that they are part of, see `within_time`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, cast

from mcprev.errors import Json
from mcprev.json_schema.bounds import LIST, OBJECT, Check, Complaint, canonical, in_time, pattern

MAX_DEPTH: Final = 32
"""Schemas that nest deeper are left to the library."""
ANNOTATIONS: Final = frozenset(
    {
        "$comment", "contentEncoding", "contentMediaType", "default", "deprecated", "description", "examples",
        "format", "readOnly", "title", "writeOnly",
    }
)  # fmt: skip
"""Keywords that make no value wrong; `format` is one of them unless a dialect says otherwise."""
NOTHING: Final[list[Complaint]] = []
"""Nothing is wrong. It is shared, and never added to."""


class NotPlainError(Exception):
    """The schema says something that is not known here."""


def compile_plain(schema: Json) -> Check | None:
    """The check for a schema without its `$schema`; None when the schema is not plain."""
    try:
        return _compile(schema, 0)
    except NotPlainError:
        return None


def _compile(schema: Json, depth: int) -> Check:
    if schema is True:
        return _anything
    if not isinstance(schema, OBJECT) or depth > MAX_DEPTH:
        raise NotPlainError
    given = schema
    checks: list[Check] = []
    for keyword, value in given.items():
        if keyword in _KEYWORDS:
            checks.append(_KEYWORDS[keyword](value, depth))
        elif keyword not in ANNOTATIONS and keyword not in _OF_OBJECTS and not keyword.startswith("x-"):
            raise NotPlainError
    if _OF_OBJECTS & given.keys():
        checks.append(_members(given, depth))
    if not checks:
        return _anything
    return checks[0] if len(checks) == 1 else _all(checks)


def _anything(_: Json) -> list[Complaint]:
    return NOTHING


def _all(checks: list[Check]) -> Check:
    def check(value: Json) -> list[Complaint]:
        found = NOTHING
        for one in checks:
            if more := one(value):
                found = [*found, *more]
                if len(found) > _ENOUGH:
                    break
        return found

    return check


def _want(condition: object) -> None:
    if not condition:
        raise NotPlainError


# -- any value -------------------------------------------------------------------------------------------


def is_number(value: Json) -> bool:
    """Whether a value is a number that JSON has a form for: what is beyond a double would be written as null."""
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


def _type(value: Json, _: int) -> Check:
    names: list[Any] = value if isinstance(value, LIST) else [value]
    _want(names and all(isinstance(name, str) and name in _TYPES for name in names))
    _want(len(set(names)) == len(names))
    tests = [_TYPES[name] for name in names]
    wrong: list[Complaint] = [((), f"is not of type {' or '.join(names)}")]
    if len(tests) == 1:
        test = tests[0]
        return lambda given: NOTHING if test(given) else wrong
    return lambda given: NOTHING if any(test(given) for test in tests) else wrong


def _enum(value: Json, _: int) -> Check:
    _want(isinstance(value, LIST) and value)
    shown = ", ".join(f"{option!r:.40}" for option in value[:10])
    return _one_of_values(value, f"is none of {shown:.300}")


def _const(value: Json, _: int) -> Check:
    return _one_of_values([value], f"is not {value!r:.80}")


def _one_of_values(options: list[Any], what: str) -> Check:
    strings = {option for option in options if isinstance(option, str)}
    others = {canonical(option) for option in options if not isinstance(option, str)}
    containers = any(isinstance(option, dict | list) for option in options)
    wrong: list[Complaint] = [((), what)]

    def check(given: Json) -> list[Complaint]:
        if given.__class__ is str:
            return NOTHING if given in strings else wrong
        if given.__class__ is int:
            return NOTHING if f"{given:x}," in others else wrong  # as `canonical` spells it
        if not others or (not containers and isinstance(given, dict | list)):
            return wrong
        return NOTHING if canonical(given) in others else wrong

    return check


def _any_of(value: Json, depth: int) -> Check:
    checks = _several(value, depth)

    def check(given: Json) -> list[Complaint]:
        found = NOTHING
        for one in checks:
            more = one(given)
            if not more:
                return NOTHING
            found = found or more
        # Of a choice that nothing fits, the first option is as good an explanation as any.
        return [*found, ((), f"fits none of {len(checks)} schemas")]

    return check


def _one_of(value: Json, depth: int) -> Check:
    checks = _several(value, depth)

    def check(given: Json) -> list[Complaint]:
        fitting = sum(not one(given) for one in checks)
        return NOTHING if fitting == 1 else [((), f"fits {fitting} of {len(checks)} schemas instead of one")]

    return check


def _all_of(value: Json, depth: int) -> Check:
    return _all(_several(value, depth))


def _several(value: Json, depth: int) -> list[Check]:
    _want(isinstance(value, LIST) and value)
    return [_timed(_compile(item, depth + 1)) for item in value]


def _timed(check: Check) -> Check:
    def timed(value: Json) -> list[Complaint]:
        in_time()
        return check(value)

    return timed


# -- numbers, strings, arrays ----------------------------------------------------------------------------


def _bound(keyword: str, keeps: Callable[[Any, Any], bool]) -> Callable[[Json, int], Check]:
    def make(value: Json, _: int) -> Check:
        _want(is_number(value))
        wrong: list[Complaint] = [((), f"does not keep to {keyword} {value}")]

        def check(given: Json) -> list[Complaint]:
            if given.__class__ is int or given.__class__ is float:
                return NOTHING if keeps(given, value) else wrong
            return NOTHING

        return check

    return make


def _size(keyword: str, of: type, *, least: bool) -> Callable[[Json, int], Check]:
    def make(value: Json, _: int) -> Check:
        _want(_is_integer(value) and value >= 0)
        wrong: list[Complaint] = [((), f"does not keep to {keyword} {value}")]

        def check(given: Json) -> list[Complaint]:
            if given.__class__ is not of:
                return NOTHING
            size = len(cast("list[Any]", given))
            return NOTHING if (size >= value if least else size <= value) else wrong

        return check

    return make


def _pattern(value: Json, _: int) -> Check:
    _want(isinstance(value, str))
    try:
        matches = pattern(value)
    except ValueError:
        raise NotPlainError from None

    def check(given: Json) -> list[Complaint]:
        wrong = matches(given) if given.__class__ is str else None
        return NOTHING if wrong is None else [((), wrong)]

    return check


def _items(value: Json, depth: int) -> Check:
    inner = _compile(value, depth + 1)

    def check(given: Json) -> list[Complaint]:
        found = NOTHING
        if given.__class__ is list:
            for index, item in enumerate(given):
                if more := inner(item):
                    found = [*found, *(((index, *path), text) for path, text in more)]
                    if len(found) > _ENOUGH:
                        break
        return found

    return check


_ENOUGH: Final = 20
"""Nobody reads more complaints about one value than this."""


# -- objects ---------------------------------------------------------------------------------------------

_OF_OBJECTS: Final = frozenset({"properties", "required", "additionalProperties"})


def _members(schema: Mapping[str, Any], depth: int) -> Check:
    """The three keywords about members, which are one loop over an object."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    _want(isinstance(properties, OBJECT) and isinstance(required, LIST))
    names = required
    _want(all(isinstance(name, str) for name in names) and len(set(names)) == len(names))
    known = {name: _compile(value, depth + 1) for name, value in properties.items()}
    more = schema.get("additionalProperties", True)
    other = None if more is False else _compile(more, depth + 1)

    def check(given: Json) -> list[Complaint]:
        if given.__class__ is not dict:
            return NOTHING
        found = NOTHING
        for name in names:
            if name not in given:
                found = [*found, ((name,), "is missing")]
                if len(found) > _ENOUGH:
                    break
        for name, value in given.items():
            inner = known.get(name, other)
            if inner is None:
                found = [*found, ((name,), "is not known here")]
            elif inner is not _anything and (wrong := inner(value)):
                found = [*found, *(((name, *path), text) for path, text in wrong)]
            if len(found) > _ENOUGH:
                break
        return found

    return check


_KEYWORDS: Final[Mapping[str, Callable[[Json, int], Check]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "minimum": _bound("minimum", lambda given, bound: given >= bound),
    "maximum": _bound("maximum", lambda given, bound: given <= bound),
    "exclusiveMinimum": _bound("exclusiveMinimum", lambda given, bound: given > bound),
    "exclusiveMaximum": _bound("exclusiveMaximum", lambda given, bound: given < bound),
    "minLength": _size("minLength", str, least=True),
    "maxLength": _size("maxLength", str, least=False),
    "minItems": _size("minItems", list, least=True),
    "maxItems": _size("maxItems", list, least=False),
    "minProperties": _size("minProperties", dict, least=True),
    "maxProperties": _size("maxProperties", dict, least=False),
    "pattern": _pattern,
    "items": _items,
}
