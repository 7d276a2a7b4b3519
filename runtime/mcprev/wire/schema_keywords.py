"""The keywords of JSON Schema that contain schemas, of every dialect that tools use."""

from __future__ import annotations

from typing import Final

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
