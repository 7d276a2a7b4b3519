"""`mcprev serve --reload`: the server in a child process, which starts again when a source file changes (STDIO-7, LIFE-1).

On stdio this process holds the pipe of the client, and `KeptSession` says what the next child and the client are told.
Over HTTP it holds the listening socket. What servers without a store would keep in their memory is in a store that lasts as
long as the command, so that sessions and their state outlive a child.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
from collections.abc import Coroutine
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import click
from typing_extensions import override

from mcprev.cli.reloaded import VARIABLE
from mcprev.cli.table import clean, echo
from mcprev.core.temporary_folders import temporary_folder
from mcprev.errors import Json
from mcprev.platforms import HERE
from mcprev.serving.kept_session import KeptSession
from mcprev.serving.sockets import listen, port_of
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
"""Seconds that a child has to end, after its input is closed and again after it was asked to."""
MAX_WAITING: Final = 500
"""The number of lines of the client that wait for a process, beyond which nothing more is read."""
MAX_WAITING_BYTES: Final = 1024 * 1024
"""The size of these lines together, beyond which nothing more is read: with the line that goes beyond it."""
_PART: Final = 5
"""Reading goes on when less than this part of either waits."""
_CHUNK: Final = 64 * 1024
_USAGE: Final = 2


def run_reloading(target: str, where: tuple[str, int] | None) -> int:
    """Serve with the command line of this process in children until the client or the user ends it; return the exit code."""
    path = target.rpartition(":")[0] if ".py:" in target else target
    first = [path] if path.endswith(".py") and Path(path).is_file() else []
    with (
        SourceFiles(first) as sources,
        temporary_folder("the state of reloaded servers") as folder,
        closing(_Place(where)) as place,
    ):
        children = Children(_child_command(), sources, f"sqlite:///{quote(folder)}/state.db", place)
        runs = children.serve_http() if where is not None else StdioReloader(children).serve()
        return asyncio.run(_until_signal(runs))


def _child_command() -> list[str]:
    """Return the command line of this process without the flag."""
    words = [sys.executable, *sys.orig_argv[1:]]
    own = words.index("--") if "--" in words else len(words)
    return [*(word for word in words[:own] if word != FLAG), *words[own:]]


class _Place:
    """The address of all children over HTTP: who connects while one follows another waits for that."""

    def __init__(self, where: tuple[str, int] | None) -> None:
        self._where = where
        self._listening: socket.socket | None = None

    def open(self) -> int | None:
        """Return the descriptor of the listening socket; None on stdio, and where each process has to listen by itself."""
        if self._listening is None and self._where is not None and HERE.shares_sockets:
            host, port = self._where
            try:
                self._listening = listen(host, port)
            except OSError as error:
                raise click.ClickException(
                    f"cannot listen at {clean(host)}: {error.strerror or error}"
                ) from None
            self._where = host, port_of(self._listening)
        return None if self._listening is None else self._listening.fileno()

    def close(self) -> None:
        """Refuse connections, because nobody serves them until a file is changed."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None


async def _until_signal(runs: Coroutine[Any, Any, int]) -> int:
    """Return the exit code of a run; a signal to stop ends it with 0, after its child."""
    serving = asyncio.ensure_future(runs)
    for number in stop_signals():
        with suppress(NotImplementedError, RuntimeError, ValueError):
            HERE.handle_signal(asyncio.get_running_loop(), number, serving.cancel)
    try:
        return await serving
    except asyncio.CancelledError:
        return 0


class Children:
    """The processes of the server, one after the other."""

    def __init__(self, command: list[str], sources: SourceFiles, store: str, place: _Place) -> None:
        """`store` is the URL of the store for what is kept from one to the next."""
        self._command, self._place = command, place
        self._environment = {**os.environ, **sources.environment}
        self._kept: dict[str, Json] = {"store": store, "again": False}
        self.sources = sources
        self.process: asyncio.subprocess.Process | None = None
        self._session = secrets.token_hex(32)
        """The name of the session on stdio."""

    async def start(self, *, piped: bool) -> asyncio.subprocess.Process:
        """Start the next process; with pipes as its stdin and stdout, or with those of this process."""
        pipe = asyncio.subprocess.PIPE if piped else None
        descriptor = self._place.open()
        kept = {**self._kept, **({} if descriptor is None else {"socket": descriptor})}
        if piped:
            kept["session"] = self._session
        self._kept["again"] = True
        self.process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=pipe,
            stdout=pipe,
            env={**self._environment, VARIABLE: json.dumps(kept)},
            pass_fds=() if descriptor is None else (descriptor,),
            **HERE.group_options,
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
        for step in (None, HERE.ask_to_end, asyncio.subprocess.Process.kill):
            if step is not None:
                with suppress(ProcessLookupError):
                    step(process)
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
                        self._place.close()
                        await asyncio.sleep(POLL)
                _tell(changed)
                await self.end()
        finally:
            await asyncio.shield(asyncio.ensure_future(self.end()))


def _tell(changed: list[str]) -> None:
    names = ", ".join(os.path.relpath(name) for name in changed[:3])
    echo(f"{names}{' and more' if len(changed) > 3 else ''} changed: restarting the server", err=True)


class _Reads(Protocol):
    """What reads the client."""

    def pause_reading(self) -> None:
        """Read no more for now."""
        ...

    def resume_reading(self) -> None:
        """Go on."""
        ...


class WaitingLines:
    """The lines of the client that wait for a process; while there are too many of them, or too large ones, none is read."""

    def __init__(self, pipe: _Reads) -> None:
        self._pipe = pipe
        self._lines: asyncio.Queue[bytes | Malformed] = asyncio.Queue()
        self._number = self._size = 0
        self._paused = False

    def put(self, line: bytes | Malformed) -> None:
        """Add a line."""
        self._lines.put_nowait(line)
        self._count(line, 1)

    async def get(self) -> bytes | Malformed:
        """Return the next line, which waits until it is `done`."""
        return await self._lines.get()

    def done(self, line: bytes | Malformed) -> None:
        """Let a line that was taken wait no more."""
        self._lines.task_done()
        self._count(line, -1)

    async def join(self) -> None:
        """Wait until no line waits."""
        await self._lines.join()

    def _count(self, line: bytes | Malformed, by: int) -> None:
        self._number += by
        self._size += by * (len(line) if isinstance(line, bytes) else 0)
        if self._paused and self._number < MAX_WAITING // _PART and self._size < MAX_WAITING_BYTES // _PART:
            self._paused = False
            self._pipe.resume_reading()
        elif not self._paused and (self._number > MAX_WAITING or self._size > MAX_WAITING_BYTES):
            self._paused = True
            self._pipe.pause_reading()


class StdioReloader(asyncio.Protocol):
    """Passes the lines of one client to the process of the server that runs, and its lines back."""

    def __init__(self, children: Children) -> None:
        self._children, self._session = children, KeptSession()
        self._buffer = LineBuffer()
        self._pipe = PipeTransport(self)
        self._lines = WaitingLines(self._pipe)
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
                self._session.leave()
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
            await self._put(process, self._session.streams())
            self._settled.set()
        buffer = LineBuffer()
        while data := await process.stdout.read(_CHUNK):
            for line in buffer.feed(data):
                if isinstance(line, Malformed):
                    continue
                answer = self._session.answers_replay(line) if waits else None
                changes = self._session.reopened(line)
                shown = self._session.from_server(line)
                for told in (*(() if shown is None else (shown,)), *changes):
                    self._say(told)
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
        await self._put(process, [*self._session.replay_rest(), *self._session.streams()])
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
            await self._take(line)
            self._lines.done(line)

    async def _take(self, line: bytes | Malformed) -> None:
        if isinstance(line, Malformed):
            answer = line.answer
            if answer is not None:
                await self._writable.wait()
                self._say(encode(answer, null_id_in_errors=True))
            return
        passed = self._session.from_client(line)
        process = self._children.process
        if self._down is not None:
            await self._writable.wait()
            self._answer(self._down)
        elif passed is not None and process is not None:
            await self._put(process, [passed])

    @override
    def data_received(self, data: bytes) -> None:
        for line in self._buffer.feed(data):
            self._lines.put(bytes(line) if not isinstance(line, Malformed) else line)

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
