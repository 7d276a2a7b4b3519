"""Bounds on the size of parsed JSON (BASE-10, HTTP-31, STDIO-9). The number of values is checked before any is built.

`jsonrpc.parse` applies them to every message that arrives, for every transport and both roles:

- `max_values`, 500,000 by default: how many values one message holds; the keys of objects count as values. Parsing
  that many takes some tenths of a second and blocks the event loop meanwhile. `mcprev.json_bounds.max_values = n`
  sets another bound for the whole process. A server over HTTP has a lower one for its clients, its option `max_values`.
- `MAX_NAMES`, 128 MiB: the length of the longest member name in bytes, times the number of values.
- `MAX_DEPTH`, 200: how deep arrays and objects nest. The parser sets it; it cannot be raised.
- An integer has at most 4,300 digits. A number with a fraction or an exponent stays within the range of a double.
  In a message that is mostly long strings, of members with one name only the last, which alone is used, is checked.

The transport bounds the number of bytes of a message (`max_line`, `max_body`, `max_message`).

Every function here makes a fixed number of passes over the bytes, each in C; a Python loop runs over few values or
marks only. A long text is the usual large message, so little is done for each byte of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from mcprev.errors import Json

MAX_NAMES: Final = 128 * 1024 * 1024
"""The bound on the length in bytes of a message's longest member name times its number of values.

A validation error names the path of each invalid value, and each path repeats the names of its parents.
"""
UNCHECKED: Final = 32 * 1024
"""A text of at most this many bytes cannot exceed a bound, unless `max_values` is smaller."""
FEW: Final = 100
"""The maximum number of quotation and punctuation marks that are counted one by one."""
MAX_DEPTH: Final = 200
"""The maximum nesting depth of JSON: the fast parser's own limit, applied by the slow parser too."""
_BACKSLASH: Final = ord("\\")
_NO_PUNCTUATION: Final = bytes(set(range(256)).difference(b",:[{"))
NO_STRUCTURE: Final = bytes(set(range(256)).difference(rb'",:[{\/bfnrtu'))
"""The bytes without which the strings of a JSON text still end at the same quotation marks: all but punctuation,
quotation marks and escapes.
"""
_ESCAPED: Final = len(rb"\ud83d\ude00")
"""The maximum number of bytes that one character takes in a JSON text."""


@dataclass(slots=True)
class JsonBounds:
    """The configurable bounds of JSON. They hold for the whole process and apply from the next message on."""

    max_values: int = 500_000
    """The maximum number of values in one message; the keys of objects count as values."""


json_bounds: Final = JsonBounds()
"""The bounds of this process: `mcprev.json_bounds.max_values = n` changes one for every connection."""


class OutOfBoundsError(ValueError):
    """A JSON text exceeds a bound. Nothing of it is used."""


def check_values(data: bytes | bytearray, most: int | None = None) -> None:
    """Raise `OutOfBoundsError` for a JSON text with more values than `count_values` allows, or with too long names for
    their number.
    """
    check_names(data, count_values(data, most))


def count_values(data: bytes | bytearray, most: int | None = None) -> int:
    """Return the number of values in a JSON text, or a larger one, as long as that is within the bound: punctuation inside
    strings may count too. Raises `OutOfBoundsError` for more than `max_values`, or than the `most` that a server allows.
    """
    of_server = most is not None and most < json_bounds.max_values
    most = most if of_server and most is not None else json_bounds.max_values
    few = few_marks(data)
    values = _count(data) if few is None else 1 + few
    if values > most and (values := _count_exactly(data)) > most:
        option = "the server's option max_values" if of_server else "mcprev.json_bounds.max_values"
        raise OutOfBoundsError(f"a message of more than {most} JSON values ({option})")
    return values


def few_marks(data: bytes | bytearray) -> int | None:
    """Return the number of quotation and punctuation marks in a JSON text, inside strings or not, or None if it is large.

    To hop from one to the next takes less time than to look at each byte.
    """
    found = 0
    for mark in b'",:[{':
        at = data.find(mark)
        while at >= 0:
            found += 1
            if found > FEW:
                return None
            at = data.find(mark, at + 1)
    return found


def check_names(data: bytes | bytearray, values: int, longest: int | None = None) -> None:
    """Raise `OutOfBoundsError` for a JSON text with too long member names for its number of values.

    `values` is from `count_values`, `longest` the number of characters of the longest name, if the text is parsed.
    """
    size = len(data) if longest is None else longest * _ESCAPED
    if size * values > MAX_NAMES:
        size = _longest_name(data, MAX_NAMES // values)
        if size * values > MAX_NAMES and size * _count_exactly(data) > MAX_NAMES:
            raise OutOfBoundsError("a message with member names too long for its number of values")


def few_values(value: Json, most: int) -> tuple[list[Json], int] | None:
    """Return a parsed value with all values inside it, and the number of characters of its longest name.

    Returns None for more than `most` values.
    """
    found, longest = [value], 0
    for item in found:
        if item.__class__ is dict:
            longest = max(longest, max(map(len, item), default=0))
            found += item.values()
        elif item.__class__ is list:
            found += item
        if len(found) > most:
            return None
    return found, longest


def without_strings(data: bytes | bytearray) -> bytes | bytearray:
    """Return a JSON text with each string emptied.

    A text whose strings alone exceed the bound is returned unchanged. In a text that is not JSON, the part before the
    first error is treated the same way, so the count of values that a parser reads is right.
    """
    quotes = 2 * json_bounds.max_values
    parts = _split(data, quotes + 1)
    return data if len(parts) > quotes + 1 else b'""'.join(parts[::2])


def _longest_name(data: bytes | bytearray, enough: int) -> int:
    """Return the length in bytes of the longest member name of a JSON text, or 0 if no name is longer than `enough`."""
    if not _has_long_string(data, enough):
        return 0
    parts = _split(data)
    if max(map(len, parts[1::2]), default=0) <= enough:
        return 0
    names = zip(parts[1::2], parts[2::2], strict=False)
    return max((len(name) for name, behind in names if behind.lstrip()[:1] == b":"), default=0)


def _has_long_string(data: bytes | bytearray, enough: int) -> bool:
    """Return whether a string of a JSON text may be longer than `enough` bytes. It copies nothing, as to split does."""
    if _BACKSLASH in data:
        data = _without_escapes(data)
    return _between_quotes(enough.bit_length()).search(data) is not None


@cache
def _between_quotes(bits: int) -> re.Pattern[bytes]:
    """Return the pattern of a quotation mark before so many bytes without one, as the strings are that take `bits` to count."""
    return re.compile(rb'"[^"]{%d}' % (1 << max(0, bits - 1)))


def _without_escapes(data: bytes | bytearray) -> bytes | bytearray:
    """Return a JSON text of the same length whose quotation marks all begin or end a string."""
    return data.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _split(data: bytes | bytearray, most: int = -1) -> Sequence[bytes | bytearray]:
    """Split a JSON text at the quotation marks around its strings, at most so often: every second part is a string."""
    if _BACKSLASH in data:
        data = _without_escapes(data)
    return data.split(b'"', most)


def _count(text: bytes | bytearray) -> int:
    """Return the number of values in a JSON text whose strings are removed; an empty container counts twice."""
    return 1 + len(text.translate(None, _NO_PUNCTUATION))


def _count_exactly(data: bytes | bytearray) -> int:
    """Return the number of values in a JSON text; an empty container counts twice."""
    return _count(without_strings(data.translate(None, NO_STRUCTURE)))
