"""Reads the comments of schema.ts: JSDoc into tags and prose, section headings, trailing remarks.

Only `/** */` is JSDoc. A one-line `/* */` at the top level is a heading for what follows, a longer one
stands in for a JSDoc comment, and `//` comments count only behind the thing they remark on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mcprev_codegen.ir import NO_DOC, NO_TAGS, Doc, Tags

_PROSE_TAGS: Final = frozenset({"see", "example", "deprecated"})
_TAG: Final = re.compile(r"^@([A-Za-z-]+)\s*(.*)$")
_LINK: Final = re.compile(r"\{@link\s+([^\s|}]+)(?:\s*\|\s*|\s*)([^}]*)\}")


class UnknownTag(Exception):
    """A JSDoc tag, or a value of one, that the generator would have to ignore."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line
        """Lines below the start of the comment."""


def is_jsdoc(comment: str) -> bool:
    """Whether a comment's text, delimiters included, is JSDoc."""
    return comment.startswith("/**") and comment != "/**/"


def is_heading(comment: str) -> bool:
    """Whether a comment is a one-line block comment: a heading at the top level of the file."""
    return comment.startswith("/*") and not is_jsdoc(comment) and "\n" not in comment


def body(comment: str) -> str:
    """The text of a comment without its delimiters and without the leading stars."""
    if comment.startswith("//"):
        return comment[2:].strip()
    inner = comment.removeprefix("/**").removeprefix("/*").removesuffix("*/")
    lines = [re.sub(r"^\s*\* ?", "", line) if n else line.strip() for n, line in enumerate(inner.split("\n"))]
    return "\n".join(line.rstrip() for line in lines).strip("\n").strip()


def plain(text: str) -> str:
    """Prose with its `{@link Target | label}` marks replaced by what a reader should see."""
    return _LINK.sub(lambda m: (m[2].strip() or m[1]), text)


def read(leading: Sequence[str], section: str | None) -> tuple[Tags, Doc]:
    """Tags and prose from the comments above a declaration or member, the nearest one last.

    Raises `UnknownTag` for a tag outside the known set.
    """
    docs = [c for c in leading if is_jsdoc(c)]
    notes = [body(c) for c in leading if c.startswith("/*") and not is_jsdoc(c) and "\n" in c]
    tags, doc = _jsdoc(docs[-1]) if docs else (NO_TAGS, NO_DOC)
    return tags, replace(doc, notes=notes[-1] if notes else None, section=section)


def _jsdoc(comment: str) -> tuple[Tags, Doc]:
    offset = 1 if comment.split("\n", maxsplit=1)[0].strip() == "/**" else 0
    text: list[str] = []
    blocks: list[tuple[str, list[str], int]] = []
    for number, line in enumerate(body(comment).split("\n")):
        if match := _TAG.match(line):
            blocks.append((match[1], [match[2]], number + offset))
        elif blocks:
            blocks[-1][1].append(line)
        else:
            text.append(line)
    tags = NO_TAGS
    prose: list[tuple[str, str]] = []
    for name, lines, at in blocks:
        value = "\n".join(lines).strip()
        tags = _with_tag(tags, name, value, at)
        if name in _PROSE_TAGS and value:
            prose.append((name, value))
    return tags, Doc(text="\n".join(text).strip() or None, tags=tuple(prose))


def _with_tag(tags: Tags, name: str, value: str, line: int) -> Tags:
    match name:
        case "format":
            return replace(tags, format=value)
        case "TJS-type":
            return replace(tags, tjs_type=value)
        case "minimum":
            return replace(tags, minimum=_number(name, value, line))
        case "maximum":
            return replace(tags, maximum=_number(name, value, line))
        case "maxItems":
            return replace(tags, max_items=int(_number(name, value, line)))
        case "category":
            return replace(tags, category=value)
        case "nullable":
            return replace(tags, nullable=True)
        case "deprecated":
            return replace(tags, deprecated=True)
        case "internal":
            return replace(tags, internal=True)
        case "see" | "example":
            return tags
        case _:
            raise UnknownTag(f"unknown JSDoc tag '@{name}'", line)


def _number(name: str, value: str, line: int) -> int | float:
    try:
        return int(value) if re.fullmatch(r"[-+]?\d+", value) else float(value)
    except ValueError:
        raise UnknownTag(f"'@{name}' needs a number, not {value!r}", line) from None
