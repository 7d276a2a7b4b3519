"""The schemas inside of a JSON Schema, in every dialect that tools use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mcprev.errors import Json
from mcprev.wire.json_values import is_json_list, is_json_object

IN_MEMBER: Final = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
"""The value is a schema."""
IN_LIST: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
"""The value is a list of schemas."""
BY_NAME: Final = (
    "$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies",
)  # fmt: skip
"""The value is an object whose members are schemas."""


def subschemas(schema: Mapping[str, Json]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield the direct subschemas of a schema, each with the path to it; values inside `enum` or `default` are none."""
    for keyword, value in schema.items():
        if keyword in BY_NAME and is_json_object(value):
            for name, inner in value.items():
                yield (keyword, name), inner
        elif keyword in IN_LIST and is_json_list(value):
            for number, inner in enumerate(value):
                yield (keyword, str(number)), inner
        elif keyword in IN_MEMBER:
            yield (keyword,), value
