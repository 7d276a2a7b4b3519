"""`mcprev bridge`: processes on both sides, HTTP, and what the command refuses."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.requirements import E, req
from helpers.running import run
from helpers.shell import invoke
from mcprev.analysis.transcript import TranscriptValidator
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
OLDEST, MODERN = DEFAULT[0], DEFAULT[-1]
ECHO: Final = str(Path(__file__).resolve().parents[1] / "stdio" / "echo_server.py")
APP: Final = """
import mcprev

app = mcprev.App("echo", "1")


@app.tool
def echo(text: str) -> str:
    return text
"""
BRIDGE: Final = (sys.executable, "-m", "mcprev", "bridge")


def said(result: m.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, m.TextContent)
    return block.text


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@req("SEAM-10", "STDIO-7", at=(SESSION.name, E))
@pytest.mark.parametrize(("row", "there"), [(SESSION, MODERN), (MODERN, SESSION)], ids=lambda row: row.name)
def test_a_bridge_between_processes(row: Revision, there: Revision, tmp_path: Path) -> None:
    """A server that is killed is started again with the next call; at the end no process is left."""
    heard: list[bytes] = []
    file = tmp_path / "both.jsonl"
    options = ("--explain", "--record", str(file), "--server-revision", there.name)

    async def main() -> None:
        command = mcprev.stdio(*BRIDGE, *options, "--", sys.executable, ECHO, stderr=heard.append)
        async with mcprev.connect(command, mode=row.name) as client:
            assert client.server_info is not None
            assert client.server_info.name == "echo"
            first = int(said(await client.call_tool("pid", {})))
            assert said(await client.call_tool("echo", {"text": "hello"})) == "hello"
            with pytest.raises(mcprev.InternalError, match="the server behind the bridge did not respond"):
                await client.call_tool("die", {})
            second = int(said(await client.call_tool("pid", {})))
            assert first != second
        for _ in range(200):
            if not alive(second):
                break
            await asyncio.sleep(0.02)
        assert not alive(first)
        assert not alive(second)

    run(main())
    told = b"".join(heard).decode()
    assert "last words" in told
    assert "tools/call result" not in told, "only the envelopes of results differ, which are no data"
    checker = TranscriptValidator()
    found = [
        each for n, line in enumerate(file.read_bytes().splitlines(), 1) for each in checker.feed(n, line)
    ]
    assert found == []
    assert set(checker.revisions) == {row.name, there.name}


@asynccontextmanager
async def served(*arguments: str) -> AsyncGenerator[tuple[str, bytearray], None]:
    """`mcprev bridge --http`: its URL, and what it writes to stderr."""
    command = (*BRIDGE, "--http", "127.0.0.1:0", "--log-level", "info", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    written = bytearray()
    try:
        line = b""
        while b"http://127.0.0.1:" not in line:
            line = await process.stderr.readline()
            assert line, "the command ended"
        port = line.decode().partition("http://127.0.0.1:")[2].split("/")[0].split()[0].strip(" .,)")
        yield f"http://127.0.0.1:{port}/mcp", written
    finally:
        process.terminate()
        written += await process.stderr.read()
        await process.wait()


@pytest.mark.slow
@req("SEAM-10", at=(SESSION.name, E))
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_clients_without_sessions_share_a_process_only_if_that_is_wanted(shared: bool) -> None:
    """Without `--shared`, the log says once why each call starts the server anew, and what changes that."""

    async def main() -> bytes:
        wanted = ("--shared",) if shared else ()
        behind = ("--server-revision", SESSION.name, "--", sys.executable, ECHO)
        async with (
            served(*wanted, *behind) as (url, written),
            mcprev.connect(url, mode=MODERN.name) as client,
        ):
            found = {said(await client.call_tool("pid", {})) for _ in range(3)}
            assert len(found) == (1 if shared else 3)
        return bytes(written)

    assert run(main()).count(b"each of its calls gets a new connection") == (0 if shared else 1)


DYING: Final = (
    sys.executable,
    "-c",
    "import sys; sys.exit('no such folder, with password=hunter2, said ' + 'at length ' * 90)",
)
"""A command that cannot start, and says why on stderr."""


def dying(folder: Path, *, config: bool) -> tuple[str, ...]:
    """The end of a command line of a bridge in front of it, alone or out of a configuration."""
    if not config:
        return "--", *DYING
    file = folder / "mcp.json"
    servers = {"files": {"command": DYING[0], "args": DYING[1:]}}
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return "--config", str(file)


in_front_of = pytest.mark.parametrize("config", [False, True], ids=["alone", "of a configuration"])


@pytest.mark.slow
@req("LIFE-3", "SEC-6", at=(SESSION.name, E))
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
@in_front_of
@each_once
def test_who_starts_a_bridge_is_told_the_last_line_of_a_command_that_cannot_start(
    row: Revision, config: bool, tmp_path: Path
) -> None:
    async def main() -> str:
        command = mcprev.stdio(*BRIDGE, *dying(tmp_path, config=config), stderr=lambda _: None)
        with pytest.raises(mcprev.McpError) as caught:
            async with mcprev.connect(command, mode=row.name) as client:
                await client.list_tools()
        return str(caught.value)

    told = run(main())
    assert "no such folder, with password=[...], said at length" in told
    assert "hunter2" not in told


@pytest.mark.slow
@req("LIFE-3", "SEC-6", at=(SESSION.name, E))
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
@in_front_of
@each_once
def test_a_client_over_http_is_told_that_the_log_of_the_bridge_has_it(
    row: Revision, config: bool, tmp_path: Path
) -> None:
    async def main() -> tuple[str, str]:
        async with served(*dying(tmp_path, config=config)) as (url, written):
            with pytest.raises(mcprev.McpError) as caught:
                await mcprev.connect(url, mode=row.name)
        return str(caught.value), written.decode()

    told, written = run(main())
    assert "the log of the bridge has what it wrote to stderr" in told
    assert "no such folder" not in told
    assert "no such folder, with password=[...], said at length" in written
    assert "hunter2" not in written


@pytest.mark.slow
@req("SEAM-10", "HTTPM-6", at=(OLDEST.name, E))
def test_a_bridge_over_http_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(APP, encoding="utf-8")

    async def main() -> None:
        async with served(str(file)) as (url, _):
            for row in (SESSION, MODERN):
                async with mcprev.connect(url, mode=row.name) as client:
                    assert said(await client.call_tool("echo", {"text": row.name})) == row.name

    run(main())


LISTING: Final = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        error = {"code": -32601, "message": "no sessions"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
        continue
    if asked["method"] == "server/discover":
        result = {"supportedVersions": [asked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]]}
        result |= {"capabilities": {"tools": {}}}
    else:
        print("asked for", asked["method"], file=sys.stderr, flush=True)
        result = {"tools": []}
    result |= {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
    result["_meta"] = {"io.modelcontextprotocol/serverInfo": {"name": "by hand", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.slow
@req("SEAM-10", "CACHE-2", everywhere=True)
def test_metrics_and_a_cache_of_the_command(tmp_path: Path) -> None:
    """The numbers name the pair; the second list comes from the cache."""
    file = tmp_path / "server.py"
    file.write_text(LISTING, encoding="utf-8")

    async def main() -> None:
        options = (
            "--http",
            "127.0.0.1:0",
            "--log-level",
            "info",
            "--metrics",
            "--cache",
            "--sse",
            "--drain",
            "1",
        )
        command = (*BRIDGE, *options, "--", sys.executable, str(file))
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        try:
            line = b""
            while b"http://127.0.0.1:" not in line:
                line = await process.stderr.readline()
                assert line, "the command ended"
            port = line.decode().partition("http://127.0.0.1:")[2].split("/")[0].split()[0].strip(" .,)")
            base = f"http://127.0.0.1:{port}"
            for row in (SESSION, MODERN, SESSION, MODERN):
                async with mcprev.connect(f"{base}/mcp", mode=row.name) as client:
                    assert [tool async for tool in client.tools()] == []
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{base}/metrics") as found:
                    numbers = await found.text()
                async with session.get(f"{base}/metrics", headers={"Host": "evil.example"}) as refused:
                    assert refused.status in (403, 421)
        finally:
            process.terminate()
            rest = await process.stderr.read()
            await process.wait()
        for row in (SESSION, MODERN):
            pair = (
                f'client_revision="{row.name}",outcome="ok",server="by hand",server_revision="{MODERN.name}"'
            )
            assert f"mcp_bridged_calls_total{{{pair}}} 2.0" in numbers, numbers
        assert rest.count(b"asked for tools/list") == 2, "once for each pair"

    run(main())


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--http", "0.0.0.0:9", "http://127.0.0.1:1/mcp"], "--no-auth"),
        (["--http", "a.example:9", "http://127.0.0.1:1/mcp"], "everybody who reaches a.example"),
        (["--shared", "http://127.0.0.1:1/mcp"], "require --http"),
        (["--path", "/x", "http://127.0.0.1:1/mcp"], "require --http"),
        (["--workers", "2", "http://127.0.0.1:1/mcp"], "require --http"),
        (["--health", "http://127.0.0.1:1/mcp"], "require --http"),
        (["--metrics", "http://127.0.0.1:1/mcp"], "require --http"),
        (
            ["--http", "0", "--cache", "--workers", "2", "http://127.0.0.1:1/mcp"],
            "--cache is for one process",
        ),
        (
            ["--http", "0", "--cache", "--store", "sqlite:///x", "http://127.0.0.1:1/mcp"],
            "--cache is for one process",
        ),
        (["--store", "ftp://x", "http://127.0.0.1:1/mcp"], "--store or MCPREV_STORE"),
        (
            ["--http", "0", "--workers", "2", "--record", "x", "http://127.0.0.1:1/mcp"],
            "pass it with --workers 1",
        ),
        (["--header", "A: b", "--", "true"], "headers require a server at a URL"),
        (["--revision", "nonsense", "http://127.0.0.1:1/mcp"], "unknown revision"),
        (["nothing.py"], "there is no file"),
        ([], "name one server, or a file with --config"),
        (["--config", "mcp.json", "http://127.0.0.1:1/mcp"], "name one server, or a file with --config"),
        (["--config", "mcp.json", "--header", "a: b"], "write `headers` in the file"),
        (["--config", "nothing.json"], "cannot read 'nothing.json': No such file"),
    ],
)
def test_what_the_command_refuses(arguments: list[str], text: str) -> None:
    done = invoke(None, "bridge", *arguments)
    assert done.exit_code != 0
    assert text in done.output
