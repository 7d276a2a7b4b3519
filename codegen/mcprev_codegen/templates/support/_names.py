"""Which wire name an attribute has. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ATTRIBUTE_NAMES: Final[Mapping[str, str]] = {"_meta": "meta", "$schema": "schema_uri"}
"""The attributes of members whose wire name is no Python name."""
_WIRE_NAMES: Final = {attribute: member for member, attribute in ATTRIBUTE_NAMES.items()}


def camel_case(name: str) -> str:
    """`input_schema` as `inputSchema`."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def wire_name(attribute: str) -> str:
    """The wire name of an attribute: camelCase but for a few that are no Python names."""
    return _WIRE_NAMES.get(attribute) or camel_case(attribute)
