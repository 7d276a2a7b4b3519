"""Two connected transports in one process, for tests and for a server embedded in its client (STDIO-11).

They carry the same bytes as a pipe. Each write arrives in a later iteration of the event loop, in order; a reader that
pauses also pauses the writer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Protocol

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import LifespanHold, RequestHandler
from mcprev.core.limits import HIGH
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.transports.lines import LineConnection


class MemoryTransport(asyncio.Transport):
    """One end of a pair; it keeps what the other end has written until its protocol can take it."""

    peer: MemoryTransport
    """The other end."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        """What to deliver; an empty chunk is the end of input."""
        self._size = 0
        self._due = False
        self._paused = False
        self._ended = False
        """Whether the other end writes no more."""
        self._closing = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data:
            self.peer.receive(bytes(data))

    @override
    def write_eof(self) -> None:
        self.peer.receive(b"")

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._chunks.clear()
            self.write_eof()
            self._loop.call_soon(self.protocol.connection_lost, None)

    @override
    def abort(self) -> None:
        self.close()

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def pause_reading(self) -> None:
        self._paused = True

    @override
    def resume_reading(self) -> None:
        self._paused = False
        self._schedule()

    def receive(self, data: bytes) -> None:
        """Deliver data of the other end in a later iteration of the event loop; empty data ends the input."""
        if self._ended or self._closing:
            return
        self._ended = not data
        self._chunks.append(data)
        was, self._size = self._size, self._size + len(data)
        if was <= HIGH < self._size:
            self.peer.protocol.pause_writing()
        self._schedule()

    def _schedule(self) -> None:
        if not self._due and not self._paused:
            self._due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        if self._paused or not self._chunks:
            return
        data = self._chunks.popleft()
        was, self._size = self._size, self._size - len(data)
        if data:
            self.protocol.data_received(data)
        elif not self.protocol.eof_received():
            self.close()
        if self._size <= HIGH < was and not (self._ended or self._closing):
            self.peer.protocol.resume_writing()
        self._schedule()


def connect_pair(one: asyncio.Protocol, other: asyncio.Protocol) -> tuple[MemoryTransport, MemoryTransport]:
    """Connect two protocols of this event loop with each other and return their transports."""
    here, there = MemoryTransport(one), MemoryTransport(other)
    here.peer, there.peer = there, here
    one.connection_made(here)
    other.connection_made(there)
    return here, there


class PipeServer(Protocol):
    """A server whose connections exchange JSON-RPC messages as lines, such as `mcprev.Server`."""

    def connection(self) -> LineConnection:
        """Return a connection that waits for its transport."""
        ...


class memory:  # noqa: N801 - called like a function, as `stdio` is
    """A server in this process: `connect(memory(server))`, or `connect(server)`, which does the same.

    Its lifespan runs while a client is connected.
    """

    def __init__(self, server: PipeServer) -> None:
        """Set the server: a `mcprev.Server`, or `app.server`."""
        self._server = server
        self._lifespan: LifespanHold | None = getattr(server, "lifespan", None)
        self._ends: dict[Connection, Connection] = {}
        """The server's end of each connection, by the client's, until it is closed."""
        self._ended: list[Connection] = []
        """The clients' ends that are closed, and whose server's end is not being closed."""
        self._closing: asyncio.Task[None] | None = None
        """Closes the server's ends of those that were in that list before."""

    async def open(self, protocol: ClientProtocol, handler: RequestHandler[Connection], /) -> Connection:
        """Connect a client to the server; return the client's connection."""
        if self._lifespan is not None:
            try:
                await self._lifespan.hold(self)
            except BaseException:
                await self.close()
                raise
        served = self._server.connection()
        connection = LineConnection(protocol, handler, logging.getLogger("mcprev.client"), linger=0)
        connect_pair(connection, served)
        self._ends[connection] = served
        connection.closed.add_done_callback(lambda _: self._ended.append(connection))
        return connection

    async def close(self) -> None:
        """Close the server's side of each connection whose client side has ended; clients that end together close them together."""
        await asyncio.sleep(0)  # a connection that was just closed is in the list after this
        for _ in range(2):  # what is being closed now may not contain it, the next does
            if self._closing is None and self._ended:
                self._closing = asyncio.get_running_loop().create_task(self._close_ended())
            if self._closing is not None:
                await asyncio.shield(self._closing)
        if self._lifespan is not None and not self._ends:
            await self._lifespan.release(self)

    async def _close_ended(self) -> None:
        ended, self._ended = self._ended, []
        try:
            await asyncio.gather(*(self._ends[each].aclose() for each in ended))
        finally:
            for each in ended:
                del self._ends[each]
            self._closing = None
