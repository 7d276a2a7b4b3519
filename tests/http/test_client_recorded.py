"""What is recorded of responses that refuse a request with a status of HTTP, and what `mcprev validate` says of them (BASE-10)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.raw_server import Exchange, Mcp, connected, serve
from helpers.requirements import req
from helpers.running import run
from mcprev.analysis.transcript import TranscriptValidator
from mcprev.bridge.bridge import Bridge
from mcprev.client.recording.recording import MAX_TEXT
from mcprev.revisions import DEFAULT, Revision

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
SESSIONS: Final = [row for row in DEFAULT if row.handshake]
MODERN: Final = DEFAULT[-1]
MASKED: Final = "sk-hunter2-hunter2-hunter2"


def validated(path: Path) -> tuple[TranscriptValidator, list[Any]]:
    checker = TranscriptValidator()
    lines = path.read_bytes().splitlines()
    return checker, [found for number, line in enumerate(lines, 1) for found in checker.feed(number, line)]


async def error_400(exchange: Exchange) -> None:
    await exchange.error(-32602, 400, f"no: token={MASKED}")


async def error_without_id(exchange: Exchange) -> None:
    await exchange.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}, 400)


async def text_410(exchange: Exchange) -> None:
    await exchange.respond(410, b"<html>" + b"x" * 100_000, {"Content-Type": "text/html"})


async def json_500(exchange: Exchange) -> None:
    await exchange.json({"error": "no", "access_token": MASKED}, 500)


async def nothing_500(exchange: Exchange) -> None:
    await exchange.respond(500)


REFUSALS: Final = (error_400, error_without_id, text_410, json_500, nothing_500)


@each_once
@req("BASE-10", "ERR-7", "SEC-6", everywhere=True)
@each_row
@pytest.mark.parametrize("refuse", REFUSALS, ids=lambda each: each.__name__)
def test_a_refusal_is_recorded_and_is_a_response(
    row: Revision, refuse: Callable[[Exchange], Awaitable[None]], tmp_path: Path
) -> None:
    path = tmp_path / "recording.jsonl"

    async def main() -> None:
        async with connected(row, {"prompts/list": refuse}, record=path) as (client, _, _):
            with pytest.raises(mcprev.McpError):
                await client.list_prompts()
            await client.list_tools()

    run(main())
    checker, found = validated(path)
    assert found == []
    assert checker.without_response == []
    assert checker.revisions == (row.name,)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    errors = [line["message"]["error"] for line in lines if "error" in line.get("message", {})]
    bodies = [line["body"] for line in lines if "body" in line]
    statuses = [line["status"] for line in lines if line.get("method") == "prompts/list"]
    assert statuses[0] >= 400
    assert len(errors) == (refuse in (error_400, error_without_id))
    assert len(bodies) == (refuse in (text_410, json_500))
    assert all(len(body) <= MAX_TEXT for body in bodies)
    assert MASKED not in path.read_text()


@req("BASE-10", everywhere=True)
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
@pytest.mark.parametrize("status", [200, 400, 404])
def test_each_message_of_a_bridge_is_judged_by_the_revision_in_force(
    row: Revision, status: int, tmp_path: Path
) -> None:
    """The first `initialize` of a bridge is refused by a server that has none; what follows is of the server's revision."""
    path = tmp_path / "recording.jsonl"

    async def refuse(exchange: Exchange) -> None:
        await exchange.error(-32601, status, "Method not found")

    async def main() -> None:
        async with serve(Mcp(MODERN, {"initialize": refuse})) as raw:
            bridge = Bridge(raw.url, server_revisions=[row.name, MODERN.name], record=path)
            async with mcprev.connect(bridge, mode=row.name) as client:
                assert await client.list_tools() is not None

    run(main())
    checker, found = validated(path)
    assert found == []
    assert [each.method for each in checker.without_response] in ([], ["subscriptions/listen"])
    assert checker.revisions[-1] == MODERN.name


@req("BASE-10", everywhere=True)
def test_two_connections_at_once_are_told_apart(tmp_path: Path) -> None:
    """The responses of each are notes of its own session."""
    path = tmp_path / "recording.jsonl"

    async def main() -> None:
        async with serve(Mcp(SESSIONS[-1], {"prompts/list": error_400})) as raw:
            bridge = Bridge(raw.url, server_revisions=[SESSIONS[-1].name], record=path)
            async with mcprev.connect(bridge) as first, mcprev.connect(bridge) as second:
                for client in (first, second, first):
                    with suppress(mcprev.McpError):
                        await client.list_prompts()

    run(main())
    checker, found = validated(path)
    assert (found, checker.without_response) == ([], [])


@req("BASE-10", "SEAM-10", everywhere=True)
@pytest.mark.parametrize("several", [False, True], ids=["one server", "several"])
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_a_session_of_a_bridge_with_a_store_is_one_session(
    row: Revision, several: bool, tmp_path: Path
) -> None:
    path = tmp_path / "recording.jsonl"

    async def main() -> None:
        async with serve(Mcp(MODERN)) as raw:
            given: Any = {"one": mcprev.http(raw.url)} if several else raw.url
            bridge = Bridge(given, store=mcprev.MemoryStore(), record=path)
            port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            serving = asyncio.create_task(bridge.serve_http(port=0, ready=port.set_result))
            async with mcprev.connect(f"http://127.0.0.1:{await port}/mcp", mode=row.name) as client:
                await client.list_tools()
            serving.cancel()
            await asyncio.wait({serving})

    run(main())
    assert validated(path)[1] == []
