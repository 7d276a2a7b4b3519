"""Wire names to Python names: modules, classes, attributes and methods.

All rules are here, so that a name in a schema has the same Python name everywhere. What the rules make of a name may be
invalid or hide another one: `schema/names.toml` gives a name of its own then.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mcprev_codegen.errors import InputError
from mcprev_codegen.support import ATTRIBUTE_NAMES

META_PREFIX: Final = "io.modelcontextprotocol/"
_IDENTIFIER: Final = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")
_REVISION: Final = re.compile(r"[A-Za-z0-9]+([-_.][A-Za-z0-9]+)*")
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
"""What is a device on Windows and no file or folder, whatever its suffix is."""
_LONGEST: Final = 60
"""The maximum length of the name of a revision or module, which is also one of a file."""


def is_identifier(text: str) -> bool:
    """Return whether a text can be a name in generated code: ASCII, no keyword, and none that Python itself uses."""
    return _IDENTIFIER.fullmatch(text) is not None and not keyword.iskeyword(text)


def is_module(text: str) -> bool:
    """Return whether a text can be the name of a generated module or package, and thereby of a file or folder."""
    return is_identifier(text) and len(text) <= _LONGEST and not _DEVICE.match(text)


def check_revision(revision: str) -> str:
    """Return the name of a revision, which is one of folders and modules too. Raises `InputError` for any other text."""
    if not _REVISION.fullmatch(revision) or len(revision) > _LONGEST or _DEVICE.match(revision):
        raise InputError(
            f"{revision[:_LONGEST]!r} is not a valid name of a revision: use at most {_LONGEST} letters and digits, "
            "with single hyphens or dots between them, such as a date (YYYY-MM-DD) or 'draft', "
            "and not a device name of Windows"
        )
    return revision


def module_name(revision: str) -> str:
    """Return the package name of a revision: `2025-11-25` gives `v2025_11_25`, `draft` gives `draft`.

    Raises `InputError` for a text that is not the name of a revision.
    """
    check_revision(revision)
    name = re.sub(r"[-.]", "_", revision)
    return name if name.isidentifier() else "v" + name


def snake_case(name: str) -> str:
    """Return the name in snake_case: `nextCursor` gives `next_cursor`, `URLParams` gives `url_params`."""
    spaced = re.sub(
        r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", lambda m: "_".join(filter(None, m.groups())), name
    )
    return re.sub(r"[^A-Za-z0-9]+", "_", spaced).strip("_").lower()


@dataclass(frozen=True, slots=True)
class PythonNames:
    """The names in Python of types and members of a schema: those that are given, and what the rules make of the others."""

    types: Mapping[str, str] = field(default_factory=dict[str, str])
    members: Mapping[str, str] = field(default_factory=dict[str, str])

    def class_name(self, type_name: str) -> str:
        """Return the name of the class or alias of a declared type: the given one, else that of the type."""
        return self.types.get(type_name, type_name)

    def attribute(self, member: str) -> str:
        """Return the attribute of a wire member: the given one, else snake_case without the protocol's prefix."""
        given = self.members.get(member) or ATTRIBUTE_NAMES.get(member)
        return given or _no_keyword(snake_case(member.removeprefix(META_PREFIX)))


def stub(type_name: str) -> str:
    """Return the stub of a message type: `CallToolRequest` gives `call_tool`; never a keyword."""
    return _no_keyword(snake_case(re.sub(r"(Request|Notification)$", "", type_name)))


def _no_keyword(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name
