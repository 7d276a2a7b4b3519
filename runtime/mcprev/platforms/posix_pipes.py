"""Descriptors that the event loop of a POSIX system cannot watch: regular files and devices such as /dev/null."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import threading
from contextlib import suppress

from typing_extensions import override


class FileWriter(asyncio.WriteTransport):
    """Writes a file directly."""

    def __init__(self, descriptor: int, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._descriptor: int | None = descriptor
        self._protocol = protocol

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest and self._descriptor is not None:
            rest = rest[os.write(self._descriptor, rest) :]

    @override
    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self._finish)

    @override
    def abort(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _finish(self) -> None:
        self.abort()
        self._protocol.connection_lost(None)


def pipe_from(file: int) -> int:
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


def is_watchable(descriptor: int) -> bool:
    """Return whether the event loop can wait for a descriptor."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
