"""`mcprev serve --reload`: the server in a child process, which starts again when a source file changes (STDIO-7, LIFE-1).

On stdio this process holds the pipe of the client, and `KeptSession` says what the next child and the client are told.
Over HTTP the child serves at the same address again; sessions end with it, as with any server that starts again.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from typing_extensions import override

from mcprev.cli.table import clean, echo
from mcprev.serving.kept_session import KeptSession
from mcprev.serving.sockets import UNIX
from mcprev.serving.source_files import SourceFiles
from mcprev.transports import process_groups
from mcprev.transports.exiting import stop_signals
from mcprev.transports.lines import LineBuffer
from mcprev.transports.stdio.pipes import PipeTransport
from mcprev.transports.stdio.server import redirected_stdio
from mcprev.wire.jsonrpc import ErrorResponse, Malformed, encode

FLAG: Final = "--reload"
POLL: Final = 0.3
"""Seconds between two looks at the source files."""
GRACE: Final = 2.0
"""Seconds that a child has to end, after its input is closed and again after SIGTERM."""
HIGH, LOW = 500, 100
"""The numbers of lines of the client at which reading pauses and goes on."""
_CHUNK: Final = 64 * 1024
_USAGE: Final = 2


def run_reloading(target: str, where: tuple[str, int] | None) -> int:
    """Serve with the command line of this process in children until the client or the user ends it; return the exit code."""
    path = target.rpartition(":")[0] if ".py:" in target else target
    first = [path] if path.endswith(".py") and Path(path).is_file() else []
    command = _child_command(where)
    with SourceFiles(first) as sources:
        children = Children(command, sources)
        runs = children.serve_http() if where is not None else StdioReloader(children).serve()
        return asyncio.run(_until_signal(runs))


def _child_command(where: tuple[str, int] | None) -> list[str]:
    """Return the command line of this process without the flag; over HTTP with the port that all children have."""
    words = [sys.executable, *sys.orig_argv[1:]]
    own = words.index("--") if "--" in words else len(words)
    command, rest = [word for word in words[:own] if word != FLAG], words[own:]
    if where is not None and not where[0].startswith(UNIX):
        host, port = where
        command += ["--http", f"{f'[{host}]' if ':' in host else host}:{port or _free_port(host)}"]
    return [*command, *rest]


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as free:
            free.bind((host, 0))
            found: int = free.getsockname()[1]
            return found
    except OSError as error:
        raise click.ClickException(f"cannot listen at {clean(host)}: {error.strerror}") from None


async def _until_signal(runs: Coroutine[Any, Any, int]) -> int:
    """Return the exit code of a run; a signal to stop ends it with 0, after its child."""
    serving = asyncio.ensure_future(runs)
    for number in stop_signals():
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    try:
        return await serving
    except asyncio.CancelledError:
        return 0


class Children:
    """The processes of the server, one after the other."""

    def __init__(self, command: list[str], sources: SourceFiles) -> None:
        self._command = command
        self._environment = {**os.environ, **sources.environment}
        self.sources = sources
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, *, piped: bool) -> asyncio.subprocess.Process:
        """Start the next process; with pipes as its stdin and stdout, or with those of this process."""
        pipe = asyncio.subprocess.PIPE if piped else None
        self.process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, env=self._environment, start_new_session=True
        )
        process_groups.started(self.process.pid)
        return self.process

    async def end(self) -> int:
        """End the process and those that it started, within bounded time, and return its exit code."""
        if self.process is None:
            return 0
        try:
            return await self._end(self.process)
        finally:
            process_groups.kill(self.process.pid)

    @staticmethod
    async def _end(process: asyncio.subprocess.Process) -> int:
        if process.stdin is not None:
            process.stdin.close()
        for signalled in (None, process.terminate, process.kill):
            if signalled is not None:
                with suppress(ProcessLookupError):
                    signalled()
            elif process.stdin is None:
                continue  # nothing tells it to end but a signal
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    return await process.wait()
        return await process.wait()

    def is_hopeless(self, code: int) -> bool:
        """Return whether no change of a file could mend what ended the process."""
        return code == _USAGE or not self.sources.names

    async def serve_http(self) -> int:
        """Serve over HTTP, in a new process after each change."""
        try:
            while True:
                process = await self.start(piped=False)
                while not (changed := self.sources.changed()):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL):
                            code = await process.wait()
                        if self.is_hopeless(code):
                            return code
                        await asyncio.sleep(POLL)
                _tell(changed)
                await self.end()
        finally:
            await asyncio.shield(asyncio.ensure_future(self.end()))


def _tell(changed: list[str]) -> None:
    names = ", ".join(os.path.relpath(name) for name in changed[:3])
    echo(f"{names}{' and more' if len(changed) > 3 else ''} changed: restarting the server", err=True)


class StdioReloader(asyncio.Protocol):
    """Passes the lines of one client to the process of the server that runs, and its lines back."""

    def __init__(self, children: Children) -> None:
        self._children, self._session = children, KeptSession()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._buffer = LineBuffer()
        self._pipe = PipeTransport(self)
        self._writable = asyncio.Event()
        self._writable.set()
        self._settled = asyncio.Event()
        """Set while a process serves, and while there is none: lines of the client wait for it."""
        self._down: str | None = None
        """Why no process serves."""
        self._closed = asyncio.Event()

    async def serve(self) -> int:
        """Serve until the client closes its end; return the exit code."""
        with redirected_stdio() as (incoming, outgoing):
            await self._pipe.open(incoming, outgoing)
            passing = asyncio.create_task(self._to_server())
            try:
                return await self._serve()
            finally:
                passing.cancel()
                await asyncio.wait({passing})
                await asyncio.shield(asyncio.ensure_future(self._children.end()))
                self._pipe.close()

    async def _serve(self) -> int:
        sources, again = self._children.sources, False
        while True:
            process = await self._children.start(piped=True)
            self._down = None
            reading = asyncio.create_task(self._from_server(process, again=again))
            closed = asyncio.create_task(self._closed.wait())
            try:
                changed: list[str] = []
                while not changed:
                    await asyncio.wait({closed, *(() if reading.done() else (reading,))}, timeout=POLL)
                    if closed.done():
                        await self._drained()
                        return await self._ended(reading)
                    if reading.done() and self._down is None:
                        code = await process.wait()
                        if self._children.is_hopeless(code):
                            return code
                        self._stop(
                            f"the server ended with exit code {code}; fix the error, and the server is restarted"
                        )
                    changed = sources.changed()
                self._settled.clear()
                _tell(changed)
                await self._children.end()
                await asyncio.wait({reading}, timeout=GRACE)
            finally:
                reading.cancel()
                closed.cancel()
                await asyncio.wait({reading, closed})
            self._answer("the server started again because its source changed; send the request again")
            again = True

    async def _drained(self) -> None:
        """Wait until the process has got what the client sent, as far as it takes it within bounded time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._lines.join()

    async def _ended(self, reading: asyncio.Task[None]) -> int:
        """End the process after its last lines; return its exit code."""
        code = await self._children.end()
        await asyncio.wait({reading}, timeout=GRACE)
        return max(code, 0)

    def _stop(self, why: str) -> None:
        """Answer requests with an error from now on."""
        self._down = why
        self._answer(why)
        echo(why, err=True)
        self._settled.set()

    def _answer(self, why: str) -> None:
        for message in self._session.lost(why):
            self._say(message)

    def _say(self, line: bytes) -> None:
        if not self._pipe.is_closing():
            self._pipe.write(line + b"\n")

    # -- the server ------------------------------------------------------------------------------------------

    async def _from_server(self, process: asyncio.subprocess.Process, *, again: bool) -> None:
        """Pass the lines of a process to the client; a new one is told of the session first."""
        assert process.stdout is not None
        waits = again and self._session.has_session
        if waits:
            await self._put(process, self._session.replay())
        else:
            self._settled.set()
        buffer = LineBuffer()
        while data := await process.stdout.read(_CHUNK):
            for line in buffer.feed(data):
                if isinstance(line, Malformed):
                    continue
                answer = self._session.answers_replay(line) if waits else None
                shown = self._session.from_server(line)
                if shown is not None:
                    self._say(shown)
                if answer is not None:
                    waits = False
                    await self._opened(process, answer)
            await self._writable.wait()

    async def _opened(self, process: asyncio.subprocess.Process, answer: object) -> None:
        """Go on with the session at a new process that has answered `initialize`."""
        if isinstance(answer, ErrorResponse):
            echo(f"the server no longer accepts the session: {answer.error.get('message')}", err=True)
        else:
            different = self._session.differs(answer)  # type: ignore[arg-type]
            if different is not None:
                echo(different, err=True)
        await self._put(process, self._session.replay_rest())
        for line in self._session.changed():
            self._say(line)
        self._settled.set()

    @staticmethod
    async def _put(process: asyncio.subprocess.Process, lines: list[bytes]) -> None:
        assert process.stdin is not None
        with suppress(ConnectionError):
            process.stdin.writelines(line + b"\n" for line in lines)
            await process.stdin.drain()

    # -- the client ------------------------------------------------------------------------------------------

    async def _to_server(self) -> None:
        while True:
            line = await self._lines.get()
            await self._settled.wait()
            if self._lines.qsize() == LOW:
                self._pipe.resume_reading()
            passed = self._session.from_client(line)
            process = self._children.process
            if self._down is not None:
                self._answer(self._down)
            elif passed is not None and process is not None:
                await self._put(process, [passed])
            self._lines.task_done()

    @override
    def data_received(self, data: bytes) -> None:
        for line in self._buffer.feed(data):
            if isinstance(line, Malformed):
                answer = line.answer
                if answer is not None:
                    self._say(encode(answer, null_id_in_errors=True))
            else:
                self._lines.put_nowait(bytes(line))
        if self._lines.qsize() > HIGH:
            self._pipe.pause_reading()

    @override
    def eof_received(self) -> bool:
        self._closed.set()
        return True  # the answers to what was sent still go out

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()

    @override
    def pause_writing(self) -> None:
        self._writable.clear()

    @override
    def resume_writing(self) -> None:
        self._writable.set()
