"""Listeners of a client over HTTP while their server is away: they hear of changes again, and of what they missed (SUB-5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mcprev
from helpers.away import SECONDS, URI, Changing, outage, over_http, soon_quiet
from helpers.raw_server import Exchange, serve
from helpers.requirements import req
from helpers.running import run, until
from mcprev.protocol.subscriptions import ACKNOWLEDGED, Changed
from mcprev.revisions import HttpShape, Revision

TOOLS, RESOURCE = mcprev.Change(Changed.TOOLS), mcprev.Change(Changed.RESOURCE, URI)


async def next_of(changes: Any, count: int) -> set[mcprev.Change]:
    return {await anext(changes) for _ in range(count)}


@req("SUB-5", "SUB-7", "HTTP-10", everywhere=True)
@pytest.mark.parametrize("seconds", SECONDS)
def test_listeners_outlive_an_outage(row: Revision, seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    if row.http is HttpShape.SSE:
        return

    async def main() -> None:
        server, told = Changing(row), list[mcprev.Change]()
        async with (
            serve(server) as raw,
            mcprev.connect(mcprev.http(raw.url), mode=row.name, on_change=told.append) as client,
            client.listen(tools=True, uris=[URI]) as changes,
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


@req("SUB-5", "SUB-7", "HTTP-10", "PING-2", everywhere=True)
def test_a_stream_that_brings_nothing_more_is_opened_again(
    row: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection has not ended, and the system of another host keeps it alive. What came meanwhile may be lost."""
    seconds = soon_quiet(monkeypatch)

    async def main() -> None:
        told, loop = list[mcprev.Change](), asyncio.get_running_loop()
        async with (
            over_http(row) as server,
            mcprev.connect(server.target(), mode=row.name, on_change=told.append) as client,
            client.listen(tools=True, uris=[URI]) as changes,
        ):
            await server.change()
            assert await anext(changes) == TOOLS
            for _ in range(2):
                told.clear()
                server.fall_silent()
                began = loop.time()
                assert await next_of(changes, 2) == {TOOLS, RESOURCE}
                assert seconds / 2 < loop.time() - began < seconds + 60
                await until(lambda: TOOLS in told)
                await server.change()
                assert await anext(changes) == TOOLS
            assert (await client.call_tool("t")).content

    run(main(), limit=900, has_both_ends=True)


@req("SUB-5", "PING-2", everywhere=True)
def test_a_stream_with_signs_of_life_stays_open(
    row: Revision, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Comments, or responses to the pings of the oldest transport."""
    seconds = soon_quiet(monkeypatch)

    async def main() -> None:
        async with (
            over_http(row) as server,
            mcprev.connect(server.target(), mode=row.name) as client,
            client.listen(tools=True) as changes,
        ):
            await server.change()
            assert await anext(changes) == TOOLS
            for _ in range(8):
                await asyncio.sleep(seconds / 2)
                await server.sign()
            await server.change()
            assert await anext(changes) == TOOLS
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(
                    anext(changes), seconds / 2
                )  # a stream that is opened again tells of all

    caplog.set_level("DEBUG", "mcprev.client")
    run(main(), limit=900, has_both_ends=True)
    assert not [text for text in caplog.messages if "nothing came" in text]


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


@pytest.mark.slow
@req("SUB-5", "SUB-7", "HTTP-10", everywhere=True)
def test_streams_that_end_at_once_are_not_asked_for_with_every_request(row: Revision) -> None:
    if row.http is HttpShape.SSE:
        return

    class Ending(Changing):
        opened = 0

        async def listen(self, exchange: Exchange) -> None:
            self.opened += 1
            if row.handshake and self.opened > 1:
                await exchange.respond(405)
                return
            await exchange.stream()
            if not row.handshake:
                wanted = exchange.message["params"]["notifications"]
                await self.tell(exchange, ACKNOWLEDGED, notifications=wanted)
            exchange.cut()

    async def main() -> None:
        server = Ending(row)
        async with (
            serve(server) as raw,
            mcprev.connect(mcprev.http(raw.url), mode=row.name, on_change=lambda _: None) as client,
        ):
            for _ in range(200):
                await client.call_tool("t")
                await asyncio.sleep(0.1)
            assert 3 <= server.opened <= 40, server.opened

    run(main(), limit=900, has_both_ends=True)
