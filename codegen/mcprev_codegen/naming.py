"""Wire names to Python names: modules, classes, attributes and methods.

Every rule is here, so that a name in a schema has one Python name wherever it is written.
"""

from __future__ import annotations

import keyword
import re
from typing import Final

from mcprev_codegen.templates.support._names import ATTRIBUTE_NAMES

META_PREFIX: Final = "io.modelcontextprotocol/"

CLASS_NAMES: Final = {"Annotated": "AnnotatedModel"}
"""Types whose own name would hide something that the generated module needs."""


def module_name(revision: str) -> str:
    """The package of a revision: `2025-11-25` is `v2025_11_25`, `draft` is `draft`."""
    return "v" + revision.replace("-", "_") if revision[0].isdigit() else revision.replace("-", "_")


def class_name(type_name: str) -> str:
    """The Python class or alias of a declared type: its own name but for `CLASS_NAMES`."""
    return CLASS_NAMES.get(type_name, type_name)


def pascal_case(member: str) -> str:
    """The part a member adds to the class name of the inline object it holds: `oneOf` gives `OneOf`."""
    words = re.split(r"[^A-Za-z0-9]+", member.rpartition("/")[2])
    return "".join(word[0].upper() + word[1:] for word in words if word)


def snake_case(name: str) -> str:
    """`nextCursor` to `next_cursor`, `ListToolsRequest` to `list_tools_request`, `URLParams` to `url_params`."""
    spaced = re.sub(
        r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", lambda m: "_".join(filter(None, m.groups())), name
    )
    return re.sub(r"[^A-Za-z0-9]+", "_", spaced).strip("_").lower()


def attribute(member: str) -> str:
    """The attribute of a wire member: snake_case, without the protocol's prefix, never a keyword."""
    if member in ATTRIBUTE_NAMES:
        return ATTRIBUTE_NAMES[member]
    name = snake_case(member.removeprefix(META_PREFIX))
    return name + "_" if keyword.iskeyword(name) else name


def stub(type_name: str) -> str:
    """The stub of a message type: `CallToolRequest` is `call_tool`, `CancelledNotification` is `cancelled`."""
    return snake_case(re.sub(r"(Request|Notification)$", "", type_name))
