"""Find the id of a message that is refused without being parsed, so that the error response carries it (BASE-7,
BASE-10).

A message that is too long, nested too deeply or not quite JSON can still show its id: in the members before the large
one, or at the very end. Only a bounded part of the message is searched.
"""

from __future__ import annotations

import json
import re
from typing import Final

from mcprev.errors import Json

HEAD: Final = 16 * 1024
"""How many bytes of the beginning are searched."""
TAIL: Final = 1024
"""How many bytes of the end are searched."""
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}:,]', re.DOTALL)
_LAST_MEMBERS: Final = re.compile(
    rb'[,{]\s*"id"\s*:\s*("[^"\\]*+(?:\\.[^"\\]*+)*+"|[-+.0-9eE]++)\s*'
    rb'(?:,\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*+"\s*)*\}\s*\Z',
    re.DOTALL,
)


def find_id(head: bytes | bytearray, tail: bytes | bytearray) -> tuple[Json, frozenset[bytes]]:
    """Return the id of an object from the beginning and the end of its text, or None, and the member names found
    there.
    """
    members = _members(bytes(head[:HEAD]))
    if not members.get(b"id") and is_object(head) and (last := _LAST_MEMBERS.search(tail[-TAIL:])):
        members |= _members(b"{" + last[0][1:])
    return _scalar(members.get(b"id")), frozenset(members)


def is_object(head: bytes | bytearray) -> bool:
    """Return whether a text begins like a JSON object."""
    return head[:HEAD].lstrip().startswith(b"{")


def _members(head: bytes) -> dict[bytes, bytes]:
    """Return the members of the outermost object as far as the text goes, with the raw text of each value."""
    found: dict[bytes, bytes] = {}
    depth, begin, name = 0, 0, b""
    if not is_object(head):
        return found
    for token in _TOKEN.finditer(head):
        mark = token[0]
        if depth == 1 and mark in _ENDS:
            piece = head[begin : token.start()].strip()
            if mark == b":":
                name = piece[1:-1]
                found[name] = b""
            elif name:
                found[name] = piece
            begin = token.end()
        if mark in _OPENING:
            depth += 1
            begin = token.end() if depth == 1 else begin
        elif mark in _CLOSING:
            depth -= 1
            if depth == 0:
                break
    return found


_ENDS: Final = frozenset({b":", b",", b"}"})
_OPENING: Final = frozenset({b"{", b"["})
_CLOSING: Final = frozenset({b"}", b"]"})


def _scalar(text: bytes | None) -> Json:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
