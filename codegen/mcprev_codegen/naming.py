"""Wire names to Python names: modules, classes, attributes and methods.

All rules are here, so that a name in a schema has the same Python name everywhere.
"""

from __future__ import annotations

import keyword
import re
from typing import Final

from mcprev_codegen.templates.support._names import ATTRIBUTE_NAMES

META_PREFIX: Final = "io.modelcontextprotocol/"

CLASS_NAMES: Final = {"Annotated": "AnnotatedModel"}
"""Types whose name would hide a name that the generated module needs."""


def module_name(revision: str) -> str:
    """Return the package name of a revision: `2025-11-25` gives `v2025_11_25`, `draft` gives `draft`."""
    return "v" + revision.replace("-", "_") if revision[0].isdigit() else revision.replace("-", "_")


def class_name(type_name: str) -> str:
    """Return the name of the Python class or alias of a declared type: the type's name, except for `CLASS_NAMES`."""
    return CLASS_NAMES.get(type_name, type_name)


def pascal_case(member: str) -> str:
    """Return the part that a member adds to the class name of its inline object: `oneOf` gives `OneOf`."""
    words = re.split(r"[^A-Za-z0-9]+", member.rpartition("/")[2])
    return "".join(word[0].upper() + word[1:] for word in words if word)


def snake_case(name: str) -> str:
    """Return the name in snake_case: `nextCursor` gives `next_cursor`, `URLParams` gives `url_params`."""
    spaced = re.sub(
        r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", lambda m: "_".join(filter(None, m.groups())), name
    )
    return re.sub(r"[^A-Za-z0-9]+", "_", spaced).strip("_").lower()


def attribute(member: str) -> str:
    """Return the attribute of a wire member: snake_case, without the protocol's prefix, never a keyword."""
    if member in ATTRIBUTE_NAMES:
        return ATTRIBUTE_NAMES[member]
    name = snake_case(member.removeprefix(META_PREFIX))
    return name + "_" if keyword.iskeyword(name) else name


def stub(type_name: str) -> str:
    """Return the stub of a message type: `CallToolRequest` gives `call_tool`."""
    return snake_case(re.sub(r"(Request|Notification)$", "", type_name))
