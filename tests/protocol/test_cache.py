"""What a client may answer by itself: how long, to whom, until which change (CACHE-2, MRTR-9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import E, req
from mcprev.protocol.cache import METHODS, ResultCache, Scope
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import LATEST

HERE = Scope("server", "me")
OTHER_USER = Scope("server", "you")
ELSEWHERE = Scope("other", "me")
LIST = "tools/list"


def result(ttl: Any = 1000, scope: Any = "private", **more: Any) -> dict[str, Any]:
    return {"resultType": "complete", "tools": [], "ttlMs": ttl, "cacheScope": scope, **more}


def cache(method: str = LIST, scope: Scope = HERE, params: Any = None, **more: Any) -> ResultCache:
    made = ResultCache()
    made.put(scope, method, params or {}, result(**more), 10.0, changes=0)
    return made


@req("CACHE-2", everywhere=True)
def test_the_methods_are_those_whose_results_say_how_long_they_are_good() -> None:
    found = {
        method
        for method, spec in LATEST.methods.items()
        if spec.result is not None and "ttl_ms" in getattr(LATEST.models, spec.result).model_fields
    }
    assert found == METHODS


@req("CACHE-2", at=E)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_fresh_for_as_long_as_the_server_says(method: str) -> None:
    made = cache(method)
    for now, there in ((10.0, True), (10.999, True), (11.0, False), (12.0, False)):
        assert (made.get(HERE, method, {}, now) is not None) is there
    assert len(made) == 0


@req("CACHE-2", "CACHE-5", everywhere=True)
@pytest.mark.parametrize("ttl", [0, -1, None, True, "1000", float("-inf"), float("nan"), float("inf"), [5]])
def test_anything_else_is_good_for_no_time(ttl: Any) -> None:
    assert len(cache(ttl=ttl)) == 0
    made = ResultCache()
    made.put(HERE, LIST, {}, {"tools": []}, 0, changes=0)
    assert len(made) == 0


@req("CACHE-2", everywhere=True)
@given(
    st.dictionaries(
        st.sampled_from(["cursor", "uri", "_meta"]), st.text(max_size=2) | st.integers() | st.booleans()
    ),
    st.dictionaries(
        st.sampled_from(["cursor", "uri", "_meta"]), st.text(max_size=2) | st.integers() | st.booleans()
    ),
)
def test_only_for_the_same_question(one: dict[str, Any], other: dict[str, Any]) -> None:
    made = cache(params=one)
    assert (made.get(HERE, LIST, other, 10) is not None) is (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )
    assert made.get(HERE, LIST, dict(reversed(one.items())), 10) is not None
    assert made.get(HERE, "prompts/list", one, 10) is None


@req("CACHE-2", everywhere=True)
@pytest.mark.parametrize("word", ["private", "public", None, "unheard of"])
def test_private_results_are_for_one(word: Any) -> None:
    made = cache(scope=HERE)
    made = ResultCache()
    made.put(HERE, LIST, {}, result(scope=word), 10, changes=0)
    assert made.get(HERE, LIST, {}, 10) is not None
    assert (made.get(OTHER_USER, LIST, {}, 10) is not None) is (word == "public")
    assert made.get(ELSEWHERE, LIST, {}, 10) is None


@req("CACHE-2", everywhere=True)
def test_there_is_one_answer_at_a_time() -> None:
    """A result that is private now takes the place of the public one before."""
    made = cache(scope=HERE)
    made.put(HERE, LIST, {}, result(scope="public", n=1), 10, changes=0)
    made.put(HERE, LIST, {}, result(n=2), 10, changes=0)
    found = made.get(HERE, LIST, {}, 10)
    assert found is not None
    assert found["n"] == 2
    assert made.get(OTHER_USER, LIST, {}, 10) is None
    made.put(HERE, LIST, {}, result(ttl=0), 10, changes=0)
    assert made.get(HERE, LIST, {}, 10) is not None  # what is not kept replaces nothing


@req("CACHE-2", everywhere=True)
@pytest.mark.parametrize("kind", list(CHANGES))
def test_a_change_is_forgotten_and_nothing_else(kind: Changed) -> None:
    made = ResultCache()
    kept = {"uri": "a:1"}
    for method in METHODS:
        params = kept if method == "resources/read" else {}
        for scope in (HERE, ELSEWHERE):
            made.put(scope, method, params, result(), 10, changes=0)
    made.changed(HERE, kind, "a:1" if kind is Changed.RESOURCE else None)
    gone = {
        method
        for method in METHODS
        if made.get(HERE, method, kept if method == "resources/read" else {}, 10) is None
    }
    assert (
        gone
        == {
            Changed.TOOLS: {LIST},
            Changed.PROMPTS: {"prompts/list"},
            Changed.RESOURCES: {"resources/list", "resources/templates/list"},
            Changed.RESOURCE: {"resources/read"},
        }[kind]
    )
    assert len(made) == 2 * len(METHODS) - len(gone)


@req("CACHE-2", everywhere=True)
@pytest.mark.parametrize(("uri", "stale"), [("a:1", True), ("a:1/x", True), ("a:2", False), ("a", False)])
def test_a_resource_changes_with_what_lies_below_it(uri: str, stale: bool) -> None:
    made = cache("resources/read", params={"uri": "a:1"})
    made.changed(HERE, Changed.RESOURCE, uri)
    assert (made.get(HERE, "resources/read", {"uri": "a:1"}, 10) is None) is stale


@req("CACHE-2", everywhere=True)
def test_a_change_while_the_answer_was_on_its_way() -> None:
    made = ResultCache()
    before = made.changes
    made.changed(HERE, Changed.TOOLS)
    made.put(HERE, LIST, {}, result(), 10, changes=before)
    assert len(made) == 0
    made.put(HERE, LIST, {}, result(), 10, changes=made.changes)
    assert len(made) == 1
    made.forget(ELSEWHERE)
    assert len(made) == 1
    made.forget(HERE)
    assert len(made) == 0


@req("MRTR-9", everywhere=True)
@pytest.mark.parametrize("member", ["inputResponses", "requestState"])
def test_retries_are_neither_kept_nor_answered(member: str) -> None:
    made = ResultCache()
    params: dict[str, Any] = {"uri": "a:1", member: {} if member == "inputResponses" else "x"}
    made.put(HERE, "resources/read", params, result(), 10, changes=0)
    assert len(made) == 0
    made.put(HERE, "resources/read", {"uri": "a:1"}, result(), 10, changes=0)
    assert made.get(HERE, "resources/read", params, 10) is None
    made.put(HERE, "resources/read", {"uri": "a:2"}, result(resultType="input_required"), 10, changes=0)
    assert made.get(HERE, "resources/read", {"uri": "a:2"}, 10) is None


@req("CACHE-2", everywhere=True)
def test_other_methods_are_never_kept() -> None:
    for method in LATEST.methods.keys() - METHODS:
        assert len(cache(method)) == 0


@req("CACHE-2", everywhere=True)
def test_what_one_does_to_a_result_harms_nobody() -> None:
    mine = result(deep=[{"a": 1}], big=2**70, text="é\u2028")
    made = ResultCache()
    made.put(HERE, LIST, {}, mine, 10, changes=0)
    mine["deep"][0]["a"] = 2
    first = made.get(HERE, LIST, {}, 10)
    assert first is not None
    assert (first["deep"], first["big"], first["text"]) == ([{"a": 1}], 2**70, "é\u2028")
    first["deep"].clear()
    assert made.get(HERE, LIST, {}, 10) == result(deep=[{"a": 1}], big=2**70, text="é\u2028")
    # What cannot be given back exactly is not kept at all.
    assert len(cache(text="\ud800")) == len(cache(number=float("inf"))) == 0


@req("CACHE-2", everywhere=True)
def test_the_size_is_bounded() -> None:
    made = ResultCache(max_entries=3, max_bytes=10_000)
    for number in range(10):
        made.put(HERE, LIST, {"cursor": str(number)}, result(), 10, changes=0)
        made.get(HERE, LIST, {"cursor": "0"}, 10)
    assert len(made) == 3
    there = [n for n in range(10) if made.get(HERE, LIST, {"cursor": str(n)}, 10)]
    assert there == [0, 8, 9]  # the least recently used ones go
    made.put(HERE, LIST, {"cursor": "big"}, result(text="x" * 9_900), 10, changes=0)
    assert len(made) == 1
    made.put(HERE, LIST, {"cursor": "bigger"}, result(text="x" * 10_000), 10, changes=0)
    assert made.get(HERE, LIST, {"cursor": "bigger"}, 10) is None
    assert len(made) == 1
    for wrong in ({"max_entries": 0}, {"max_bytes": -1}):
        with pytest.raises(ValueError, match="must be positive"):
            ResultCache(**wrong)
