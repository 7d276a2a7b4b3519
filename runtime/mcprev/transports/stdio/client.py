"""A client's connection to a server process over its stdin and stdout (STDIO-1, 3, 4, 5, 7, 9, 10).

The client reads stderr continuously and keeps its last bytes for the error that reports the exit. The process leads a
tree of processes, so no child process outlives the connection. Every wait has a timeout.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from mcprev.callbacks import at_once
from mcprev.core.connection import PIPES
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import ConnectionLost, ProcessExited
from mcprev.platforms import HERE
from mcprev.protocol.negotiation.steps import Plan, ProbeCache, ProbeResult
from mcprev.transports import process_groups
from mcprev.transports.lines import LineConnection
from mcprev.wire.payloads import mask_arguments, mask_text

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.core.interfaces import RequestHandler
    from mcprev.protocol.endpoint import ClientProtocol

UNANSWERED: Final = ProbeCache()
"""The results of the command lines in this process whose servers did not respond to a probe."""
GRACE: Final = 2.0
"""Seconds that a server has to exit after stdin is closed, and again after it was asked to end."""
TAIL: Final = 8 * 1024
"""The number of bytes of stderr that are kept."""
logger: Final = logging.getLogger("mcprev.client")
_output: Final = logging.getLogger("mcprev.client.stderr")
_STDERR: Final = 2
_UNSERVED: Final = " before it responded; does it call `run_stdio()`? If not, start `mcprev serve FILE`"
_EXIT_WAIT: Final = 0.5
"""Seconds to wait for the last output and the exit code of a process that is ending."""


class stdio:  # noqa: N801 - called like a function: `connect(stdio("command", "argument"))`
    """A command to run as a server, without a shell: `connect(stdio("python", "server.py"))`.

    Each client that connects starts a process of its own, and ends it when it closes.
    """

    restarts: Final = ReconnectPolicy()
    """The default policy of `connect(restart=True)`: a server process that exits is started again."""

    def __init__(
        self,
        command: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Callable[[bytes], None] | None = None,
        grace: float = GRACE,
    ) -> None:
        """Set the command, its arguments, and the options of the process.

        - `command` is a program in PATH or the path of one; each of its `arguments` is a string of its own.
        - `env` is added to the variables that the process inherits: HOME, LANG, LC_ALL, LC_CTYPE, LOGNAME, PATH, SHELL,
          TERM, TMPDIR, TZ and USER, and no others; on Windows those of the system that programs need there, such as
          APPDATA, PATH, PATHEXT, SYSTEMROOT, TEMP and USERPROFILE.
        - `cwd` is the working directory of the process. None: that of this process.
        - `stderr` is a function that is called with each chunk of bytes that the process writes to stderr. None: each
          line is logged by the logger `mcprev.client.stderr` at INFO. The last 8 KiB are part of `ProcessExited`.
        - `grace` is the time in seconds that the process has to exit after stdin is closed, and again after SIGTERM
          (Ctrl+Break on Windows): 2 by default.
        """
        self._command = (command, *arguments)
        self._env = env
        self._cwd = cwd
        self._stderr = stderr
        self._grace = grace
        self.pid: int | None = None
        """The process id of the last process that was started."""
        self._processes: list[_Process] = []

    async def open(self, protocol: ClientProtocol, handler: RequestHandler[Connection], /) -> Connection:
        """Start a process for this connection. Raises `ProcessExited` for a command that cannot be started."""
        connection = LineConnection(protocol, handler, logger, linger=0)
        connection.network = PIPES
        process = _Process(connection, self._command[0], self._stderr)
        process.starting = asyncio.get_running_loop().create_task(self._start(process))
        self._processes.append(process)
        try:
            # The caller may be cancelled during the start, more than once; `close` still ends the process.
            await asyncio.shield(process.starting)
        except BaseException as error:
            process.report_lost(error if isinstance(error, ConnectionLost) else None)
            raise
        self.pid = process.pid
        return connection

    async def _start(self, process: _Process) -> None:
        inherited = {name: os.environ[name] for name in HERE.inherited if name in os.environ}  # STDIO-10
        environment = HERE.environment(inherited, self._env or {})
        try:
            await HERE.start(lambda: process, self._command, environment, self._cwd)
        except (OSError, ValueError) as error:
            why = mask_text(str(error))
            text = f"cannot start '{mask_text(self._command[0])}': {why}"
            if len(self._command) == 1 and len(words := self._command[0].split()) > 1:
                text += (
                    f"; pass each word by itself: mcprev.stdio({', '.join(map(repr, mask_arguments(words)))})"
                )
            failure = ProcessExited(text, returncode=None, stderr="")
            failure.__cause__ = error if why == str(error) else None
        else:
            return
        raise failure  # outside of `except`, because an exception also shows the one that is handled

    @property
    def known(self) -> ProbeResult | None:
        """The era of this command line, if its server did not respond to a probe; another one is simply probed again."""
        return UNANSWERED.get(self._identity)

    def learn(self, plan: Plan, /) -> None:
        """Remember the result of a negotiation."""
        if plan.unanswered:
            UNANSWERED.keep(self._identity, plan)

    @property
    def _identity(self) -> tuple[Hashable, ...]:
        variables = hash(frozenset((self._env or {}).items()))  # their values may be secrets
        return self._command, str(Path(self._cwd or ".").absolute()), variables

    async def close(self) -> None:
        """End the processes whose connections have ended; those of other clients keep running.

        Closes stdin, then sends SIGTERM, then SIGKILL to the process group; on Windows Ctrl+Break, then the end of its job.
        """
        ended = [process for process in self._processes if process.connection.error is not None]
        for process in ended:
            if process.ending is None:
                process.ending = asyncio.get_running_loop().create_task(self._end(process))
        for process in ended:
            if process.ending is not None:
                await asyncio.shield(process.ending)

    async def _end(self, process: _Process) -> None:
        try:
            await process.end(self._grace)
        finally:
            self._processes.remove(process)

    @override
    def __repr__(self) -> str:
        return f"<stdio {' '.join(mask_arguments(self._command))}>"


class _Process(asyncio.SubprocessProtocol, asyncio.Transport):
    """Receives the events of the process from the event loop, and is the transport to its stdin and from its stdout.

    Closing it closes stdin; stdout is read to its end.
    """

    def __init__(
        self, connection: LineConnection, command: str, stderr: Callable[[bytes], None] | None
    ) -> None:
        super().__init__()
        self.connection: LineConnection = connection
        self.starting: asyncio.Task[None]
        self.ending: asyncio.Task[None] | None = None
        self._command = command
        self._on_stderr = stderr
        self._tail = bytearray()
        self._line = b""
        """The beginning of a line of stderr whose end has not arrived."""
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._exit_timer: asyncio.TimerHandle | None = None
        self._closing = self._answered = False
        self._process: asyncio.SubprocessTransport | None = None

    @property
    def pid(self) -> int:
        """The process id, which is also that of its tree."""
        assert self._process is not None
        return self._process.get_pid()

    # -- what happens --------------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = process = cast("asyncio.SubprocessTransport", transport)
        process_groups.started(self.pid)
        self._stdin = cast("asyncio.WriteTransport", process.get_pipe_transport(0))
        self._stdout = cast("asyncio.ReadTransport", process.get_pipe_transport(1))
        self.connection.connection_made(self)

    @override
    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, bytes)
        if fd == 1:
            self._answered = True
            self.connection.data_received(data)
            return
        if (tap := self.connection.protocol.tap) is not None:
            tap.stderr(data)
        self._tail += data
        del self._tail[:-TAIL]
        if self._on_stderr is None:
            if _output.isEnabledFor(logging.INFO):
                self._log_lines(data)
        else:
            try:
                at_once(self._on_stderr(data), "`stderr`")
            except Exception:
                logger.exception("the function that reads the server's stderr raised")

    def _log_lines(self, data: bytes, *, ended: bool = False) -> None:
        """Log the lines that are complete, or longer than what is kept."""
        *lines, rest = (self._line + data).split(b"\n")
        if rest and (ended or len(rest) > TAIL):
            lines, rest = [*lines, rest], b""
        self._line = rest
        for line in lines:
            text = mask_text(line[:TAIL].decode(errors="replace").rstrip("\r"))
            clean = "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)
            _output.info("%s: %s", mask_text(self._command), clean)

    @override
    def pause_writing(self) -> None:
        self.connection.pause_writing()

    @override
    def resume_writing(self) -> None:
        self.connection.resume_writing()

    @override
    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd != _STDERR:  # a server may close its stderr and keep running
            self._report_soon()

    @override
    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)
        self._report_soon()

    def _report_soon(self) -> None:
        """Report the end of the connection when the process and all pipes have ended, at the latest in `_EXIT_WAIT` s."""
        if self._exit_timer is None:
            self._exit_timer = self._loop.call_later(_EXIT_WAIT, self.report_lost)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.report_lost()

    def report_lost(self, error: ConnectionLost | None = None) -> None:
        """Report the end of the connection, which hears of the first one only."""
        if self._exit_timer is not None:
            self._exit_timer.cancel()
        if self._line:
            self._log_lines(b"", ended=True)
        self.connection.connection_lost(error or self._lost_error())

    def _lost_error(self) -> ConnectionLost:
        code = None if self._process is None else self._process.get_returncode()
        if code is None:
            return ConnectionLost("the server closed its end", in_flight=True, retry_safe=False)
        stderr = mask_text(self._tail.decode(errors="replace"))
        text = f"'{mask_text(self._command)}' exited with {code}{'' if code or self._answered else _UNSERVED}"
        return ProcessExited(text, returncode=code, stderr=stderr, in_flight=True)

    # -- stdin and stdout ----------------------------------------------------------------------------------

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._stdin.write(data)

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def pause_reading(self) -> None:
        self._stdout.pause_reading()

    @override
    def resume_reading(self) -> None:
        self._stdout.resume_reading()

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._stdin.close()
            self._loop.call_soon(self.report_lost)

    @override
    def abort(self) -> None:
        self._closing = True
        self._stdin.abort()
        self.report_lost()

    # -- the end -------------------------------------------------------------------------------------------

    async def end(self, grace: float) -> None:
        """Close stdin, ask the tree to end, then kill it, until the process exits; then kill the rest of its tree."""
        await asyncio.wait({self.starting})
        if self._process is None:
            return
        self._stdin.close()
        try:
            for step in (None, process_groups.terminate, process_groups.kill):
                if step is not None:
                    step(self.pid)
                await asyncio.wait({self._exited}, timeout=grace)
                if self._exited.done():
                    break
        finally:
            process_groups.kill(self.pid)
            self._process.close()
        self.report_lost()
