"""Finds an example of each rule of the ladder, by converting examples of each method from a revision to its neighbour."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from mcprev_codegen.facts import Method
from mcprev_codegen.ir import Json
from mcprev_explore.book import Book, Column
from mcprev_explore.ladder import Explained, RuleEffect

_VARIANTS: Final = 6
"""How many members of each union are tried."""
_REMEMBERED: Final = 200
"""How many payloads before one are compared with it, so that none is tried twice."""
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")


@dataclass(frozen=True, slots=True)
class RuleExample:
    """What a rule makes of one object."""

    method: str
    kind: str
    """`params`, `result` or `error`."""
    path: str
    before: Json
    after: Json
    refused: str = ""
    """Why the payload is refused; empty if it is converted."""


def rule_examples(book: Book) -> Mapping[str, RuleExample]:
    """Return an example of each rule that some payload meets, by the id of the rule."""
    found: dict[str, RuleExample] = {}
    if book.ladder.explain is None:
        return found
    pinned = {column.revision.name: column for column in book.columns if column.revision.pin is not None}
    for old, new in pairwise(book.ladder.order):
        if old in pinned and new in pinned:
            for source, target in ((pinned[new], pinned[old]), (pinned[old], pinned[new])):
                wanted = {r.id for r in book.ladder.of_step(source.revision.name, target.revision.name)}
                _search(book, source, target, wanted - found.keys(), found)
    return found


def _search(
    book: Book, source: Column, target: Column, wanted: set[str], found: dict[str, RuleExample]
) -> None:
    explain = book.ladder.explain
    assert explain is not None
    seen: list[tuple[str, Json]] = []
    for method, kind, payload in _payloads(book, source, target):
        if not wanted:
            return
        if (kind, payload) in seen[-_REMEMBERED:]:
            continue
        seen.append((kind, payload))
        explained, refusing, why = explain(payload, method, kind, source.revision.name, target.revision.name)
        if refusing in wanted:
            found[refusing] = RuleExample(method, kind, "$", payload, None, why)
            wanted.discard(refusing)
        for change in explained.changes:
            if change.rule in wanted:
                found[change.rule] = _example(method, kind, payload, explained, change)
                wanted.discard(change.rule)


def _payloads(book: Book, source: Column, target: Column) -> Iterator[tuple[str, str, Json]]:
    """Yield payloads of a revision: full, small, and with members that only the other revision knows."""
    known = target.revision.schema.types
    for variant in range(_VARIANTS):
        for method in source.revision.methods.values():
            for kind, name in _types(method):
                full = book.example(source.label, name, variant)
                yield method.method, kind, full
                small = book.example(source.label, name, variant, optional=False)
                yield method.method, kind, small
                if isinstance(full, dict) and isinstance(small, dict):
                    for member in [m for m in full if m not in small]:
                        yield method.method, kind, {**small, member: full[member]}
                theirs = book.example(target.label, name, variant) if name in known else None
                if isinstance(full, dict) and isinstance(theirs, dict):
                    yield method.method, kind, {**theirs, **full}
        for kind, name in book.ladder.kinds.items():
            if name in source.revision.schema.types:
                yield "initialize", kind, book.example(source.label, name, variant)
    for const in source.revision.declared.consts.values():
        if isinstance(const.value, int):
            error: Json = {
                "code": const.value,
                "message": "It failed.",
                "data": {"uri": "file:///report.txt"},
            }
            yield "resources/read", "error", error


def _types(method: Method) -> Iterator[tuple[str, str]]:
    if method.params:
        yield "params", method.params
    for name in method.results:
        yield "result", name


def _example(method: str, kind: str, payload: Json, explained: Explained, change: RuleEffect) -> RuleExample:
    """Return the object that a change is in, before and after; only the value itself where it cannot be found."""
    steps = _steps(change.path)
    owner = steps[:-1]
    before, after = _at(payload, owner), _at(explained.payload, owner)
    if steps and isinstance(before, dict) and isinstance(after, dict) and before != after:
        return RuleExample(method, kind, _shown(owner), before, after)
    return RuleExample(method, kind, change.path, change.old, change.new)


def _steps(path: str) -> list[str | int]:
    return [int(m[2]) if m[2] else m[1] or m[3][1:-1] for m in _STEP.finditer(path)]


def _shown(steps: list[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _at(value: Json, steps: list[str | int]) -> Json:
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value
