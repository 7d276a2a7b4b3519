"""A hostile server: nothing that it says hangs the process, becomes a header or a path, or leaves its place (SEC-6)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import mcprev
from dev.inspected import Page, opened
from helpers.running import run
from mcprev.dev import spool
from mcprev.dev.event_log import EventLog
from mcprev.dev.events import Seen
from mcprev.dev.launch import DirectLauncher, ignore

SERVER = """
import json, sys

out = sys.stdout.buffer
def say(data):
    out.write(data + b"\\n")
    out.flush()

def answer(message, result):
    say(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

NASTY = "<img src=x onerror=alert(1)>\\x1b[31m\\u202e\\r\\nSet-Cookie: a=1\\x00../../etc/passwd" + chr(0xD800)
WHAT = sys.argv[1]
for line in sys.stdin.buffer:
    message = json.loads(line)
    method = message["method"]
    if method == "initialize":
        info = {"name": NASTY, "version": NASTY}
        answer(message, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": info,
                         "instructions": NASTY})
    elif method == "tools/list":
        name = "x" * 10_000_000 if WHAT == "long" else NASTY
        tool = {"name": name, "description": NASTY, "inputSchema": {"type": "object"}}
        answer(message, {"tools": [tool, {**tool, "name": None}, 5, {}] if WHAT == "nameless" else [tool]})
    elif method == "tools/call":
        i = message["id"]
        if WHAT == "deep":
            say(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":' % i + b"[" * 10_000 + b"]" * 10_000 + b"}}")
        elif WHAT == "bytes":
            say(b"\\xff\\xfe\\x00 no JSON at all")
            say(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\\xff\\xfe"}]}}' % i)
        elif WHAT == "long":
            answer(message, {"content": [{"type": "text", "text": "y" * 12_000_000}]})
        elif WHAT == "loud":
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": ["z" * 100] * 3000}}
            for _ in range(20):
                say(json.dumps(note).encode())
            error = {"code": 1, "message": "m" * 3_000_000, "data": {"d": "d" * 3_000_000}}
            say(json.dumps({"jsonrpc": "2.0", "id": i, "error": error}).encode())
        elif WHAT == "many":
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": NASTY}})
            out.write((note.encode() + b"\\n") * 5000)
            answer(message, {"content": []})
        else:
            sys.stderr.write(NASTY.encode("utf-8", "replace").decode() * 10)
            sys.stderr.flush()
            answer(message, {"content": [{"type": "text", "text": NASTY}], "structuredContent": {NASTY: NASTY}})
    elif "id" in message:
        say(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": NASTY}}).encode())
"""
KINDS = ["nasty", "deep", "bytes", "long", "loud", "many"]


async def use(page: Page) -> dict[str, Any]:
    assert (await page.get("state"))["target"]["state"] == "connected"
    await page.post("list", kind="tools")
    await page.until("lists", lambda one: one["state"] != "loading")
    return await page.call("tools/call", {"name": "x", "arguments": {}})


@pytest.mark.slow
@pytest.mark.parametrize("what", KINDS)
def test_a_hostile_server_is_shown_and_nothing_hangs(what: str, tmp_path: Path) -> None:
    file = tmp_path / "hostile.py"
    file.write_text(SERVER)
    words = (sys.executable, str(file), what)

    async def scenario() -> None:
        launcher = DirectLauncher(
            "hostile", ("--", *words), lambda: mcprev.stdio(*words, stderr=ignore), kind="command", transport="stdio"
        )  # fmt: skip
        async with opened(launcher) as page:
            call = await use(page)
            assert call["ended"] is not None
            for event in (await page.get("wire"))["events"][:50]:
                shown = await page.get(f"event/{event['n']}")
                assert len(shown["text"] or "") <= 10 * 1024 * 1024
                assert event["label"].isprintable()
                assert len(event["label"]) <= 120
                if event["size"] < 1_000_000 or event["n"] == call["response"]:
                    assert (await page.get(f"event/{event['n']}/revisions"))["status"] == 200
            state = await page.get("state")
            assert (state["status"], state["target"]["state"]) == (200, "connected")
            assert (await page.get("search?text=onerror"))["status"] == 200
            async with page.session.get(f"{page.url}/api/save", headers=page.headers) as response:
                assert "\n" not in str(response.headers["Content-Disposition"])
                lines = (await response.read()).splitlines()
                assert all(json.loads(line) for line in lines[:100])
            for form in ("command", "pytest", "json"):
                copied = await page.post("copy", call=call["call"], **{"as": form})
                assert copied["status"] == 200
                assert copied["text"].replace("\n", "").isprintable()
            if what == "deep":
                assert call["state"] == "failed"
            if what == "bytes":
                assert [one["kind"] for one in page.events].count("invalid") >= 1
            if what == "loud":
                assert len(json.dumps(state)) < 1_000_000
                assert len(json.dumps(call)) < 100_000
                assert (len(state["logs"]), call["error"]["code"]) == (20, 1)
            if what == "long":
                assert (await page.get(f"event/{call['response']}"))["cut"] is True

    run(scenario(), limit=60)


def test_items_without_a_name_are_left_out_of_a_list_which_says_so(tmp_path: Path) -> None:
    file = tmp_path / "hostile.py"
    file.write_text(SERVER)
    words = (sys.executable, str(file), "nameless")

    async def scenario() -> None:
        launcher = DirectLauncher(
            "hostile", ("--", *words), lambda: mcprev.stdio(*words, stderr=ignore), kind="command", transport="stdio"
        )  # fmt: skip
        async with opened(launcher) as page:
            await page.post("list", kind="tools")
            found = await page.until("lists", lambda one: one["state"] != "loading")
            assert (found["state"], len(found["items"])) == ("failed", 1)
            assert found["error"].startswith("not all entries are valid: entry 2: ")
            assert "$.tools[0].name" in found["error"]

    run(scenario(), limit=60)


def test_the_oldest_bytes_are_dropped_beyond_the_bounds_and_the_newest_are_kept() -> None:
    kept = spool.Spool(memory=1000, file=4000)
    for number in range(1, 101):
        kept.put(number, b"%03d" % number * 30)
    assert kept.get(1) is None
    there = [number for number in range(1, 101) if kept.get(number) is not None]
    assert there == list(range(there[0], 101))
    assert 30 <= len(there) <= 60
    assert all(kept.get(number) == b"%03d" % number * 30 for number in there)
    kept.put(101, b"x" * 3000)
    kept.put(102, b"y" * 10)
    assert (kept.get(101), kept.get(102)) == (None, b"y" * 10)
    kept.close()
    assert kept.get(102) is None


def test_a_full_disk_drops_a_message_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mcprev.dev.spool.tempfile.TemporaryFile", full)
    kept = spool.Spool(memory=10, file=100)
    kept.put(1, b"x" * 10)
    kept.put(2, b"y" * 10)
    assert (kept.get(1), kept.get(2)) == (None, b"y" * 10)


def test_the_oldest_events_are_dropped_beyond_their_number() -> None:
    log = EventLog(most=100)
    for number in range(1000):
        log.add(Seen("message", "out", "c1.1", b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number))
    assert (log.first, log.next, len(list(log.all()))) == (901, 1001, 100)
    assert (log.get(900), log.get(901) is not None, log.get(1001)) == (None, True, None)
    log.close()


def test_labels_of_huge_texts_are_made_in_bounded_time() -> None:
    log = EventLog()
    params = {"name": "\x1b" * 5_000_000, "uri": "y" * 5_000_000}
    data = json.dumps(
        {"jsonrpc": "2.0", "id": "z" * 1000, "method": "m" * 5_000_000, "params": params}
    ).encode()
    began = time.perf_counter()
    event = log.add(Seen("message", "in", "c1.1", data))
    assert time.perf_counter() - began < 5
    assert len(json.dumps(event.summary())) < 2000
    log.close()
