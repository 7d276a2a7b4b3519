"""The bounds of what JSON may become, judged by its bytes before any object is built (BASE-10, HTTP-31, STDIO-9).

Every message that arrives, whatever the transport and the role, is held to them by `jsonrpc.parse`:

- `max_values`, 500,000 by default: how many values one message holds, keys of objects counted too. Parsing as many
  takes some tenths of a second, in which nothing else runs. `mcprev.json_bounds.max_values = n` sets another bound
  for the whole process.
- `MAX_NAMES`, 128 MiB: the bytes of the longest name of a member times the number of values.
- `MAX_DEPTH`, 200: how deep arrays and objects nest. It is the parser's own and cannot be raised.
- An integer has at most 4,300 digits, and a number with a fraction or an exponent stays within the range of a double.

How many bytes a message has is bounded by its transport (`max_line`, `max_body`, `max_message`).

Everything here is a fixed number of passes over the bytes, each in C: no loop over what the peer sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SMALL: Final = 64 * 1024
"""A text of fewer bytes is weighed as it stands, punctuation within its strings included."""
MAX_NAMES: Final = 128 * 1024 * 1024
"""The bound of the bytes of a message's longest member name times the number of its values.

Validation names the place of each value that is wrong, and each place repeats the names that lead there.
"""
UNCHECKED: Final = 32 * 1024
"""A text of no more bytes cannot be over a bound, unless `max_values` is smaller."""
MAX_DEPTH: Final = 200
"""How deep JSON may nest: what the fast parser allows, kept by the slow one too."""
_STRING: Final = re.compile(rb'"[^"]*"?')

_ARRAY: Final = 72
_OBJECT: Final = 96
_KEY: Final = 40
_STRING_HEAD: Final = 48
_ITEM: Final = 40
"""A place in a list or the table of a dict, and a number in it."""


@dataclass(slots=True)
class JsonBounds:
    """The bounds of JSON that can be set. They hold for the whole process, from the next message on."""

    max_values: int = 500_000
    """How many values one message may hold, keys of objects counted too."""


json_bounds: Final = JsonBounds()


class OutOfBoundsError(ValueError):
    """A JSON text is over a bound; nothing of it was parsed."""


def check_values(data: bytes | bytearray) -> None:
    """Raise `OutOfBoundsError` for a JSON text of more than `max_values` values, or of long names and many values."""
    most = json_bounds.max_values
    values = _count(data)
    if values > most and (values := _count(without_strings(data))) > most:
        raise OutOfBoundsError(f"a message of more than {most} JSON values (mcprev.json_bounds.max_values)")
    longest = _longest_name(data, MAX_NAMES // values) if len(data) * values > MAX_NAMES else 0
    if longest * values > MAX_NAMES and longest * _count(without_strings(data)) > MAX_NAMES:
        raise OutOfBoundsError("a message whose names of members are too long for how many values it has")


def parsed_weight(data: bytes | bytearray) -> int:
    """Estimate how many bytes of memory the objects take that parsing makes of a JSON text, without the text itself.

    The estimate is for the worst case: values that are small or occur often share their objects and take less, at
    most a fifth of the estimate. For bytes that are not JSON it is an estimate as well, and no error.
    """
    width = 1 if data.isascii() and b"\\u" not in data else _character_width(data)
    text = data if len(data) < SMALL else without_strings(data)
    strings = data.count(b'"') // 2 if text is data else text.count(b'"')
    arrays, objects, keys, commas = text.count(b"["), text.count(b"{"), text.count(b":"), text.count(b",")
    return (
        len(data) * width + strings * _STRING_HEAD + arrays * _ARRAY + objects * _OBJECT + keys * _KEY
        + (commas + 1) * _ITEM
    )  # fmt: skip


def without_strings(data: bytes | bytearray) -> bytes | bytearray:
    """Leave of each string in a JSON text one quotation mark; a text that is over the bound by its strings alone stays
    as it is.

    Up to the first error in a text that is not JSON the same holds: what a parser reads of it is counted right.
    """
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data if bare.count(b'"') > 2 * json_bounds.max_values else _STRING.sub(b'"', bare)


def _longest_name(data: bytes | bytearray, enough: int) -> int:
    """How many bytes the longest name of a member has in a JSON text; 0 if it has no more than `enough`."""
    parts: Sequence[bytes | bytearray] = data.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    if max(map(len, parts[1::2]), default=0) <= enough:
        return 0
    names = zip(parts[1::2], parts[2::2], strict=False)
    return max((len(name) for name, behind in names if behind.lstrip()[:1] == b":"), default=0)


def _count(text: bytes | bytearray) -> int:
    """How many values a JSON text holds, at least where its strings are left out: an empty container counts twice."""
    return 1 + len(text) - len(text.translate(None, b",:[{"))


def _character_width(data: bytes | bytearray) -> int:
    """How many bytes a character may take in memory, for each byte that it takes in the text."""
    if any(lead in data for lead in (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4", b"\\ud", b"\\uD")):
        return 4
    return 1 if data.isascii() and b"\\u" not in data else 2
