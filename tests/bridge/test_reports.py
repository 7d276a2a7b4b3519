"""What a bridge tells of its work: recordings of both sides, explanations, and refusals in place of replacements."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from api.wire import Message
from bridge.hands import Downstream, Servers, Upstream, bridge_to, bridged, question, said, text
from helpers.requirements import E, req
from helpers.running import run
from mcprev.analysis.transcript import TranscriptValidator
from mcprev.bridge.explain import MOST, explained
from mcprev.bridge.pair import ConversionReport
from mcprev.revisions import DEFAULT, Revision

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
OLDEST, MODERN = DEFAULT[0], DEFAULT[-1]


async def asks(up: Upstream, request: Message) -> Message:
    up.progresses(request, 1)
    up.logs(request, "error", "logged")
    return await up.asking(request, question(up.revision, "sampling"), question(up.revision, "roots"))


async def contents(up: Upstream, request: Message) -> Message:
    audio = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
    return {"content": [audio], "structuredContent": {"secret-looking": [1]}}


async def plain(up: Upstream, request: Message) -> Message:
    return {**text("plain"), "structuredContent": {"a": 1}}


TOOLS: Final = {function.__name__: function for function in (asks, contents, plain)}
LISTED: Final = {
    "tools/list": {"tools": [{"name": "asks", "title": "Asks", "inputSchema": {"type": "object"}}]}
}


def ends(row: Revision, there: Revision) -> tuple[Downstream, Servers]:
    return Downstream(row), Servers(lambda: Upstream(there, TOOLS, LISTED))


@req("BASE-10", "SEC-6", at=(SESSION.name, E))
@pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: f"to {row.name}")
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_both_sides_are_recorded_as_validate_reads_them(
    row: Revision, there: Revision, tmp_path: Path
) -> None:
    file = tmp_path / "both.jsonl"
    client, servers = ends(row, there)

    async def main() -> None:
        bridge = bridge_to(servers, there, record=file)
        async with bridged(bridge, client):
            await client.ask("tools/list", {})
            meta: Message = {} if row.handshake else {"io.modelcontextprotocol/logLevel": "debug"}
            await client.call("asks", {"api_key": "sk-hunter2-hunter2"}, progressToken=1, **meta)
            await client.ask("tools/call", {"name": "plain", "arguments": {"password": "hunter2"}})

    run(main())
    lines = file.read_bytes().splitlines()
    checker = TranscriptValidator()
    violations = [found for number, line in enumerate(lines, 1) for found in checker.feed(number, line)]
    assert violations == []
    assert set(checker.revisions) == {row.name, there.name}
    assert len(checker.without_response) == (
        row.handshake and not there.handshake
    ), "only the listen stream is open"
    assert b"hunter2" not in file.read_bytes()
    messages = [json.loads(line) for line in lines]
    methods = Counter(
        (found["session"].startswith("client-"), found["message"].get("method")) for found in messages
    )
    assert methods[True, "tools/list"] == methods[False, "tools/list"] == 1
    assert methods[True, "notifications/progress"] >= 1
    assert methods[True, "notifications/message"] >= 1
    if row.handshake:
        assert methods[True, "sampling/createMessage"] == methods[True, "roots/list"] == 1


@req("CONV-36", everywhere=True)
def test_an_explanation_names_paths_and_rules_and_no_values() -> None:
    before = {"a": {"b": "value", "kept": 1}, "list": [1, {"x": 1}, 3], "number": 1}
    after = {"a": {"kept": 1}, "list": [1, {"x": 1, "y": "value"}], "number": 1.0, "new": "value"}
    found = explained(
        ConversionReport("one", "two", "tools/call", "result", before, after, ("audio", "audio"))
    )
    assert found == [
        f"one -> two tools/call result: {what} (audio)"
        for what in (
            "dropped $.a.b",
            "added $.list[1].y",
            "dropped $.list[2]",
            "changed $.number",
            "added $.new",
        )
    ]
    many = ConversionReport("one", "two", "m", "params", dict.fromkeys(map(str, range(1_000))), {}, ())
    assert len(explained(many)) == MOST + 1


@req("CONV-36", "CONV-3", at=OLDEST.name)
def test_conversions_are_reported() -> None:
    client, servers = ends(OLDEST, MODERN)
    changes: list[ConversionReport] = []

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, report=changes.append), client):
            await client.ask("tools/list", {})
            await client.call("contents")

    run(main())
    lines = [line for change in changes for line in explained(change)]
    head = f"{MODERN.name} -> {OLDEST.name}"
    assert f"{head} tools/list result: dropped $.tools[0].title" in lines
    assert not [line for line in lines if "resultType" in line or "_meta" in line], "the envelope is no data"
    results = [change for change in changes if (change.method, change.kind) == ("tools/call", "result")]
    assert [change.reasons for change in results] == [("audio", "CONV-4")]
    assert f"{head} tools/call result: dropped $.structuredContent (audio, CONV-4)" in lines


@req("SEAM-10", at=E)
def test_one_revision_reports_nothing() -> None:
    client, servers = ends(MODERN, MODERN)
    changes: list[Any] = []

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, report=changes.append, strict=True), client):
            await client.ask("tools/list", {})
            assert "structuredContent" in await client.call("contents")

    run(main())
    assert changes == []


@req("CONV-2", "CONV-3", at=OLDEST.name)
def test_strict_refuses_what_would_be_replaced() -> None:
    client, servers = ends(OLDEST, MODERN)

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, strict=True), client):
            audio = await client.call("contents")
            assert audio["code"] == -32603
            assert "audio" in audio["message"]
            assert "$.content[0]" in audio["message"]
            structured = await client.call("plain")
            assert "CONV-4" in structured["message"]
            assert "$.structuredContent" in structured["message"]
        async with bridged(bridge_to(servers, MODERN), client):
            assert "content" in await client.call("contents")
            assert said({"content": [(await client.call("plain"))["content"][0]]}) == "plain"

    run(main())
