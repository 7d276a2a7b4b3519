r"""Regular expressions of a schema, which are ECMAScript's, as pydantic compiles them.

JSON Schema means them with the `u` flag: `.` and `\p{L}` are for whole characters, while `\d`, `\w` and `\b` know those
of ASCII only. pydantic's, of Rust, differ in what the classes hold and in how some characters are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SPACE: Final = (
    r"\t\n\x0B\x0C\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}"
)
_CLASSES: Final[Mapping[str, str]] = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACE}
_NOT_LINE: Final = r"[^\n\r\x{2028}\x{2029}]"
_PART: Final = re.compile(
    r"\\u\{(?P<braces>[0-9A-Fa-f]+)\}"
    r"|\\u(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})"
    r"|\\[ux](?P<hex>(?<=u)[0-9A-Fa-f]{4}|(?<=x)[0-9A-Fa-f]{2})"
    r"|\\c(?P<control>[A-Za-z])"
    r"|\\(?P<escaped>.)"
    r"|(?P<nothing>\[\])|(?P<anything>\[\^\])"
    r"|(?P<char>.)",
    re.DOTALL,
)


def rust_pattern(pattern: str) -> str:
    """Return the regular expression that matches the same strings with pydantic's engine.

    What that engine does not have, such as looking ahead, remains as it is; compiling it is an error.
    """
    found: list[str] = []
    inside = False
    for part in _PART.finditer(pattern):
        kind, text = part.lastgroup, part[0]
        match kind:
            case "braces" | "hex":
                found.append(f"\\x{{{part[kind]}}}")
            case "low":
                found.append(f"\\x{{{_joined(part['high'], text[-4:]):X}}}")
            case "control":
                found.append(f"\\x{{{ord(part[kind]) % 32:X}}}")
            case "escaped":
                found.append(_escaped(part[kind], inside=inside))
            case "nothing" if not inside:
                found.append(r"[^\x{0}-\x{10FFFF}]")
            case "anything" if not inside:
                found.append(r"[\x{0}-\x{10FFFF}]")
            case _:
                for char in text:
                    repeated = char == "-" and found[-1:] == ["-"]
                    found.append(r"\-" if repeated and inside else _char(char, inside=inside))
                    inside = char == "[" or (inside and char != "]")
    return "".join(found)


def _joined(high: str, low: str) -> int:
    """Return the character that two surrogates stand for."""
    return 0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00


def _escaped(char: str, *, inside: bool) -> str:
    if char in _CLASSES:
        return _CLASSES[char] if inside else f"[{_CLASSES[char]}]"
    if char.lower() in _CLASSES:
        return f"[^{_CLASSES[char.lower()]}]"
    if char in "bB":
        return r"\x08" if inside else rf"(?-u:\{char})"
    if char == "0":
        return r"\x00"
    return char if char == "/" else f"\\{char}"


def _char(char: str, *, inside: bool) -> str:
    if inside:  # where Rust has sets in sets, and `&&`, `--` and `~~` between them
        return f"\\{char}" if char in "[&~" else char
    return _NOT_LINE if char == "." else char
