"""Compiled steps on tables of their own: what the generated ones do not happen to hold works as well."""

from __future__ import annotations

import copy

import pytest

from conversion.peers import Json
from helpers.requirements import req
from mcprev.conversion.rules import (
    ConversionContext,
    JsonObject,
    NotRepresentable,
    Reason,
    Rules,
    replacement,
)
from mcprev.conversion.walk import Step
from mcprev_types import Child, TypeDelta

CONTEXT = ConversionContext("x")


def run(step: Step, name: str, value: Json) -> Json:
    found = step.compiled(name)
    before = copy.deepcopy(value)
    out = found.convert(value, CONTEXT) if found else value
    assert value == before
    return out


def refuse(value: JsonObject, _: ConversionContext) -> JsonObject:
    if value.get("bad"):
        raise NotRepresentable("bad", "bad")
    return value


def to(name: str, tag: str = "") -> tuple[tuple[str, str], ...]:
    return ((tag, name),)


@req("SEAM-4", everywhere=True)
def test_maps_and_lists_of_lists() -> None:
    tables = {
        "Map": TypeDelta("Map", children=(Child("items", ("{}",), to("Leaf"), ""),)),
        "Deep": TypeDelta("Deep", children=(Child("items", ("[]", "{}", "[]"), to("Leaf"), ""),)),
        "Lists": TypeDelta("Lists", children=(Child("items", ("[]", "[]"), to("Leaf", "l"), "type"),)),
        "Leaf": TypeDelta("Leaf", drop=("old",)),
    }
    step = Step(tables, Rules())
    kept = {"new": 1}
    value = {"items": {"a": {"old": 1, "new": 2}, "b": kept, "c": None}}
    found = run(step, "Map", value)
    assert found == {"items": {"a": {"new": 2}, "b": kept, "c": None}}
    assert found["items"]["b"] is kept
    untouched: Json = {"items": {"b": kept}}
    assert run(step, "Map", untouched) is untouched
    assert run(step, "Deep", {"items": [{"a": [{"old": 1}]}, 5]}) == {"items": [{"a": [{}]}, 5]}
    tagged: JsonObject = {
        "items": [[{"type": "l", "old": 1}, {"type": "m", "old": 1}, {"type": [], "old": 1}, 7]]
    }
    assert run(step, "Lists", tagged) == {
        "items": [[{"type": "l"}, {"type": "m", "old": 1}, {"type": [], "old": 1}, 7]]
    }
    shapes: list[Json] = [None, 1, "x", [], {}, {"items": None}, {"items": 1}, {"items": []}, {"items": [1]}]
    for shape in shapes:
        assert run(step, "Map", shape) is shape
        assert run(step, "Lists", shape) is shape


@req("SEAM-4", everywhere=True)
def test_paths_through_maps_and_lists() -> None:
    tables = {
        "Map": TypeDelta("Map", children=(Child("items", ("{}",), to("Leaf"), ""),)),
        "Top": TypeDelta("Top", children=(Child("maps", ("[]",), to("Map"), ""),)),
    }
    step = Step(tables, Rules(before={"Leaf": refuse}))
    with pytest.raises(NotRepresentable) as caught:
        run(step, "Top", {"maps": [{"items": {}}, {"items": {"a": {}, "b": {"bad": 1}}}]})
    assert caught.value.path == ("maps", 1, "items", "b", "bad")


@req("SEAM-5", everywhere=True)
def test_what_is_filled_in() -> None:
    step = Step({"T": TypeDelta("T", fill=(("kind", "x"), ("n", 0)))}, Rules(fresh=frozenset({"n"})))
    assert run(step, "T", {}) == {"kind": "x", "n": 0}
    # A member that both revisions have keeps its value; one that only the other has meant nothing here.
    assert run(step, "T", {"kind": "y", "n": 5}) == {"kind": "y", "n": 0}


@req("SEAM-4", everywhere=True)
def test_types_without_work_compile_to_nothing() -> None:
    tables = {
        "Empty": TypeDelta("Empty"),
        "Leads": TypeDelta("Leads", children=(Child("to", (), to("Empty"), ""),)),
        "Tagged": TypeDelta("Tagged", children=(Child("to", ("[]",), to("Empty", "e"), "type"),)),
    }
    step = Step(tables, Rules())
    assert [step.compiled(name) for name in ("Empty", "Leads", "Tagged", "Unknown")] == [None] * 4
    replaced = Step({"T": TypeDelta("T", drop=("a",))}, Rules(deltas={"T": None}))
    assert replaced.compiled("T") is None


@req("SEAM-4", everywhere=True)
def test_substitutes_are_converted_as_what_they_became() -> None:
    def other(value: JsonObject, context: ConversionContext) -> JsonObject:
        found = replacement(value, Reason.AUDIO, context, frozenset({"b"}))
        return found or {"type": "b", "old": 1, "was": value["type"]}

    tables = {
        "T": TypeDelta("T", children=(Child("items", ("[]",), (("a", "A"), ("b", "B")), "type"),)),
        "B": TypeDelta("B", drop=("old",)),
    }
    step = Step(tables, Rules(substitutes={"A": other}))
    assert run(step, "T", {"items": [{"type": "a"}]}) == {"items": [{"type": "b", "was": "a"}]}


@req("SEAM-4", everywhere=True)
def test_a_meta_that_was_all_of_stripped_keys_is_gone() -> None:
    step = Step({"T": TypeDelta("T")}, Rules(strip_meta=frozenset({"k"})))
    assert run(step, "T", {"_meta": {"k": 1}}) == {}
    assert run(step, "T", {"_meta": {"k": 1, "v": 2}}) == {"_meta": {"v": 2}}
    others: list[Json] = [{"_meta": {}}, {"_meta": None}, {"_meta": ["k"]}, {}]
    for value in others:
        assert run(step, "T", value) is value


def blocks(**types: str) -> Child:
    return Child("items", ("[]",), tuple(types.items()), "type")


@req("SEAM-4", "SEAM-7", everywhere=True)
def test_content_that_the_other_revision_lacks_is_refused() -> None:
    step = Step({"T": TypeDelta("T", retyped=("items",), lost=(blocks(film="Film"),))}, Rules())
    kept: JsonObject = {"items": [{"type": "text"}, {"type": "x-own"}, 5]}
    assert run(step, "T", kept) is kept
    with pytest.raises(NotRepresentable, match="has no 'film' here") as caught:
        run(step, "T", {"items": [{"type": "text"}, {"type": "film"}]})
    assert caught.value.path == ("items", 1, "type")


@req("SEAM-4", "SEAM-7", everywhere=True)
def test_the_author_or_the_step_may_have_other_content_in_its_place() -> None:
    lost = TypeDelta("T", lost=(blocks(film="Film"),))
    found = Step({"T": lost}, Rules()).compiled("T")
    film = {"items": [{"type": "film"}]}
    assert found
    asked: list[str] = []

    def instead(value: JsonObject, reason: str, _: str) -> JsonObject:
        asked.append(reason)
        return {"type": "text", "text": value["type"]}

    assert found.convert(film, ConversionContext("x", instead)) == {
        "items": [{"type": "text", "text": "film"}]
    }
    assert asked == [Reason.CONTENT]

    def still_a_film(value: JsonObject, _reason: str, _revision: str) -> JsonObject:
        return value

    with pytest.raises(NotRepresentable):
        found.convert(film, ConversionContext("x", still_a_film))

    def still(value: JsonObject, _: ConversionContext) -> JsonObject:
        return {"type": "image", "of": value["type"]}

    step = Step({"T": lost}, Rules(substitutes={"Film": still}))
    assert run(step, "T", film) == {"items": [{"type": "image", "of": "film"}]}


@req("SEAM-4", everywhere=True)
def test_members_of_an_untagged_union_are_told_apart_by_what_only_they_have() -> None:
    types = (("text", "Text"), ("blob", "Blob"))
    tables = {
        "Contents": TypeDelta("Contents", children=(Child("", (), types, ""),)),
        "Read": TypeDelta("Read", children=(Child("contents", ("[]",), types, ""),)),
        "Text": TypeDelta("Text", drop=("lines",)),
        "Blob": TypeDelta("Blob", drop=("bytes",)),
    }
    step = Step(tables, Rules())
    text, blob, neither = ({name: "", "lines": 1, "bytes": 2} for name in ("text", "blob", "other"))
    assert run(step, "Contents", text) == {"text": "", "bytes": 2}
    assert run(step, "Contents", blob) == {"blob": "", "lines": 1}
    read = run(step, "Read", {"contents": [text, blob, neither, 5]})
    assert read == {"contents": [{"text": "", "bytes": 2}, {"blob": "", "lines": 1}, neither, 5]}
    shapes: list[Json] = [neither, [], None, {"contents": [neither]}, {"contents": {"text": 1}}]
    for shape in shapes:
        assert run(step, "Contents", shape) is shape
        assert run(step, "Read", shape) is shape
    rules = Rules(children={"Read": (Child("contents", ("[]",), to("Text"), ""),)})
    assert run(Step(tables, rules), "Read", {"contents": [neither]}) == {
        "contents": [{"other": "", "bytes": 2}]
    }
