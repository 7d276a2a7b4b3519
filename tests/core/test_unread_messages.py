"""A handler that does nothing but send: what its client has not read is bounded, and the handler can be cancelled."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import mcprev
from api.authors import text
from core.fake_handler import RawPeer
from engine.fakes import modern, notification
from helpers.requirements import req
from helpers.running import run, until
from mcprev.core.connection import Connection
from mcprev.core.limits import HIGH
from mcprev.transports.memory import connect_pair
from mcprev_types.latest import models as m

Send = Callable[[mcprev.Context, int, str], Awaitable[None]]
WAYS: dict[str, Send] = {
    "log": lambda ctx, number, filler: ctx.log("error", f"{number} {filler}"),
    "progress": lambda ctx, number, filler: ctx.progress(number + 1, None, filler),
    "notify": lambda ctx, number, filler: ctx.notify(
        "notifications/message", {"level": "error", "data": f"{number} {filler}"}
    ),
}
UNSENT: dict[str, Send] = {
    "a level that is not wanted": lambda ctx, _, filler: ctx.log("debug", filler),
    "progress that does not grow": lambda ctx, number, _: ctx.progress(min(number, 0)),
}


class Talker(mcprev.ServerHandler):
    """Sends messages without waiting for anything else."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.sent = 0
        self.most = 0
        self.queued: Callable[[], int] = lambda: 0

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        arguments = params.arguments or {}
        for number in range(arguments.get("count", 10**9)):
            await self.send(ctx, number, "x" * arguments["size"])
            self.sent += 1
            self.most = max(self.most, self.queued())
        return text("done")


def talking(send: Send) -> tuple[Talker, Connection, RawPeer]:
    """A server that only sends, and a client by hand."""
    handler, peer = Talker(send), RawPeer()
    connection = mcprev.Server(handler, "talker", "1").connection()
    connect_pair(connection, peer)
    state = connection.protocol.connection
    handler.queued = lambda: sum(len(data) for _, data in state.sends) + peer.transport._size
    return handler, connection, peer


def call(**arguments: int) -> dict[str, Any]:
    message = modern("tools/call", {"name": "talk", "arguments": dict(arguments)}, logLevel="error")
    message["params"]["_meta"]["progressToken"] = 1
    return message


@req("STDIO-9", "SEC-6", everywhere=True)
@pytest.mark.parametrize(("size", "count"), [(1, 2_000), (1_000, 500), (HIGH // 2, 30)])
@pytest.mark.parametrize("way", WAYS)
def test_what_a_client_does_not_read_is_bounded_and_arrives_when_it_reads(
    way: str, size: int, count: int
) -> None:
    async def work() -> None:
        handler, connection, peer = talking(WAYS[way])
        peer.transport.pause_reading()
        peer.send(call(size=size, count=count))
        await until(lambda: not connection._writable.is_set())  # type: ignore[attr-defined]
        for _ in range(50):
            await asyncio.sleep(0)
        assert 0 < handler.sent < count
        peer.transport.resume_reading()
        await until(lambda: b'"done"' in peer.data)
        assert handler.most <= 3 * HIGH
        *messages, answer = peer.messages
        assert (len(messages), answer["id"]) == (count, 1)
        if way != "progress":
            assert [int(message["params"]["data"].split()[0]) for message in messages] == list(range(count))
        await connection.aclose()

    run(work())


@req("CANC-2", everywhere=True)
@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("way", [*WAYS, *UNSENT])
def test_a_handler_that_only_sends_is_cancelled(way: str, gone: bool) -> None:
    """Whether its client reads, or has gone."""

    async def work() -> None:
        handler, connection, peer = talking((WAYS | UNSENT)[way])
        peer.send(call(size=1))
        await until(lambda: handler.sent > 0)
        if gone:
            peer.transport.close()
            await connection.closed
        else:
            peer.send(notification("notifications/cancelled", {"requestId": 1}))
        await until(lambda: not connection._tasks)
        await connection.aclose()

    run(work())
