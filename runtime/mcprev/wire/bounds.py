"""What JSON becomes once it is parsed, estimated from its bytes before any object is built (BASE-10, HTTP-31).

Everything here is a fixed number of passes over the bytes, each in C: no loop over what the peer sent.
"""

from __future__ import annotations

import re
from typing import Final

SMALL: Final = 64 * 1024
"""A text of fewer bytes is counted as it stands, punctuation within its strings included."""
MAX_STRINGS: Final = 1_000_000
"""A text with more strings is counted as it stands too: it holds too many values whatever is in them."""
_STRING: Final = re.compile(rb'"[^"]*"?')

_ARRAY: Final = 72
_OBJECT: Final = 96
_KEY: Final = 40
_STRING_HEAD: Final = 48
_ITEM: Final = 40
"""A place in a list or the table of a dict, and a number in it."""


def parsed_weight(data: bytes | bytearray) -> int:
    """Estimate how many bytes of memory the objects take that parsing makes of a JSON text, without the text itself.

    The estimate is for the worst case: values that are small or occur often share their objects and take less, at
    most a fifth of the estimate. For bytes that are not JSON it is an estimate as well, and no error.
    """
    width = _character_width(data)
    text = without_strings(data)
    strings = text.count(b'"') if text is not data else data.count(b'"') // 2
    arrays, objects, keys, commas = text.count(b"["), text.count(b"{"), text.count(b":"), text.count(b",")
    return (
        len(data) * width + strings * _STRING_HEAD + arrays * _ARRAY + objects * _OBJECT + keys * _KEY
        + (commas + 1) * _ITEM
    )  # fmt: skip


def without_strings(data: bytes | bytearray) -> bytes | bytearray:
    """Leave of each string in a JSON text one quotation mark; a text that is small or full of strings stays as it is.

    Up to the first error in a text that is not JSON the same holds: what a parser reads of it is counted right.
    """
    if len(data) < SMALL:
        return data
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data if bare.count(b'"') > 2 * MAX_STRINGS else _STRING.sub(b'"', bare)


def _character_width(data: bytes | bytearray) -> int:
    """How many bytes a character may take in memory, for each byte that it takes in the text."""
    if any(lead in data for lead in (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4", b"\\ud", b"\\uD")):
        return 4
    return 1 if data.isascii() and b"\\u" not in data else 2
