"""What a call costs and what is imported, as far as it can be counted instead of timed."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import mcprev
from helpers.requirements import E, req
from helpers.running import until
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.memory import connect_pair
from mcprev.transports.stdio.pipes import PipeTransport
from mcprev_types.latest import models as m

HEAVY = ("aiohttp", "starlette", "uvicorn", "jsonschema", "httpx", "anyio", "click", "tree_sitter", "jinja2")
MOST = {"handshake": 40, "stateless": 41}
"""Python functions that one tools/call may run, from its bytes to those of its answer: half a call less today."""

MORE_OF_AN_APP = 15
"""How many more a function of an app may take, which uses nothing that apps offer besides."""


class Echo(mcprev.ServerHandler):
    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        return m.CallToolResult(content=[m.TextContent(text=str((params.arguments or {})["text"]))])


def handler() -> mcprev.Server:
    return mcprev.Server(Echo(), "s", "1")


def app() -> mcprev.Server:
    found = mcprev.App("s", "1")

    @found.tool
    async def echo(text: str) -> str:
        return text

    return found.server


class Client(asyncio.Protocol):
    transport: Any
    data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize(("make", "more"), [(handler, 0), (app, MORE_OF_AN_APP)])
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_calls_of_a_call(row: Revision, make: Callable[[], mcprev.Server], more: int) -> None:
    """Few Python functions for each of many calls, and no thread but the one of the loop."""

    async def main() -> float:
        threads = {*threading.enumerate()}
        server, peer = make(), Client()
        connection = server.connection()
        connect_pair(connection, peer)
        meta: dict[str, Any] = {}
        if row.handshake:
            opening = {
                "protocolVersion": row.version,
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            lines: list[dict[str, Any]] = [
                {"id": 0, "method": "initialize", "params": opening},
                {"method": "notifications/initialized"},
            ]
            peer.transport.write(
                b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines)
            )
        else:
            prefix = "io.modelcontextprotocol/"
            meta = {"_meta": {prefix + "protocolVersion": row.version, prefix + "clientCapabilities": {}}}

        def send(first: int, count: int) -> None:
            params: dict[str, Any] = {"name": "echo", "arguments": {"text": "hi"}, **meta}
            message = {"jsonrpc": "2.0", "method": "tools/call", "params": params}
            many = (
                json.dumps({**message, "id": number}).encode() + b"\n"
                for number in range(first, first + count)
            )
            peer.transport.write(b"".join(many))

        send(1, 50)
        await until(lambda: peer.data.count(b"hi") == 50)
        calls = 0

        def count(frame: FrameType, event: str, arg: object) -> None:
            nonlocal calls
            calls += event == "call"

        send(100, 200)
        sys.setprofile(count)
        try:
            while peer.data.count(b"hi") < 250:  # noqa: ASYNC110
                await asyncio.sleep(0)
        finally:
            sys.setprofile(None)
        assert threads.issuperset(threading.enumerate())  # those of tests before may end meanwhile
        await connection.aclose()
        return calls / 200

    spent = asyncio.run(asyncio.wait_for(main(), 20))
    assert (
        5 < spent <= MOST["handshake" if row.handshake else "stateless"] + more
    ), f"{spent} Python calls for one tools/call"


def imported(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
    return set(output.split())


@pytest.mark.slow
def test_import_graph_of_the_stdio_path() -> None:
    """Neither side of stdio imports a library for HTTP, JSON Schema or the command line."""
    modules = imported(
        "import mcprev.transports.stdio.server, mcprev.transports.stdio.client, mcprev; mcprev.connect"
    )
    assert not modules & set(HEAVY)
    assert "mcprev.server" not in imported("import mcprev")


@pytest.mark.slow
def test_an_app_on_stdio_imports_nothing_of_http() -> None:
    modules = imported(
        "import mcprev, mcprev.transports.stdio.server\napp = mcprev.App('app', '1')\n"
        "@app.tool\ndef echo(number: int) -> int: return number\napp.server"
    )
    assert not {name for name in modules if name == "http" or name.startswith("mcprev.transports.http")}


@pytest.mark.slow
def test_models_are_not_built_before_they_are_needed() -> None:
    """Naming a revision's models imports none, nor does a server until it serves something with params or result."""
    code = """
import asyncio, json, sys, mcprev
from mcprev_types.latest import models as m
class H(mcprev.ServerHandler):
    async def call_tool(self, ctx: "mcprev.Context", params: "m.CallToolRequestParams") -> "m.CallToolResult":
        return m.CallToolResult(content=[])
answers = []
class Peer(asyncio.Protocol):
    def data_received(self, data): answers.append(data)
def send(transport, method, number, params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    transport.write(json.dumps(message).encode() + b"\\n")
async def main():
    from mcprev.transports.memory import connect_pair
    connection, peer = mcprev.Server(H(), "s", "1").connection(), Peer()
    peer.connection_made = lambda transport: setattr(peer, "transport", transport)
    connect_pair(connection, peer)
    opening = {"protocolVersion": "VERSION", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    send(peer.transport, "initialize", 0, opening)
    while not answers: await asyncio.sleep(0)
    assert "pydantic" not in sys.modules
    send(peer.transport, "tools/call", 1, {"name": "t"})
    while len(answers) < 2: await asyncio.sleep(0)
    assert b'"content":[]' in answers[1], answers
    await connection.aclose()
asyncio.run(main())
"""
    opened = next(row for row in reversed(DEFAULT) if row.handshake)
    assert "pydantic" in imported(code.replace("VERSION", opened.version))


def test_importing_the_package_imports_nothing() -> None:
    modules = imported("import mcprev")
    assert {name for name in modules if name.startswith(("mcprev", "pydantic", "asyncio"))} == {"mcprev"}


@pytest.mark.slow
def test_only_the_spoken_revision_is_imported() -> None:
    code = """
import asyncio, mcprev
class H(mcprev.ServerHandler): pass
async def main():
    server = mcprev.Server(H(), "s", "1")
    async with mcprev.connect(mcprev.memory(server)) as client:
        assert client.revision
asyncio.run(main())
"""
    packages = {name.split(".")[1] for name in imported(code) if name.startswith("mcprev_types.v")}
    assert packages == {DEFAULT[-1].package.split(".")[1]}


def test_names_of_the_package() -> None:
    for name in dir(mcprev):
        assert getattr(mcprev, name) is not None
    with pytest.raises(AttributeError):
        _ = mcprev.nothing
    assert callable(mcprev.convert)
    assert mcprev.convert({}, "ping", "result", from_=DEFAULT[0], to=DEFAULT[1]) == {}


@pytest.mark.slow
@req("TOOL-3", at=E)
def test_plain_schemas_are_checked_without_a_library() -> None:
    """The library is imported by the first tool whose schema needs it, and not for the others."""
    code = """
import asyncio, sys, mcprev
class H(mcprev.ServerHandler):
    async def list_tools(self, ctx, params):
        plain = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return {"tools": [{"name": "plain", "inputSchema": plain, "outputSchema": plain},
                          {"name": "rich", "inputSchema": {**plain, "not": False}}]}
    async def call_tool(self, ctx, params):
        return {"content": [], "structuredContent": params.arguments}
async def main():
    async with mcprev.connect(mcprev.memory(mcprev.Server(H(), "s", "1"))) as client:
        await client.list_tools()
        assert (await client.call_tool("plain", {})).is_error
        assert not (await client.call_tool("plain", {"n": 1})).is_error
        assert "jsonschema" not in sys.modules
        assert (await client.call_tool("rich", {})).is_error
        assert "jsonschema" in sys.modules
asyncio.run(main())
"""
    assert "jsonschema" in imported(code)


def test_little_room_is_made_for_each_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 128 KiB on the C library may map memory anew for each read, which costs more than a small message."""
    sizes: set[int] = set()
    real_read = os.read

    def read(descriptor: int, size: int) -> bytes:
        sizes.add(size)
        return real_read(descriptor, size)

    async def main() -> None:
        (incoming, to_server), (from_server, outgoing) = os.pipe(), os.pipe()
        connection = mcprev.Server(Echo(), "s", "1").connection()
        await PipeTransport(connection).open(incoming, outgoing)
        os.write(to_server, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 3)
        await until(lambda: bool(select.select([from_server], [], [], 0)[0]))
        os.close(to_server)
        await connection.closed
        os.close(from_server)

    monkeypatch.setattr(os, "read", read)
    asyncio.run(main())
    assert max(sizes) < 128 * 1024
