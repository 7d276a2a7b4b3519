"""The differences between two JSON values, member by member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from mcprev.errors import Json
from mcprev.wire.json_values import is_json_object
from mcprev.wire.meta_keys import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    VERSION,
)

Verb: TypeAlias = Literal["dropped", "added", "changed"]
Difference: TypeAlias = tuple[Verb, tuple[str | int, ...], Json, Json]
"""What happened, the path, the value before and the value after."""
_DICT: Final[Any] = dict
_LIST: Final[Any] = list
_OF_ENVELOPE: Final = frozenset(
    {VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID}
)
"""The keys of `_meta` that belong to the envelope."""


def differences(before: Json, after: Json, path: tuple[str | int, ...] = ()) -> Iterator[Difference]:
    """Yield how a value differs from another; numbers of different types differ.

    What is dropped has its path in the value before, all else in the value after.
    """
    if before is after:
        return
    if isinstance(before, _DICT) and isinstance(after, _DICT):
        old: dict[str, Json] = before
        new: dict[str, Json] = after
        for name, item in old.items():
            if name in new:
                yield from differences(item, new[name], (*path, name))
            else:
                yield "dropped", (*path, name), item, None
        for name, item in new.items():
            if name not in old:
                yield "added", (*path, name), None, item
    elif isinstance(before, _LIST) and isinstance(after, _LIST):
        yield from _of_lists(before, after, path)
    elif type(before) is not type(after) or before != after:
        yield "changed", path, before, after


def is_envelope(difference: Difference) -> bool:
    """Return whether a difference is one of the envelope of a message: its result type, or what `_meta` says of the two sides.

    Each revision has an envelope of its own, so nothing that a user has said is lost with it.
    """
    _, path, before, after = difference
    if path and path[-1] == "_meta":
        said = {**_members(before), **_members(after)}
        return bool(said) and said.keys() <= _OF_ENVELOPE
    return path == ("resultType",) or (len(path) > 1 and path[-2] == "_meta" and path[-1] in _OF_ENVELOPE)


def _members(value: Json) -> dict[str, Json]:
    return value if is_json_object(value) else {}


def _of_lists(before: list[Json], after: list[Json], path: tuple[str | int, ...]) -> Iterator[Difference]:
    """Compare what is between the items that are equal at the beginning and at the end."""
    start, shorter = 0, min(len(before), len(after))
    if len(before) != len(after):
        while start < shorter and _same(before[start], after[start]):
            start += 1
    end = 0
    while end < shorter - start and len(before) != len(after) and _same(before[-1 - end], after[-1 - end]):
        end += 1
    paired = shorter - end
    for index in range(start, paired):
        yield from differences(before[index], after[index], (*path, index))
    for index in range(paired, len(before) - end):
        yield "dropped", (*path, index), before[index], None
    for index in range(paired, len(after) - end):
        yield "added", (*path, index), None, after[index]


def _same(one: Json, other: Json) -> bool:
    return next(differences(one, other), None) is None
