"""Two file descriptors of any kind as one transport: pipes, sockets, terminals, files (STDIO-1, STDIO-9).

The event loop watches pipes. It cannot watch regular files and devices such as /dev/null: a thread copies such an input
to a pipe, and such an output is written directly.
"""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from typing_extensions import override

_CHUNK: Final = 96 * 1024
"""The number of bytes to read at a time: a pipe holds 64 KiB, a socket more, and from 128 KiB on, memory is mapped."""
_CHECK_INTERVAL: Final = 0.5
"""Seconds between two checks of a paused pipe for the end of input."""


def use_small_reads(transport: object) -> None:
    """Reduce the read size of an asyncio transport.

    For the default of 256 KiB the C library may map new memory at each read, depending on the state of the heap. That
    takes longer than the rest of handling a small message.
    """
    if hasattr(transport, "max_size"):
        cast("Any", transport).max_size = _CHUNK


class PipeTransport(asyncio.Transport, asyncio.BaseProtocol):
    """Reads one descriptor and writes another, for one protocol. It owns both and closes them.

    As a protocol, it receives the events of the output.
    """

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._closing = False
        self._lost = False
        self._look: asyncio.TimerHandle | None = None

    async def open(self, incoming: int, outgoing: int) -> None:
        """Watch the descriptors, and report the connection to the protocol."""
        loop = asyncio.get_running_loop()
        if _watchable(outgoing):
            target = os.fdopen(outgoing, "wb", buffering=0)
            self._writer, _ = await loop.connect_write_pipe(lambda: self, target)
        else:
            self._writer = _FileWriter(outgoing)
        # Messages go to the output without a call in between.
        self.write: Callable[[bytes | bytearray | memoryview], None] = self._writer.write  # type: ignore[assignment]
        self._protocol.connection_made(self)
        self._incoming = incoming if _watchable(incoming) else _pipe_from(incoming)
        source = os.fdopen(self._incoming, "rb", buffering=0)
        self._reader, _ = await loop.connect_read_pipe(lambda: _Reader(self._protocol, self), source)
        use_small_reads(self._reader)

    @override
    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the output: nothing can be written any more."""
        self._writer = None
        self.ended(exc)

    def ended(self, exc: Exception | None) -> None:
        """Handle the end of either descriptor, which ends the connection."""
        if not self._lost:
            self._lost = True
            self._closing = True
            self._protocol.connection_lost(exc)
            self._cancel_check()
            if self._reader is not None:
                self._reader.close()
            if self._writer is not None:
                self._writer.abort()

    @override
    def close(self) -> None:
        """Write buffered data, then close."""
        self._closing = True
        self._cancel_check()
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
            self._schedule_check()

    @override
    def resume_reading(self) -> None:
        self._cancel_check()
        if self._reader is not None and not self._closing:
            self._reader.resume_reading()

    def _schedule_check(self) -> None:
        if hasattr(select, "poll"):
            self._look = asyncio.get_running_loop().call_later(_CHECK_INTERVAL, self._check_end)

    def _cancel_check(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _check_end(self) -> None:
        """Read from a paused pipe whose writer has closed it, which is the only way to notice the end."""
        poll = select.poll()
        poll.register(self._incoming, getattr(select, "POLLRDHUP", 0))
        if poll.poll(0):
            self.resume_reading()
        else:
            self._schedule_check()


class _Reader(asyncio.Protocol):
    """Forwards input from the event loop to the protocol."""

    def __init__(self, protocol: asyncio.Protocol, transport: PipeTransport) -> None:
        self._transport = transport
        # Bound directly, so that a chunk needs no extra call.
        self.data_received = protocol.data_received  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._transport.ended(exc)


class _FileWriter(asyncio.WriteTransport):
    """Writes a file directly."""

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


def _pipe_from(file: int) -> int:
    """Return the reading end of a pipe to which a thread copies a file, until its end or until nobody reads."""
    incoming, outgoing = os.pipe()

    def copy() -> None:
        with (
            os.fdopen(file, "rb", 0) as source,
            os.fdopen(outgoing, "wb", 0) as target,
            suppress(BrokenPipeError),
        ):
            shutil.copyfileobj(source, target)  # a pipe that blocks takes all bytes of a write

    threading.Thread(target=copy, daemon=True).start()
    return incoming


def _watchable(descriptor: int) -> bool:
    """Return whether the event loop can wait for a descriptor."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
