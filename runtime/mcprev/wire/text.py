"""Text that is Unicode: no lone surrogates, which Python makes of file names that are not UTF-8 and few readers of JSON take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import to_json

from mcprev.errors import Json


def replaced(text: str) -> str:
    """Return a text in which U+FFFD takes the place of each lone surrogate; two that are a pair become their character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def unicode_only(value: object) -> Any:  # noqa: ANN401 - a value of the same type
    """Return a value whose texts, in lists, tuples, sets and mappings too, are Unicode; other objects stay as they are."""
    if isinstance(value, str):
        return replaced(value)
    if isinstance(value, Mapping):
        return {
            unicode_only(key): unicode_only(item)
            for key, item in cast("Mapping[object, object]", value).items()
        }
    if type(value) in {list, tuple, set, frozenset}:
        return type(value)(map(unicode_only, cast("list[object]", value)))  # type: ignore[call-arg]
    return value


def json_size(value: Json) -> int:
    """Return the number of bytes of a value in compact JSON; what is no JSON counts as its text."""
    try:
        return len(to_json(value, fallback=str))
    except ValueError:
        return len(to_json(unicode_only(value), fallback=str))
