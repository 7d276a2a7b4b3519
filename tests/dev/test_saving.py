"""A session that is saved and opened again is the same, its secrets are masked, and `mcprev validate` reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mcprev
from dev.inspected import Page, in_memory, opened
from helpers.running import run
from mcprev.cli import main
from mcprev.revisions import ALL, by_version, revision_named

REVISIONS = [revision.name for revision in ALL]


def bank() -> mcprev.App:
    app = mcprev.App("bank", "1.0")

    @app.tool
    async def pay(amount: float, password: str, ctx: mcprev.Context) -> dict[str, Any]:
        await ctx.log("info", f"pays {amount}")
        return {"paid": amount, "access_token": "tok-secret-9"}

    return app


async def use(page: Page) -> None:
    await page.post("list", kind="tools")
    await page.until("lists", lambda one: one["state"] == "ready")
    await page.call("tools/call", {"name": "pay", "arguments": {"amount": 1.0, "password": "hunter2"}})
    await page.call("tools/call", {"name": "nothing"})
    await page.call("resources/read", {"uri": "bank://nowhere"})


async def text_of(page: Page, query: str = "") -> str:
    async with page.session.get(f"{page.url}/api/save{query}", headers=page.headers) as response:
        assert response.status == 200
        assert response.content_type == "application/jsonl"
        return await response.text()


def messages(text: str) -> list[str]:
    """The lines with messages."""
    return [line for line in text.splitlines() if line.startswith('{"size"')]


async def open_again(page: Page, text: str) -> dict[str, Any]:
    headers = {**page.headers, "Content-Type": "application/jsonl"}
    async with page.session.post(f"{page.url}/api/open", headers=headers, data=text.encode()) as response:
        found: dict[str, Any] = {"status": response.status, **await response.json()}
        return found


async def first_told(page: Page, query: str) -> int:
    """The number of the first event that a stream tells."""
    async with page.session.get(f"{page.url}/api/stream?{query}", headers=page.headers) as response:
        async for raw in response.content:
            if raw.startswith(b'data: {"events":'):
                return int(json.loads(raw.removeprefix(b"data: "))["events"][0]["n"])
    raise AssertionError("no event was told")


def test_a_stream_goes_on_in_the_session_that_the_page_has_seen_and_begins_another_one_anew() -> None:
    async def scenario() -> None:
        async with opened(in_memory(bank())) as page:
            await use(page)
            text, session = await text_of(page, "?raw=1"), dict(page.told)["hello"]["session"]
            assert await first_told(page, f"session={session}&since=3") == 3
            assert (await open_again(page, text))["status"] == 200
            assert await first_told(page, f"session={session}&since=3") == 1

    run(scenario())


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_session_that_is_opened_again_is_the_same(revision: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(bank()), revision=revision) as page:
            await use(page)
            text = await text_of(page, "?raw=1")
            live, wire = await page.get("state"), await page.get("wire")
            bodies = [await page.get(f"event/{one['n']}") for one in wire["events"]]
            assert (await open_again(page, text))["status"] == 200
            again = await page.get("state")
            assert (again["target"]["kind"], again["target"]["state"]) == ("recording", "stopped")
            assert again["target"]["server_info"] == live["target"]["server_info"]
            for name in ("calls", "lists", "questions", "tasks", "logs", "next", "first"):
                assert again[name] == live[name], name
            assert await page.get("wire") == wire
            assert [await page.get(f"event/{one['n']}") for one in wire["events"]] == bodies
            assert messages(await text_of(page, "?raw=1")) == messages(text)
            refused = await page.post("call", method="tools/call", params={"name": "pay"})
            assert (refused["status"], "saved session" in refused["error"]) == (409, True)
            await page.post("live")
            assert (await page.get("state"))["target"]["state"] == "connected"

    run(scenario())


@pytest.mark.parametrize("revision", REVISIONS)
def test_secrets_are_masked_and_the_file_is_what_validate_reads(revision: str, tmp_path: Path) -> None:
    async def scenario() -> str:
        async with opened(in_memory(bank()), revision=revision) as page:
            await use(page)
            assert "hunter2" in await text_of(page, "?raw=1")
            return await text_of(page)

    text = run(scenario())
    assert "hunter2" not in text
    assert "tok-secret-9" not in text
    file = tmp_path / "session.jsonl"
    file.write_text(text)
    ended = CliRunner().invoke(main, ["validate", str(file), "--json"])
    found = json.loads(ended.output)
    # A line says the version of the protocol, which the draft shares with the revision that it grew from.
    said = [by_version(revision_named(revision).version, ALL)]
    assert (ended.exit_code, found["violations"], found["revisions"]) == (
        0,
        [],
        [one.name for one in said if one],
    )
    assert found["messages"] == len(messages(text)) > 8


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("no json", "line 1"),
        ('{"format": 3}', "line 1: the format is 3"),
        ('{"format": 2}\n[1]', "line 2"),
        ('{"format": 2}\n{"other": 1}', "line 2: it is neither"),
        ('{"format": 2}\n{"call": {}}', "lacks a member"),
        ("[" * 100_000, "line 1"),
        ('{"format": 2}\n{"http": 1, "sent": [["a"]]}', "line 2"),
        (f'{{"format": 2, "began": 1{"0" * 400}}}', "line 1"),
        (f'{{"format": 2}}\n{{"at": 1{"0" * 400}, "message": {{}}}}', "line 2"),
        (
            '{"call": {"call": "a", "method": "m", "params": {}, "started": 1, "first": "1"}}',
            "the number of an event is not a whole number",
        ),
        ('{"list": {"kind": "tools", "items": 5}}', "the items of a list are not a list"),
        (
            '{"list": {"kind": "tools", "items": [{"name": "a"}, null]}}',
            "an item of a list has no name, or one that is no text",
        ),
        ('{"format": 2, "target": []}', "line 1: the target is not an object"),
        ('{"format": 2, "target": {"revisions": 5}}', "line 1: the revisions of the target"),
        ('{"format": 2, "target": {"revisions": ["a", {}]}}', "line 1: the revisions of the target"),
        ('{"format": 2, "target": {"label": {}}}', "line 1: the label of the target"),
        ('{"format": 2, "target": {"server_info": [1]}}', "line 1: the server_info of the target"),
        (
            f'{{"call": {{"call": "a", "method": "m", "params": {{}}, "started": 1{"0" * 400}}}}}',
            "lacks a member, or has an invalid one",
        ),
    ],
)
def test_a_file_that_is_no_session_is_refused_with_its_line(text: str, where: str) -> None:
    async def scenario() -> None:
        async with opened(in_memory(bank())) as page:
            refused = await open_again(page, text)
            assert refused["status"] == 400
            assert where in refused["error"]
            assert (await page.get("state"))["target"]["state"] == "connected"

    run(scenario())


def test_a_recording_of_a_client_is_shown_too(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"

    async def scenario() -> None:
        async with mcprev.connect(bank(), record=file) as client:
            await client.call_tool("pay", {"amount": 1.0, "password": "x"})
        async with opened(in_memory(bank())) as page:
            assert (await open_again(page, file.read_text()))["status"] == 200
            events = (await page.get("wire"))["events"]
            assert [one["method"] for one in events if one.get("shape") == "request"][-1] == "tools/call"
            assert all(one["kind"] == "message" for one in events)

    run(scenario())
