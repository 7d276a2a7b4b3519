r"""Regular expressions of a schema, which are ECMAScript's, as pydantic compiles them.

JSON Schema means them with the `u` flag: `.` and `\p{L}` are for whole characters, while `\d`, `\w` and `\b` know those
of ASCII only. pydantic's, of Rust, differ in what the classes hold and in how some characters are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


_TOKEN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?<?[=!]|.", re.DOTALL)
"""A part of a regular expression, of which those that open and close groups or separate alternatives matter here."""
_ELSEWHERE: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")
"""What looks around or back to a group, for which no engine takes linear time."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression as several of pydantic's engine: a string matches all but those that it must not match."""

    matches: tuple[str, ...]
    never: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All of its expressions."""
        return (*self.matches, *self.never)


def rust_patterns(pattern: str) -> Pattern:
    """Return the regular expressions that together match the same strings with pydantic's engine.

    What that engine does not have remains as it is: compiling it is an error.
    """
    ahead, rest = _looked_ahead(pattern)
    body, behind = _looked_back(rest)
    looked = [*ahead, *behind]
    wanted, refused = (
        tuple(rust_pattern(text) for holds, text in looked if holds == kind) for kind in (True, False)
    )
    return Pattern((rust_pattern(body), *wanted), refused)


def looks_around(pattern: str) -> bool:
    """Return whether a regular expression has what pydantic's engine does not: it looks around or back to a group."""
    return _ELSEWHERE.search("".join(t for t in _TOKEN.findall(pattern) if not t.startswith("["))) is not None


def _looked_ahead(pattern: str) -> tuple[list[tuple[bool, str]], str]:
    """Return what a regular expression looks ahead for at its start, each with whether it must be there, and the others."""
    found: list[tuple[bool, str]] = []
    rest = pattern[1:]
    if not pattern.startswith("^") or "|" in [part for part, depth in _tokens(pattern) if not depth]:
        return found, pattern
    while rest.startswith(("(?=", "(?!")):
        inner = _group(rest)
        if inner is None:
            return [], pattern
        found.append((rest[2] == "=", f"^(?:{inner[3:-1]})"))
        rest = rest[len(inner) :]
    return found, f"^{rest}"


def _looked_back(pattern: str) -> tuple[str, list[tuple[bool, str]]]:
    """Return a regular expression without what it looks back for at its end, and that."""
    found: list[tuple[bool, str]] = []
    tokens = [*_tokens(pattern)]
    if not tokens or tokens[-1] != ("$", 0) or ("|", 0) in tokens:
        return pattern, found
    rest = pattern[:-1]
    while (start := _last_group(rest)) is not None and rest.startswith(("(?<=", "(?<!"), start):
        found.append((rest[start + 3] == "=", f"(?:{rest[start + 4 : -1]})$"))
        rest = rest[:start]
    return f"{rest}$", found


def _tokens(pattern: str) -> Iterator[tuple[str, int]]:
    """Yield the parts of a regular expression, each with the number of groups that it is in."""
    depth = 0
    for part in _TOKEN.findall(pattern):
        depth -= part == ")"
        yield part, depth
        depth += part.startswith("(")


def _group(pattern: str) -> str | None:
    """Return the group at the start of a regular expression; None if it does not end."""
    found = ""
    for part, depth in _tokens(pattern):
        found += part
        if part == ")" and depth == 0:
            return found
    return None


def _last_group(pattern: str) -> int | None:
    """Return where the group at the end of a regular expression starts; None if there is none."""
    place, start, last = 0, None, ""
    for part, depth in _tokens(pattern):
        if depth == 0 and part.startswith("("):
            start = place
        place += len(part)
        last = part if depth == 0 else ""
    return start if last == ")" else None


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
