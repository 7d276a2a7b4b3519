"""Which arguments of a tool are repeated in headers, as `x-mcp-header` in its inputSchema says (HDR-6, HDR-7).

An annotation is good on a property of a primitive type that is reached through `properties` alone, so that a proxy
finds the value without understanding the schema. Any other makes the tool one that a client over HTTP does not
offer; what is wrong is said in words, for its log.

Decided here because the requirements are silent:

- A type that is a list of one primitive type and `null` is good: an argument that is null is left out anyway.
- An integer whose schema allows none of the safe values, or names (`const`, `enum`, `default`) one that is not safe,
  is not good. A bound beyond the safe range, such as that of 64 bits, is good; a value beyond it is refused when sent.
- Only what is a schema is searched: a property may be called `x-mcp-header`, and an example may have a member of
  that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from mcprev.errors import Json

ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = "Mcp-Param-"
PRIMITIVES: Final = ("string", "integer", "boolean")
MAX_SAFE: Final = 2**53 - 1
"""The greatest integer that every peer can tell from its neighbours."""
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParamHeader:
    """One argument that a header repeats."""

    name: str
    """The name as annotated, the part of the header after `Mcp-Param-`."""
    path: Path
    """The names of the properties that lead to the argument."""
    type: str
    """`string`, `integer` or `boolean`."""
    header: str = field(init=False)
    """The name of the header."""
    key: bytes = field(init=False)
    """The same in lower case, as a server looks it up."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", PREFIX + self.name)
        object.__setattr__(self, "key", self.header.lower().encode())

    def value_in(self, arguments: Json) -> Json:
        """The argument; None when it is absent or null, which is the same here (HDR-6)."""
        value = arguments
        for step in self.path:
            if not isinstance(value, dict):
                return None
            value = cast("dict[str, Json]", value).get(step)
        return value


@dataclass(frozen=True, slots=True)
class Annotations:
    """What was found in an inputSchema."""

    headers: tuple[ParamHeader, ...]
    """The good ones, in the order of the schema."""
    problems: tuple[str, ...]
    """What is wrong, a line each. A tool with one is not offered over HTTP."""


NONE: Final = Annotations((), ())


def find_annotations(schema: Json) -> Annotations:
    """Find the annotations of an inputSchema. What is no schema has none."""
    headers: list[ParamHeader] = []
    problems: list[str] = []
    seen: set[str] = set()
    for found in _walk(schema):
        name = found.schema[ANNOTATION]
        wrong = _wrong_name(name) or found.misplaced or _wrong_type(found.schema)
        if wrong is None and name.lower() in seen:
            wrong = "another property has the same"
        if wrong is not None:
            problems.append(f"{found.where!a:.{_SHOWN}}: {ANNOTATION} {name!a:.60}: {wrong}")
        else:
            seen.add(name.lower())
            headers.append(ParamHeader(name, found.path, str(_type(found.schema))))
    return Annotations(tuple(headers), tuple(problems)) if headers or problems else NONE


# -- the walk --------------------------------------------------------------------------------------------

_ONE: Final = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LIST: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_NAMED: Final = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties")
_PROPERTIES: Final = "properties"
_SHOWN: Final = 200
"""Characters of a place in a schema that are shown."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A schema, and how it was reached."""

    schema: dict[str, Json]
    path: Path
    where: str
    """The beginning of its JSON pointer, for people; what is below a long name does not repeat it whole."""
    chained: bool
    """Whether properties alone lead here."""

    @property
    def misplaced(self) -> str | None:
        if not self.chained:
            return "it is not reached through properties alone"
        return None if self.path else "it is not on a property"


def _walk(schema: Json) -> Iterator[_Found]:
    """Every schema that is annotated, in the order of the document and however deep it is."""
    stack = (
        [_Found(cast("dict[str, Json]", schema), (), "#", chained=True)] if isinstance(schema, dict) else []
    )
    while stack:
        here = stack.pop()
        if ANNOTATION in here.schema:
            yield here
        stack.extend(reversed(list(_below(here))))


def _below(here: _Found) -> Iterator[_Found]:
    """The schemas directly inside one."""
    keyword: str
    value: object
    for keyword, value in here.schema.items():
        if keyword == _PROPERTIES or keyword in _NAMED:
            chained = here.chained and keyword == _PROPERTIES
            for name, inner in _members(value):
                path = (*here.path, name) if chained else here.path
                if isinstance(inner, dict):
                    where = _pointer(here.where, keyword, name)
                    yield _Found(cast("dict[str, Json]", inner), path, where, chained)
            continue
        if keyword in _LIST:
            for number, inner in enumerate(_items(value)):
                if isinstance(inner, dict):
                    where = _pointer(here.where, keyword, str(number))
                    yield _Found(cast("dict[str, Json]", inner), here.path, where, chained=False)
        if keyword in _ONE and isinstance(value, dict):
            where = _pointer(here.where, keyword)
            yield _Found(cast("dict[str, Json]", value), here.path, where, chained=False)


def _pointer(start: str, *steps: str) -> str:
    """A JSON pointer continued, within `_SHOWN`."""
    return "/".join((start, *(step[:_SHOWN] for step in steps)))[:_SHOWN]


def _members(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from cast("dict[str, object]", value).items()


# -- the rules -------------------------------------------------------------------------------------------


def _wrong_name(name: Json) -> str | None:
    if not isinstance(name, str):
        return "it is not a string"
    if not name:
        return "it is empty"
    return None if _TOKEN.fullmatch(name) else "it has characters that no name of a header has"


def _type(schema: Mapping[str, Json]) -> object:
    """The type that a schema names; of a list the one beside `null`."""
    kind: object = schema.get("type")
    others = [name for name in _items(kind) if name != "null"]
    return others[0] if len(others) == 1 else kind


def _wrong_type(schema: Mapping[str, Json]) -> str | None:
    kind = _type(schema)
    if kind not in PRIMITIVES:
        return f"its type is {kind!a:.60}, not one of {', '.join(PRIMITIVES)}"
    if kind == "integer" and not _safe(schema):
        return "its integers are not within ±(2^53-1)"
    return None


def _safe(schema: Mapping[str, Json]) -> bool:
    """Whether what a schema says of integers leaves and names only such as every peer can read."""
    named = _numbers(schema.get("const"), schema.get("default"), *_items(schema.get("enum")))
    lowest = _numbers(schema.get("minimum"), schema.get("exclusiveMinimum"))
    highest = _numbers(schema.get("maximum"), schema.get("exclusiveMaximum"))
    return (
        all(abs(value) <= MAX_SAFE for value in named)
        and all(value <= MAX_SAFE for value in lowest)
        and all(value >= -MAX_SAFE for value in highest)
    )


def _numbers(*values: object) -> list[float]:
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
