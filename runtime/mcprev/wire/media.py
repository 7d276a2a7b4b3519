"""Media types in `Accept` and `Content-Type` (HTTP-4, HTTP-7).

Covers the two formats of MCP: whether a body is JSON, and whether a client accepts JSON, an event stream or both.
Malformed elements of a list are ignored, as HTTP parsers do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

JSON: Final = "application/json"
SSE: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Accept:
    """The formats that a client accepts."""

    json: bool
    sse: bool


BOTH: Final = Accept(json=True, sse=True)
STREAM: Final = Accept(json=False, sse=True)
NEITHER: Final = Accept(json=False, sse=False)


@lru_cache(maxsize=64)
def accepted(value: bytes | None) -> Accept:
    """Parse an `Accept` header. None, for an absent header, accepts neither format."""  # HTTP-4
    if value is None:
        return NEITHER
    ranges: dict[str, bool] = {}
    for element in _ELEMENT.findall(value.decode("latin-1")):
        name, parameters = _split(element)
        if name is not None:
            # Ranges that differ only in their parameters are accepted if one of them is.
            ranges[name] = ranges.get(name, False) or _weight(parameters) > 0
    return Accept(json=_allows(ranges, JSON), sse=_allows(ranges, SSE))


def _allows(ranges: dict[str, bool], name: str) -> bool:
    """Return whether a media type is accepted; the most specific range that matches decides."""
    for candidate in (name, name.partition("/")[0] + "/*", "*/*"):
        if candidate in ranges:
            return ranges[candidate]
    return False


def is_json(value: bytes | None) -> bool:
    """Return whether a `Content-Type` is JSON in UTF-8 or in ASCII, its subset."""
    if value is None:
        return False
    name, parameters = _split(value.decode("latin-1"))
    charset = parameters.get("charset", "utf-8").lower()
    return name == JSON and charset in _UTF_8


@lru_cache(maxsize=64)
def media_type(value: str | None) -> str:
    """Return the media type of a `Content-Type` in lower case without parameters, or an empty string."""
    return "" if value is None else _split(value)[0] or ""


_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii"})
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a token of HTTP's grammar
_TYPE: Final = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*(?=;|$)")
_PARAMETER: Final = re.compile(rf';\s*(?:({_TOKEN})=(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")\s*)?(?=;|$)')
# A comma inside quotes does not split a list.
_ELEMENT: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')


def _split(element: str) -> tuple[str | None, dict[str, str]]:
    """Return the media type in lower case and its parameters; the type is None if the element is malformed."""
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
