"""`examples/websocket.py`: a transport written from the recipe in docs/architecture.md carries everything (STDIO-11)."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web

import mcprev
from helpers.requirements import req
from helpers.running import passing, run
from helpers.support import ROOT
from mcprev.revisions import DEFAULT
from mcprev_types.latest import models as m


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("websocket_example", ROOT / "examples" / "websocket.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE: Final[Any] = _example()


class Handler(mcprev.ServerHandler):
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.stopped = asyncio.Event()

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        schema = m.ToolInputSchema()
        return m.ListToolsResult(tools=[m.Tool(name=name, input_schema=schema) for name in ("echo", "wait")])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        if params.name == "wait":
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
        text = str((params.arguments or {})["text"])
        return m.CallToolResult(content=[m.TextContent(text=text)])


@asynccontextmanager
async def served(handler: Handler, **options: Any) -> AsyncGenerator[tuple[str, mcprev.Server]]:
    server = mcprev.Server(handler, "ws", "1", **options)
    runner = web.AppRunner(EXAMPLE.websocket_app(server), shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/mcp", server
    finally:
        await server.aclose()
        await runner.cleanup()


async def said(client: mcprev.Client, text: str) -> str:
    result = await client.call_tool("echo", {"text": text})
    (block,) = result.content
    assert isinstance(block, m.TextContent)
    return block.text


@req("STDIO-11", everywhere=True)
@pytest.mark.parametrize("mode", ["auto", *(row.name for row in DEFAULT)])
def test_every_revision_works_over_it(mode: str) -> None:
    async def test() -> None:
        async with served(Handler()) as (url, _), mcprev.connect(EXAMPLE.websocket(url), mode=mode) as client:
            assert client.revision == (DEFAULT[-1].name if mode == "auto" else mode)
            texts = [f"{number}\r\n\u2028ä" for number in range(50)]
            assert await asyncio.gather(*(said(client, text) for text in texts)) == texts

    run(test())


@req("STDIO-11", everywhere=True)
def test_a_reader_that_is_slower_pauses_the_writer() -> None:
    async def test() -> None:
        async with served(Handler()) as (url, _), mcprev.connect(EXAMPLE.websocket(url)) as client:
            large = "x" * (3 * EXAMPLE.HIGH)
            assert await asyncio.gather(*(said(client, large) for _ in range(20))) == [large] * 20

    run(test())


@req("STDIO-11", everywhere=True)
def test_a_timeout_cancels_the_handler() -> None:
    async def test() -> None:
        handler = Handler()
        async with served(handler) as (url, _), mcprev.connect(EXAMPLE.websocket(url)) as client:
            with pytest.raises(mcprev.RequestTimeout):
                await passing(5, client.call_tool("wait", {}, timeout=5), handler.begun.is_set)
            await handler.stopped.wait()

    run(test())


@req("STDIO-11", everywhere=True)
def test_a_lost_connection_fails_its_calls() -> None:
    async def test() -> None:
        handler = Handler()
        async with (
            served(handler) as (url, server),
            mcprev.connect(EXAMPLE.websocket(url), restart=False) as client,
        ):
            call = asyncio.create_task(client.call_tool("wait", {}))
            await handler.begun.wait()
            await server.aclose()
            with pytest.raises(mcprev.ConnectionLost):
                await call
            await handler.stopped.wait()

    run(test())


@req("STDIO-11", everywhere=True)
def test_what_cannot_be_opened_is_a_lost_connection() -> None:
    async def test() -> None:
        async with served(Handler()) as (url, _):
            pass
        with pytest.raises(mcprev.ConnectionLost, match="ws://"):
            await mcprev.connect(EXAMPLE.websocket(url))

    run(test())


@req("STDIO-11", everywhere=True)
def test_the_lifespan_of_the_server_runs_while_it_is_served() -> None:
    async def lifespan(server: mcprev.Server) -> AsyncGenerator[str]:
        yield "value"

    class Reader(Handler):
        async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
            return m.CallToolResult(content=[m.TextContent(text=ctx.lifespan(str))])

    async def test() -> None:
        async with (
            served(Reader(), lifespan=lifespan) as (url, _),
            mcprev.connect(EXAMPLE.websocket(url)) as client,
        ):
            assert await said(client, "") == "value"

    run(test())


@req("STDIO-11", everywhere=True)
def test_a_port_that_is_silent_is_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EXAMPLE, "OPENING", 0.05)

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"ws://127.0.0.1:{silent.getsockname()[1]}/mcp"
            with pytest.raises(mcprev.ConnectionLost, match="TimeoutError"):
                await mcprev.connect(EXAMPLE.websocket(url))

    run(test())


@pytest.mark.slow
@req("STDIO-9", everywhere=True)
def test_a_peer_that_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket takes no more bytes, so what waits for it is dropped when the connection is closed."""
    monkeypatch.setattr("mcprev.transports.lines.CLOSE", 0.05)
    monkeypatch.setattr(EXAMPLE, "CLOSING", 0.05)

    async def test() -> None:
        left = asyncio.Event()

        async def deaf(request: web.Request) -> web.WebSocketResponse:
            found = web.WebSocketResponse()
            await found.prepare(request)
            await left.wait()
            return found

        app = web.Application()
        app.router.add_get("/mcp", deaf)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"ws://127.0.0.1:{runner.addresses[0][1]}/mcp"
        session = aiohttp.ClientSession()
        connection = mcprev.Server(Handler(), "ws", "1").connection()
        transport = EXAMPLE.WebSocketTransport(await session.ws_connect(url), connection)
        running = asyncio.create_task(transport.run())
        await asyncio.sleep(0)
        transport.write(b"x" * 32 * 2**20 + b"\n")
        await connection.aclose()
        await running
        left.set()
        await session.close()
        await runner.cleanup()

    run(test())


@req("SEC-1", everywhere=True)
def test_a_page_may_not_connect() -> None:
    async def test() -> None:
        async with served(Handler()) as (url, _), aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(url, headers={"Origin": "http://evil.example"})
            assert refused.value.status == 403

    run(test())
