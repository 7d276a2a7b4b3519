"""Descriptors that the event loop cannot watch, as pipes and consoles on Windows: a thread reads or writes each (STDIO-1).

A thread owns its descriptor and closes it. It reads ahead by a bounded number of bytes; what is written waits for it, and the
protocol is told to pause as by any other transport.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from typing_extensions import override

CHUNK: Final = 64 * 1024
"""The maximum number of bytes that one call reads or writes."""
MAX_AHEAD: Final = 256 * 1024
"""The bytes that are read before the protocol has taken them, so that the end is noticed while reading pauses."""
HIGH, LOW = 64 * 1024, 16 * 1024
"""The bytes that wait to be written at which the protocol is told to pause, and to go on."""
_CANCELS: Final = 20
"""The number of times that a thread is told to stop waiting: it may not wait yet."""
_CANCEL_INTERVAL: Final = 0.05
"""Seconds between these."""


class _PipeThread:
    """The thread of one descriptor; `cancel` ends the call for which the thread with a native id waits."""

    def __init__(self, work: Callable[[], None], cancel: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._cancel = cancel
        self.changed: threading.Condition = threading.Condition()
        """Held to look at or change what the loop and the thread share."""
        self.stopped: bool = False
        """Whether the thread has to end."""
        self._thread = threading.Thread(target=work, daemon=True)

    def start(self) -> None:
        """Start to work."""
        self._thread.start()

    def tell(self, call: Callable[..., object], *arguments: object) -> None:
        """Call a function in the event loop, unless that is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    def stop(self, left: int = _CANCELS) -> None:
        """Let the thread end, also while it waits."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        number = self._thread.native_id
        if number is not None and self._thread.is_alive():
            self._cancel(number)
            if left and not self._loop.is_closed():
                self._loop.call_later(_CANCEL_INTERVAL, self.stop, left - 1)


class ThreadReader(asyncio.ReadTransport):
    """Reads a descriptor for a protocol."""

    def __init__(self, descriptor: int, protocol: asyncio.Protocol, cancel: Callable[[int], None]) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._held = deque[bytes]()
        """What was read and not taken yet; the last one is empty at the end of input."""
        self._size = 0
        self._error: OSError | None = None
        self._paused = self._closing = self._at_end = False
        self._thread = _PipeThread(self._read, cancel)
        self._thread.start()

    def _read(self) -> None:
        thread = self._thread
        try:
            while not thread.stopped:
                data = os.read(self._descriptor, CHUNK)
                with thread.changed:
                    self._held.append(data)
                    self._size += len(data)
                thread.tell(self._deliver)
                if not data:
                    break
                with thread.changed:
                    thread.changed.wait_for(lambda: self._size < MAX_AHEAD or thread.stopped)
        except OSError as error:
            self._error = None if thread.stopped else error
        finally:
            os.close(self._descriptor)
        if self._error is not None:
            thread.tell(self._lose, self._error)

    def _deliver(self) -> None:
        """Hand over what was read: while reading pauses, only together with the end of input."""
        self._at_end = self._at_end or (bool(self._held) and not self._held[-1])
        while self._held and not self._closing and (self._at_end or not self._paused):
            with self._thread.changed:
                data = self._held.popleft()
                self._size -= len(data)
                self._thread.changed.notify_all()
            if data:
                self._protocol.data_received(data)
            else:
                self._protocol.eof_received()
                self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        if not self._closing:
            self._closing = True
            self._thread.stop()
            self._protocol.connection_lost(error)

    @override
    def pause_reading(self) -> None:
        self._paused = True

    @override
    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self._deliver)

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._thread.stop()
            self._loop.call_soon(self._protocol.connection_lost, None)


class ThreadWriter(asyncio.WriteTransport):
    """Writes a descriptor for a protocol."""

    def __init__(
        self, descriptor: int, protocol: asyncio.BaseProtocol, cancel: Callable[[int], None]
    ) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._held = bytearray()
        """What waits for the thread."""
        self._size = 0
        """The bytes that wait, those included that the thread writes."""
        self._paused = self._closing = self._lost = False
        self._thread = _PipeThread(self._write, cancel)
        self._thread.start()

    def _write(self) -> None:
        thread, error = self._thread, None
        try:
            while (data := self._taken()) and not thread.stopped:
                rest = memoryview(data)
                while rest and not thread.stopped:
                    written = os.write(self._descriptor, rest[:CHUNK])
                    rest = rest[written:]
                    thread.tell(self._written, written)
        except OSError as failed:
            error = None if thread.stopped else failed
        finally:
            os.close(self._descriptor)
        thread.tell(self._lose, error)

    def _taken(self) -> bytes:
        """Wait for something to write; return nothing when everything is written and no more will come."""
        thread = self._thread
        with thread.changed:
            thread.changed.wait_for(lambda: self._held or self._closing or thread.stopped)
            data = bytes(self._held)
            self._held.clear()
        return data

    def _written(self, count: int) -> None:
        self._size -= count
        if self._paused and self._size <= LOW:
            self._paused = False
            self._protocol.resume_writing()

    def _lose(self, error: OSError | None) -> None:
        self._closing = True
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(error)

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data:
            return
        with self._thread.changed:
            self._held += data
            self._thread.changed.notify_all()
        self._size += len(data)
        if not self._paused and self._size > HIGH:
            self._paused = True
            self._protocol.pause_writing()

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def get_write_buffer_size(self) -> int:
        return self._size

    @override
    def close(self) -> None:
        with self._thread.changed:
            self._closing = True
            self._thread.changed.notify_all()

    @override
    def abort(self) -> None:
        self._closing = True
        self._thread.stop()
        self._loop.call_soon(self._lose, None)
