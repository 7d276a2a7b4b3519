"""A transport of your own, here WebSocket with aiohttp: `python examples/websocket.py` calls a tool over it.

A `LineConnection` is an `asyncio.Protocol`. Give it an `asyncio.Transport`, and every revision works over it, in both
roles. This transport sends each line as one text frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque

import aiohttp
from aiohttp import web
from typing_extensions import override

import mcprev
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.transports.lines import LineConnection

HIGH = 64 * 1024
"""The number of characters waiting to be sent above which the connection pauses."""
MAX_FRAME = 16 * 1024 * 1024
"""The maximum size of one message in bytes."""
OPENING = 10.0
"""The seconds that a server has to accept a connection."""
CLOSING = 1.0
"""The seconds that a peer has to take part in closing the socket."""


class WebSocketTransport(asyncio.Transport):
    """Carries the lines of one connection over an open WebSocket; `run` serves it until its end."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse | web.WebSocketResponse, connection: LineConnection
    ) -> None:
        super().__init__()
        self._socket, self._connection = socket, connection
        self._frames: deque[str] = deque()
        self._size = 0
        self._written, self._reading = asyncio.Event(), asyncio.Event()
        self._reading.set()
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Read and write frames until the socket closes; the connection then learns that it is lost."""
        self._connection.connection_made(self)
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.abort()
            await asyncio.wait(self._tasks)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._socket.close(), CLOSING)
            self._connection.connection_lost(self._socket.exception())  # type: ignore[arg-type]

    async def _read(self) -> None:
        async for frame in self._socket:
            await self._reading.wait()
            if frame.type is aiohttp.WSMsgType.TEXT:
                # A line break outside of a string is the only one that JSON allows.
                self._connection.data_received(frame.data.replace("\n", " ").encode() + b"\n")

    async def _write(self) -> None:
        while self._frames or not self._closing:
            if not self._frames:
                self._written.clear()
                await self._written.wait()
                continue
            frame = self._frames.popleft()
            await self._socket.send_str(frame)
            was, self._size = self._size, self._size - len(frame)
            if self._size <= HIGH < was:
                self._connection.resume_writing()
        await self._socket.close()

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        *lines, _ = bytes(data).decode().split("\n")
        was, self._size = self._size, self._size + sum(map(len, lines))
        self._frames.extend(lines)
        self._written.set()
        if was <= HIGH < self._size:
            self._connection.pause_writing()

    @override
    def close(self) -> None:
        """Close the socket once everything has been sent."""
        self._closing = True
        self._reading.set()
        self._written.set()

    @override
    def abort(self) -> None:
        """Close the socket at once, also if the peer does not read."""
        self._closing = True
        for task in self._tasks:
            task.cancel()

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def pause_reading(self) -> None:
        self._reading.clear()

    @override
    def resume_reading(self) -> None:
        self._reading.set()


def websocket_app(server: mcprev.Server, path: str = "/mcp") -> web.Application:
    """Return an aiohttp app that serves an MCP server at a path."""

    async def serve(request: web.Request) -> web.WebSocketResponse:
        if "Origin" in request.headers:  # only browsers send it
            raise web.HTTPForbidden(text="pages may not connect")
        socket = web.WebSocketResponse(max_msg_size=MAX_FRAME)
        await socket.prepare(request)
        async with server.running():  # its lifespan
            connection = server.connection()
            try:
                await WebSocketTransport(socket, connection).run()
            finally:
                await connection.aclose()
        return socket

    app = web.Application()
    app.router.add_get(path, serve)
    return app


class websocket:  # noqa: N801 - called like a function, as `mcprev.stdio` is
    """A server to connect to: `mcprev.connect(websocket("ws://localhost:8000/mcp"))`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running: dict[LineConnection, asyncio.Task[None]] = {}

    async def open(self, protocol: ClientProtocol, handler: RequestHandler[Connection], /) -> Connection:
        """Open a WebSocket and connect to it."""
        connection = LineConnection(protocol, handler, logging.getLogger("mcprev.client"), linger=0)
        session = aiohttp.ClientSession()
        try:
            async with asyncio.timeout(OPENING):
                socket = await session.ws_connect(self._url, max_msg_size=MAX_FRAME)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            await session.close()
            why = str(error) or type(error).__name__
            raise mcprev.ConnectionLost(f"{self._url}: {why}", in_flight=False, retry_safe=True) from error
        except BaseException:
            await session.close()
            raise

        async def run() -> None:
            async with session:
                await WebSocketTransport(socket, connection).run()

        self._running[connection] = asyncio.create_task(run())
        await asyncio.sleep(0)  # `run` has begun: the connection can send
        return connection

    async def close(self) -> None:
        """Release the sockets of connections that have ended."""
        for connection in [connection for connection in self._running if connection.error is not None]:
            await asyncio.wait({self._running.pop(connection)}, timeout=5)


async def main() -> None:
    """Serve a tool on a free port and call it."""
    app = mcprev.App("adder", "1.0")

    @app.tool
    def add(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction]
        """Add two numbers."""
        return a + b

    runner = web.AppRunner(websocket_app(app.server))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with mcprev.connect(websocket(f"ws://127.0.0.1:{port}/mcp")) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        print(f"{client.revision} over WebSocket: 1 + 2 =", result.to_wire()["structuredContent"])
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
