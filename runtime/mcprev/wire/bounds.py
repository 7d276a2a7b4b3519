"""Bounds on the size of parsed JSON, checked on its bytes before any object is built (BASE-10, HTTP-31, STDIO-9).

`jsonrpc.parse` applies them to every message that arrives, for every transport and both roles:

- `max_values`, 500,000 by default: how many values one message holds; the keys of objects count as values. Parsing
  that many takes some tenths of a second and blocks the event loop meanwhile. `mcprev.json_bounds.max_values = n`
  sets another bound for the whole process.
- `MAX_NAMES`, 128 MiB: the length of the longest member name in bytes, times the number of values.
- `MAX_DEPTH`, 200: how deep arrays and objects nest. The parser sets it; it cannot be raised.
- An integer has at most 4,300 digits. A number with a fraction or an exponent stays within the range of a double.

The transport bounds the number of bytes of a message (`max_line`, `max_body`, `max_message`).

Every function here makes a fixed number of passes over the bytes, each in C; no Python loop runs over the input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_NAMES: Final = 128 * 1024 * 1024
"""The bound on the length in bytes of a message's longest member name times its number of values.

A validation error names the path of each invalid value, and each path repeats the names of its parents.
"""
UNCHECKED: Final = 32 * 1024
"""A text of at most this many bytes cannot exceed a bound, unless `max_values` is smaller."""
MAX_DEPTH: Final = 200
"""The maximum nesting depth of JSON: the fast parser's own limit, applied by the slow parser too."""
_STRING: Final = re.compile(rb'"[^"]*"?')


@dataclass(slots=True)
class JsonBounds:
    """The configurable bounds of JSON. They hold for the whole process and apply from the next message on."""

    max_values: int = 500_000
    """The maximum number of values in one message; the keys of objects count as values."""


json_bounds: Final = JsonBounds()
"""The bounds of this process: `mcprev.json_bounds.max_values = n` changes one for every connection."""


class OutOfBoundsError(ValueError):
    """A JSON text exceeds a bound. Nothing of it was parsed."""


def check_values(data: bytes | bytearray) -> None:
    """Raise `OutOfBoundsError` for a JSON text with more than `max_values` values, or with too long names for their
    number.
    """
    most = json_bounds.max_values
    values = _count(data)
    if values > most and (values := _count(without_strings(data))) > most:
        raise OutOfBoundsError(f"a message of more than {most} JSON values (mcprev.json_bounds.max_values)")
    longest = _longest_name(data, MAX_NAMES // values) if len(data) * values > MAX_NAMES else 0
    if longest * values > MAX_NAMES and longest * _count(without_strings(data)) > MAX_NAMES:
        raise OutOfBoundsError("a message with member names too long for its number of values")


def without_strings(data: bytes | bytearray) -> bytes | bytearray:
    """Return a JSON text with each string replaced by one quotation mark.

    A text whose strings alone exceed the bound is returned unchanged. In a text that is not JSON, the part before the
    first error is treated the same way, so the count of values that a parser reads is right.
    """
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data if bare.count(b'"') > 2 * json_bounds.max_values else _STRING.sub(b'"', bare)


def _longest_name(data: bytes | bytearray, enough: int) -> int:
    """Return the length in bytes of the longest member name of a JSON text, or 0 if no name is longer than `enough`."""
    parts: Sequence[bytes | bytearray] = data.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    if max(map(len, parts[1::2]), default=0) <= enough:
        return 0
    names = zip(parts[1::2], parts[2::2], strict=False)
    return max((len(name) for name, behind in names if behind.lstrip()[:1] == b":"), default=0)


def _count(text: bytes | bytearray) -> int:
    """Return the number of values in a JSON text whose strings are removed; an empty container counts twice."""
    return 1 + len(text) - len(text.translate(None, b",:[{"))
