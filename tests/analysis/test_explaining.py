"""What `explain` says of a conversion is what the ladder does, and every rule that it names is in the catalog."""

from __future__ import annotations

import ast
import copy
import os
import random
import re
from functools import cache
from itertools import pairwise, permutations
from typing import Any, Final

import pytest

import mcprev
from fuzz.fuzzing import sampled
from helpers.corpus import Corpus
from helpers.named import A, B, C, D, E
from helpers.support import load, same
from mcprev.analysis.differences import differences
from mcprev.conversion import PayloadKind, convert
from mcprev.errors import ConversionError
from mcprev.revisions import ALL, DEFAULT, Revision, revision_named
from mcprev_codegen.ir import nodes as ir

FIRST: Final = int(os.environ.get("MCPREV_FUZZ_SEED", "0"))
CASES: Final = sampled(1)
PAIRS: Final = list(permutations(ALL, 2))
IDS: Final = {rule.id for rule in mcprev.catalog()}
TYPES: Final = {
    PayloadKind.CLIENT_CAPABILITIES: "ClientCapabilities",
    PayloadKind.SERVER_CAPABILITIES: "ServerCapabilities",
    PayloadKind.IMPLEMENTATION: "Implementation",
}


@cache
def corpus_of(name: str) -> Corpus:
    return Corpus(load(name))


def payloads(row: Revision, draw: random.Random) -> list[tuple[str, str, Any]]:
    """Method, kind and payload: the smallest and the fullest, and some of chance, for all methods and kinds."""
    corpus = corpus_of(row.name)
    types = [("ping", kind, name) for kind, name in TYPES.items()]
    for method, spec in row.methods.items():
        names = (spec.params,), (spec.result, *spec.alternate_results)
        for kind, some in zip((PayloadKind.PARAMS, PayloadKind.RESULT), names, strict=True):
            types += [(method, kind, name) for name in some if name is not None]
        types += [
            (method, PayloadKind.ERROR, "Error" if hasattr(row.models, "Error") else "JSONRPCErrorError")
        ]
    found: list[tuple[str, str, Any]] = []
    for method, kind, name in types:
        for member in corpus.schema.members(corpus_ref(name)):
            drawn = [corpus.drawn(member, draw) for _ in range(CASES)]
            found += [(method, str(kind), value) for value in (*corpus.samples(name), *drawn)]
    found += [
        (
            "resources/read",
            "error",
            {"code": code, "message": "m", "data": {"uri": "x", "elicitations": [{"url": "u"}]}},
        )
        for code in (-32602, -32002, -32042, -32020, -32021, -32022)
    ]
    return found


def corpus_ref(name: str) -> Any:
    return ir.Ref(name)


def outcome(payload: Any, method: str, kind: str, source: Revision, target: Revision) -> Any:
    try:
        return convert(payload, method, kind, from_=source, to=target, mint=lambda: "minted")
    except ConversionError as error:
        return error


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda row: row.name)
def test_an_explanation_ends_as_the_conversion_does(source: Revision, target: Revision) -> None:
    """Every method and kind: the same payload or refusal, with changes where it differs, by rules of the catalog."""
    changed = 0
    for method, kind, payload in payloads(source, random.Random(FIRST)):  # noqa: S311 - the same again
        before = copy.deepcopy(payload)
        found = mcprev.explain(payload, method, kind, from_=source, to=target, mint=lambda: "minted")
        assert same(payload, before)
        wanted = outcome(payload, method, kind, source, target)
        if isinstance(wanted, ConversionError):
            assert found.error is not None
            assert (str(found.error), found.error.path, found.error.rule) == (
                str(wanted),
                wanted.path,
                wanted.rule,
            )
            assert found.payload is None
            assert wanted.rule in IDS or not wanted.rule
        else:
            assert found.error is None
            assert same(found.payload, wanted), (method, kind, payload)
            assert bool(list(differences(payload, wanted))) <= bool(found.changes)
        assert {change.rule for change in found.changes} <= IDS
        check_origins(payload, found.changes)
        changed += bool(found.changes)
    upwards = ALL.index(source) < ALL.index(target)  # where older types may be a subset of the newer ones
    assert changed or upwards or source.version == target.version


def at(value: Any, path: str) -> Any:
    """What is at a JSON path."""
    for name, quoted in re.findall(r"\.(\w+)|\[('.*?'|\".*?\"|\d+)\]", path):
        value = value[name or ast.literal_eval(quoted)]
    return value


def check_origins(payload: Any, changes: tuple[mcprev.ConversionChange, ...]) -> None:
    """What was changed or dropped was at its origin, but for what an earlier rule had changed there."""
    seen: set[str] = set()
    for change in changes:
        origin = change.origin
        if origin is None or any(origin.startswith(path) or path.startswith(origin) for path in seen):
            continue
        seen.add(origin)
        if change.verb != "added":
            assert same(at(payload, origin), change.old), (change, payload)


RESULT: Final = {
    "resultType": "complete",
    "content": [
        {"type": "text", "text": "x"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "note://all", "name": "n", "icons": [{"src": "x.png"}]},
    ],
    "structuredContent": [1, 2.0],
}


def test_each_step_of_a_long_way_names_its_rule_and_path() -> None:
    found = mcprev.explain(RESULT, "tools/call", "result", from_=E, to=A)
    assert found.error is None
    said = [(one.rule, one.verb, one.path, one.origin) for one in found.changes]
    for rule, verb, path in (
        (f"{E}/down/change/CallToolResult", "dropped", "$.structuredContent"),
        (f"{E}/down/drop/CallToolResult.resultType", "dropped", "$.resultType"),
        (f"{D}/down/drop/ResourceLink.icons", "dropped", "$.content[2].icons"),
        (f"{C}/down/substitute/ResourceLink", "dropped", "$.content[2].uri"),
        (f"{B}/down/substitute/AudioContent", "added", "$.content[1].resource"),
    ):
        assert (rule, verb, path, path) in said
    (text,) = [one for one in found.changes if one.path == "$.content[3]"]
    assert text.new == {"type": "text", "text": "[1,2.0]"}


def test_what_is_split_keeps_the_place_where_it_came_from() -> None:
    """Indexes move in a step that splits messages; later changes are said of the place in the payload."""
    block = {"type": "text", "text": "x", "_meta": {"io.modelcontextprotocol/logLevel": "info", "mine": 1}}
    params = {
        "maxTokens": 1,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {
                "role": "user",
                "content": {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "_meta": {"a": 1}},
            },
        ],
    }
    found = mcprev.explain(params, "sampling/createMessage", "params", from_=D, to=B)
    assert found.error is None
    (dropped,) = [one for one in found.changes if one.rule.endswith("AudioContent._meta")]
    assert (dropped.path, dropped.origin) == ("$.messages[2].content._meta", "$.messages[1].content._meta")
    stripped = mcprev.explain({"content": [block]}, "tools/call", "result", from_=E, to=D).changes
    assert [(one.rule, one.path) for one in stripped] == [
        (f"{E}/down/strip/_meta", "$.content[0]._meta['io.modelcontextprotocol/logLevel']")
    ]


@pytest.mark.parametrize(
    ("method", "kind", "payload", "source", "target", "rule"),
    [
        ("elicitation/create", "params", {"mode": "url", "message": "m", "url": "u", "elicitationId": "i"}, D, C,
         f"{D}/down/change/ElicitRequestURLParams"),
        ("tools/call", "result", {"resultType": "input_required"}, E, D, f"{E}/down/change/CallToolResult"),
        ("sampling/createMessage", "result",
         {"role": "user", "model": "m", "content": {"type": "audio", "data": "", "mimeType": "x"}}, B, A,
         f"{B}/down/substitute/SampledAudio"),
        ("notifications/cancelled", "params", {}, D, E, f"{E}/up/missing/CancelledNotificationParams.requestId"),
        ("tools/call", "error", {"code": -32042, "message": "m"}, D, E, f"{E}/up/error"),
        ("tools/call", "result", {"content": 3}, D, C, ""),
    ],
)  # fmt: skip
def test_a_refusal_has_the_id_of_its_rule_at_run_time_too(
    method: str, kind: str, payload: Any, source: str, target: str, rule: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(payload, method, kind, from_=source, to=target)
    assert caught.value.rule == rule
    found = mcprev.explain(payload, method, kind, from_=source, to=target)
    assert found.error is not None
    assert (found.error.rule, found.error.path) == (rule, caught.value.path)


def test_what_cannot_be_converted_at_all_is_an_error_and_wrong_arguments_are_raised() -> None:
    found = mcprev.explain({}, "server/discover", "params", from_=E, to=A)
    assert found.error is not None
    assert "has no method" in str(found.error)
    with pytest.raises(ValueError, match="unknown kind"):
        mcprev.explain({}, "ping", "nothing", from_=E, to=A)
    with pytest.raises(ValueError, match="1999"):
        mcprev.explain({}, "ping", "params", from_="1999", to=A)


def nested(depth: int) -> Any:
    value: Any = {}
    for number in range(depth):
        value = {"a": value} if number % 2 else [value]
    return value


@pytest.mark.parametrize("depth", [250, 5_000, 50_000])
def test_what_is_nested_too_deeply_is_refused_at_once(depth: int) -> None:
    value = nested(depth)
    with pytest.raises(ValueError, match="nested deeper than 200"):
        mcprev.explain({"content": [], "structuredContent": value}, "tools/call", "result", from_=E, to=A)
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "x", "arguments": {"a": value}},
    }
    (found,) = mcprev.judge(call, A)
    assert "nested deeper than 200" in found.message


def test_what_is_nested_as_deeply_as_on_the_wire_is_explained() -> None:
    found = mcprev.explain(
        {"content": [], "_meta": {"a": nested(190)}}, "tools/call", "result", from_=E, to=A
    )
    assert found.error is None


NO_PAYLOADS: Final[list[Any]] = [[], [[]], 3, "x", None, True, {"content": 5}, {"_meta": 5}, {"_meta": {"io.modelcontextprotocol/logLevel": 1}},
     {"content": [None, 5, [], {"type": 5}, {"type": "audio"}]}, {"messages": [{"content": [[]]}]}, {"code": "x"}]  # fmt: skip


@pytest.mark.parametrize("payload", NO_PAYLOADS, ids=repr)
@pytest.mark.parametrize(
    ("method", "kind"),
    [("tools/call", "result"), ("tools/call", "params"), ("sampling/createMessage", "params"), ("tools/call", "error"), ("x", "client_capabilities")],
)  # fmt: skip
@pytest.mark.parametrize(("source", "target"), [(E, A), (A, E)])
def test_what_is_no_payload_ends_as_a_conversion_does(
    payload: Any, method: str, kind: str, source: str, target: str
) -> None:
    found = mcprev.explain(payload, method, kind, from_=source, to=target)
    wanted = outcome(payload, method, kind, revision_named(source), revision_named(target))
    if isinstance(wanted, ConversionError):
        assert (str(found.error), found.error and found.error.rule) == (str(wanted), wanted.rule)
    else:
        assert found.error is None
        assert same(found.payload, wanted)


def test_the_author_and_the_session_are_asked_as_in_a_conversion() -> None:
    instead = {"type": "text", "text": "mine"}

    def author(_value: Any, _reason: str, _revision: str) -> dict[str, Any]:
        return instead

    found = mcprev.explain(RESULT, "tools/call", "result", from_=E, to=A, on_downgrade=author)
    assert found.payload["content"][1:3] == [instead, instead]
    meta = {"io.modelcontextprotocol/clientInfo": {"name": "n", "version": "1"}}
    found = mcprev.explain({"name": "x"}, "tools/call", "params", from_=D, to=E, meta=meta)
    assert [one.rule for one in found.changes] == [f"{E}/up/missing/CallToolRequestParams._meta"]
    assert found.payload["_meta"].items() >= meta.items()


def test_a_large_payload_takes_steps_that_grow_with_it() -> None:
    tool = {"name": "t", "inputSchema": {"type": "object"}, "icons": [{"src": "x"}], "title": "T"}
    result = {
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "tools": [dict(tool) for _ in range(2000)],
    }
    found = mcprev.explain(result, "tools/list", "result", from_=E, to=A)
    assert len(found.changes) > 4000
    assert found.changes[-1].path.startswith("$.tools[1999]")


# -- the catalog ---------------------------------------------------------------------------------------------------


def test_every_rule_has_an_id_of_its_own_and_a_sentence() -> None:
    rules = mcprev.catalog()
    assert len(IDS) == len(rules) > 100
    for rule in rules:
        assert rule.text.endswith("."), rule
        assert rule.text[0].isupper()
        assert len(rule.text) < 400
        if rule.source:
            newer = max(revision_named(rule.source), revision_named(rule.target), key=ALL.index)
            way = "down" if newer.name == rule.source else "up"
            assert rule.id == f"{newer.name}/{way}/{rule.action}" + (
                f"/{rule.subject}" if rule.subject else ""
            )


def test_every_step_has_its_rules_in_the_catalog() -> None:
    steps = {(rule.source, rule.target) for rule in mcprev.catalog() if rule.source}
    neighbours = [(younger.name, older.name) for older, younger in pairwise(DEFAULT)]
    assert steps >= set(neighbours)


# -- differences ---------------------------------------------------------------------------------------------------


DIFFERENCES: Final[list[Any]] = [
    ({"a": 1}, {"a": 1}, []),
    ({"a": 1}, {"a": 1.0}, [("changed", ("a",), 1, 1.0)]),
    ({"a": True}, {"a": 1}, [("changed", ("a",), True, 1)]),
    ({"a": None}, {}, [("dropped", ("a",), None, None)]),
    ({}, {"a": []}, [("added", ("a",), None, [])]),
    ([1, 2, 3], [1, 3], [("dropped", (1,), 2, None)]),
    ([1, 3], [1, 2, 3], [("added", (1,), None, 2)]),
    ([{"a": 1}], [{"a": 1.0}, 2], [("changed", (0, "a"), 1, 1.0), ("added", (1,), None, 2)]),
    ([[1]], {"0": 1}, [("changed", (), [[1]], {"0": 1})]),
]


@pytest.mark.parametrize(("before", "after", "found"), DIFFERENCES)
def test_differences(before: Any, after: Any, found: list[Any]) -> None:
    assert repr(list(differences(before, after))) == repr(found)
