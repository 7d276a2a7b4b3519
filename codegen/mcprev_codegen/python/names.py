"""Wire names to Python names: modules, classes, attributes and methods.

All rules are here, so that a name in a schema has the same Python name everywhere. What the rules make of a name may be
invalid or hide another one: `schema/names.toml` gives a name of its own then.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mcprev_codegen.errors import InputError
from mcprev_codegen.support import ATTRIBUTE_NAMES

META_PREFIX: Final = "io.modelcontextprotocol/"
_IDENTIFIER: Final = re.compile(r"_?[^\W\d_]\w*")
_SIGNS: Final = {"+": "plus_", "-": "minus_"}
"""How the sign in front of a number is written in the name of an attribute."""
_REVISION: Final = re.compile(r"[A-Za-z0-9]+([-_.][A-Za-z0-9]+)*")
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
"""What is a device on Windows and no file or folder, whatever its suffix is."""
_LONGEST: Final = 60
"""The maximum length of the name of a revision or module, which is also one of a file."""


def is_identifier(text: str) -> bool:
    """Return whether a text can be a name in generated code: none that Python changes when it reads it, or uses itself."""
    plain = text.isascii() or (text.isidentifier() and unicodedata.normalize("NFKC", text) == text)
    return plain and _IDENTIFIER.fullmatch(text) is not None and not keyword.iskeyword(text)


def legal_name(name: str) -> str:
    """Return a name that Python can have: the same one if it can, else one with `_` for what no name can have."""
    if is_identifier(name):
        return name
    start = "_" if name.startswith("_") else ""
    parts = _legal(name).strip("_")
    found = f"{start}{parts}" if parts[:1].isalpha() else f"Type{parts}"
    return f"{found}_" if keyword.iskeyword(found) else found


def _legal(text: str) -> str:
    """Return a text as Python reads it in a name, with `_` for each sign that no name can have."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(sign if f"a{sign}".isidentifier() else "_" for sign in normal)


def is_module(text: str) -> bool:
    """Return whether a text can be the name of a generated module or package, and thereby of a file or folder."""
    return text.isascii() and is_identifier(text) and len(text) <= _LONGEST and not _DEVICE.match(text)


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
        r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", lambda m: "_".join(filter(None, m.groups())), _legal(name)
    )
    return re.sub(r"_+", "_", spaced).strip("_").lower()


@dataclass(frozen=True, slots=True)
class PythonNames:
    """The names in Python of types and members of a schema: those that are given, and what the rules make of the others."""

    types: Mapping[str, str] = field(default_factory=dict[str, str])
    members: Mapping[str, str] = field(default_factory=dict[str, str])

    def class_name(self, type_name: str) -> str:
        """Return the name of the class or alias of a declared type: the given one, else that of the type."""
        return self.types.get(type_name, type_name)

    def attribute(self, member: str) -> str:
        """Return the attribute of a wire member: the given one, else snake_case without the protocol's prefix.

        A sign before a number is written out (`plus_1`), and what does not begin with a letter gets `field_` in front.
        """
        given = self.members.get(member) or ATTRIBUTE_NAMES.get(member)
        if given:
            return given
        sign = _SIGNS.get(member[:1], "") if member[1:2].isdecimal() else ""
        found = sign + snake_case(member.removeprefix(META_PREFIX))
        return _no_keyword(found) if found[:1].isalpha() else f"field_{found}".rstrip("_")


def stub(type_name: str) -> str:
    """Return the stub of a message type: `CallToolRequest` gives `call_tool`; never a keyword."""
    return _no_keyword(snake_case(re.sub(r"(Request|Notification)$", "", type_name)))


def _no_keyword(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name
