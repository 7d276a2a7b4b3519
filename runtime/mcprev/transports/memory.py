"""Two connected transports in one process, for tests and for a server embedded in its client (STDIO-11).

They carry the same bytes as a pipe. Each write arrives in a later iteration of the event loop, in order; a reader that
pauses also pauses the writer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import LifespanHold, RequestHandler
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.transports.lines import LineConnection

HIGH: Final = 64 * 1024
"""The number of buffered bytes above which the writer pauses."""


class _Pipe:
    """One direction of a pair."""

    def __init__(self, writer: asyncio.Protocol, reader: asyncio.Protocol) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = writer
        self._reader = reader
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._due = False
        self._ended = False
        self.paused = False
        self.on_eof: asyncio.Transport | None = None
        """The reader's transport, closed at the end of input unless the reader keeps it open."""

    def write(self, data: bytes) -> None:
        if self._ended:
            return
        self._chunks.append(data)
        was, self._size = self._size, self._size + len(data)
        if was <= HIGH < self._size:
            self._writer.pause_writing()
        self.schedule()

    def write_eof(self) -> None:
        """End the writing; buffered data is still delivered."""
        self._ended = True
        self.schedule()

    def discard(self) -> None:
        """Discard buffered data, because the reader is closed."""
        self._ended = True
        self._chunks.clear()
        self.on_eof = None

    def schedule(self) -> None:
        if not self._due and not self.paused:
            self._due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        if self.paused or self.on_eof is None:
            return
        if self._chunks:
            data = self._chunks.popleft()
            was, self._size = self._size, self._size - len(data)
            self._reader.data_received(data)
            if self._size <= HIGH < was and not self._ended:
                self._writer.resume_writing()
            self.schedule()
        elif self._ended:
            end, self.on_eof = self.on_eof, None
            if not self._reader.eof_received():
                end.close()


class MemoryTransport(asyncio.Transport):
    """One end of a pair."""

    def __init__(self, protocol: asyncio.Protocol, incoming: _Pipe, outgoing: _Pipe) -> None:
        super().__init__()
        self._protocol = protocol
        self._incoming = incoming
        self._outgoing = outgoing
        self._closing = False
        incoming.on_eof = self
        protocol.connection_made(self)

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._outgoing.write(bytes(data))

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._outgoing.write_eof()
            self._incoming.discard()
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    @override
    def abort(self) -> None:
        self.close()

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def pause_reading(self) -> None:
        self._incoming.paused = True

    @override
    def resume_reading(self) -> None:
        self._incoming.paused = False
        self._incoming.schedule()


def connect_pair(one: asyncio.Protocol, other: asyncio.Protocol) -> tuple[MemoryTransport, MemoryTransport]:
    """Connect two protocols of this event loop with each other and return their transports."""
    there, back = _Pipe(one, other), _Pipe(other, one)
    return MemoryTransport(one, back, there), MemoryTransport(other, there, back)


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
        self._ends: list[tuple[Connection, Connection]] = []
        """The client's end and the server's, of each connection."""

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
        self._ends.append((connection, served))
        return connection

    async def close(self) -> None:
        """Close the server's side of each connection whose client side has ended."""
        for ends in [ends for ends in self._ends if ends[0].error is not None]:
            await ends[1].aclose()
            if ends in self._ends:
                self._ends.remove(ends)
        if self._lifespan is not None and not self._ends:
            await self._lifespan.release(self)
