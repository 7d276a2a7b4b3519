"""What a client records: every message of all its connections, as `mcprev validate` reads it, without secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mcprev
from api.wire import HandServer
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run
from mcprev.cli import main as command
from mcprev.client.recording.recording import Recording
from mcprev.revisions import DEFAULT, Revision
from mcprev_types import Direction
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def app() -> mcprev.App:
    made = mcprev.App("a", "1", tasks=mcprev.Tasks({"slow": "optional"}))

    @made.tool
    async def greet(name: str, access_token: str) -> str:
        return f"hi {name}"

    @made.tool
    async def slow(ctx: mcprev.Context) -> str:
        await ctx.detach()
        await asyncio.sleep(0)
        return "done"

    @made.tool
    async def ask(ctx: mcprev.Context) -> str:
        answer: Any = await ctx.ask("roots", m.ListRootsRequest())
        await ctx.log("info", "asked")
        return str(len(answer.roots))

    return made


def validate(path: Path) -> dict[str, Any]:
    done = CliRunner().invoke(command, ["validate", "--json", str(path)])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def talk(target: Any, row: Revision, path: Path) -> None:
    async with mcprev.connect(target, mode=row.name, record=path, roots=["/x"]) as client:
        await client.set_log_level("debug")
        assert [tool.name async for tool in client.tools()] == ["greet", "slow", "ask"]
        result = await client.call_tool("greet", {"name": "bob", "access_token": "s3cr3t"})
        assert result.text == "hi bob"
        assert (await client.call_tool("slow")).text == "done"
        assert (await client.call_tool("ask")).text == "1"


@each_once
@req("BASE-10", "SEC-6")
@each_row
@pytest.mark.parametrize("how", ["memory", "http"])
def test_what_is_recorded_is_valid_and_has_no_secrets(row: Revision, how: str, tmp_path: Path) -> None:
    """Twice into one file: the sessions are told apart."""
    path = tmp_path / "recording.jsonl"

    async def main() -> None:
        made = app()
        for _ in range(2):
            if how == "memory":
                await talk(made, row, path)
                continue
            port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            serving = asyncio.create_task(made.server.serve_http(port=0, ready=port.set_result))
            target = mcprev.http(
                f"http://127.0.0.1:{await port}/mcp", headers={"Authorization": "Bearer b3ar3r"}
            )
            await talk(target, row, path)
            serving.cancel()
            await asyncio.wait({serving})
        await made.server.aclose()

    run(main(), limit=60)
    found = validate(path)
    assert (found["violations"], found["without_response"]) == ([], 0)
    assert found["revisions"] == [row.name]
    text = path.read_text()
    assert text.count('"greet"') >= 4
    assert "bob" in text
    assert "s3cr3t" not in text
    assert "b3ar3r" not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@req("BASE-10")
@each_row
def test_what_a_server_does_wrong_is_recorded(row: Revision, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"

    async def main() -> None:
        hand: Any = HandServer(row, {"tools/list": {"tools": [{"name": 5}]}})
        async with mcprev.connect(mcprev.memory(hand), mode=row.name, record=path, strict=True) as client:
            hand.send({"jsonrpc": "2.0", "method": 5})
            with pytest.raises(mcprev.RemoteProtocolError):
                await client.list_tools()

    run(main())
    paths = {(found["method"], found["path"]) for found in validate(path)["violations"]}
    assert paths >= {(None, "$"), ("tools/list", "$.result.tools[0].name")}


@req("SEC-6", everywhere=True)
def test_a_recording_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "recording.jsonl"
    for _ in range(2):
        recording = Recording(path, most=1000)
        with caplog.at_level(logging.WARNING, logger="mcprev.client"):
            for _ in range(20):
                recording.write("s", Direction.CLIENT_TO_SERVER, b'{"x":"%b"}' % (b"y" * 100))
        recording.close()
    assert 800 < path.stat().st_size <= 1000
    assert [json.loads(line)["session"] for line in path.read_text().splitlines()] != []
    assert len([r for r in caplog.records if "is incomplete: it has reached" in r.message]) == 2


@req("BASE-10", everywhere=True)
def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(OSError, match="No such file"):
            await mcprev.connect(app(), record=tmp_path / "no" / "such")

    run(main())
