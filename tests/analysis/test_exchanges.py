"""What is wrong with HTTP responses outside of their bodies: noted on the wire, judged by the transport of a revision."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import mcprev
from dev.inspected import opened
from fuzz.fuzzing import each_once
from helpers.named import C
from helpers.raw_server import Exchange, Mcp, serve
from helpers.requirements import req
from helpers.running import run
from helpers.served import listening
from helpers.support import ROOT
from mcprev.analysis.transcript import TranscriptValidator
from mcprev.cli import main as command
from mcprev.client.recording.tap import WireTap
from mcprev.dev.launch import DirectLauncher
from mcprev.revisions import DEFAULT, HttpShape, Revision

HTTP: Final = [row for row in DEFAULT if row.http is not HttpShape.SSE]
SESSIONS: Final = [row for row in HTTP if row.http is HttpShape.STREAMABLE]
STATELESS: Final = [row for row in HTTP if row.http is HttpShape.POST_ONLY]
TOOLS: Final[dict[str, Any]] = {"tools": []}


async def greet_notification(exchange: Exchange) -> None:
    await exchange.json({"ok": True})


async def list_as_text(exchange: Exchange) -> None:
    body = json.dumps({**exchange.response, "result": TOOLS | MODERN}).encode()
    await exchange.respond(200, body, {"Content-Type": "text/plain; charset=utf-8"})


async def list_in_session(exchange: Exchange) -> None:
    await exchange.result(TOOLS | MODERN, {"Mcp-Session-Id": "s-1"})


async def page_for_get(exchange: Exchange) -> None:
    await exchange.respond(200, b"<p>", {"Content-Type": "text/html"})


MODERN: Final[dict[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
Handler = Callable[[Exchange], Awaitable[None]]
Case = tuple[Revision, Mapping[str, Handler], str, list[tuple[str, str]]]
CASES: Final[list[Case]] = [
    *(
        (row, {"notifications/initialized": greet_notification}, "session-1", [("status", "not 200"), ("body", "not 12 bytes")])
        for row in SESSIONS
    ),
    *((row, {"tools/list": list_as_text}, "session-1", [('headers["Content-Type"]', "not 'text/plain'")]) for row in HTTP),
    *((row, {"GET": page_for_get}, "session-1", [('headers["Content-Type"]', "not 'text/html'")]) for row in SESSIONS),
    *((row, {}, "two words", [('headers["Mcp-Session-Id"]', "not others")]) for row in SESSIONS),
    *((row, {"tools/list": list_in_session}, "", [('headers["Mcp-Session-Id"]', "not one")]) for row in STATELESS),
    *((row, {}, "session-1", []) for row in HTTP),
]  # fmt: skip


@req("HTTP-6", "HTTP-7", "HTTP-10", "HTTP-19", "HTTPM-1", "HTTPM-4", "BASE-10")
@pytest.mark.parametrize(("row", "replies", "session", "wrong"), CASES)
def test_inspect_warns_and_validate_fails(
    row: Revision, replies: Mapping[str, Any], session: str, wrong: list[tuple[str, str]], tmp_path: Path
) -> None:
    """A server that is wrong around its messages is used as any other, and both commands say what is wrong."""
    path = tmp_path / "saved.jsonl"
    options = ("--as", row.name, "--no-login")

    async def main() -> Any:
        server = Mcp(
            row, {"tools/list": TOOLS, **replies}, session=session or None, capabilities={"tools": {}}
        )
        async with serve(server) as raw:
            async with mcprev.connect(raw.url, revisions=[row.name], record=path) as client:
                assert [tool async for tool in client.tools()] == []
            return await asyncio.to_thread(CliRunner().invoke, command, ["inspect", raw.url, *options])

    inspected = run(main(), limit=60)
    assert inspected.exit_code == 0, inspected.output
    warnings = [line for line in inspected.stderr.splitlines() if "the HTTP response to" in line]
    validated = CliRunner().invoke(command, ["validate", "--json", str(path)])
    found = [(each["path"], each["message"]) for each in json.loads(validated.stdout)["violations"]]
    assert [place for place, _ in found] == [place for place, _ in wrong]
    for (place, said), (_, message) in zip(wrong, found, strict=True):
        assert message.startswith(f"{row.name} requires ")
        assert message.endswith(said)
        assert any(f"{place}: {message}" in line for line in warnings)
    assert len(warnings) == len(wrong)
    assert "session-1" not in path.read_text(encoding="utf-8")


@each_once
@req("HTTP-6", "HTTP-7", "HTTP-10", "HTTP-19", "HTTPM-1", "HTTPM-4", "BASE-10")
@pytest.mark.parametrize("query", ["", "?raw=1"], ids=["masked", "with secrets"])
@pytest.mark.parametrize(("row", "replies", "session", "wrong"), CASES)
def test_validate_finds_the_same_in_a_session_that_dev_saved(
    row: Revision,
    replies: Mapping[str, Any],
    session: str,
    wrong: list[tuple[str, str]],
    query: str,
    tmp_path: Path,
) -> None:
    """But for the characters of a session id, which is masked."""

    async def main() -> str:
        server = Mcp(
            row, {"tools/list": TOOLS, **replies}, session=session or None, capabilities={"tools": {}}
        )
        async with serve(server) as raw:
            launcher = DirectLauncher(
                "it", (raw.url,), lambda: mcprev.http(raw.url), kind="url", transport="http"
            )
            async with opened(launcher, revision=row.name) as page:
                await page.post("list", kind="tools")
                await page.until("lists", lambda one: one["state"] in ("ready", "failed"))
                async with page.session.get(f"{page.url}/api/save{query}", headers=page.headers) as response:
                    return await response.text()

    path = tmp_path / "session.jsonl"
    path.write_text(text := run(main(), limit=60), encoding="utf-8")
    validated = CliRunner().invoke(command, ["validate", "--json", str(path)])
    found = [each for each in json.loads(validated.stdout)["violations"] if each["path"][0] != "$"]
    expected = [] if session == "two words" and not query else wrong
    assert {each["path"] for each in found} == {place for place, _ in expected}
    lines: list[str] = text.splitlines()
    for each in found:
        assert any(each["path"] == place and each["message"].endswith(said) for place, said in expected)
        assert "http" in json.loads(lines[int(each["line"]) - 1])


@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_responses_of_the_older_transport_are_not_held_against_the_newer(
    row: Revision, tmp_path: Path
) -> None:
    """HTTP+SSE, which a server may offer at each revision with sessions, accepts requests with status 202."""
    path, saved = tmp_path / "recorded.jsonl", tmp_path / "saved.jsonl"
    app = mcprev.App("old", "1", revisions=[row.name])
    app.tool(lambda: "", name="nothing")

    async def main() -> Any:
        async with listening(app.server, sse=True) as url:
            async with mcprev.connect(f"{url}/sse", record=path) as client:
                assert [tool async for tool in client.tools()]
            launcher = DirectLauncher(
                "it", (url,), lambda: mcprev.http(f"{url}/sse"), kind="url", transport="http"
            )
            async with opened(launcher) as page:
                await page.post("list", kind="tools")
                await page.until("lists", lambda one: one["state"] in ("ready", "failed"))
                async with page.session.get(f"{page.url}/api/save", headers=page.headers) as response:
                    saved.write_text(await response.text(), encoding="utf-8")
            return await asyncio.to_thread(
                CliRunner().invoke, command, ["inspect", f"{url}/sse", "--no-login"]
            )

    inspected = run(main(), limit=60)
    assert (inspected.exit_code, inspected.stderr) == (0, "")
    assert f"revision\t{row.name}\n" in inspected.stdout
    for file in (path, saved):
        validated = CliRunner().invoke(command, ["validate", str(file)])
        assert validated.exit_code == 0, validated.output


@req("BASE-10", everywhere=True)
def test_what_is_wrong_again_and_again_is_said_once_with_its_lines(tmp_path: Path) -> None:
    row = SESSIONS[-1]
    path = tmp_path / "saved.jsonl"

    async def main() -> None:
        async with serve(Mcp(row, {"notifications/initialized": greet_notification})) as raw:
            for _ in range(7):
                async with mcprev.connect(raw.url, revisions=[row.name], record=path):
                    pass

    run(main(), limit=60)
    (status, body), last = (
        (done := CliRunner().invoke(command, ["validate", str(path)]).stdout.splitlines())[1:3],
        done[3],
    )
    lines = [
        each["line"]
        for each in json.loads(CliRunner().invoke(command, ["validate", "--json", str(path)]).stdout)[
            "violations"
        ]
        if each["path"] == "status"
    ]
    assert len(lines) == 7
    named = f"{', '.join(map(str, lines[:5]))} and 2 more\tnotifications/initialized\t"
    assert (status.startswith(f"{named}status\t"), body.startswith(f"{named}body\t")) == (True, True)
    assert last.startswith("14 violations in ")


@req("BASE-10", everywhere=True)
def test_a_tap_beside_a_recording_sees_what_it_would_see_alone(tmp_path: Path) -> None:
    row = SESSIONS[-1]

    async def seen(**options: Any) -> list[tuple[int, str]]:
        events: list[tuple[int, str]] = []
        async with (
            serve(Mcp(row, {"tools/list": TOOLS})) as raw,
            mcprev.connect(
                raw.url,
                revisions=[row.name],
                tap=lambda event: events.append((event.number, event.kind)),
                **options,
            ) as client,
        ):
            await client.list_tools()
        return events

    alone, beside = run(seen()), run(seen(record=tmp_path / "r.jsonl"))
    assert [number for number, _ in beside] == [*range(1, len(beside) + 1)]
    assert {kind for _, kind in alone} == {kind for _, kind in beside}


@req("BASE-10", everywhere=True)
def test_one_function_that_raises_does_not_end_the_other(caplog: pytest.LogCaptureFixture) -> None:
    got: list[str] = []

    def fails(event: object) -> None:
        raise ValueError("no")

    tap = WireTap(fails).also(lambda event: got.append(event.text))
    with caplog.at_level(logging.ERROR, logger="mcprev.client"):
        tap.visit("one")
        tap.visit("two")
    assert got == ["one", "two"]
    assert len(caplog.records) == 1


@req("HTTP-6", "HTTP-7")
def test_the_guide_shows_what_is_said_about_a_server_that_gets_both_wrong(tmp_path: Path) -> None:
    (row,) = (row for row in SESSIONS if row.name == C)
    path = tmp_path / "saved.jsonl"

    async def initialize_as_text(exchange: Exchange) -> None:
        opened = {
            "protocolVersion": row.version,
            "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"},
        }
        body = json.dumps({**exchange.response, "result": opened}).encode()
        await exchange.respond(200, body, {"Content-Type": "text/plain"})

    async def accept(exchange: Exchange) -> None:
        await exchange.respond(200)

    async def main() -> None:
        wrong = {"initialize": initialize_as_text, "notifications/initialized": accept}
        async with serve(Mcp(row, wrong)) as raw, mcprev.connect(raw.url, revisions=[row.name], record=path):
            pass

    run(main(), limit=60)
    said = CliRunner().invoke(command, ["validate", str(path)]).stdout.splitlines()[:3]
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    assert len(said) == 3
    assert [
        "\t".join(re.split(r"\s{2,}", line))
        for line in page.splitlines()
        if re.match(r"LINE  |\d+ {5}", line)
    ] == said


@req("BASE-10", everywhere=True)
@pytest.mark.parametrize(
    "members",
    [
        {"length": "x" * 100_000, "sent": "notification"},
        {"length": [1], "sent": "response", "method": ["x"]},
        {"content_type": {"a": 1}, "sent": "request"},
        {"content_type": "x" * 100_000, "sent": "request"},
        {"status": True, "sent": "notification"},
        {"status": "200", "sent": "notification"},
        {"sent": "other"},
        {"session": {"not": "a name"}, "sent": "request"},
        {"sent": [["x"], 5], "received": [["content-length", "9" * 100], ["content-type"], 7, [1, 2]]},
        {"sent": [], "received": {"content-type": "x"}},
    ],
)
def test_a_note_of_somebody_else_neither_raises_nor_fills_the_screen(members: dict[str, Any]) -> None:
    row = SESSIONS[-1]
    note = {"http": 1, "verb": "POST", "status": 200, **members}
    checker = TranscriptValidator(row)
    checker.feed(0, b'{"format": 2}')
    found = checker.feed(1, json.dumps(note).encode())
    sent = {
        "message": {"jsonrpc": "2.0", "method": "notifications/initialized"},
        "direction": "client_to_server",
    }
    found += checker.feed(2, json.dumps({**sent, "exchange": 1}).encode())
    assert all(len(violation.message) < 500 for violation in found)
    assert all(violation.line == 1 for violation in found)
