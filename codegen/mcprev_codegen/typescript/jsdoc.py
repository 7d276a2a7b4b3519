"""Reads the comments of schema.ts: JSDoc into tags and prose, trailing remarks.

Only `/** */` is JSDoc. A one-line `/* */` at the top level is a heading, which cuts off the comments above it; a longer
one is used where there is no JSDoc. A `//` comment counts only at the end of a line, as a remark on that line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mcprev_codegen.ir import CONSTRAINTS, NO_DOC, NO_TAGS, Doc, Tags

_PROSE_TAGS: Final = frozenset({"see", "example", "deprecated", "since", "remarks"})
_TAG: Final = re.compile(r"^@([A-Za-z-]+)\s*(.*)$")
_INNER_TAG: Final = re.compile(r"(?<=\s)@([A-Za-z-]+)")
_LINK: Final = re.compile(r"\{@link\s([^{}]*)\}")


class BadTag(Exception):
    """A JSDoc tag with an invalid value."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line
        """The line of the tag, counted from 0 at the start of the comment."""


def is_jsdoc(comment: str) -> bool:
    """Return whether a comment, delimiters included, is JSDoc."""
    return comment.startswith("/**") and comment != "/**/"


def is_heading(comment: str) -> bool:
    """Return whether a comment is a block comment on one line: a section heading at the top level of the file."""
    return comment.startswith("/*") and not is_jsdoc(comment) and "\n" not in comment


def comment_body(comment: str) -> str:
    """Return the text of a comment without its delimiters and leading stars."""
    if comment.startswith("//"):
        return comment[2:].strip()
    inner = comment.removeprefix("/**").removeprefix("/*").removesuffix("*/")
    lines = [re.sub(r"^\s*\* ?", "", line) if n else line.strip() for n, line in enumerate(inner.split("\n"))]
    return "\n".join(line.rstrip() for line in lines).strip("\n").strip()


def plain_text(text: str) -> str:
    """Return the prose with each `{@link Target | label}` replaced by its label or target."""

    def label(match: re.Match[str]) -> str:
        target, *rest = re.split(r"[\s|]+", match[1].strip(), maxsplit=1)
        return "".join(rest) or target or match[0]

    return _LINK.sub(label, text)


def read_comments(leading: Sequence[str]) -> tuple[Tags, Doc, list[tuple[str, int]]]:
    """Return the tags and the prose of the comments above a declaration or member; the nearest comment is the last
    one.

    Also returns what is kept as prose though it looks like a tag, each text with its line below the start of the comment.
    Raises `BadTag` for a known tag with an invalid value.
    """
    docs = [c for c in leading if is_jsdoc(c)]
    notes = [comment_body(c) for c in leading if c.startswith("/*") and not is_jsdoc(c) and "\n" in c]
    tags, doc, doubts = _jsdoc(docs[-1]) if docs else (NO_TAGS, NO_DOC, [])
    return tags, replace(doc, notes=notes[-1] if notes else None), doubts


def _jsdoc(comment: str) -> tuple[Tags, Doc, list[tuple[str, int]]]:
    offset = 1 if comment.split("\n", maxsplit=1)[0].strip() == "/**" else 0
    text: list[str] = []
    blocks: list[tuple[str, list[str], int]] = []
    doubts: list[tuple[str, int]] = []
    for number, line in enumerate(comment_body(comment).split("\n")):
        if match := _TAG.match(line):
            blocks.append((match[1], [match[2]], number + offset))
        elif blocks:
            blocks[-1][1].append(line)
        else:
            text.append(line)
        for name in _INNER_TAG.findall(line) if not blocks or blocks[-1][0] != "example" else ():
            if name in _TAGS:
                inner = f"the JSDoc tag '@{name}' in the middle of a line is kept as prose; put it on a line of its own"
                doubts.append((inner, number + offset))
    values: dict[str, Any] = {}
    prose: list[tuple[str, str]] = []
    for name, lines, at in blocks:
        value = "\n".join(lines).strip()
        if name in _TAGS:
            attribute, read_value = _TAGS[name]
            try:
                values[attribute] = read_value(value)
            except ValueError as error:
                next_step = "; put each tag on a line of its own" if " @" in value else ""
                raise BadTag(f"'@{name}' requires {error}, not {value!r}{next_step}", at) from None
        elif name not in _PROSE_TAGS:
            doubts.append((f"the JSDoc tag '@{name}' is unknown; it is kept as prose", at))
        if value and (name not in _TAGS or name in _PROSE_TAGS):
            prose.append((name, value))
    return replace(NO_TAGS, **values), Doc(text="\n".join(text).strip() or None, tags=tuple(prose)), doubts


def _number(value: str) -> int | float:
    try:
        number = int(value) if re.fullmatch(r"[-+]?\d+", value) else float(value)
    except ValueError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("a number")
    return number


def _count(value: str) -> int:
    try:
        return int(value) if value.isdecimal() else int("")
    except ValueError:
        raise ValueError("a whole number that is not negative") from None


def _text(value: str) -> str:
    if not value:
        raise ValueError("a value")
    return value


def _json(value: str) -> str:
    """Return the value as JSON text; a value that is not JSON is taken as a string."""
    try:
        text = json.dumps(json.loads(value), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        text = json.dumps(_text(value), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text without lone surrogates") from None
    return text


def _flag(value: str) -> bool:
    if value not in ("", "true", "false"):
        raise ValueError("no value, true or false")
    return value != "false"


def _yes(_value: str) -> bool:
    return True


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "number": _number,
    "count": _count,
    "text": _text,
    "flag": _flag,
}
_TAGS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "format": ("format", _text),
    "TJS-type": ("tjs_type", _text),
    "default": ("default", _json),
    "category": ("category", str),
    "nullable": ("nullable", _yes),
    "deprecated": ("deprecated", _yes),
    "internal": ("internal", _yes),
    **{row.keyword: (row.attribute, _READERS[row.value]) for row in CONSTRAINTS},
}
"""The tags with a meaning for the generator: the attribute of `Tags`, and the function that reads the value."""
