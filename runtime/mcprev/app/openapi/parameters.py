"""Parameters of the operations of an OpenAPI document: how their values are written in a request."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from mcprev.errors import Json, ToolError
from mcprev.json_schema.bounds import LIST, OBJECT

SEPARATORS: Final[Mapping[tuple[str, str], str]] = {
    ("path", "simple"): ",", ("header", "simple"): ",", ("query", "form"): ",", ("cookie", "form"): ",",
    ("query", "spaceDelimited"): "%20", ("query", "pipeDelimited"): "%7C", ("query", "deepObject"): "",
}  # fmt: skip
"""The styles of parameters by their place, with what stands between several values. The first of a place is its default."""
_BRACKETS: Final = re.compile(r"[\[\]\x00-\x1f\x7f]")
_FREE_NAME: Final = re.compile(r"[_.-]*+[A-Za-z0-9][A-Za-z0-9_.-]*+")
"""A name of a parameter that no document declares, and that every server reads alike."""


def defined(value: Json) -> Json:
    """Return a value without what is null in it: RFC 6570 leaves out what has no value. None if nothing is left."""
    if isinstance(value, LIST):
        items = [item for item in value if item is not None]
        return items if items or not value else None
    if isinstance(value, OBJECT):
        members: dict[str, Json] = {key: item for key, item in value.items() if item is not None}
        return members if members or not value else None
    return value


@dataclass(frozen=True, slots=True)
class ApiArgument:
    """Where an argument goes in a request."""

    name: str
    """The name in the API."""
    place: str
    """`path`, `query`, `header` or `cookie`; `member` of the body or the whole `body`."""
    schema: dict[str, Json]
    required: bool
    style: str = ""
    explode: bool = False
    reserved: bool = False
    """Whether a value in the path may have several segments; many servers decode `%2F` before they route."""
    members: frozenset[str] = frozenset()
    """The names of parameters that the members of an exploded object set: those that its schema declares."""
    more: bool = False
    """Whether the members of the object set parameters of other names, too."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the parameters that are set by this argument and no other."""
        return self.members | {self.name}

    def check(self, name: str, value: Json, parameters: Counter[str]) -> None:
        """Raise `ToolError` for an object whose members would set parameters of other names.

        `parameters` are the names of all parameters of its place, its own ones included.
        """
        deep = self.style == "deepObject"
        if not isinstance(value, OBJECT) or not (deep or (self.style == "form" and self.explode)):
            return
        others = parameters - Counter(self.names)
        taken = {plain_name(other) for other in others}
        for key in value:
            if deep:
                wrong = _BRACKETS.search(key) or f"{self.name}[{key}]" in others
            elif key in self.members:
                wrong = key in others
            else:
                wrong = not (self.more and _FREE_NAME.fullmatch(key)) or plain_name(key) in taken
            if wrong:
                raise ToolError(
                    f"'{name}' cannot have the member {key!r:.100}, which is not declared or belongs to another "
                    "parameter; leave it out"
                )

    def pairs(self, value: Json, safe: str = "") -> list[tuple[str, str]]:
        """Return the names and values in a request, percent-encoded."""

        def told(item: Json) -> str:
            return quote(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False), safe=safe)

        if self.style == "json":
            return [(quote(self.name, safe=""), quote(json.dumps(value), safe=safe))]
        name, separator = quote(self.name, safe=""), SEPARATORS[self.place, self.style]
        if isinstance(value, OBJECT):
            members = [(told(key), told(item)) for key, item in value.items()]
            if self.style == "deepObject":
                return [(f"{name}%5B{key}%5D", item) for key, item in members]
            if self.explode and self.style == "form":
                return members
            joined = ["=".join(each) if self.explode else separator.join(each) for each in members]
            return [(name, separator.join(joined))]
        if isinstance(value, LIST):
            if self.explode and self.place in {"query", "cookie"}:
                return [(name, told(item)) for item in value]
            return [(name, separator.join(map(told, value)))]
        return [(name, told(value))]


def plain_name(name: str) -> str:
    """Return what servers may take for the name of a parameter: some ignore case, punctuation or what is in brackets."""
    return re.sub(r"[\W_]+", "", name.partition("[")[0]).casefold()
