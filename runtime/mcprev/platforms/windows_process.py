"""A process whose pipes threads read and write, so that any event loop can have it (STDIO-4, STDIO-7)."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from os import dup
from typing import IO

from typing_extensions import override

from mcprev.platforms.thread_pipes import ThreadReader, ThreadWriter

_STDIN, _STDOUT, _STDERR = 0, 1, 2


class ThreadProcess(asyncio.SubprocessTransport):
    """Tells a protocol what happens to a process, as the processes of asyncio do."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        protocol: asyncio.SubprocessProtocol,
        cancel: Callable[[int], None],
    ) -> None:
        """`cancel` ends the call for which a thread waits. The protocol learns of the process now, of pipes as they say something."""
        super().__init__()
        self._popen = popen
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._code: int | None = None
        self._closing = False
        stdin, stdout, stderr = map(_owned, (popen.stdin, popen.stdout, popen.stderr))
        self._stdin = ThreadWriter(stdin, _Pipe(self, _STDIN), cancel)
        self._stdout = ThreadReader(stdout, _Pipe(self, _STDOUT), cancel)
        self._stderr = ThreadReader(stderr, _Pipe(self, _STDERR), cancel)
        self._open = {_STDIN, _STDOUT, _STDERR}
        protocol.connection_made(self)
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        code = self._popen.wait()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._exited, code)

    def _exited(self, code: int) -> None:
        self._code = code
        self._protocol.process_exited()
        self._end()

    def pipe_lost(self, number: int, error: Exception | None) -> None:
        """Handle the end of one of the pipes."""
        self._open.discard(number)
        self._protocol.pipe_connection_lost(number, error)
        self._end()

    def _end(self) -> None:
        if not self._open and self._code is not None:
            self._open = {-1}  # the protocol is told once
            self._protocol.connection_lost(None)

    def received(self, number: int, data: bytes) -> None:
        """Pass on what a pipe has brought."""
        self._protocol.pipe_data_received(number, data)

    def paused(self, *, paused: bool) -> None:
        """Tell the protocol whether stdin takes more."""
        (self._protocol.pause_writing if paused else self._protocol.resume_writing)()

    @override
    def get_pid(self) -> int:
        return self._popen.pid

    @override
    def get_returncode(self) -> int | None:
        return self._code

    @override
    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        return {_STDIN: self._stdin, _STDOUT: self._stdout, _STDERR: self._stderr}.get(fd)

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def kill(self) -> None:
        self._popen.kill()

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            for each in (self._stdin, self._stdout, self._stderr):
                each.close()
            if self._code is None:
                with suppress(OSError):
                    self._popen.kill()


class _Pipe(asyncio.Protocol):
    """What one of the pipes says."""

    def __init__(self, process: ThreadProcess, number: int) -> None:
        self._process, self._number = process, number

    @override
    def data_received(self, data: bytes) -> None:
        self._process.received(self._number, data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._process.pipe_lost(self._number, exc)

    @override
    def pause_writing(self) -> None:
        self._process.paused(paused=True)

    @override
    def resume_writing(self) -> None:
        self._process.paused(paused=False)


def _owned(file: IO[bytes] | None) -> int:
    """Return a descriptor of a pipe that a thread can own."""
    assert file is not None
    with file:
        return dup(file.fileno())
