"""What a call over HTTP costs, as far as it can be counted instead of timed (performance.md)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import MutableMapping
from types import FrameType
from typing import Any, Final

import pytest

import mcprev
from asgi_bridge import Client
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.asgi import AsgiApp
from mcprev_types.latest import models as m

MOST: Final = {"json": 90, "sse": 115}
"""Python functions that one tools/call may run, from the first of the app's to the last: 65 to 100 today."""
TIMES: Final = 100


class Echo(mcprev.ServerHandler):
    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        return m.CallToolResult(content=[m.TextContent(text=str((params.arguments or {})["text"]))])


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


@pytest.mark.parametrize("form", MOST)
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.version_header], ids=lambda row: row.name)
def test_calls_of_a_call(row: Revision, form: str) -> None:
    """Few Python functions for each of many calls, whether they are answered with JSON or a stream, and no thread."""

    async def main() -> float:
        lane = Lane(mcprev.Server(Echo(), "s", "1").asgi(json_response=form == "json"))
        await lane.prepare(row)
        calls = 0

        def count(frame: FrameType, event: str, arg: object) -> None:
            nonlocal calls
            calls += event == "call" and not frame.f_code.co_filename.endswith("test_cost.py")

        for _ in range(20):
            await lane.call()
        lane.sent.clear()
        sys.setprofile(count)
        try:
            for _ in range(TIMES):
                await lane.call()
        finally:
            sys.setprofile(None)
        assert threading.active_count() == 1
        bodies = b"".join(message.get("body", b"") for message in lane.sent)
        assert bodies.count(b'"text":"hello"') == TIMES
        assert {message.get("status", 200) for message in lane.sent} == {200}
        streamed = {
            value
            for message in lane.sent
            for name, value in message.get("headers", ())
            if name == b"content-type"
        }
        assert streamed == {b"text/event-stream" if form == "sse" else b"application/json"}
        return calls / TIMES

    spent = asyncio.run(asyncio.wait_for(main(), 20))
    assert 20 < spent <= MOST[form], f"{spent} Python calls for one tools/call"
