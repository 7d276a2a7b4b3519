"""Media types in `Accept` and `Content-Type` (HTTP-4, HTTP-7).

Only what the two formats of MCP need: whether a body says it is JSON, and whether an answer may be JSON, an event
stream or either. A broken element of a list is passed over, as HTTP readers do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

JSON: Final = "application/json"
SSE: Final = "text/event-stream"
_USUAL_LENGTH: Final = 256
"""Longer headers are read without being remembered."""


@dataclass(frozen=True, slots=True)
class Accept:
    """What a client can read."""

    json: bool
    sse: bool


BOTH: Final = Accept(json=True, sse=True)
NEITHER: Final = Accept(json=False, sse=False)


def accepted(value: bytes | None) -> Accept:
    """Read an `Accept` header; None, where there is no header, accepts nothing by name (HTTP-4)."""
    if value is None:
        return NEITHER
    return _remembered(value) if len(value) <= _USUAL_LENGTH else _accepted(value)


def _accepted(value: bytes) -> Accept:
    ranges: dict[str, bool] = {}
    for element in _elements(value.decode("latin-1")):
        name, parameters = _split(element)
        if name is not None:
            # Of two ranges that differ in parameters only, one that is wanted is enough.
            ranges[name] = ranges.get(name, False) or _weight(parameters) > 0
    return Accept(json=_allows(ranges, JSON), sse=_allows(ranges, SSE))


_remembered: Final = lru_cache(maxsize=64)(_accepted)


def _allows(ranges: dict[str, bool], name: str) -> bool:
    """The most exact of the ranges that a type is in decides."""
    for candidate in (name, name.partition("/")[0] + "/*", "*/*"):
        if candidate in ranges:
            return ranges[candidate]
    return False


def is_json(value: bytes | None) -> bool:
    """Whether a `Content-Type` is JSON in an encoding that this reads, which is UTF-8 and what is part of it."""
    if value is None:
        return False
    name, parameters = _split(value.decode("latin-1"))
    charset = parameters.get("charset", "utf-8").lower()
    return name == JSON and charset in _UTF_8


def media_type(value: str | None) -> str:
    """The type that a `Content-Type` names, in lower case and without its parameters; empty when it names none."""
    return "" if value is None else _split(value)[0] or ""


_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii"})
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a token of HTTP's grammar
_TYPE: Final = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*(?=;|$)")
_PARAMETER: Final = re.compile(rf';\s*(?:({_TOKEN})=(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")\s*)?(?=;|$)')
_ELEMENT: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')


def _elements(value: str) -> list[str]:
    """The members of a list; a comma in quotes parts nothing."""
    return _ELEMENT.findall(value)


def _split(element: str) -> tuple[str | None, dict[str, str]]:
    """A type in lower case and its parameters; no type where it is not well formed."""
    found = _TYPE.match(element)
    if found is None:
        return None, {}
    parameters: dict[str, str] = {}
    place = found.end()
    while place < len(element):
        parameter = _PARAMETER.match(element, place)
        if parameter is None:
            return None, {}
        if parameter[1]:
            parameters.setdefault(parameter[1].lower(), parameter[2] or parameter[3] or "")
        place = parameter.end()
    return found[1].lower(), parameters


def _weight(parameters: dict[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 1.0
