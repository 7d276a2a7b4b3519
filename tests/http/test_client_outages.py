"""Listeners of a client over HTTP while their server is away: they hear of changes again, and of what they missed (SUB-5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mcprev
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import HttpShape, Revision
from raw_server import Exchange, Mcp, Raw, serve, text
from requirements import req
from running import run, until

LISTEN = "subscriptions/listen"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
TOOLS, RESOURCE = mcprev.Change(Changed.TOOLS), mcprev.Change(Changed.RESOURCE, "a:1")


class Changing(Mcp):
    """A server that tells of changes, on the stream of a session or on those that listen."""

    def __init__(self, row: Revision) -> None:
        super().__init__(
            row, {"tools/call": text("x"), "resources/subscribe": {}, "resources/unsubscribe": {}}
        )
        self.replies["GET" if row.handshake else LISTEN] = self.listen
        self.streams: list[Exchange] = []

    async def listen(self, exchange: Exchange) -> None:
        await exchange.stream()
        if not self.revision.handshake:
            await self.tell(
                exchange, "notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True}
            )
        self.streams.append(exchange)
        try:
            await exchange.gone.wait()
        finally:
            self.streams.remove(exchange)

    async def tell(self, exchange: Exchange, method: str, **params: Any) -> None:
        if not self.revision.handshake:
            params["_meta"] = {SUBSCRIPTION: exchange.message["id"]}
        await exchange.event({"jsonrpc": "2.0", "method": method, "params": params})

    async def change(self) -> None:
        await until(lambda: bool(self.streams))
        for stream in tuple(self.streams):
            await self.tell(stream, CHANGES[Changed.TOOLS].method)


async def outage(raw: Raw, seconds: float) -> None:
    """The server is gone for some time of the loop's clock, and its address is refused."""
    port = raw.port
    await raw.stop()
    await asyncio.sleep(seconds)
    await raw.start(port)


async def next_of(changes: Any, count: int) -> set[mcprev.Change]:
    return {await anext(changes) for _ in range(count)}


@req("SUB-5", "SUB-7", "HTTP-10", everywhere=True)
@pytest.mark.parametrize("seconds", [2, 8, 30, 120])
def test_listeners_outlive_an_outage(row: Revision, seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    if row.http is HttpShape.SSE:
        return

    async def main() -> None:
        server, told = Changing(row), list[mcprev.Change]()
        async with (
            serve(server) as raw,
            mcprev.connect(mcprev.http(raw.url), mode=row.name, on_change=told.append) as client,
            client.listen(tools=True, uris=["a:1"]) as changes,
        ):
            await until(lambda: bool(server.streams))
            await server.change()
            assert await anext(changes) == TOOLS
            await until(lambda: TOOLS in told)
            told.clear()
            await outage(raw, seconds)
            assert await next_of(changes, 2) == {TOOLS, RESOURCE}
            await until(lambda: TOOLS in told)
            await until(lambda: len(server.streams) == (1 if row.handshake else 2))
            told.clear()
            await server.change()
            assert await anext(changes) == TOOLS
            await until(lambda: TOOLS in told)
            assert (await client.call_tool("t")).content

    run(main(), limit=900, has_both_ends=True)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len([told for told in warnings if "not heard of" in told]) <= 2
    assert len(warnings) <= 6, warnings


@req("SUB-5", everywhere=True)
def test_a_request_that_succeeds_brings_listeners_back_at_once(row: Revision) -> None:
    if row.http is HttpShape.SSE:
        return

    async def main() -> None:
        server, loop = Changing(row), asyncio.get_running_loop()
        async with (
            serve(server) as raw,
            mcprev.connect(mcprev.http(raw.url), mode=row.name) as client,
            client.listen(tools=True) as changes,
        ):
            await until(lambda: bool(server.streams))
            await outage(raw, 200)
            began = loop.time()
            assert (await client.call_tool("t")).content
            assert await anext(changes) == TOOLS
            assert loop.time() - began < 2

    run(main(), limit=900, has_both_ends=True)
