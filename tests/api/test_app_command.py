"""The app of the examples, as `mcprev serve` runs it over stdio and HTTP, and what is imported for that."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

import mcprev
from helpers.named import SOME_ROWS
from helpers.requirements import D, req
from helpers.running import run
from helpers.support import ROOT
from mcprev.revisions import DEFAULT, HttpShape, Revision
from mcprev_types.latest import models as m

EXAMPLE = ROOT / "examples" / "app.py"
COMMAND = (sys.executable, "-c", "from mcprev.cli import main; main()", "serve", f"{EXAMPLE}:app")
HEAVY = {"aiohttp", "uvicorn", "jsonschema", "referencing", "anyio"}


async def look(client: mcprev.Client, row: Revision) -> None:
    """Use all that the example has."""
    assert client.revision == row.name
    assert [tool.name async for tool in client.tools()] == ["forecast"]
    result = await client.call_tool("forecast", {"city": "Oslo", "days": 1})
    assert result.to_wire()["content"] == [{"type": "text", "text": '{"city":"Oslo","celsius":[-4.0]}'}]
    failed = await client.call_tool("forecast", {"city": "Rome"})
    assert failed.is_error is True
    cities = await client.read_resource("weather://cities")
    assert cities.to_wire()["contents"][0]["text"] == '["Cairo","Lima","Oslo"]'
    assert (await client.read_resource("weather://cities/Lima")).to_wire()["contents"][0]["text"] == "19.5 °C"
    with pytest.raises(mcprev.ResourceNotFound):
        await client.read_resource("weather://cities/Rome")
    prompt = await client.get_prompt("advise", {"city": "Lima"})
    assert "for Lima" in str(prompt.to_wire()["messages"])
    found = await client.complete(m.PromptReference(name="advise"), "city", "c")
    assert found.completion.values == ["Cairo"]


@req("SEAM-1", "TOOL-1")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_the_command_serves_an_app_on_stdio(row: Revision) -> None:
    async def main() -> None:
        async with mcprev.connect(mcprev.stdio(*COMMAND), mode=row.name) as client:
            await look(client, row)

    run(main())


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
def test_the_command_serves_an_app_over_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([*COMMAND, "--http", str(port), "--sse"], stderr=subprocess.PIPE)

    async def main() -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except OSError:
                assert process.poll() is None
                await asyncio.sleep(0.05)
        writer.close()
        await writer.wait_closed()
        for row in DEFAULT:
            path = "/sse" if row.http is HttpShape.SSE else "/mcp"
            target = mcprev.http(f"http://127.0.0.1:{port}{path}")
            async with mcprev.connect(target, mode=row.name) as client:
                await look(client, row)

    try:
        run(main())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert b"Traceback" not in errors
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@req("STDIO-6", at=D)
def test_neither_http_nor_json_schema_is_imported_for_an_app_on_stdio() -> None:
    """Whatever its schemas say: pydantic judges by what they were made of."""
    script = (
        "import sys, mcprev\n"
        "app = mcprev.App('a', '1')\n"
        "class Tree(__import__('pydantic').BaseModel):\n    children: 'list[Tree]' = []\n"
        "@app.tool\nasync def t(tree: Tree, tags: set[str], at: tuple[int, int]) -> Tree:\n    return tree\n"
        "app.run_stdio()\n"
        "print(*sys.modules)\n"
    )
    hello = {"protocolVersion": D, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    arguments: dict[str, Any] = {"tree": {"children": [{}]}, "tags": ["a"], "at": [1, 2]}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "t", "arguments": arguments}},
        {"id": 3, "method": "tools/call", "params": {"name": "t", "arguments": {**arguments, "at": [1]}}},
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        answers = {
            answer["id"]: answer["result"]
            for answer in (json.loads(process.stdout.readline()) for _ in range(3))
        }
        rest, _ = process.communicate(timeout=10)
    finally:
        process.kill()
    assert answers[2]["structuredContent"] == {"children": [{"children": []}]}
    assert answers[3]["isError"] is True
    assert not HEAVY & set(rest.split())


@req("STDIO-6", everywhere=True)
def test_importing_the_package_does_not_import_what_apps_need() -> None:
    script = "import sys, mcprev; print(*sys.modules); mcprev.App; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=20
    )
    before, after = (set(line.split()) for line in done.stdout.splitlines())
    assert not {"pydantic", "mcprev.app", "mcprev.server", "inspect"} & before
    assert "mcprev.app" in after
    assert not HEAVY & after
