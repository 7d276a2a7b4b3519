"""Says what a conversion changed: which members a revision lacks, got or has in another form (CONV-*)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from mcprev.bridge.pair import ConversionReport
from mcprev.convert.ladder import json_path
from mcprev.errors import Json

MOST: Final = 50
"""The differences of one conversion that are listed."""
_DICT: Final[Any] = dict
_LIST: Final[Any] = list


def explained(change: ConversionReport) -> list[str]:
    """Return a line for each difference that a conversion made, without any value: only paths are named."""
    head = f"{change.source} -> {change.target} {change.method} {change.kind}:"
    rules = f" ({', '.join(dict.fromkeys(change.reasons))})" if change.reasons else ""
    found: list[str] = []
    for verb, path in _differences(change.before, change.after, ()):
        if len(found) == MOST:
            found.append(f"{head} and more")
            break
        found.append(f"{head} {verb} {json_path(path)}{rules}")
    return found


def _differences(
    before: Json, after: Json, path: tuple[str | int, ...]
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    if isinstance(before, _DICT) and isinstance(after, _DICT):
        old, new = cast("dict[str, Json]", before), cast("dict[str, Json]", after)
        for name in old:
            if name not in new:
                yield "lost", (*path, name)
            else:
                yield from _differences(old[name], new[name], (*path, name))
        yield from (("added", (*path, name)) for name in new if name not in old)
    elif isinstance(before, _LIST) and isinstance(after, _LIST):
        ours, theirs = cast("list[Json]", before), cast("list[Json]", after)
        for index, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            yield from _differences(one, other, (*path, index))
        for index in range(len(theirs), len(ours)):
            yield "lost", (*path, index)
        for index in range(len(ours), len(theirs)):
            yield "added", (*path, index)
    elif type(before) is not type(after) or before != after:
        yield "changed", path
