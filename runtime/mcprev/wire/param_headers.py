"""The arguments of a tool that HTTP headers repeat, as `x-mcp-header` in its inputSchema declares (HDR-6, HDR-7).

An annotation is valid on a property of a primitive type that is reached through `properties` alone, so that a proxy
finds the value without understanding the schema. A client over HTTP does not offer a tool with an invalid annotation;
the client logs the reason.

Decisions where the requirements are silent:

- A type that is a list of one primitive type and `null` is valid: a null argument is omitted anyway.
- An integer is invalid if its schema allows none of the safe values, or if `const`, `enum` or `default` names an
  unsafe one. A bound beyond the safe range, such as that of 64 bits, is valid; a value beyond it is refused when it
  is sent.
- Only schemas are searched: a property may be named `x-mcp-header`, and an example may have a member of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mcprev.errors import Json
from mcprev.wire.json_values import is_json_object, json_list
from mcprev.wire.schema_keywords import subschemas

ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = "Mcp-Param-"
PRIMITIVES: Final = ("string", "integer", "boolean")
MAX_SAFE: Final = 2**53 - 1
"""The greatest integer that every peer represents exactly."""
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParamHeader:
    """One argument that a header repeats."""

    name: str
    """The annotated name: the part of the header name after `Mcp-Param-`."""
    path: Path
    """The names of the properties that lead to the argument."""
    type: str
    """`string`, `integer` or `boolean`."""
    header: str = field(init=False)
    """The name of the header."""
    key: bytes = field(init=False)
    """The name of the header as lower-case bytes, for lookups in an ASGI scope."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", PREFIX + self.name)
        object.__setattr__(self, "key", self.header.lower().encode())

    def value_in(self, arguments: Json) -> Json:
        """Return the argument, or None if it is absent or null; both are omitted."""  # HDR-6
        value = arguments
        for step in self.path:
            if not is_json_object(value):
                return None
            value = value.get(step)
        return value


@dataclass(frozen=True, slots=True)
class Annotations:
    """The annotations of an inputSchema."""

    headers: tuple[ParamHeader, ...]
    """The valid annotations, in the order of the schema."""
    problems: tuple[str, ...]
    """One line for each invalid annotation. A tool with any of them is not offered over HTTP."""


NONE: Final = Annotations((), ())


def find_annotations(schema: Json) -> Annotations:
    """Return the annotations of an inputSchema; none for a value that is not a schema."""
    headers: list[ParamHeader] = []
    problems: list[str] = []
    seen: set[str] = set()
    for found, path, pointer in _walk(schema):
        name = found[ANNOTATION]
        problem = _name_error(name) or _place_error(path) or _type_error(found)
        if problem is None and name.lower() in seen:
            problem = "another property has the same name"
        if problem is not None:
            problems.append(f"{pointer!a:.{_SHOWN}}: {ANNOTATION} {name!a:.60}: {problem}")
        else:
            seen.add(name.lower())
            headers.append(ParamHeader(name, path or (), str(_type(found))))
    return Annotations(tuple(headers), tuple(problems)) if headers or problems else NONE


# -- the walk --------------------------------------------------------------------------------------------

_SHOWN: Final = 200
"""The maximum number of characters shown of a location in a schema."""


def _walk(schema: Json) -> Iterator[tuple[dict[str, Json], Path | None, str]]:
    """Yield every annotated schema in document order, at any depth, with its path and its JSON pointer.

    The path is None if not only `properties` keywords lead to the schema. The pointer is cut after `_SHOWN` characters.
    """
    stack: list[tuple[Json, Path | None, str]] = [(schema, (), "#")]
    while stack:
        here, path, pointer = stack.pop()
        if not is_json_object(here):
            continue
        given = here
        if ANNOTATION in given:
            yield given, path, pointer
        below: list[tuple[Json, Path | None, str]] = []
        for steps, inner in subschemas(given):
            inside = (*path, *steps[1:]) if path is not None and steps[0] == "properties" else None
            below.append((inner, inside, _pointer(pointer, *steps)))
        stack.extend(reversed(below))


def _pointer(start: str, *steps: str) -> str:
    """Extend a JSON pointer; the result has at most `_SHOWN` characters."""
    return "/".join((start, *(step[:_SHOWN] for step in steps)))[:_SHOWN]


# -- the rules -------------------------------------------------------------------------------------------


def _name_error(name: Json) -> str | None:
    if not isinstance(name, str):
        return "it is not a string"
    if not name:
        return "it is empty"
    return None if _TOKEN.fullmatch(name) else "it has characters that are not allowed in a header name"


def _place_error(path: Path | None) -> str | None:
    if path is None:
        return "it is not reached through properties alone"
    return None if path else "it is not on a property"


def _type(schema: Mapping[str, Json]) -> object:
    """Return the type that a schema declares; of a list with `null`, the other type."""
    kind: object = schema.get("type")
    others = [name for name in _items(kind) if name != "null"]
    return others[0] if len(others) == 1 else kind


def _type_error(schema: Mapping[str, Json]) -> str | None:
    kind = _type(schema)
    if kind not in PRIMITIVES:
        return f"its type is {kind!a:.60}, not one of {', '.join(PRIMITIVES)}"
    if kind == "integer" and not _safe(schema):
        return "its integers are not within ±(2^53-1)"
    return None


def _safe(schema: Mapping[str, Json]) -> bool:
    """Return whether a schema of integers allows at least one safe value and names no unsafe ones."""
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
    return json_list(value)
