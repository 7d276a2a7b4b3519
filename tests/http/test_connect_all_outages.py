"""Clients of several servers while one of them is away: they hear of its changes again, and of those of the others all the time (SUB-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.away import SECONDS, URI, as_process, over_http, soon_quiet
from helpers.requirements import req
from helpers.running import run, until
from mcprev.client.connect_all import connect_all
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import Revision

TOOLS, RESOURCE = mcprev.Change(Changed.TOOLS), mcprev.Change(Changed.RESOURCE, URI)


@each_once
@req("SUB-5", "SUB-7", everywhere=True)
@pytest.mark.parametrize("kind", [over_http, as_process])
def test_listeners_at_one_of_several_servers_outlive_its_outage(
    row: Revision, kind: Callable[..., Any]
) -> None:
    async def main() -> None:
        told: list[tuple[str, mcprev.Change]] = []

        def changed(server: str, change: mcprev.Change) -> None:
            told.append((server, change))

        async with kind(row) as away, as_process(row) as other:
            servers = {"away": away.target(), "other": other.target()}
            async with (
                connect_all(servers, mode=row.name, on_change=changed) as clients,
                clients["away"].listen(tools=True, uris=[URI]) as changes,
            ):
                await away.change()
                assert await anext(changes) == TOOLS
                await until(lambda: ("away", TOOLS) in told)
                for seconds in SECONDS:
                    told.clear()
                    await away.away(seconds)
                    await other.change()
                    await until(lambda: ("other", TOOLS) in told)
                    assert {await anext(changes), await anext(changes)} == {TOOLS, RESOURCE}
                    await until(lambda: ("away", TOOLS) in told)
                    await asyncio.sleep(40)  # of the clock of the loop: it is stable
                    told.clear()
                    await away.change()
                    assert await anext(changes) == TOOLS
                    await until(lambda: ("away", TOOLS) in told)
                    assert ("other", TOOLS) not in told
                assert (await clients.call_tool("away__t")).content

    run(main(), limit=3_000, has_both_ends=True)


@req("SUB-5", "SUB-7", "PING-2", everywhere=True)
def test_streams_of_one_of_several_servers_that_bring_nothing_more_are_opened_again(
    row: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon_quiet(monkeypatch)

    async def main() -> None:
        told: list[tuple[str, mcprev.Change]] = []

        def changed(server: str, change: mcprev.Change) -> None:
            told.append((server, change))

        async with over_http(row) as silent, as_process(row) as other:
            servers = {"silent": silent.target(), "other": other.target()}
            async with (
                connect_all(servers, mode=row.name, on_change=changed) as clients,
                clients["silent"].listen(tools=True, uris=[URI]) as changes,
            ):
                await silent.change()
                assert await anext(changes) == TOOLS
                told.clear()
                silent.fall_silent()
                assert {await anext(changes), await anext(changes)} == {TOOLS, RESOURCE}
                await until(lambda: ("silent", TOOLS) in told)
                assert ("other", TOOLS) not in told
                assert (await clients.call_tool("silent__t")).content

    run(main(), limit=900, has_both_ends=True)


@req("SUB-5", "SUB-7", everywhere=True)
def test_a_call_that_succeeds_brings_listeners_back_at_once(row: Revision) -> None:
    """Also at the server that was away with others."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with as_process(row) as away, as_process(row) as other:
            servers = {"away": away.target(), "other": other.target()}
            async with (
                connect_all(servers, mode=row.name) as clients,
                clients["away"].listen(tools=True, uris=[URI]) as changes,
            ):
                await away.away(400)
                began = loop.time()
                assert (await clients.call_tool("away__t")).content
                assert {await anext(changes), await anext(changes)} == {TOOLS, RESOURCE}
                assert loop.time() - began < 2

    run(main(), limit=900, has_both_ends=True)
