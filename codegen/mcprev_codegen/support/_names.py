"""The mapping of attributes to wire names. Uses the standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ATTRIBUTE_NAMES: Final[Mapping[str, str]] = {"_meta": "meta", "$schema": "schema_uri"}
"""The attributes of members whose wire name is not a valid Python name."""
_WIRE_NAMES: Final = {attribute: member for member, attribute in ATTRIBUTE_NAMES.items()}


def camel_case(name: str) -> str:
    """Return a name in camelCase: `input_schema` gives `inputSchema`."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def wire_name(attribute: str) -> str:
    """Return the wire name of an attribute: camelCase, except for wire names that are not valid in Python."""
    return _WIRE_NAMES.get(attribute) or camel_case(attribute)
