"""What a server still serves while its calls in progress may finish: all that ends work, and nothing that starts any.

HTTP-3, LIFE-16, HTTP-6, HTTP-24.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

import pytest

import mcprev
from helpers.asgi_bridge import Client, Exchange, initialize, modern, notification, request
from helpers.lanes import each_loop
from helpers.requirements import B, D, E, req
from helpers.running import run, until
from mcprev.revisions import Revision, revision_named
from mcprev_types.latest import models as m

STATELESS: Final = revision_named(E)
Send = Callable[[Client, Client], Exchange]
"""Sends something: in a session, or with the second client without one."""
STARTS: Final[dict[str, Send]] = {
    "initialize": lambda _, alone: alone.post(initialize(revision_named(D), 7)),
    "a call": lambda session, _: session.call("t", id_=7),
    "a batch with a call": lambda session, _: session.post([request("tools/list", id_=7), notification("x")]),
    "a stateless call": lambda _, alone: modern(alone, STATELESS, "tools/call", {"name": "t"}, 7),
    "a listen stream": lambda _, alone: modern(
        alone, STATELESS, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 7
    ),
    "a call without a session": lambda _, alone: alone.post(request("tools/list", id_=7)),
    "a stream of the server's": lambda session, _: session.send("GET"),
}
ENDS: Final[dict[str, tuple[int, Send]]] = {
    "a notification": (202, lambda session, _: session.post(notification("notifications/cancelled"))),
    "a response": (202, lambda session, _: session.post({"jsonrpc": "2.0", "id": 5, "result": {}})),
    "a batch of notifications": (202, lambda session, _: session.post([notification("x")])),
    "a stateless notification": (
        202,
        lambda _, alone: alone.post(
            notification("notifications/cancelled", {"requestId": 5}),
            {"mcp-protocol-version": STATELESS.version, "mcp-method": "notifications/cancelled"},
        ),
    ),
    "a DELETE": (204, lambda session, _: session.send("DELETE")),
}
ROWS: Final = {"a batch with a call": B, "a batch of notifications": B, "a call without a session": E}
"""The revision of the call in progress where it is not D; with E, the server has no sessions."""


class Waiting(mcprev.ServerHandler):
    """Its tool begins and does not end."""

    def __init__(self) -> None:
        self.begun = 0

    async def list_tools(self, ctx: mcprev.Context, params: object) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        self.begun += 1
        await asyncio.Event().wait()
        raise AssertionError


def while_stopping(send: Send, row: Revision) -> Exchange:
    """Send something to a server that stops, while a call in a session is in progress."""

    async def main() -> Exchange:
        handler = Waiting()
        app = mcprev.Server(handler, "waiting", "1").asgi(sessions=row.handshake)
        session, alone = await Client(app).open(row), Client(app)
        call = session.call("t", id_=1)
        await until(lambda: handler.begun == 1)
        stopping = asyncio.create_task(app.aclose(linger=60))
        await asyncio.sleep(0)
        exchange = send(session, alone)
        await until(lambda: exchange.status != 0)
        assert handler.begun == 1
        app.fail_requests()
        await stopping
        await exchange.done()
        await call.done()
        return exchange

    return run(main())


@req("HTTP-3", "LIFE-16", at=E)
@pytest.mark.parametrize("what", STARTS)
def test_nothing_begins_while_a_server_stops(what: str) -> None:
    found = while_stopping(STARTS[what], revision_named(ROWS.get(what, D)))
    assert found.status == 503
    assert found.json["error"]["message"] == "the server is shutting down"
    assert found.json["error"]["data"] == {"reason": "worker_lost", "mayHaveRun": False}
    assert found.json.get("id") == (
        7 if what not in {"a batch with a call", "a stream of the server's"} else None
    )


@req("HTTP-3", "LIFE-16", "HTTP-6", "HTTP-24", at=(B, D))
@pytest.mark.parametrize("what", ENDS)
def test_what_ends_work_is_served_while_a_server_stops(what: str) -> None:
    status, send = ENDS[what]
    assert while_stopping(send, revision_named(ROWS.get(what, D))).status == status


@req("HTTP-3", "LIFE-16", at=(D, E))
@each_loop
@pytest.mark.skipif(sys.platform == "win32", reason="its event loops handle no signals")
@pytest.mark.parametrize(
    ("name", "stream"), [(D, "a stream of the server's"), (E, "a listen stream")], ids=[D, E]
)
def test_streams_end_when_a_signal_stops_a_server_that_has_its_event_loop_handle_it(
    name: str, stream: str
) -> None:
    """As granian and hypercorn do, which wait for the streams before they tell an app of its end."""

    async def main() -> None:
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        for number in before:
            loop.add_signal_handler(number, told.set)
        app = mcprev.Server(Waiting(), "waiting", "1").asgi()
        try:
            session, alone = await Client(app).open(revision_named(D)), Client(app)
            exchange = await STARTS[stream](session, alone).begun()
            os.kill(os.getpid(), signal.SIGHUP)  # which need not stop a server
            await told.wait()
            told.clear()
            assert not exchange.complete
            os.kill(os.getpid(), signal.SIGTERM)
            await told.wait()
            await exchange.done()
        finally:
            await app.aclose()
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    run(main())
