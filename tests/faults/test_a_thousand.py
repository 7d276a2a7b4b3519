"""A thousand connections, opened and closed: what they took is given back, in memory, descriptors and processes."""

from __future__ import annotations

import asyncio
import gc
import heapq
import threading
import tracemalloc
from collections import Counter
from typing import Any

import pytest

import mcprev
from api.authors import text
from faults.processes import nothing_left
from helpers.named import SOME_ROWS
from helpers.requirements import D, req
from helpers.running import run, until
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

THOUSAND = 1000
MEMORY = 20_000
"""Bytes that fifty connections may seem to keep, in caches of the interpreter: less than one of them takes."""


class Author(mcprev.ServerHandler):
    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        await ctx.progress(1)
        return text(params.name)


def ours() -> Counter[str]:
    """How many objects there are of each type of the runtime's, and of asyncio's that it uses."""
    gc.collect()
    names = (f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in gc.get_objects())
    return Counter(name for name in names if name.startswith(("mcprev.", "_asyncio", "asyncio")))


def drop_cancelled_timers() -> None:
    """Free what the loop frees later: it keeps up to a hundred cancelled timers, and with them their arguments."""
    loop: Any = asyncio.get_running_loop()
    for timer in loop._scheduled:
        timer._scheduled = not timer.cancelled()
    loop._scheduled = [timer for timer in loop._scheduled if timer._scheduled]
    heapq.heapify(loop._scheduled)
    loop._timer_cancelled_count = 0


async def in_memory(made: mcprev.Server, row: Revision) -> None:
    """What a client usually does; every other one goes with calls and a stream still open."""
    target = mcprev.memory(made)
    async with mcprev.connect(target, mode=row.name, validate="off") as client:
        await client.call_tool("x", progress=lambda _, __, ___: None)
        async with client.listen(tools=True):
            await client.call_tool("y")


@pytest.mark.slow
@req("LIFE-16")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_a_thousand_over_memory(row: Revision) -> None:
    """A fifth of them at each revision, and at some of the revisions in `make test`."""

    async def main() -> None:
        asyncio.get_running_loop().set_debug(False)  # which keeps where everything was made
        made = mcprev.Server(Author(), "s", "1", validate=False)

        async def some(count: int) -> None:
            for _ in range(count):
                await in_memory(made, row)

        await some(20)
        drop_cancelled_timers()
        before, count = ours(), THOUSAND // len(DEFAULT)
        await some(3 * count // 4)
        tracemalloc.start()
        try:
            await some(20)
            drop_cancelled_timers()
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            await some(count // 4)
            drop_cancelled_timers()
            gc.collect()
            size = tracemalloc.get_traced_memory()[0] - held
        finally:
            tracemalloc.stop()
        grown = ours() - before
        assert not made._connections  # pyright: ignore[reportPrivateUsage]
        assert not {name: count for name, count in grown.items() if count > 5}, grown
        assert size < MEMORY, f"{size} bytes are kept"

    run(main(), limit=60)


ANSWER = '{"jsonrpc":"2.0","id":%s,"result":%s}'
HELLO = '{"protocolVersion":"' + D + '","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}'
SHELL = (
    f"read line; echo '{ANSWER % (1, HELLO)}'; read line; read line; "
    f"""echo '{ANSWER % (2, '{"content":[]}')}'; while read line; do :; done"""
)
"""A server in a shell, which starts faster than anything: it opens a session, answers one call, and waits for the end."""


@pytest.mark.slow
@req("LIFE-16", "STDIO-5", everywhere=True)
def test_a_thousand_over_processes() -> None:
    async def once() -> None:
        target = mcprev.stdio("sh", "-c", SHELL)
        async with mcprev.connect(target, mode=D, restart=False, validate="off") as client:
            assert (await client.call_tool("x")).content == []

    async def main() -> None:
        asyncio.get_running_loop().set_debug(False)

        async def some(count: int) -> None:
            for _ in range(count // 10):
                await asyncio.gather(*(once() for _ in range(10)))

        await some(20)
        drop_cancelled_timers()
        before, threads = ours(), {*threading.enumerate()}
        await some(THOUSAND)
        drop_cancelled_timers()
        grown = ours() - before
        assert not {name: count for name, count in grown.items() if count > 5}, grown
        await until(lambda: threads.issuperset(threading.enumerate()))

    with nothing_left():
        run(main(), limit=90)
