"""`mcprev validate`: what is right passes at each revision, and each thing that is wrong is found where it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from fuzz.fuzzing import each_once
from helpers.corpus import Corpus
from helpers.linear import assert_linear
from helpers.requirements import req
from helpers.support import ROOT, load
from mcprev.analysis import payloads, transcript
from mcprev.analysis.judging import Violation
from mcprev.analysis.schemas import definitions_of
from mcprev.analysis.transcript import TranscriptValidator
from mcprev.cli import main
from mcprev.revisions import DEFAULT, Revision, TaskSupport
from mcprev.wire.jsonrpc import MAX_LINE
from mcprev.wire.meta_keys import VERSION
from mcprev_types import Direction, Kind, Transport

UP, DOWN = Direction.CLIENT_TO_SERVER, Direction.SERVER_TO_CLIENT
SESSIONS: Final = tuple(row for row in DEFAULT if row.handshake)
MODERN: Final = tuple(row for row in DEFAULT if not row.handshake)
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
each_session = pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
each_modern = pytest.mark.parametrize("row", MODERN, ids=lambda row: row.name)
KINDS: Final = {(row.accepts_batch, row.handshake): row for row in DEFAULT}.values()
"""The latest revision of each kind whose transcripts are read in a way of their own."""
EVERY: Final = [(row, method) for row in DEFAULT for method in row.methods]
each_method = pytest.mark.parametrize(("row", "method"), EVERY, ids=lambda x: getattr(x, "name", x))


@cache
def corpus(row: Revision) -> Corpus:
    return Corpus(load(row.name))


def samples(row: Revision, name: str) -> list[Any]:
    return list(corpus(row).samples(name))


def message(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members}


def went(direction: Direction, **members: Any) -> dict[str, Any]:
    return {"direction": direction.value, "message": message(**members)}


def stated(row: Revision, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Params as the revision wants them."""
    if row.handshake:
        return params or {}
    prefix = VERSION.rsplit("/", 1)[0]
    meta = {
        VERSION: row.version,
        f"{prefix}/clientInfo": {"name": "x", "version": "1"},
        f"{prefix}/clientCapabilities": {},
    }
    return {**(params or {}), "_meta": meta}


def result(row: Revision, members: dict[str, Any]) -> dict[str, Any]:
    """A result as the revision wants it."""
    return members if row.handshake else {"resultType": "complete", **members}


def check(checker: TranscriptValidator, *lines: Any) -> list[Violation]:
    found: list[Violation] = []
    for number, line in enumerate(lines, 1):
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        found += checker.feed(number, data)
    return found


def places(found: list[Violation]) -> list[tuple[int | None, str | None, str]]:
    return [(v.line, v.method, v.path) for v in found]


# -- every method ----------------------------------------------------------------------------------------


@each_method
def test_what_is_valid_passes_in_both_forms(row: Revision, method: str) -> None:
    spec = row.methods[method]
    for direction in spec.directions:
        back = DOWN if direction is UP else UP
        assert spec.params is not None
        for params in samples(row, spec.params):
            if VERSION in params.get("_meta", {}):
                params["_meta"][VERSION] = row.version
            call: dict[str, Any] = {"method": method, "params": params}
            if spec.kind is Kind.NOTIFICATION:
                assert check(TranscriptValidator(row), message(**call), went(direction, **call)) == []
                continue
            found = check(TranscriptValidator(row), went(direction, id=1, **call))
            if spec.transport is Transport.EMBEDDED:
                assert places(found) == [(1, method, "$.method")]
                continue
            assert found == []
            for name in (spec.result, *spec.alternate_results):
                assert name is not None
                for value in samples(row, name):
                    if method == "initialize":
                        value["protocolVersion"] = row.version
                    checker = TranscriptValidator(row)
                    lines = [went(direction, id=1, **call), went(back, id=1, result=value)]
                    assert (
                        check(checker, *lines, message(id="1", **call), message(id="1", result=value)) == []
                    )
                    assert (checker.messages, checker.without_response) == (4, [])


@each_method
def test_what_is_wrong_with_a_method_is_found(row: Revision, method: str) -> None:
    spec = row.methods[method]
    members: dict[str, Any] = {"id": 1} if spec.kind is Kind.REQUEST else {}
    found = check(TranscriptValidator(row), message(method=method, params={"_meta": 5}, **members))
    if spec.transport is Transport.JSONRPC:
        assert (1, method, "$.params._meta") in places(found)
    if spec.params and not spec.params_optional:
        found = check(TranscriptValidator(row), message(method=method, **members))
        assert (1, method, "$.params") in places(found)
    for direction in set(Direction) - spec.directions:
        found = check(TranscriptValidator(row), went(direction, method=method, **members))
        assert (1, method, "$.method") in places(found)
    other: dict[str, Any] = {} if members else {"id": 1}
    assert (1, method, "$.id") in places(check(TranscriptValidator(row), message(method=method, **other)))
    if spec.result is not None and spec.transport is Transport.JSONRPC:
        lines = [message(id=1, method=method), message(id=1, result=5)]
        assert (2, method, "$.result") in places(check(TranscriptValidator(row), *lines))


# -- single faults ---------------------------------------------------------------------------------------

PING_LIKE: Final = "tools/list"
CALL_RESULTS: Final[tuple[tuple[Any, str], ...]] = (
    ({"content": [{"type": "text"}]}, "$.result.content[0].text"),
    ({"content": [{"type": "text", "text": 5}]}, "$.result.content[0].text"),
    ({"content": [{"type": "text", "text": "x", "annotations": {"priority": "x"}}]}, "$.result.content[0].annotations.priority"),
    ({"content": [{"type": "text", "text": "x"}, {"type": "resource"}]}, "$.result.content[1].resource"),
    ({"content": [{"type": "resource", "resource": {"text": "x"}}]}, "$.result.content[0].resource.uri"),
    ({"content": [], "isError": "no"}, "$.result.isError"),
    ({"content": 5}, "$.result.content"),
    ({}, "$.result.content"),
    ([], "$.result"),
)  # fmt: skip


@each_row
@pytest.mark.parametrize(("value", "path"), CALL_RESULTS)
def test_paths_lead_through_unions(row: Revision, value: Any, path: str) -> None:
    given: Any = result(row, cast("Any", value)) if isinstance(value, dict) else value
    found = check(
        TranscriptValidator(row),
        went(UP, id=7, method="tools/call", params=stated(row, {"name": "x"})),
        went(DOWN, id=7, result=given),
    )
    # A union without tags complains for each of its members, and says for which.
    wanted = [v for v in found if not v.message.startswith("Field required (as Blob")]
    assert set(places(wanted)) == {(2, "tools/call", path)}


@each_method
def test_what_models_fill_in_must_be_there(row: Revision, method: str) -> None:
    """Each member of a result that the schema requires, such as the hints for caches, is missed when it is left out."""
    spec = row.methods[method]
    if spec.kind is not Kind.REQUEST or spec.transport is Transport.EMBEDDED:
        return
    assert spec.result is not None
    assert spec.params is not None
    params = samples(row, spec.params)[0]
    if VERSION in params.get("_meta", {}):
        params["_meta"][VERSION] = row.version
    for value in samples(row, spec.result):
        if method == "initialize":
            value["protocolVersion"] = row.version
        for name in required(row, spec.result):
            found = check(
                TranscriptValidator(row),
                message(id=1, method=method, params=params),
                message(id=1, result={key: item for key, item in value.items() if key != name}),
            )
            assert (2, method, f"$.result.{name}") in places(found)


@cache
def required(row: Revision, name: str) -> list[str]:
    schema = json.loads(
        (ROOT / "generated" / row.package.replace(".", "/") / "schema.json").read_text("utf-8")
    )
    return list(schema["$defs"][name].get("required", []))


CONTENT: Final[dict[str, tuple[dict[str, Any], str | None]]] = {
    # a block, and the type of it where a revision has it
    "hologram": ({"type": "hologram", "data": "x"}, None),
    "text": ({"type": "text", "text": "x"}, "TextContent"),
    "audio": ({"type": "audio", "data": "eA==", "mimeType": "audio/wav"}, "AudioContent"),
    "resource_link": ({"type": "resource_link", "name": "x", "uri": "a:b"}, "ResourceLink"),
}


@each_row
@pytest.mark.parametrize("kind", CONTENT)
def test_content_of_types_that_the_revision_does_not_have(row: Revision, kind: str) -> None:
    block, name = CONTENT[kind]
    found = check(
        TranscriptValidator(row),
        went(UP, id=1, method="tools/call", params=stated(row, {"name": "x"})),
        went(DOWN, id=1, result=result(row, {"content": [{"type": "text", "text": "x"}, block]})),
    )
    known = name is not None and hasattr(row.models, name)
    assert places(found) == ([] if known else [(2, "tools/call", "$.result.content[1].type")])
    assert all(f"{row.name} has no content of the type '{kind}'" in v.message for v in found)


@each_row
def test_the_messages_of_the_tasks_extension(row: Revision) -> None:
    """They are known where the extension is, and checked by its types."""
    times = dict.fromkeys(("createdAt", "lastUpdatedAt"), "2026-01-01T00:00:00Z")
    task: dict[str, Any] = {"taskId": "t", "status": "working", "ttlMs": 5, "pollIntervalMs": 5, **times}
    lines = [
        went(UP, id=1, method="tools/call", params=stated(row, {"name": "x"})),
        went(DOWN, id=1, result={**task, "resultType": "task"}),
        went(UP, id=2, method="tasks/get", params=stated(row, {"taskId": "t"})),
        went(DOWN, id=2, result={**task, "resultType": "complete"}),
        went(UP, id=3, method="tasks/update", params=stated(row, {"taskId": "t", "inputResponses": {}})),
        went(DOWN, id=3, result={"resultType": "complete"}),
        went(DOWN, method="notifications/tasks", params=task),
    ]
    if row.tasks is not TaskSupport.EXTENSION:
        assert check(TranscriptValidator(row), *lines) != []
        return
    assert check(TranscriptValidator(row), *lines) == []
    del lines[2]["message"]["params"]["taskId"]
    lines[3]["message"]["result"]["status"] = "asleep"
    lines[6]["message"]["params"] = {}
    assert places(check(TranscriptValidator(row), *lines)) == [
        (3, "tasks/get", "$.params.taskId"),
        (4, "tasks/get", "$.result"),
        (7, "notifications/tasks", "$.params"),
    ]


FAULTS: Final[tuple[tuple[Any, str, str], ...]] = (
    (b"{", "$", "Parse error"),
    (b"\xff", "$", "Parse error"),
    (b"hello there", "$", "line 1 column 1: 'hello there'"),
    (b"\x1b[31mred\x00", "$", r": '\x1b[31mred\x00'"),
    (b"password=hunter2", "$", ": 'password=[...]'"),
    (b"x" * 1000, "$", f": '{'x' * 200}'"),
    (b"5", "$", "an object"),
    (b"[]", "$", "batch"),
    (b"x" * (MAX_LINE + 1), "$", "a line of more than"),
    (b'{"message":{"jsonrpc":"2.0","method":"\\ud800"}}', "$.method", "no method"),
    ({"message": 5}, "$", "an object"),
    ({"method": "x"}, "$", "jsonrpc"),
    (message(id=None, method="x"), "$", "id is neither"),
    (message(id=1, method="x", params=[]), "$", "params"),
    (message(id=1, method="no/such"), "$.method", "no method 'no/such'"),
    (message(id=9, result={}), "$.id", "response to no request"),
    (went(UP, id=9, error={"code": 1, "message": "x"}), "$.id", "response to no request"),
    (message(id=9, error={"code": "x", "message": "x"}), "$", "code"),
)  # fmt: skip


@each_row
@pytest.mark.parametrize(("line", "path", "text"), FAULTS, ids=range(len(FAULTS)))
def test_faults(row: Revision, line: Any, path: str, text: str) -> None:
    found = check(TranscriptValidator(row), b"", line)
    assert [(v.line, v.path) for v in found] == [(2, path)]
    assert text in found[0].message


@pytest.mark.parametrize("direction", ["up", 5, [], {}], ids=str)
def test_direction_that_is_none(direction: Any) -> None:
    inner = message(id=None, error={"code": 1, "message": "x"})
    found = check(TranscriptValidator(DEFAULT[0]), {"direction": direction, "message": inner})
    assert [v.path for v in found] == ["$"]
    assert "direction is neither" in found[0].message


@each_row
def test_method_of_another_revision_is_named(row: Revision) -> None:
    strange = "initialize" if not row.handshake else "server/discover"
    found = check(TranscriptValidator(row), message(id=1, method=strange))
    assert [v.path for v in found] == ["$.method"]
    assert all((r.name in found[0].message) == (r is row or strange in r.methods) for r in DEFAULT)


@each_row
@pytest.mark.parametrize(
    ("schema", "given", "path"),
    [
        ({"type": "object", "required": ["a"]}, {"structuredContent": {"a": 1}}, None),
        ({"type": "object", "properties": {"a": {"items": {"type": "integer"}}}},
         {"structuredContent": {"a": [1, "x"]}}, "$.result.structuredContent.a[1]"),
        ({"type": "object", "required": ["a"]}, {}, "$.result.structuredContent"),
        ({"type": "object", "required": ["a"]}, {"isError": True}, None),
        ({"type": "object", "$ref": "#/nowhere"}, {"structuredContent": {}}, "$.result.structuredContent"),
        (None, {"structuredContent": {}}, None),
    ],
    ids=["fits", "wrong", "none", "failed", "unusable", "no schema"],
)  # fmt: skip
def test_results_of_a_tool_fit_the_schema_that_it_was_listed_with(
    row: Revision, schema: Any, given: dict[str, Any], path: str | None
) -> None:
    tool = {
        "name": "t",
        "inputSchema": {"type": "object"},
        **({} if schema is None else {"outputSchema": schema}),
    }
    listed = {"tools": [tool], **({} if row.handshake else {"ttlMs": 0, "cacheScope": "public"})}
    lines = [
        message(id=1, method="tools/list", params=stated(row)),
        message(id=1, result=result(row, listed)),
        message(id=2, method="tools/call", params=stated(row, {"name": "t"})),
        message(id=2, result=result(row, {"content": [], **given})),
    ]
    has_outputs = "outputSchema" in definitions_of(row)["Tool"]["properties"]
    found = places(check(TranscriptValidator(row), *lines))
    assert found == ([(4, "tools/call", path)] if path and has_outputs else [])


@each_row
def test_a_line_that_is_no_message_says_what_is_wrong_with_it(row: Revision) -> None:
    """As recordings have it: its text."""
    text = json.dumps(message(id=1, error={"code": "oops", "message": "x"}))
    for line, says in ((text, "error has no integer code"), ("no JSON", "a message is an object")):
        (found,) = check(TranscriptValidator(row), {"direction": DOWN.value, "message": line})
        assert found.message == f"Invalid Request: {says}"


@each_row
def test_ids(row: Revision) -> None:
    call = {"method": PING_LIKE, "params": stated(row)}
    lists = result(row, {"tools": [], **({} if row.handshake else {"ttlMs": 0, "cacheScope": "public"})})
    again = [(4, PING_LIKE, "$.id")] if row.id_unique_in_session else []
    lines = [
        message(id=1, **call),
        message(id="1", **call),
        message(id=1, result=lists),
        message(id=1, **call),
    ]
    assert places(check(TranscriptValidator(row), *lines)) == again
    assert places(check(TranscriptValidator(row), *lines[:2], lines[0])) == [(3, PING_LIKE, "$.id")]
    twice = [lines[0], lines[2], lines[2]]
    assert places(check(TranscriptValidator(row), *twice)) == [(3, None, "$.id")]
    refused = message(id=1, error={"code": -32601, "message": "x"})
    assert check(TranscriptValidator(row), lines[0], refused) == []


@each_session
@pytest.mark.parametrize("known", [True, False])
def test_both_sides_may_use_the_same_id(row: Revision, known: bool) -> None:
    """BASE-3: the results are told apart by their direction, or by what they fit."""
    lines = [
        went(UP, id=1, method="tools/list"),
        went(DOWN, id=1, method="roots/list"),
        went(UP, id=1, result={"roots": []}),
        went(DOWN, id=1, result={"tools": []}),
    ]
    assert check(TranscriptValidator(row), *(lines if known else [line["message"] for line in lines])) == []
    lines[2] = went(UP, id=1, result={"tools": []})
    if known:
        assert places(check(TranscriptValidator(row), *lines)) == [(3, "roots/list", "$.result.roots")]


@each_row
def test_batches_where_there_are_any(row: Revision) -> None:
    """BATCH-6."""
    bad = message(method="notifications/progress", params={"progressToken": 1})
    found = check(TranscriptValidator(row), [message(id=1, method="tools/list", params=stated(row)), bad])
    wanted = (1, "notifications/progress", "$.params.progress") if row.accepts_batch else (1, None, "$")
    assert places(found) == [wanted]


# -- the revision ----------------------------------------------------------------------------------------


def opening(asked: str, answered: str) -> list[Any]:
    who = {"name": "x", "version": "1"}
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": who}
    answer = {"protocolVersion": answered, "capabilities": {}, "serverInfo": who}
    return [
        message(id=1, method="initialize", params=params),
        message(id=1, result=answer),
        message(method="notifications/initialized"),
    ]


@each_session
@pytest.mark.parametrize("asked", [*(row.version for row in DEFAULT), "1999-01-01"])
def test_auto_takes_the_revision_that_is_answered(row: Revision, asked: str) -> None:
    checker = TranscriptValidator()
    found = check(checker, *opening(asked, row.version), message(id=2, method="tools/list"))
    assert found == []
    assert row.name in checker.revisions
    found = checker.feed(9, json.dumps(message(id=3, method="elicitation/create")).encode())
    assert ("no method" in found[0].message) == ("elicitation/create" not in row.methods)
    assert row.name in found[0].message or found[0].path == "$.params"


@each_session
@pytest.mark.parametrize("named", [True, False])
def test_several_sessions_in_one_transcript(row: Revision, named: bool) -> None:
    """One after the other, or named and at the same time; each has ids and a revision of its own."""
    first, last = SESSIONS[0], row
    calls = message(id=2, method="tools/list")
    one, other = [*opening(first.version, first.version), calls], [
        *opening(last.version, last.version),
        calls,
    ]
    lines: list[Any] = [*one, *other]
    if named:
        pairs = zip(one, other, strict=True)
        lines = [
            {"session": n, "message": line} for pair in pairs for n, line in zip("ab", pair, strict=True)
        ]
    checker = TranscriptValidator()
    assert check(checker, *lines) == []
    assert len(checker.without_response) == 2
    assert checker.revisions == tuple(dict.fromkeys((first.name, last.name)))
    again = [{"session": "b", "message": calls}] if named else [calls]
    assert [v.path for v in check(checker, *again)] == (["$.id"])


@each_session
@pytest.mark.parametrize("modern", MODERN, ids=lambda row: row.name)
def test_auto_after_a_probe_that_was_refused(row: Revision, modern: Revision) -> None:
    probe = message(id=0, method="server/discover", params=stated(modern))
    refused = message(id=0, error={"code": -32601, "message": "x"})
    checker = TranscriptValidator()
    found = check(checker, probe, refused, *opening(row.version, row.version))
    assert found == []
    assert checker.revisions == (row.name, modern.name)


@pytest.mark.parametrize("modern", MODERN, ids=lambda row: row.name)
@pytest.mark.parametrize("refusal", ["error", "status", "nothing yet"])
@pytest.mark.parametrize("found_first", [True, False])
@each_session
def test_auto_after_initialize_was_refused(
    row: Revision, modern: Revision, refusal: str, *, found_first: bool
) -> None:
    """What says no version is of the revision that is in force, not of that which was asked for in vain."""
    probe = [
        message(id=1, method="tools/list", params=stated(modern)),
        message(id=1, result=result(modern, {"tools": [], "ttlMs": 0, "cacheScope": "private"})),
    ]
    initialize, _ = opening(row.version, row.version)[:2]
    refusals = {
        "error": [message(id=initialize["id"], error={"code": -32601, "message": "x"})],
        "status": [{"session": None, "http": 1, "sent": "request", "id": initialize["id"], "status": 400}],
        "nothing yet": [],
    }
    initialize = {**initialize, "id": "i"}
    ended = [{**each, "id": "i"} for each in refusals[refusal]]
    lines = [*probe, initialize, *ended] if found_first else [initialize, *ended, *probe]
    told = message(method="notifications/subscriptions/acknowledged", params={"notifications": {}})
    checker = TranscriptValidator()
    assert check(checker, *lines) == []
    line = went(Direction.SERVER_TO_CLIENT, **told)
    assert not any("revision" in v.message or "method" in v.message for v in check(checker, line))
    assert len(checker.without_response) == (refusal == "nothing yet")


@each_modern
def test_auto_takes_the_version_that_is_stated(row: Revision) -> None:
    """MOD-3."""
    checker = TranscriptValidator()
    good = message(id=1, method="tools/list", params=stated(row))
    note = message(method="notifications/progress", params={"progressToken": 1})
    assert places(check(checker, good, note)) == [(2, "notifications/progress", "$.params.progress")]
    assert checker.revisions == (row.name,)
    good["params"]["_meta"][VERSION] = "1999-01-01"
    found = check(TranscriptValidator(), good)
    assert [v.path for v in found] == [f'$.params._meta["{VERSION}"]']


def test_auto_without_a_revision_says_so_once() -> None:
    lines = [message(id=1, method="tools/list"), message(id=2, method="x"), message(id=1, result={})]
    found = check(TranscriptValidator(), *lines)
    assert places(found) == [(1, "tools/list", "$")]


def test_versions_that_do_not_fit() -> None:
    first, second = SESSIONS[:2]
    found = check(TranscriptValidator(second), *opening(first.version, first.version))
    assert places(found) == [(2, "initialize", "$.result.protocolVersion")]
    for answered in ("1999-01-01", MODERN[0].version):
        found = check(TranscriptValidator(), *opening(first.version, answered))
        assert places(found) == [(2, "initialize", "$.result.protocolVersion")]


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                ["jsonrpc", "id", "method", "params", "result", "error", "_meta", "message", "direction"]
            ),
            inner,
        )
    ),
)
MESSAGES: Final = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.sampled_from([1, "1", 1.0, None]) | JSON,
        "method": st.sampled_from(["initialize", "tools/call", "ping", "server/discover"]) | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)


@pytest.mark.slow
@given(st.lists(st.binary() | JSON | MESSAGES), st.sampled_from([None, *DEFAULT]))
def test_nothing_raises(lines: list[Any], row: Revision | None) -> None:
    """BASE-10."""
    check(TranscriptValidator(row), *lines)


def members_that_are_wrong(row: Revision, size: int) -> list[Any]:
    called = went(UP, id=1, method="tools/call", params=stated(row, {"name": 1, "arguments": {}}))
    blocks: list[Any] = [{"type": "text"}, {"type": "image", "data": 1}] * (size // 2)
    return [called, went(DOWN, id=1, result=result(row, {"content": blocks}))]


def requests_and_their_answers(row: Revision, size: int) -> list[Any]:
    calls = [message(id=i, method="ping", params=stated(row)) for i in range(size)]
    return calls + [message(id=i, result=result(row, {})) for i in range(size)]


def requests_that_nobody_answers(row: Revision, size: int) -> list[Any]:
    return [went(UP, id=1, method="ping", params=stated(row)) for _ in range(size)]


def answers_to_nothing(row: Revision, size: int) -> list[Any]:
    return [message(id=str(i), result=result(row, {})) for i in range(size)]


def members_of_one_message(row: Revision, size: int) -> list[Any]:
    progress = message(method="notifications/progress", params={"progress": "x"})
    return [[progress] * size] if row.accepts_batch else [progress] * size


def names_of_members(row: Revision, size: int) -> list[Any]:
    meta = {f"m{i}": {"": i} for i in range(size)}
    return [message(id=1, method="tools/call", params=stated(row, {"name": "x", "arguments": meta, **meta}))]


def levels(row: Revision, size: int) -> list[Any]:
    deep: Any = 1
    for _ in range(size // 16):  # the wire refuses more than 200
        deep = {"content": [deep]}
    return [went(UP, id=1, method="tools/call", params=stated(row, {"name": deep, "arguments": deep}))]


@pytest.mark.parametrize(
    "make",
    [
        members_that_are_wrong,
        requests_and_their_answers,
        requests_that_nobody_answers,
        answers_to_nothing,
        members_of_one_message,
        names_of_members,
        levels,
    ],
)
@pytest.mark.parametrize("row", KINDS, ids=lambda row: row.name)
@req("SEC-6", everywhere=True)
@each_once
def test_steps_grow_with_the_transcript_only(
    row: Revision, make: Callable[[Revision, int], list[Any]]
) -> None:
    """Every line read has been parsed within the bounds of the wire, whose steps are counted with its own tests."""

    def lines(size: int) -> Iterator[bytes]:
        return iter([json.dumps(line).encode() for line in make(row, size)])

    def work(found: Iterator[bytes]) -> None:
        checker = TranscriptValidator(row)
        for number, line in enumerate(found, 1):
            checker.feed(number, line)

    work(lines(2))  # what is built once does not count
    assert_linear(work, lines, transcript, payloads)


def test_deep_values_take_no_time() -> None:
    deep: Any = 1e308
    for _ in range(60):
        deep = {"a": deep}
    text = json.dumps(message(id=1, method="tools/call", params={"name": 5, "arguments": {"a": deep}}))
    assert "$.params.name" in [v.path for v in TranscriptValidator(DEFAULT[0]).feed(1, text.encode())]


# -- the command -----------------------------------------------------------------------------------------


def invoke(*arguments: str, text: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], input=text, catch_exceptions=False)


def written(folder: Path, *lines: Any) -> str:
    path = folder / "transcript.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_what_is_wrong_in_several_messages_is_one_row_with_their_lines(tmp_path: Path) -> None:
    wrong = [message(id=number, method="tools/cell") for number in range(7)]
    done = invoke(
        written(tmp_path, *wrong, message(id=7, method="tools/cull")), "--revision", SESSIONS[-1].name
    )
    _, first, second, summary, *_ = done.stdout.splitlines()
    assert first.split("\t")[:3] == ["1, 2, 3, 4, 5 and 2 more", "tools/cell", "$.method"]
    assert second.split("\t")[:3] == ["8", "tools/cull", "$.method"]
    assert summary.startswith("8 violations in 8 messages")


@each_session
def test_command(row: Revision, tmp_path: Path) -> None:
    clean = written(tmp_path, *opening(row.version, row.version), message(id=2, method="tools/list"))
    for options in (("--revision", row.name), ("--revision", "auto"), ()):
        done = invoke(clean, *options)
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            f"0 violations in 4 messages against {row.name}; 1 request without a response",
            "no response: line 4, tools/list with id 2",
        ]
    dirty = written(tmp_path, *opening(row.version, row.version), message(id=2, method="tools/\x1b[2J\n"))
    done = invoke(dirty, "--revision", "auto")
    assert done.exit_code == 1
    header, line, summary, waiting = done.stdout.splitlines()
    assert waiting == r"no response: line 4, tools/\x1b[2J\n with id 2"
    assert header.split("\t") == ["LINE", "METHOD", "PATH", "VIOLATION"]
    assert line.split("\t")[:3] == ["4", r"tools/\x1b[2J\n", "$.method"]
    assert summary.startswith("1 violation in 4 messages")
    done = invoke("-", "--revision", row.name, "--json", text=Path(dirty).read_bytes())
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["format"], document["revisions"]) == (1, [row.name])
    assert (document["messages"], document["without_response"]) == (4, 1)
    assert document["requests_without_response"] == [{"line": 4, "method": "tools/\x1b[2J\n", "id": 2}]
    (violation,) = document["violations"]
    assert list(violation) == ["line", "method", "path", "message"]
    assert (violation["line"], violation["path"]) == (4, "$.method")


@each_session
def test_command_says_what_to_do_with_messages_of_another_revision(row: Revision, tmp_path: Path) -> None:
    """As a client writes them that asks for the newest revisions first."""
    probe = message(id=0, method="server/discover", params=stated(MODERN[0]))
    refused = message(id=0, error={"code": -32601, "message": "x"})
    own = opening(row.version, row.version)
    mixed = written(tmp_path, probe, refused, *own)
    done = invoke(mixed, "--revision", row.name)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == (
        f"messages say another revision than {row.name}: without --revision each is held against its own; a recording of {row.name} "
        f"alone is made by a command with --as {row.name}"
    )
    json.loads(invoke(mixed, "--revision", row.name, "--json").stdout)
    assert invoke(mixed).exit_code == 0
    other = next(each for each in SESSIONS if each is not row)
    for lines, name in ((own, row.name), (own, "auto")):
        assert "another revision" not in invoke(written(tmp_path, *lines), "--revision", name).stdout
    assert "another revision" in invoke(written(tmp_path, *own), "--revision", other.name).stdout


def test_command_that_cannot_do_it(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "blank").write_bytes(b"\n \n")
    for nothing in ("empty", "blank"):
        for options in ((), ("--json",), ("--revision", "latest")):
            done = invoke(str(tmp_path / nothing), *options)
            assert (done.exit_code, done.stdout) == (3, "")
            assert done.stderr.startswith("Error: there is no message in")
    assert invoke("--revision", "auto").exit_code == 2
    unknown = invoke(str(tmp_path / "empty"), "--revision", "\x1b1999")
    assert unknown.exit_code == 2
    assert DEFAULT[0].name in unknown.stderr
    for bad in (tmp_path / "missing", tmp_path, "\0"):
        done = invoke(str(bad), "--revision", "auto")
        assert (done.exit_code, done.stdout) == (3, "")
        assert done.stderr.startswith("Error: cannot read")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_command_cuts_off_lines_without_end(tmp_path: Path) -> None:
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.write(b"x" * (2 * MAX_LINE + 10) + b"\n{\n")
    document = json.loads(invoke(str(path), "--revision", "latest", "--json").stdout)
    assert [v["line"] for v in document["violations"]] == [1, 2]
