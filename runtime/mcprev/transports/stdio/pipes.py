"""Two file descriptors of any kind as one transport: pipes, sockets, terminals, files (STDIO-1, STDIO-9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from typing_extensions import override

from mcprev.platforms import HERE

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
        self._has_ended: Callable[[], bool] | None = None

    async def open(self, incoming: int, outgoing: int) -> None:
        """Watch the descriptors, and report the connection to the protocol."""
        self._writer = await HERE.connect_writer(lambda: self, outgoing)
        # Messages go to the output without a call in between.
        self.write: Callable[[bytes | bytearray | memoryview], None] = self._writer.write  # type: ignore[assignment]
        self._protocol.connection_made(self)
        self._reader, self._has_ended = await HERE.connect_reader(
            lambda: _Reader(self._protocol, self), incoming
        )
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
        if self._writer is not None:
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
        if self._has_ended is not None:
            self._look = asyncio.get_running_loop().call_later(_CHECK_INTERVAL, self._check_end)

    def _cancel_check(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _check_end(self) -> None:
        """Read from a paused pipe whose writer has closed it, which is the only way to notice the end."""
        if self._has_ended is not None and self._has_ended():
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
