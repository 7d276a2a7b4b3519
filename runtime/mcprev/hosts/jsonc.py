"""Changes to one member of a JSON file with comments; every other byte stays as it is.

The file is parsed to a tree with places in its text. A change is a few insertions or one removal, and is parsed again
before it is returned: it holds exactly what was meant, or nothing is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mcprev.errors import Json

MAX_DEPTH: Final = 200
"""The maximum nesting depth of a file."""
_SPACE: Final = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\.)*+"')
_WORD: Final = re.compile(r"[-+.\w]++")


class JsoncError(ValueError):
    """A text is no JSON with comments; says at which line and column."""

    def __init__(self, text: str, at: int, problem: str) -> None:
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        super().__init__(f"line {line}, column {column}: {problem}")


@dataclass(slots=True)
class Node:
    """A value with its place in the text."""

    value: Json
    start: int
    end: int = 0
    members: list[ObjectMember] = field(default_factory=list["ObjectMember"])
    """The members of an object, in the order of the text."""
    items: list[Node] = field(default_factory=list["Node"])
    """The items of an array."""


@dataclass(slots=True)
class ObjectMember:
    """A member of an object with its place in the text."""

    name: str
    start: int
    end: int
    """The end of its name."""
    node: Node
    comma: int | None = None
    """The place of the comma after it."""


def parse_jsonc(text: str) -> Node:
    """Parse JSON in which comments and commas after the last value are allowed. Raises `JsoncError`.

    A text without a value is an empty object.
    """
    parser = _Parser(text)
    start = parser.skip(1 if text.startswith("\ufeff") else 0)
    if start == len(text):
        return Node({}, start, start)
    node = parser.value(start, 0)
    rest = parser.skip(node.end)
    if rest < len(text):
        raise JsoncError(text, rest, "the value has ended; remove what follows it")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, at: int) -> int:
        """Return the place after white space and comments."""
        match = _SPACE.match(self._text, at)
        assert match is not None  # the pattern also matches an empty text
        if self._text.startswith("/*", match.end()):
            raise JsoncError(self._text, match.end(), "the comment does not end; close it with */")
        return match.end()

    def value(self, at: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise JsoncError(self._text, at, f"the values are nested deeper than {MAX_DEPTH}")
        first = self._text[at : at + 1]
        if first == "{":
            return self._object(at, depth)
        if first == "[":
            return self._array(at, depth)
        match = (_STRING if first == '"' else _WORD).match(self._text, at)
        if match is None:
            raise JsoncError(
                self._text, at, "a value is missing" if first != '"' else "the string does not end"
            )
        try:
            found: Json = json.loads(match[0], parse_constant=_refuse)
        except ValueError:
            raise JsoncError(self._text, at, f"{match[0][:40]!r} is not a JSON value") from None
        return Node(found, at, match.end())

    def _object(self, at: int, depth: int) -> Node:
        node, here = Node({}, at), self.skip(at + 1)
        while self._text[here : here + 1] != "}":
            if self._text[here : here + 1] != '"':
                raise JsoncError(self._text, here, "expected a member name in double quotes, or }")
            name = self.value(here, depth)
            colon = self.skip(name.end)
            if self._text[colon : colon + 1] != ":":
                raise JsoncError(self._text, colon, f"expected a colon after {name.value[:40]!r}")
            member = ObjectMember(name.value, here, name.end, self.value(self.skip(colon + 1), depth + 1))
            node.members.append(member)
            node.value[member.name] = member.node.value
            here = self.skip(member.node.end)
            if self._text[here : here + 1] == ",":
                member.comma = here
                here = self.skip(here + 1)
            elif self._text[here : here + 1] != "}":
                raise JsoncError(self._text, here, "expected a comma or }")
        node.end = here + 1
        return node

    def _array(self, at: int, depth: int) -> Node:
        node, here = Node([], at), self.skip(at + 1)
        while self._text[here : here + 1] != "]":
            item = self.value(here, depth + 1)
            node.items.append(item)
            node.value.append(item.value)
            here = self.skip(item.end)
            if self._text[here : here + 1] == ",":
                here = self.skip(here + 1)
            elif self._text[here : here + 1] != "]":
                raise JsoncError(self._text, here, "expected a comma or ]")
        node.end = here + 1
        return node


def _refuse(name: str) -> Json:
    raise ValueError(name)


# -- changes -----------------------------------------------------------------------------------------------


def with_member(text: str, path: Sequence[str], value: Json) -> str:
    """Return the text with a value at a path of members; objects on the way are made. Raises `JsoncError`."""
    root = parse_jsonc(text)
    if root.start == root.end:
        line_end, text = _line_end(text), text.rstrip(" \t\r\n")
        has_comments = text not in ("", "\ufeff")
        text += f"{line_end if has_comments else ''}{{}}{line_end}"
        root = parse_jsonc(text)
    node, rest = root, list(path)
    while True:
        _check_object(text, node, path[: len(path) - len(rest)])
        member = _member(text, node, rest[0])
        if member is None:
            break
        if len(rest) == 1:
            new = _spelled(value, text, member.start, _unit(text, root))
            return _checked(text[: member.node.start] + new + text[member.node.end :], path, value)
        node, rest = member.node, rest[1:]
    for name in reversed(rest[1:]):
        value = {name: value}
    changed = _inserted(text, root, node, rest[0], value)
    for _ in rest[1:]:
        value = next(iter(value.values()))
    return _checked(changed, path, value)


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path. Raises `JsoncError`, and `KeyError` if there is no such member."""
    node = parse_jsonc(text)
    for number, name in enumerate(path[:-1]):
        _check_object(text, node, path[:number])
        found = _member(text, node, name)
        if found is None:
            raise KeyError(path[-1])
        node = found.node
    _check_object(text, node, path[:-1])
    member = _member(text, node, path[-1])
    if member is None:
        raise KeyError(path[-1])
    at = node.members.index(member)
    start, end = member.start, member.node.end if member.comma is None else member.comma + 1
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip():
        rest = re.compile(r"[ \t]*\r?\n").match(text, end)
        if rest is not None:  # the member has its lines for itself, which go with it
            start, end = line, rest.end()
    changed = text[:start] + text[end:]
    before = node.members[at - 1] if at else None
    if before is not None and before.comma is not None and member.comma is None:
        changed = changed[: before.comma] + changed[before.comma + 1 :]
    expected = {each.name: each.node.value for each in node.members if each is not member}
    return _checked(changed, path[:-1], expected)


def _check_object(text: str, node: Node, path: Sequence[str]) -> None:
    if not isinstance(node.value, Mapping):
        where = ".".join(["$", *path])
        raise JsoncError(text, node.start, f"{where} is not an object; correct the file first")


def _member(text: str, node: Node, name: str) -> ObjectMember | None:
    found = [member for member in node.members if member.name == name]
    if len(found) > 1:
        raise JsoncError(text, found[1].start, f"the member {name!r:.60} occurs twice; remove one of them")
    return found[0] if found else None


def _inserted(text: str, root: Node, node: Node, name: str, value: Json) -> str:
    """Return the text with a new member at the end of an object."""
    unit, line_end = _unit(text, root), _line_end(text)
    last = node.members[-1] if node.members else None
    on_one_line = last is not None and "\n" not in text[node.start : last.start]
    key = json.dumps(name, ensure_ascii=False)
    if on_one_line:
        assert last is not None
        at = last.node.end if last.comma is None else last.comma + 1
        comma = "," if last.comma is None else ""
        return f"{text[:at]}{comma} {key}: {json.dumps(value, ensure_ascii=False)}{text[at:]}"
    outer = _indent(text, node.start)
    indent = outer + unit if last is None else _indent(text, last.start)
    spelled = _dumped(value, indent, unit, line_end)
    body = text[node.start + 1 : node.end - 1]
    at = node.start + 1 + len(body.rstrip(" \t\r\n"))  # after the comments
    tail = text[at:]
    if "\n" not in text[at : node.end - 1]:
        tail = line_end + outer + tail.lstrip(" \t")
    new = f"{text[:at]}{line_end}{indent}{key}: {spelled}{tail}"
    if last is not None and last.comma is None:
        new = f"{new[: last.node.end]},{new[last.node.end :]}"
    return new


def _spelled(value: Json, text: str, at: int, unit: str) -> str:
    return _dumped(value, _indent(text, at), unit, _line_end(text))


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _dumped(value: Json, indent: str, unit: str, line_end: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
    return f"{line_end}{indent}".join(lines)


def _unit(text: str, root: Node) -> str:
    """Return the white space of one level: that before the first member of the file."""
    if root.members and "\n" in text[root.start : root.members[0].start]:
        return _indent(text, root.members[0].start) or "  "
    return "  "


def _indent(text: str, at: int) -> str:
    """Return the white space at the beginning of a line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _checked(text: str, path: Sequence[str], expected: Json) -> str:
    """Return a changed text. Raises `JsoncError` if it does not hold what was meant."""
    found: Json = parse_jsonc(text).value
    for name in path:
        found = found[name]
    if found != expected:
        raise JsoncError(
            text,
            0,
            "the entry cannot be changed without rewriting other parts of the file; edit the file by hand",
        )
    return text
