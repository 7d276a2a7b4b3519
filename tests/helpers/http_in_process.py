"""HTTP without a socket: an aiohttp connector whose connections end in an ASGI app of this process.

What an ASGI server is to an app, in a few lines over h11, kept to the letter of ASGI: a body in parts, one request of
a connection after the other, `http.disconnect` once the client has hung up, and an error for who sends after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from itertools import count
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import aiohttp
import h11
from aiohttp.client_proto import ResponseHandler
from typing_extensions import override

from mcprev.transports.memory import connect_pair

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
HOST: Final = "127.0.0.1"
_PORTS: Final = count(1)


class InProcess(aiohttp.BaseConnector):
    """Connects to an app, whatever the URL says; `origin` is one that no other has."""

    def __init__(self, app: App) -> None:
        super().__init__(limit=0)
        self.port = next(_PORTS)
        self.origin = f"http://{HOST}:{self.port}"
        self.lanes: set[Lane] = set()
        """The connections that are open."""
        self._app = app

    @override
    async def _create_connection(self, req: object, traces: object, timeout: object) -> ResponseHandler:
        protocol, lane = ResponseHandler(loop=asyncio.get_running_loop()), Lane(self._app, self.port)
        connect_pair(protocol, lane)
        self.lanes.add(lane)
        lane.task.add_done_callback(lambda _: self.lanes.discard(lane))
        return protocol


class Lane(asyncio.Protocol):
    """The app's end of a connection."""

    def __init__(self, app: App, port: int) -> None:
        self._app = app
        self._port = port
        self._http = h11.Connection(h11.SERVER)
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = False
        self._transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._run())

    # -- the connection ------------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._news.set()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._news.set()
        self._writable.set()

    @override
    def pause_writing(self) -> None:
        self._writable.clear()

    @override
    def resume_writing(self) -> None:
        self._writable.set()

    async def _next(self) -> Any:
        """What the client sends next; None once it has hung up."""
        while not self._gone:
            event = self._http.next_event()
            if event not in (h11.NEED_DATA, h11.PAUSED):
                return event
            self._news.clear()
            await self._news.wait()
        return None

    # -- requests ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Serve one request after the other."""
        assert self._transport is not None
        try:
            while isinstance(request := await self._next(), h11.Request):
                await self._app(self._scope(request), self._receive, self._send)
                if self._http.states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                    break
                self._http.start_next_cycle()
        finally:
            self._transport.close()

    def _scope(self, request: h11.Request) -> Message:
        path, _, query = request.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.http_version.decode(),
            "method": request.method.decode(),
            "scheme": "http",
            "path": unquote(path.decode()),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers),
            "client": (HOST, 0),
            "server": (HOST, self._port),
        }

    async def _receive(self) -> Message:
        """The next part of the body; after the last one there is only the end of the connection to wait for."""
        event = await self._next() if self._http.their_state is h11.SEND_BODY else None
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        if isinstance(event, h11.EndOfMessage):
            return {"type": "http.request", "body": b"", "more_body": False}
        while not self._gone:
            self._news.clear()
            await self._news.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self._writable.wait()
        if self._gone:
            raise OSError("the client disconnected")
        if message["type"] == "http.response.start":
            self._write(h11.Response(status_code=message["status"], headers=list(message["headers"])))
            return
        assert message["type"] == "http.response.body"
        if body := message.get("body", b""):
            self._write(h11.Data(data=body))
        if not message.get("more_body", False):
            self._write(h11.EndOfMessage())

    def _write(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        assert self._transport is not None
        if data := self._http.send(event):
            self._transport.write(data)
