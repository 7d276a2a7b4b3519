"""The verdicts between pinned revisions, proved with messages: samples of one revision read by the other.

Two receivers check each sample: the schema of the other revision, which is exact, and its generated models, which a
peer would use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import permutations
from typing import Any, TypeAlias

import pytest
from pydantic import TypeAdapter, ValidationError

from diff.diffing import expanded, report
from fuzz.fuzzing import each_once
from helpers.corpus import Corpus
from helpers.support import DATED, PYTHON_NAMES, complaints, load, package, validator
from mcprev_codegen import ir
from mcprev_codegen.diff import Report, Verdict
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.emit.json_schema import Renderer
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.facts.vocabulary import LISTING_UNIONS

Refusals: TypeAlias = Callable[[str, str, object], list[str]]


@cache
def _view(name: str) -> View:
    return View(load(name))


@cache
def _definitions(name: str) -> dict[str, Any]:
    return dict(Renderer(_view(name).schema).definitions())


@cache
def _samples(name: str, type_: str) -> list[Any]:
    """The smallest and the fullest value of each alternative, as declared, without the overlay."""
    side = _view(name)
    own = side.revision
    plain = Revision(
        own.name, None, own.declared, side.schema, side.schema, own.facts, own.methods, own.senders
    )
    return list(Corpus(plain).samples(type_))


@cache
def _reached(name: str, type_: str) -> frozenset[str]:
    """The type and all it is made of, by path."""
    side, found, pending = _view(name), set[str](), [type_]
    while pending:
        here = pending.pop()
        if here not in found:
            found.add(here)
            pending += ir.references(side.schema.types[here])
    return frozenset(side.path(here) for here in found)


def _harmed(told: Report, *, old_sends: bool) -> set[str]:
    """The paths at which what one side sends is not ok for the other."""
    harmful = [c for c in told.changes if c.judged(sender_is_old=old_sends).verdict is not Verdict.OK]
    places = {path for change in harmful for path in expanded(change)}
    return places | {place.path for c in harmful for place in (c.old, c.new) if place}


def _refused_by_schema(receiver: str, type_: str, sample: object) -> list[str]:
    return complaints(validator(_definitions(receiver), type_), sample)


@cache
def _decoder(receiver: str, type_: str) -> TypeAdapter[Any]:
    return TypeAdapter(getattr(package(receiver, "models"), PYTHON_NAMES.class_name(type_)))


def _refused_by_models(receiver: str, type_: str, sample: object) -> list[str]:
    try:
        _decoder(receiver, type_).validate_python(sample)
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    return []


@pytest.mark.parametrize("refusals", [_refused_by_schema, _refused_by_models])
@pytest.mark.parametrize(("old", "new"), list(permutations(DATED, 2)))
@each_once
def test_what_the_other_revision_refuses_is_never_called_ok(old: str, new: str, refusals: Refusals) -> None:
    """For every type that both have: where a sample is refused, some part of the type has a verdict for it."""
    told = report(old, new)
    reused = {c.path for c in told.changes if c.case == "moved"}  # one name, two shapes: judged where used
    checked = 0
    for sender, receiver, old_sends in ((old, new, True), (new, old, False)):
        harmed = _harmed(told, old_sends=old_sends)
        for name in load(sender).declared.types:
            sides = _view(sender), _view(receiver)
            messages = name in LISTING_UNIONS or any(side.transport(name) for side in sides)
            both = name in load(receiver).declared.types and name not in reused
            if not both or messages or not sides[0].senders(name):
                continue
            for sample in _samples(sender, name):
                checked += 1
                if found := refusals(receiver, name, sample):
                    parts = _reached(sender, name) | _reached(receiver, name)
                    blamed = [h for h in harmed if any(h == p or h.startswith(f"{p}.") for p in parts)]
                    assert blamed, (name, found)
    assert checked > 100


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "CancelledNotificationParams": ({"requestId": 1}, {}),
    "JSONRPCErrorResponse": (
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}},
        {"jsonrpc": "2.0", "error": {"code": 1, "message": ""}},
    ),
}
"""For members that became optional: what is accepted by all, and what only the revision with the option accepts."""


def test_the_members_that_the_fourth_revision_freed_are_proven_by_messages() -> None:
    third, fourth = _definitions(DATED[2]), _definitions(DATED[3])
    names = {
        "CancelledNotificationParams": "CancelledNotificationParams",
        "JSONRPCErrorResponse": "JSONRPCError",
    }
    for name, (fine, bare) in REFUSED.items():
        for value, refused in ((fine, False), (bare, True)):
            assert complaints(validator(fourth, name), value) == []
            assert bool(complaints(validator(third, names[name]), value)) is refused


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("CompleteResult", {"completion": {"values": ["x"] * 101}}),
        ("CancelledNotificationParams", {"reason": "late"}),
        ("PaginatedRequestParams", {"cursor": "x"}),
    ],
)
def test_what_the_fifth_revision_tightened_is_proven_by_messages(type_: str, value: dict[str, Any]) -> None:
    assert complaints(validator(_definitions(DATED[3]), type_), value) == []
    stamped = {**value, "resultType": "complete"} if type_.endswith("Result") else value
    assert complaints(validator(_definitions(DATED[4]), type_), stamped) != []


def test_a_free_tool_schema_of_the_fifth_revision_is_refused_by_the_fourth() -> None:
    """What an object that opened absorbed: a member of the same name may now hold anything."""
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": {"x": True}}}
    assert complaints(validator(_definitions(DATED[4]), "Tool"), tool) == []
    assert complaints(validator(_definitions(DATED[3]), "Tool"), tool) != []
