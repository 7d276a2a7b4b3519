"""Two file descriptors as one transport, whatever they are: pipes, sockets, terminals, files (STDIO-1, STDIO-9).

Pipes are watched by the event loop. Regular files and devices such as /dev/null cannot be watched; they never
make anyone wait either, so they are read in a worker thread and written on the spot.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from typing import Final, Protocol, cast

from typing_extensions import override

_CHUNK: Final = 64 * 1024
"""Bytes that are read at a time, as many as a pipe holds."""
_LOOK: Final = 0.5
"""Seconds between two looks at a pipe that is not read for now: whether its other end is still there."""


def read_in_pieces(transport: object) -> None:
    """Have a transport of asyncio's make room for less at a time.

    For the quarter of a megabyte that is usual the C library may map memory anew at each read, by chance of where
    its heap ends; that takes longer than everything else that a small message takes.
    """
    if hasattr(transport, "max_size"):
        cast("_Sized", transport).max_size = _CHUNK


class _Sized(Protocol):
    max_size: int


class PipeTransport(asyncio.Transport):
    """Reads one descriptor and writes another, for one protocol. Both are closed with it."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._closing = False
        self._lost = False
        self._incoming = -1
        self._look: asyncio.TimerHandle | None = None

    async def open(self, incoming: int, outgoing: int) -> None:
        """Watch the descriptors, and tell the protocol that it is connected."""
        loop = asyncio.get_running_loop()
        if _watchable(outgoing):
            target = os.fdopen(outgoing, "wb", buffering=0)
            made, _ = await loop.connect_write_pipe(lambda: _Writer(self._protocol, self), target)
            self._writer = made
        else:
            self._writer = _FileWriter(outgoing)
        self._protocol.connection_made(self)
        if _watchable(incoming):
            self._incoming = incoming
            source = os.fdopen(incoming, "rb", buffering=0)
            self._reader, _ = await loop.connect_read_pipe(lambda: _Reader(self._protocol, self), source)
            read_in_pieces(self._reader)
        else:
            self._reader = _FileReader(incoming, self._protocol)

    def written_out(self, exc: Exception | None) -> None:
        """Nothing can be written any more."""
        self._writer = None
        self.ended(exc)

    def ended(self, exc: Exception | None) -> None:
        """One of the two is gone, and so is the connection."""
        if not self._lost:
            self._lost = True
            self._closing = True
            self._protocol.connection_lost(exc)
            self._look_no_more()
            if self._reader is not None:
                self._reader.close()
            if self._writer is not None:
                self._writer.abort()

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._writer is not None:
            self._writer.write(data)

    @override
    def close(self) -> None:
        """Write what is held, then close."""
        self._closing = True
        self._look_no_more()
        if self._reader is not None:
            self._reader.close()
        if isinstance(self._writer, _FileWriter):
            asyncio.get_running_loop().call_soon(self.ended, None)
        elif self._writer is not None:
            self._writer.close()

    @override
    def abort(self) -> None:
        self.ended(None)

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def pause_reading(self) -> None:
        if self._reader is not None:
            self._reader.pause_reading()
            self._look_later()

    @override
    def resume_reading(self) -> None:
        self._look_no_more()
        if self._reader is not None and not self._closing:
            self._reader.resume_reading()

    def _look_later(self) -> None:
        if self._incoming >= 0 and hasattr(select, "poll"):
            self._look = asyncio.get_running_loop().call_later(_LOOK, self._look_for_the_end)

    def _look_no_more(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _look_for_the_end(self) -> None:
        """Read a pipe whose writer is gone, although it is not to be read for now: only so is its end noticed."""
        poll = select.poll()
        poll.register(self._incoming, getattr(select, "POLLRDHUP", 0))
        if poll.poll(0):
            self.resume_reading()
        else:
            self._look_later()


class _Reader(asyncio.Protocol):
    """Hands on what the loop reads."""

    def __init__(self, protocol: asyncio.Protocol, transport: PipeTransport) -> None:
        self._transport = transport
        # Bound here so that a chunk costs no call more than it has to.
        self.data_received = protocol.data_received  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._transport.ended(exc)


class _Writer(asyncio.BaseProtocol):
    """Hands on what the loop says of writing."""

    def __init__(self, protocol: asyncio.Protocol, transport: PipeTransport) -> None:
        self._protocol = protocol
        self._transport = transport

    @override
    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport.written_out(exc)


class _FileReader(asyncio.ReadTransport):
    """Reads a file to its end in a worker thread."""

    def __init__(self, descriptor: int, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._protocol = protocol
        self._going = asyncio.Event()
        self._going.set()
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.run_in_executor(None, os.read, self._descriptor, _CHUNK):
                await self._going.wait()
                self._protocol.data_received(data)
            self._protocol.eof_received()
        finally:
            os.close(self._descriptor)

    @override
    def pause_reading(self) -> None:
        self._going.clear()

    @override
    def resume_reading(self) -> None:
        self._going.set()

    @override
    def close(self) -> None:
        self._task.cancel()


class _FileWriter(asyncio.WriteTransport):
    """Writes a file on the spot."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor: int | None = descriptor

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest and self._descriptor is not None:
            rest = rest[os.write(self._descriptor, rest) :]

    @override
    def abort(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _watchable(descriptor: int) -> bool:
    """Whether the event loop can wait for a descriptor."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def connect_pipes(protocol: asyncio.Protocol, incoming: int, outgoing: int) -> PipeTransport:
    """Connect a protocol to two descriptors, which it owns from then on."""
    transport = PipeTransport(protocol)
    await transport.open(incoming, outgoing)
    return transport
