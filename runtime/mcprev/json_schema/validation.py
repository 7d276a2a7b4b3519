"""JSON Schemas of tools, compiled once and within bounds (TOOL-3, TOOL-4, TOOL-6, JSCH-1..4).

`compile_schema` compiles a schema to a validator. `plain` compiles schemas that use the common keywords only. For any
other schema this module uses the library jsonschema, which the extra `mcprev[schema]` installs; the first such schema
imports it.

- Dialects: 2020-12, which is the default, and draft-07. Any other is an error (JSCH-1).
- References resolve within the schema or to a metaschema of a dialect. Nothing is fetched: any other reference is an
  error when the schema is compiled (JSCH-2).
- The depth and size of a schema and the time to compile it and to validate a value are bounded (JSCH-3). Regular
  expressions run in linear time; others are refused in a schema of the peer.
- `format` is an annotation and makes no value invalid, the default of both dialects.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import islice
from typing import Any, Final, cast

from mcprev.errors import Json, SchemaError, one_line
from mcprev.json_schema.bounds import (
    LIST,
    MAX_SECONDS,
    OBJECT,
    TooSlowError,
    ValidationIssue,
    Validator,
    deadline,
    has_twice,
    in_time,
    pattern,
    within_time,
)  # fmt: skip
from mcprev.json_schema.plain import always_valid, compile_plain, is_number
from mcprev.wire.schema_keywords import subschemas

MAX_DEPTH: Final = 100
"""The maximum nesting depth of a schema's JSON; each level of subschemas takes two."""
MAX_OBJECTS: Final = 2_000
"""The maximum number of objects in a schema, subschemas and others."""
MAX_VALUES: Final = 50_000
"""The maximum number of items and members in a schema, including `enum` options and `required` names."""
SHOWN: Final = 5
"""The maximum number of issues in an error message."""
EXTRA: Final = "install it with: pip install 'mcprev[schema]'"
LATEST_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DIALECTS: Final[Mapping[str, str]] = {
    LATEST_DIALECT: "Draft202012Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
}
"""The supported dialects, and the library's class for each."""
_SCHEMA: Final = "$schema"
_REFERENCES: Final = ("$ref", "$dynamicRef")
_UNBOUNDED: Final = frozenset({"anyOf", "oneOf", "allOf", "$ref"})
"""Keywords that visit one value several times, or nest as deeply as the value."""


def compile_schema(schema: Json, *, trusted: bool, clock: Callable[[], float] = time.monotonic) -> Validator:
    """Compile a schema to a validator. `trusted` is True for a schema of the author and False for one of the peer.

    Raises `SchemaError` for a schema that exceeds the bounds, is invalid in its dialect, has an unresolvable
    reference, or needs the library while it is not installed.
    """
    if isinstance(schema, bool):
        return always_valid if schema else _never_valid
    if not isinstance(schema, OBJECT):
        raise SchemaError("a JSON Schema must be an object or a boolean")
    unbounded = _measure(schema)
    dialect = _dialect(schema)
    try:
        bare = copy.deepcopy(schema)
        _drop_dialect(bare, dialect)
        with nullcontext() if trusted else deadline(clock):
            plain = compile_plain(bare, beside_references=dialect == LATEST_DIALECT)
            if plain is not None:
                return within_time(plain, clock) if unbounded else plain
            return within_time(_compiled(bare, dialect, trusted=trusted), clock)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    except TooSlowError:
        raise SchemaError(f"the schema takes longer than {MAX_SECONDS:g} s to be compiled") from None


def describe(issues: list[ValidationIssue], root: str) -> str:
    """Format the first few issues as one printable text for the author of the value. `root` names the value."""
    shown = [
        one_line(f"{'.'.join([root, *(str(part) for part in path)])[:200]} {text[:300]}")
        for path, text in issues[:SHOWN]
    ]
    more = len(issues) - SHOWN
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _never_valid(_: Json) -> list[ValidationIssue]:
    return [((), "is not allowed")]


# -- before a schema is used -----------------------------------------------------------------------------


def _measure(schema: Json) -> bool:
    """Return whether a schema may contain a keyword of `_UNBOUNDED`.

    Raises `SchemaError` for a schema that exceeds the bounds. Works level by level, without recursion.
    """
    level, objects, values, unbounded = [schema], 0, 0, False
    for _ in range(MAX_DEPTH + 1):
        found: list[Any] = [item for item in level if isinstance(item, OBJECT)]
        objects += len(found)
        values += sum(map(len, level))
        if objects > MAX_OBJECTS or values > MAX_VALUES:
            raise SchemaError(
                f"the schema contains more than {MAX_OBJECTS} objects, or more than {MAX_VALUES} values in all"
            )
        unbounded = unbounded or any(_UNBOUNDED & item.keys() for item in found)
        level = [child for item in level for child in _children(item)]
        if not level:
            return unbounded
    raise SchemaError(f"the schema is nested deeper than {MAX_DEPTH}")


def _objects(value: Json) -> Iterator[dict[str, Json]]:
    """Yield a value and the values in it at every depth, as far as they are objects."""
    pending = [value]
    while pending:
        here = pending.pop()
        if isinstance(here, OBJECT):
            yield here
        pending.extend(_children(here))


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
    """Return the normalised URI of a dialect: without an empty fragment, and http and https treated as equal."""
    bare = name.removesuffix("#")
    return next((d for d in DIALECTS if d.partition("://")[2] == bare.partition("://")[2]), bare)


def _drop_dialect(schema: dict[str, Json], dialect: str) -> None:
    """Remove `$schema` from a schema at every level; all subschemas must have the same dialect."""
    for each in _schemas(schema):
        named = each.pop(_SCHEMA, dialect)
        if _canonical(str(named)) != dialect:
            raise SchemaError(f"a subschema is in another dialect: {named!r:.200}")


def _schemas(schema: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield a schema and the subschemas at every depth."""
    pending = [schema]
    while pending:
        here = pending.pop()
        yield here
        pending.extend(inner for _, inner in subschemas(here) if isinstance(inner, OBJECT))


# -- the library -----------------------------------------------------------------------------------------


def _compiled(schema: dict[str, Any], dialect: str, *, trusted: bool) -> Validator:
    """Return the library's validator for a schema."""
    library = _library(dialect, trusted)
    metaschema = library(_bare(library.META_SCHEMA), registry=_registry())
    specification: Any = import_module("referencing.jsonschema").specification_with(dialect)
    own = {id(found) for found in _objects(schema)}  # without what is in the metaschemas
    pending = [(schema, _registry().resolver_with_root(specification.create_resource(schema)))]
    while pending:  # the schema, and what references lead to where no keyword has a schema
        here, resolver = pending.pop()
        _drop_dialect(here, dialect)
        if found := _errors(metaschema, here):
            raise SchemaError(f"this is not a valid schema of {dialect}: {describe(found, 'schema')}")
        _check_patterns(here, trusted=trusted)
        own -= {id(each) for each in _schemas(here)}
        for target in _targets(here, resolver, specification):
            if id(target[0]) in own:
                own.remove(id(target[0]))
                pending.append(target)
    return partial(_errors, library(schema, registry=_registry()))


def _errors(validator: Json, value: Json) -> list[ValidationIssue]:
    errors = islice(validator.iter_errors(value), SHOWN + 1)
    return [(tuple(error.absolute_path), f"is invalid: {error.message:.300}") for error in errors]


@cache
def _library(dialect: str, trusted: bool) -> Json:  # noqa: FBT001
    """Return the library's validator class for a dialect, with every keyword bounded."""
    try:
        validators = import_module("jsonschema.validators")
    except ImportError as error:
        raise SchemaError(f"this schema requires the library jsonschema; {EXTRA}") from error
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
    """Return a registry with the metaschemas only; the library's default registry fetches unknown URIs.

    The metaschemas have no `$schema`, because the library would replace the bounded class by its own one for it.
    """
    known: Any = import_module("jsonschema_specifications").REGISTRY
    specification_with: Any = import_module("referencing.jsonschema").specification_with
    resources = [
        (uri, specification_with(known.contents(uri)[_SCHEMA]).create_resource(_bare(known.contents(uri))))
        for uri in known
    ]
    return import_module("referencing").Registry().with_resources(resources)


def _bare(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in schema.items() if name != _SCHEMA}


_Keyword = Callable[[Any, Any, Any, Any], Any]


def _bounded(keyword: _Keyword) -> _Keyword:
    """Wrap a keyword so that it stops at the deadline."""

    def check(validator: Json, value: Json, instance: Json, schema: Json) -> Json:
        in_time()
        return keyword(validator, value, instance, schema)

    return check


def _pattern(*, trusted: bool) -> _Keyword:
    """Return the `pattern` keyword in linear time; a trusted schema may use any Python expression, however slow."""
    error: Any = import_module("jsonschema.exceptions").ValidationError

    def check(_: Json, value: Json, instance: Json, __: Json) -> Iterator[Any]:
        if isinstance(instance, str) and (problem := _matcher(value, trusted=trusted)(instance)):
            yield error(problem)

    return check


@lru_cache(MAX_OBJECTS)
def _matcher(expression: str, *, trusted: bool) -> Callable[[str], str | None]:
    try:
        return pattern(expression)
    except ValueError as error:
        if not trusted:
            raise SchemaError(str(error)) from None
        try:
            matches = re.compile(expression).search
        except re.error as problem:
            raise SchemaError(
                f"the pattern {expression!r:.80} is not a valid regular expression: {problem}"
            ) from None
    return lambda text: None if matches(text) else f"does not match {expression!r:.80}"


def _check_patterns(schema: dict[str, Json], *, trusted: bool) -> None:
    """Raise `SchemaError` for invalid regular expressions, and for those that a peer could use to keep us busy."""
    for each in _schemas(schema):
        if each.get("patternProperties") and not trusted:
            raise SchemaError("patternProperties is not supported in a schema of the peer")
        if isinstance(each.get("pattern"), str):
            _matcher(each["pattern"], trusted=trusted)


def _unique_items(_: Json, value: Json, instance: Json, __: Json) -> Iterator[Any]:
    """Validate `uniqueItems` in linear time; the library compares all pairs of items that cannot be sorted."""
    if value is True and isinstance(instance, LIST) and has_twice(instance):
        yield import_module("jsonschema.exceptions").ValidationError("contains the same item twice")


def _targets(schema: dict[str, Any], resolver: Json, specification: Json) -> Iterator[tuple[Any, Any]]:
    """Yield the target of each reference in a schema, with a resolver for the references in the target.

    Raises `SchemaError` for a reference that does not resolve, or to what is no schema.
    """  # JSCH-2
    unresolvable: Any = import_module("referencing.exceptions").Unresolvable
    pending = [(schema, resolver)]
    while pending:
        in_time()
        inner, resolver = pending.pop()
        for reference in [inner[keyword] for keyword in _REFERENCES if isinstance(inner.get(keyword), str)]:
            try:
                found = resolver.lookup(reference)
            except unresolvable:
                raise SchemaError(
                    f"the reference {reference!r:.200} does not resolve within the schema; nothing is fetched"
                ) from None
            if not isinstance(found.contents, (OBJECT, bool)):
                raise SchemaError(f"the reference {reference!r:.200} leads to a value that is not a schema")
            yield found.contents, found.resolver
        for _, child in subschemas(inner):
            if isinstance(child, OBJECT):
                pending.append((child, resolver.in_subresource(specification.create_resource(child))))
