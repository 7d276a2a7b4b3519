"""A single message judged by the schema of any revision, and the schema of any type."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import pytest

import mcprev
from fuzz.fuzzing import sampled_of
from helpers.corpus import Corpus
from helpers.named import ROW_A, ROW_B, ROW_D, ROW_E
from helpers.support import check_metaschema, complaints, load, validator, walk
from mcprev.analysis.schemas import definitions_of
from mcprev.revisions import ALL, Revision
from mcprev.wire.headers import request_headers
from mcprev_types import Direction, Kind, MethodSpec, Transport

each_row = pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)


@cache
def corpus_of(name: str) -> Corpus:
    return Corpus(load(name))


def called(row: Revision, spec: MethodSpec, params: Any) -> dict[str, Any]:
    """A request or notification as a revision's schema has it."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": spec.method}
    if spec.kind is Kind.REQUEST:
        message["id"] = 1
    if params is not None:
        message["params"] = params
        meta = params.get("_meta")
        if isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta:
            meta["io.modelcontextprotocol/protocolVersion"] = row.version
    return message


def samples(row: Revision, name: str | None) -> list[Any]:
    return [] if name is None else list(corpus_of(row.name).samples(name))


@each_row
def test_what_the_schema_allows_is_valid_and_what_it_requires_is_missed(row: Revision) -> None:
    """Every method: the smallest and the fullest params and results, and each without each required member."""
    missed = 0
    for spec in row.methods.values():
        if spec.transport is Transport.EMBEDDED:
            continue
        for params in samples(row, spec.params):
            message = called(row, spec, params)
            assert mcprev.judge(message, row.name) == [], (spec.method, message)
            for member in definitions_of(row)[spec.params or ""].get("required", ()):
                without = {name: item for name, item in params.items() if name != member}
                found = mcprev.judge({**message, "params": without}, row.name)
                assert f"$.params.{member}" in [one.path for one in found], (spec.method, member)
                missed += 1
        for result in samples(row, spec.result):
            if spec.method == "initialize":
                result["protocolVersion"] = row.version
            answer = {"jsonrpc": "2.0", "id": 1, "result": result}
            assert mcprev.judge(answer, row.name, method=spec.method) == [], (spec.method, result)
            for member in definitions_of(row)[spec.result or ""].get("required", ()):
                without = {name: item for name, item in result.items() if name != member}
                found = mcprev.judge({**answer, "result": without}, row.name, method=spec.method)
                assert found, (spec.method, member)
                assert {one.method for one in found} == {spec.method}
    assert missed > 10


@pytest.mark.slow
@pytest.mark.parametrize("row", sampled_of(ALL, [ALL[0], ALL[-1]]), ids=lambda row: row.name)
def test_null_is_a_violation_wherever_the_schema_has_none(row: Revision) -> None:
    """Each member of the fullest params and results of every method, at any depth, as jsonschema judges it."""
    definitions, tried = definitions_of(row), 0
    for spec in row.methods.values():
        for name in (spec.params, spec.result):
            if name is None or spec.transport is Transport.EMBEDDED or spec.method == "initialize":
                continue
            checker = validator(definitions, name)
            for payload in samples(row, name):
                objects: list[Any] = [each for each in walk(payload) if isinstance(each, dict)]
                for members in objects:
                    for member, kept in list(members.items()):
                        members[member] = None
                        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": payload}
                        if name == spec.params:
                            message = called(row, spec, payload)
                        found = mcprev.judge(message, row.name, method=spec.method)
                        # To jsonschema, enumNames is an unknown member of another option of the union.
                        expected = member == "enumNames" or bool(complaints(checker, payload))
                        assert bool(found) == expected, (spec.method, member, payload)
                        members[member] = kept
                        tried += 1
    assert tried > 50


@each_row
@pytest.mark.parametrize(
    ("data", "valid"),
    [("aWNvbg==", True), ("", True), ("data:image/png;base64,aWNvbg==", False), ("aWNvb", False)],
)
def test_data_is_base64(row: Revision, data: str, valid: bool) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": data}
    result = {"content": [image]} if row.handshake else {"content": [image], "resultType": "complete"}
    found = mcprev.judge({"jsonrpc": "2.0", "id": 1, "result": result}, row.name, method="tools/call")
    assert [one.path for one in found] == ([] if valid else ["$.result.content[0].data"])


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"id": 1, "method": "ping", "params": None}, "$.params"),
        ({"id": 1, "result": {}, "error": None}, "$.error"),
        ({"id": 1, "result": {}, "method": None}, "$.method"),
        ({"id": 1, "error": {"code": 1, "message": "m"}, "result": None}, "$.result"),
        ({"error": {"code": 1, "message": "m"}, "id": None}, None),
    ],
)
def test_null_is_a_violation_in_a_message_itself(message: dict[str, Any], path: str | None) -> None:
    whole = {"jsonrpc": "2.0", **message}
    found = mcprev.judge(whole, ROW_D)
    assert [one.path for one in found] == ([] if path is None else [path])
    batch = mcprev.judge([{"jsonrpc": "2.0", "id": 2, "method": "ping"}, whole], ROW_B)
    assert [one.path for one in batch] == ([] if path is None else [path.replace("$", "$[1]")])


@each_row
def test_every_error_of_the_schema_is_valid_and_needs_its_data(row: Revision) -> None:
    for name, schema in definitions_of(row).items():
        code: Any = schema.get("properties", {}).get("code", {})
        if "const" not in code:
            continue
        for error in samples(row, name):
            answer = {"jsonrpc": "2.0", "id": 1, "error": error}
            assert mcprev.judge(answer, row.name) == []
            for member in set(schema.get("required", ())) - {"code", "message"}:
                left = {key: item for key, item in error.items() if key != member}
                (found,) = mcprev.judge({**answer, "error": left}, row.name)
                assert found.path == f"$.error.{member}"
    general = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m", "data": None}}
    assert mcprev.judge(general, row.name) == []
    (found,) = mcprev.judge({**general, "error": {"code": 1.5, "message": "m"}}, row.name)
    assert found.path == "$"


def test_messages_are_taken_as_they_are_on_the_wire() -> None:
    assert mcprev.judge(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', ROW_D.name) == []
    (found,) = mcprev.judge(b"no \xff json", ROW_D)
    assert (found.path, found.method, found.line) == ("$", None, None)
    (found,) = mcprev.judge(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":3}', ROW_D)
    assert found.path == "$"
    assert mcprev.judge({"jsonrpc": "2.0", "id": 1, "result": {}}, ROW_D) == []


def test_a_batch_is_judged_where_there_are_batches() -> None:
    batch: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {}},
    ]
    assert [one.path for one in mcprev.judge(batch, ROW_B)] == ["$[1].params.name"]
    assert [one.path for one in mcprev.judge(batch, ROW_D)] == ["$"]


def test_what_a_message_says_of_its_revision_and_direction_is_held_against_it() -> None:
    discover = called(
        ROW_E, ROW_E.methods["server/discover"], next(corpus_of(ROW_E.name).samples("RequestParams"))
    )
    discover["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2020-01-01"
    (found,) = mcprev.judge(discover, ROW_E)
    assert found.path == '$.params._meta["io.modelcontextprotocol/protocolVersion"]'
    ping: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    (found,) = mcprev.judge(ping, ROW_D, direction=Direction.SERVER_TO_CLIENT)
    assert (found.path, found.method) == ("$.method", "tools/list")
    (found,) = mcprev.judge(ping | {"method": "server/discover"}, ROW_A)
    assert ROW_E.name in found.message
    with pytest.raises(ValueError, match="2020"):
        mcprev.judge(ping, "2020-01-01")
    with pytest.raises(TypeError):
        mcprev.judge({"jsonrpc": object()}, ROW_A)


@each_row
def test_headers_are_those_of_the_revision(row: Revision) -> None:
    message = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "x"}}
    ).encode()
    wanted = request_headers(row, "prompts/get", {"name": "x"})
    assert mcprev.judge_headers([*wanted, ("Accept", "x")], message, row) == []
    found = mcprev.judge_headers([(name.upper(), "other") for name, _ in wanted], message, row.name)
    assert [one.path for one in found] == [f'headers["{name}"]' for name, _ in wanted]
    assert len(mcprev.judge_headers([], message, row)) == len(wanted)


@each_row
def test_the_schema_of_a_type_is_whole_and_has_no_more_than_it_needs(row: Revision) -> None:
    """It accepts the samples of the type, and every definition of it is referred to."""
    for name in definitions_of(row):
        schema = mcprev.schema_of(row.name, name)
        assert name in schema["$defs"]
        text = json.dumps(schema)
        assert all(f'"#/$defs/{other}"' in text for other in schema["$defs"])
    for name in ("CallToolResult", "Tool", "PromptMessage"):
        schema = mcprev.schema_of(row, name)
        check_metaschema(schema)
        assert {other: definitions_of(row)[other] for other in schema["$defs"]} == schema["$defs"]
        checker = validator(schema["$defs"], name)
        assert [complaints(checker, value) for value in samples(row, name)] == [[], []]
        assert complaints(checker, 3)


def test_a_schema_may_be_changed_and_an_unknown_type_is_named_with_near_ones() -> None:
    schema = mcprev.schema_of(ROW_E.name, "Tool")
    schema["$defs"].clear()
    assert mcprev.schema_of(ROW_E.name, "Tool")["$defs"]
    with pytest.raises(ValueError, match="has no type 'CallToolResutl'; there are CallToolResult"):
        mcprev.schema_of(ROW_E.name, "CallToolResutl")
    with pytest.raises(ValueError, match="2020"):
        mcprev.schema_of("2020-01-01", "Tool")


# -- the extensions of MCP -----------------------------------------------------------------------------------

TASK: Final[dict[str, Any]] = {
    "taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": None,
}  # fmt: skip
STATED: Final = ("io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities")
EXTENSION_CALLS: Final[dict[str, tuple[str, dict[str, Any], list[str]]]] = {
    "a skill": ("skills/get", {"uri": "skill://review/SKILL.md"}, []),
    "a skill without a name": ("skills/get", {}, ["$.params.uri"]),
    "a poll with a wrong number": (
        "events/poll",
        {"name": "sale", "cursor": None, "maxEvents": 0},
        ["$.params.maxEvents"],
    ),
    "a secret that is none": (
        "events/subscribe",
        {"name": "sale", "delivery": {"mode": "webhook", "url": "https://x.example/", "secret": "s"}},
        ["$.params.delivery.secret"],
    ),
}
EXTENSION_RESULTS: Final[dict[str, tuple[str, dict[str, Any], list[str]]]] = {
    "a task": ("tools/call", {**TASK, "resultType": "task"}, []),
    "a task with a wrong status": (
        "tools/call",
        {**TASK, "resultType": "task", "status": "lost"},
        ["$.result.status"],
    ),
    "a task without its result": (
        "tasks/get",
        {**TASK, "resultType": "complete", "status": "completed"},
        ["$.result.result"],
    ),
    "a skill without a description": (
        "skills/get",
        {
            "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
            "skill": {
                "uri": "skill://a/SKILL.md", "frontmatter": {"name": "a"},
                "resources": [{"uri": "skill://a/SKILL.md", "digest": "sha256:" + 64 * "0", "size": 1}],
            },
        },
        ["$.result.skill.frontmatter.description"],
    ),
}  # fmt: skip


@each_row
@pytest.mark.parametrize(("method", "params", "places"), EXTENSION_CALLS.values(), ids=EXTENSION_CALLS)
def test_a_request_of_an_extension_is_judged_by_its_own_schema(
    row: Revision, method: str, params: dict[str, Any], places: list[str]
) -> None:
    meta: dict[str, Any] = {STATED[0]: row.version, STATED[1]: {}}
    stated = {} if row.handshake else {"_meta": meta}
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**stated, **params}}
    assert [each.path for each in mcprev.judge(message, row)] == places


@pytest.mark.parametrize(("method", "result", "places"), EXTENSION_RESULTS.values(), ids=EXTENSION_RESULTS)
def test_a_result_of_an_extension_is_judged_by_its_own_schema(
    method: str, result: dict[str, Any], places: list[str]
) -> None:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": result}
    assert [each.path for each in mcprev.judge(message, ROW_E, method=method)] == places
