"""JSON Schemas of tools, compiled once and within bounds (TOOL-3, TOOL-4, TOOL-6, JSCH-1..4).

`compile_schema` makes a check of a schema. A plain one (`plainschema`) is checked right here; for any other the
library jsonschema does the work, which the extra `mcprev[schema]` installs and the first such schema imports.

- Dialects: 2020-12, which is meant where a schema does not say, and draft-07. Any other is an error (JSCH-1).
- References lead to places within the schema or to a metaschema of a dialect. Nothing is ever fetched: a reference
  to anywhere else is an error when the schema is compiled (JSCH-2).
- A schema has a bound in depth and in size, compiling and checking have one in time (JSCH-3). Patterns are matched in
  linear time; one that cannot be is refused in a schema of a stranger's.
- `format` says what a value is meant to be and makes none wrong, as both dialects leave it by default.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import cache, partial
from importlib import import_module
from itertools import islice
from typing import Any, Final, cast

from mcprev.errors import Json, SchemaError
from mcprev.json_schema.bounds import (
    LIST,
    MAX_SECONDS,
    OBJECT,
    Check,
    Complaint,
    TooSlowError,
    canonical,
    deadline,
    in_time,
    pattern,
    within_time,
)  # fmt: skip
from mcprev.json_schema.plain import compile_plain, is_number

MAX_DEPTH: Final = 100
"""How deep the JSON of a schema may nest: each level of schemas takes two."""
MAX_OBJECTS: Final = 2_000
"""How many objects a schema may hold, subschemas and others."""
MAX_VALUES: Final = 50_000
"""How many items and members it may hold, options of an `enum` and names of `required` included."""
SHOWN: Final = 5
"""How many complaints are told."""
EXTRA: Final = "install it with: pip install 'mcprev[schema]'"
LATEST_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DIALECTS: Final[Mapping[str, str]] = {
    LATEST_DIALECT: "Draft202012Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
}
"""The dialects that are spoken, and the library's class for each."""
_SCHEMA: Final = "$schema"
_REFERENCES: Final = ("$ref", "$dynamicRef")
_IN_ORDER: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_BY_NAME: Final = (
    "$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies",
)  # fmt: skip
_ALONE: Final = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_CHOICES: Final = frozenset({"anyOf", "oneOf", "allOf"})
"""Keywords that look at one value several times."""


def compile_schema(schema: Json, *, trusted: bool, clock: Callable[[], float] = time.monotonic) -> Check:
    """The check for a schema; `trusted` says that it is the author's own and not a peer's.

    Raises `SchemaError` for one that cannot be used: it breaks the rules above, is no schema of its dialect, or
    needs the library where that is not installed.
    """
    if isinstance(schema, bool):
        return _whatever if schema else _never
    if not isinstance(schema, OBJECT):
        raise SchemaError("a JSON Schema is an object or a boolean")
    has_choices = _measure(schema)
    dialect = _dialect(schema)
    bare = _without_dialect(schema, dialect)
    try:
        with nullcontext() if trusted else deadline(clock):
            plain = compile_plain(bare)
            if plain is not None:
                return within_time(plain, clock) if has_choices else plain
            return within_time(_compiled(bare, dialect, trusted=trusted), clock)
    except RecursionError:
        raise SchemaError("the schema nests too deeply") from None
    except TooSlowError:
        raise SchemaError(f"the schema takes longer than {MAX_SECONDS:g} s to be compiled") from None


def describe(complaints: list[Complaint], root: str) -> str:
    """Complaints as one text for whoever has to mend the value, the first few of them."""
    told = [
        f"{'.'.join([root, *(str(part) for part in path)])[:200]} {text[:300]}"
        for path, text in complaints[:SHOWN]
    ]
    more = len(complaints) - SHOWN
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


def _whatever(_: Json) -> list[Complaint]:
    return []


def _never(_: Json) -> list[Complaint]:
    return [((), "is not allowed to be there")]


# -- before a schema is used -----------------------------------------------------------------------------


def _measure(schema: Json) -> bool:
    """Raise `SchemaError` for a schema that is out of bounds, found level by level and so without recursion.

    Whether anything in it may be a keyword that looks at one value several times.
    """
    level, objects, values, choices = [schema], 0, 0, False
    for _ in range(MAX_DEPTH + 1):
        found: list[Any] = [item for item in level if isinstance(item, OBJECT)]
        objects += len(found)
        values += sum(map(len, level))
        if objects > MAX_OBJECTS or values > MAX_VALUES:
            raise SchemaError(
                f"the schema holds more than {MAX_OBJECTS} objects, or more than {MAX_VALUES} values in all"
            )
        choices = choices or any(_CHOICES & item.keys() for item in found)
        level = [child for item in level for child in _children(item)]
        if not level:
            return choices
    raise SchemaError(f"the schema nests deeper than {MAX_DEPTH}")


def _children(value: Json) -> list[Any]:
    if isinstance(value, OBJECT):
        value = list(value.values())
    found: list[Any] = value if isinstance(value, LIST) else []
    return [item for item in found if isinstance(item, dict | list)]


def _dialect(schema: Mapping[str, Any]) -> str:
    named = schema.get(_SCHEMA, LATEST_DIALECT)
    if not isinstance(named, str) or _canonical(named) not in DIALECTS:
        raise SchemaError(
            f"the schema is in the dialect {named!r:.200}; supported are 2020-12 ({LATEST_DIALECT}) and draft-07"
        )
    return _canonical(named)


def _canonical(name: str) -> str:
    """The name of a dialect, however it is written: with an empty fragment, or over the other scheme."""
    bare = name.removesuffix("#")
    return next((d for d in DIALECTS if d.partition("://")[2] == bare.partition("://")[2]), bare)


def _without_dialect(schema: Json, dialect: str) -> Json:
    """The schema with no word about its dialect: one for all of it is settled."""
    if not isinstance(schema, OBJECT):
        return schema
    if _canonical(str(schema.get(_SCHEMA, dialect))) != dialect:
        raise SchemaError(f"part of the schema is in another dialect: {schema[_SCHEMA]!r:.200}")
    found: dict[str, Any] = _bare(schema)
    for keyword in found.keys() & {*_ALONE, *_IN_ORDER, *_BY_NAME}:
        inner = found[keyword]
        if isinstance(inner, LIST) and keyword in _IN_ORDER:
            found[keyword] = [_without_dialect(item, dialect) for item in inner]
        elif isinstance(inner, OBJECT) and keyword in _BY_NAME:
            found[keyword] = {name: _without_dialect(item, dialect) for name, item in inner.items()}
        elif keyword in _ALONE:
            found[keyword] = _without_dialect(inner, dialect)
    return found


def _subschemas(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas right within a schema: not what only looks like one, in `enum` or `default`."""
    for keyword in _ALONE:
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword]
    for keyword in _IN_ORDER:
        if isinstance(schema.get(keyword), list):
            yield from schema[keyword]
    for keyword in _BY_NAME:
        if isinstance(schema.get(keyword), dict):
            yield from schema[keyword].values()


# -- the library -----------------------------------------------------------------------------------------


def _compiled(schema: dict[str, Any], dialect: str, *, trusted: bool) -> Check:
    """The library's check for a schema."""
    library = _library(dialect, trusted)
    found = _errors(library(_bare(library.META_SCHEMA), registry=_registry()), schema)
    if found:
        raise SchemaError(f"this is no schema of {dialect}: {describe(found, 'schema')}")
    _resolve(schema, dialect)
    if not trusted:
        _refuse_patterns(schema)
    return partial(_errors, library(schema, registry=_registry()))


def _errors(validator: Json, value: Json) -> list[Complaint]:
    errors = islice(validator.iter_errors(value), SHOWN + 1)
    return [(tuple(error.absolute_path), f"is wrong: {error.message:.300}") for error in errors]


@cache
def _library(dialect: str, trusted: bool) -> Json:  # noqa: FBT001
    """The library's class for a dialect, with every keyword within the bounds."""
    try:
        validators = import_module("jsonschema.validators")
    except ImportError as error:
        raise SchemaError(f"a schema like this one needs the library jsonschema; {EXTRA}") from error
    base: Any = getattr(validators, DIALECTS[dialect])
    keywords = {
        **base.VALIDATORS,
        "pattern": _pattern(trusted=trusted),
        "uniqueItems": _unique_items,
    }
    bounded = {name: _bounded(keyword) for name, keyword in keywords.items()}
    types = base.TYPE_CHECKER.redefine("number", _finite)
    return cast("Any", validators).extend(base, bounded, type_checker=types)


def _finite(_: Json, value: Json) -> bool:
    return is_number(value)


@cache
def _registry() -> Json:
    """The metaschemas, and nothing else: the library's own default fetches what it does not know.

    They are without their `$schema`, for which the library would change to its own class, which has no bounds.
    """
    known: Any = import_module("jsonschema_specifications").REGISTRY
    specification_with: Any = cast("Any", import_module("referencing.jsonschema")).specification_with
    resources = [
        (uri, specification_with(known.contents(uri)[_SCHEMA]).create_resource(_bare(known.contents(uri))))
        for uri in known
    ]
    return cast("Any", import_module("referencing")).Registry().with_resources(resources)


def _bare(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in schema.items() if name != _SCHEMA}


_Keyword = Callable[[Any, Any, Any, Any], Any]


def _bounded(keyword: _Keyword) -> _Keyword:
    """A keyword that stops when the time is over."""

    def check(validator: Json, value: Json, instance: Json, schema: Json) -> Json:
        in_time()
        return keyword(validator, value, instance, schema)

    return check


def _pattern(*, trusted: bool) -> _Keyword:
    """`pattern` in linear time; in a schema of the author's own any expression is taken, however slow."""
    matchers: dict[str, Callable[[str], str | None]] = {}
    error: Any = import_module("jsonschema.exceptions").ValidationError

    def check(_: Json, value: Json, instance: Json, __: Json) -> Iterator[Any]:
        if isinstance(instance, str):
            if value not in matchers:
                if len(matchers) >= MAX_OBJECTS:
                    matchers.clear()
                matchers[value] = _matcher(value, trusted=trusted)
            if wrong := matchers[value](instance):
                yield error(wrong)

    return check


def _matcher(expression: str, *, trusted: bool) -> Callable[[str], str | None]:
    try:
        return pattern(expression)
    except ValueError as error:
        if not trusted:
            raise SchemaError(str(error)) from None
        try:
            matches = re.compile(expression).search
        except re.error as wrong:
            raise SchemaError(f"the pattern {expression!r:.80} is none: {wrong}") from None
    return lambda text: None if matches(text) else f"does not match {expression!r:.80}"


def _refuse_patterns(schema: Json) -> None:
    """Raise `SchemaError` for patterns that a stranger could use to keep this process busy."""
    if not isinstance(schema, OBJECT):
        return
    given = schema
    if given.get("patternProperties"):
        raise SchemaError("patterns for the names of members are not checked in a schema of the peer's")
    if isinstance(given.get("pattern"), str):
        _matcher(given["pattern"], trusted=False)
    for inner in _subschemas(given):
        _refuse_patterns(inner)


def _unique_items(_: Json, value: Json, instance: Json, __: Json) -> Iterator[Any]:
    """`uniqueItems` in linear time: the library compares each with each where they cannot be sorted."""
    if value is not True or not isinstance(instance, LIST):
        return
    if len({canonical(item) for item in instance}) < len(instance):
        yield import_module("jsonschema.exceptions").ValidationError("holds the same item twice")


def _resolve(schema: dict[str, Any], dialect: str) -> None:
    """Raise `SchemaError` for a reference that leads out of the schema (JSCH-2)."""
    referencing: Any = import_module("referencing")
    specification = cast("Any", import_module("referencing.jsonschema")).specification_with(dialect)
    resource = specification.create_resource(schema)
    pending = [(schema, _registry().resolver_with_root(resource))]
    while pending:
        in_time()
        inner, resolver = pending.pop()
        for keyword in _REFERENCES:
            reference = inner.get(keyword)
            if isinstance(reference, str):
                try:
                    resolver.lookup(reference)
                except referencing.exceptions.Unresolvable:
                    raise SchemaError(
                        f"the reference {reference!r:.200} leads out of the schema; nothing is fetched from elsewhere"
                    ) from None
        for child in _subschemas(inner):
            if isinstance(child, OBJECT):
                sub = specification.create_resource(child)
                pending.append((child, resolver.in_subresource(sub)))
