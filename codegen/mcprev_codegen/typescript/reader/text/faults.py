"""TypeScript that tree-sitter's grammar takes for a syntax error, hidden from it without moving any other text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tree_sitter import Node

_MEMBER: Final = re.compile(rb"(?<![\w$.])abstract(?=\s*\??\s*:)")
"""A member named `abstract`, which the grammar takes for the modifier of a class."""
_VARIANCE: Final = re.compile(
    rb"[<,](?:\s|/\*(?:[^*]|\*(?!/))*+\*/|//[^\n]*+\n)*+\b(in\s+out|in|out)(?=\s+(?!extends\b)[A-Za-z_$])"
)
"""`in` and `out` before a type parameter, which make no difference to data."""
_EXPORT: Final = re.compile(rb"(?<=\bexport)\s+type(?=\s*\*)")
"""`type` before `*`, which exports the types of a file."""
_GLOBAL: Final = re.compile(rb"(?<!\bdeclare )(?<![\w$.])global(?=\s*\{)")
"""`global` before a block in a module that is declared; what the block declares is read."""
_TEXTS: Final = frozenset(
    {"comment", "string", "string_fragment", "template_string", "template_literal_type"}
)


def without_faults(source: bytes, root: Node) -> tuple[bytes, Mapping[int, str]]:
    """Return a source with what the grammar does not know replaced, and the names of members by where they were."""
    names: dict[int, str] = {}
    found = bytearray(source)
    for match in _MEMBER.finditer(source):
        if not _is_text(root, match):
            names[match.start()] = match[0].decode()
            found[match.start() : match.end()] = match[0].upper()
    for pattern in (_VARIANCE, _EXPORT, _GLOBAL):
        for match in pattern.finditer(source):
            if not _is_text(root, match):
                start, end = match.span(match.lastindex or 0)
                found[start:end] = re.sub(rb"\w", b" ", source[start:end])
    return bytes(found), names


def _is_text(root: Node, match: re.Match[bytes]) -> bool:
    node = root.descendant_for_byte_range(match.end() - 1, match.end())
    return node is not None and node.type in _TEXTS
