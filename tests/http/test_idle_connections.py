"""The moment in which a balancer sends a request on a connection that the server closes: with a relay that delays each way.

HTTP-3, HTTP-31. A request that crosses the end of its connection has no response, and a balancer must not send a POST
again. So servers wait longer than each balancer of docs/deploy.md does, and than messages take there and back.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple, cast

import pytest

from helpers.requirements import E, req
from helpers.running import run, until
from helpers.served import Served, work
from helpers.support import ROOT
from helpers.wired import State
from helpers.wired_calls import call
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.http11_server import Http11Connection, Http11Server
from mcprev.transports.http.server.options import HttpSettings
from mcprev_types.latest import models as m

DELAYS: Final = (0.0, 2.0, 9.0)
"""Seconds that bytes, and the end of a connection, take each way."""
MOMENT: Final = 0.001
"""Seconds before a balancer closes a connection at which it still sends a request."""


class Row(NamedTuple):
    """A balancer or hoster, as the page has it."""

    name: str
    idle: float
    """Seconds after which it closes its idle connections."""
    keep_alive: float
    """Those of the server."""


def rows() -> list[Row]:
    """Those of the page that say when they close idle connections."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| in front \| closes .*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    found: list[Row] = []
    for line in table.splitlines():
        name, closes, *_, here = (cell.strip() for cell in line.strip("|").split("|"))
        ours, there = re.search(r"--keep-alive (\d+)", here), re.search(r"`idle_timeout` of (\d+) s", here)
        idle = there or re.match(r"([\d,]+) s", closes)
        if idle is not None:
            default = HttpSettings().keep_alive
            seconds = default if ours is None else float(ours[1])
            found.append(Row(name, float(idle[1].replace(",", "")), seconds))
    assert len(found) >= 9
    return found


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Pass on what comes, and the end, each as late as it came after the first."""
    now = asyncio.get_running_loop().time
    late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, data = await late.get()
            await asyncio.sleep(due - now())
            if not data:
                writer.close()
                return
            with suppress(OSError):
                writer.write(data)

    delivering = asyncio.create_task(deliver())
    data = b"-"
    while data:
        try:
            data = await reader.read(65536)
        except OSError:  # reset: an end as well
            data = b""
        late.put_nowait((now() + delay, data))
    await delivering


@asynccontextmanager
async def relayed(port: int, delay: float) -> AsyncGenerator[int, None]:
    """The port of a relay to a port of this machine."""
    joined: list[asyncio.Task[object]] = []

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", port)
        joined.append(asyncio.create_task(carry(reader, here, delay)))
        joined.append(asyncio.create_task(carry(there, writer, delay)))

    async with await asyncio.start_server(join, "127.0.0.1", 0) as relay:
        yield relay.sockets[0].getsockname()[1]
        await asyncio.gather(*joined)


async def asks_again(port: int, idle: float) -> int | None:
    """The status of a second request, which a balancer sends before its connection was idle for so long; None without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    status: int | None = None
    for pause in (idle - MOMENT, 0.0):
        writer.write(call("count"))
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            status = None
            break
        status = int(head.split()[1])
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        await reader.readexactly(int(length[1]))
        await asyncio.sleep(pause)
    writer.close()
    return status


def statuses(idle: float, keep_alive: float) -> dict[float, int | None]:
    """What a balancer gets for its second request with each delay; the calls that ran were answered."""
    found: dict[float, int | None] = {}

    async def test(handler: Served, make: Callable[..., AsgiApp]) -> None:
        front, ran = Http11Server(make(keep_alive=keep_alive)), 0

        async def count(ctx: object, params: object) -> m.CallToolResult:
            nonlocal ran
            ran += 1
            return m.CallToolResult(content=[])

        vars(handler)["do_count"] = count

        def connection() -> Http11Connection:
            return Http11Connection(front, cast("Any", None), cast("Any", State()), {})

        async def one(port: int, delay: float) -> None:
            async with relayed(port, delay) as at:
                found[delay] = await asks_again(at, idle)

        server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await asyncio.gather(*(one(port, delay) for delay in DELAYS))
            await until(lambda: not front._open)
        answered = sum(status == 200 for status in found.values())
        assert ran == len(DELAYS) + answered

    work(test, run=partial(run, limit=100_000.0, has_both_ends=True))
    return found


@req("HTTP-31", "HTTP-3", at=E)
@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_no_request_of_a_balancer_crosses_the_end_of_its_connection(row: Row) -> None:
    assert row.keep_alive - row.idle > 2 * max(DELAYS)
    assert statuses(row.idle, row.keep_alive) == dict.fromkeys(DELAYS, 200)


@req("HTTP-31", "HTTP-3", at=E)
def test_a_request_that_crosses_the_end_of_its_connection_is_not_served() -> None:
    """What the time above prevents: a server that waits as long as the balancer."""
    assert statuses(60, 61) == {0.0: 200, 2.0: None, 9.0: None}
