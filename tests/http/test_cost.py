"""What a call over HTTP costs, as far as it can be counted instead of timed."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import sys
import threading
from asyncio import base_events, events, tasks, timeouts
from collections.abc import Callable, MutableMapping
from types import FrameType
from typing import Any, Final

import pytest
from typing_extensions import override

import mcprev
from fuzz.fuzzing import each_once
from helpers.asgi_bridge import Client
from helpers.running import until
from helpers.wired import Wire, head
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.http11_server import Http11Server
from mcprev_types.latest import models as m

MOST: Final = {
    ("session", "json"): 59,
    ("session", "sse"): 78,
    ("no session", "json"): 61,
    ("no session", "sse"): 67,
}
"""Python functions that one tools/call may run, from the first of the app's to the last, asyncio's not counted: one less today."""
MOST_WIRED: Final = {
    ("session", "json"): 72, ("session", "sse"): 91, ("no session", "json"): 75, ("no session", "sse"): 81,
}  # fmt: skip
"""The same for one that comes on a connection of our own."""
MORE_OF_AN_APP: Final = 16
"""How many more a function of an app may take, which uses nothing that apps offer besides."""
FORMS: Final = ("json", "sse")
NOT_COUNTED: Final = (
    "test_cost.py",
    "wired.py",
    "running.py",
    *(str(module.__file__) for module in (base_events, events, tasks, timeouts)),
)
TIMES: Final = 100


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


SERVERS: Final = pytest.mark.parametrize(("make", "more"), [(handler, 0), (app, MORE_OF_AN_APP)])


class Lane:
    """One client's request, to be sent again and again with no more around the app than there has to be."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self._scope: dict[str, Any] = {}
        self._message: MutableMapping[str, Any] = {}
        self.sent: list[MutableMapping[str, Any]] = []

    async def prepare(self, row: Revision) -> None:
        """Do what comes before the first call, and write down that call."""
        client = Client(self._listen)
        await client.open(row)
        about = {} if row.handshake else {"clientInfo": {"name": "c", "version": "1"}}
        await client.call("echo", {"text": "hello"}, **about).done()
        body: bytes = self._message["body"]
        self._scope["headers"] = [*self._scope["headers"], (b"content-length", b"%d" % len(body))]

    async def _listen(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self._scope, self._message = scope, await receive()
        await self._app(scope, self._receive, send)

    async def _receive(self) -> MutableMapping[str, Any]:
        return self._message

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    async def call(self) -> None:
        """Send the request once."""
        await self._app(self._scope, self._receive, self._send)


class WiredLane(Lane):
    """The same on a connection of our own."""

    @override
    async def prepare(self, row: Revision) -> None:
        await super().prepare(row)
        body: bytes = self._message["body"]
        scope = self._scope
        pairs = [(name.decode(), value.decode()) for name, value in scope["headers"]]
        self._bytes = head("POST", scope["path"], pairs) + body
        self.wire = Wire(Http11Server(self._app))

    @override
    async def call(self) -> None:
        http = self.wire.http
        http.data_received(self._bytes)
        await asyncio.sleep(0)
        await until(lambda: http._serving is None)


async def count(lane: Lane) -> float:
    """How many Python functions run for each of many calls, but for those of the loop and of the tests."""
    calls, threads = 0, {*threading.enumerate()}

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call" and not frame.f_code.co_filename.endswith(NOT_COUNTED)

    for _ in range(20):
        await lane.call()
    lane.sent.clear()
    sys.setprofile(called)
    try:
        for _ in range(TIMES):
            await lane.call()
    finally:
        sys.setprofile(None)
    assert threads.issuperset(threading.enumerate())  # those of tests before may end meanwhile
    return calls / TIMES


@SERVERS
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.version_header], ids=lambda row: row.name)
def test_calls_of_a_call(row: Revision, form: str, make: Callable[[], mcprev.Server], more: int) -> None:
    """Few Python functions for each of many calls, whether they are answered with JSON or a stream, and no thread."""

    async def main() -> float:
        lane = Lane(make().asgi(json_response=form == "json"))
        await lane.prepare(row)
        spent = await count(lane)
        body_budget = b"".join(message.get("body", b"") for message in lane.sent)
        assert body_budget.count(b'"text":"hello"') == TIMES
        assert {message.get("status", 200) for message in lane.sent} == {200}
        streamed = {
            value
            for message in lane.sent
            for name, value in message.get("headers", ())
            if name == b"content-type"
        }
        assert streamed == {b"text/event-stream" if form == "sse" else b"application/json"}
        return spent

    spent = asyncio.run(asyncio.wait_for(main(), 20))
    assert (
        20 < spent <= MOST["session" if row.handshake else "no session", form] + more
    ), f"{spent} Python calls for one tools/call"


@SERVERS
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.version_header], ids=lambda row: row.name)
@each_once
def test_calls_of_a_call_on_a_connection_of_our_own(
    row: Revision, form: str, make: Callable[[], mcprev.Server], more: int
) -> None:
    """The same from the bytes of the request to those of its answer."""

    async def main() -> float:
        lane = WiredLane(make().asgi(json_response=form == "json"))
        await lane.prepare(row)
        spent = await count(lane)
        answers = lane.wire.answers()[-TIMES:]
        assert all(b'"text":"hello"' in answer.body for answer in answers)
        assert {(answer.status, answer.get("content-type")) for answer in answers} == {
            (200, "text/event-stream" if form == "sse" else "application/json")
        }
        return spent

    spent = asyncio.run(asyncio.wait_for(main(), 20))
    assert (
        20 < spent <= MOST_WIRED["session" if row.handshake else "no session", form] + more
    ), f"{spent} Python calls for one tools/call"
