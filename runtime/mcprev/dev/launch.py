"""How the server of a session is reached or started: at a URL, by a command, or out of a file in a child process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from mcprev.client.targets import Target
from mcprev.core.background import Background
from mcprev.dev.authorization import LoginSteps
from mcprev.errors import ProcessExited
from mcprev.platforms import HERE
from mcprev.serving.source_files import SourceFiles
from mcprev.transports import process_groups
from mcprev.transports.http.client.target import http
from mcprev.transports.stdio.client import stdio

HOST: Final = "127.0.0.1"
STARTING: Final = 30.0
"""Seconds that a server has to listen."""
_POLL: Final = 0.05
STOPPING: Final = 3.0
"""Seconds that a server has to end."""
_logger: Final = logging.getLogger("mcprev.dev")
TAIL: Final = 64 * 1024
"""The bytes of stderr that are kept for the error of a server that does not start."""


class Launcher(Protocol):
    """Starts a server, or knows where it is."""

    kind: str
    """`app`, `command`, `url` or `recording`."""
    label: str
    """What the user named."""
    transport: str
    """`stdio` or `http`."""
    words: tuple[str, ...]
    """What follows `mcprev call` for the same server."""
    sources: SourceFiles | None
    """The source files, whose change starts the server again; None if they are not known."""
    logins: LoginSteps
    """The steps of logins at the server."""

    async def start(self, stderr: Callable[[bytes], None]) -> None:
        """Start what all connections share. Raises `ProcessExited`."""
        ...

    def target(self) -> Target:
        """Return the target of one connection. What its process writes to stderr is told by the tap."""
        ...

    async def stop(self) -> None:
        """End what was started."""
        ...

    def close(self) -> None:
        """Release what is kept between starts."""
        ...


class DirectLauncher:
    """A target that is there already, such as a URL or a command."""

    def __init__(
        self,
        label: str,
        words: tuple[str, ...],
        make: Callable[[], Target],
        *,
        kind: str,
        transport: str,
        logins: LoginSteps | None = None,
    ) -> None:
        self.label: str = label
        self.words: tuple[str, ...] = words
        self.kind: str = kind
        self.transport: str = transport
        self._make = make
        self.sources: SourceFiles | None = None
        self.logins: LoginSteps = logins or LoginSteps()

    async def start(self, stderr: Callable[[bytes], None]) -> None:
        """There is nothing to start."""

    def target(self) -> Target:
        """Return the target of one connection."""
        return self._make()

    async def stop(self) -> None:
        """There is nothing to end."""

    def close(self) -> None:
        """There is nothing to release."""


class ChildLauncher:
    """A server out of a file or module, which `mcprev serve` runs in a child process."""

    kind = "app"

    def __init__(self, name: str, environment: Mapping[str, str], *, over_http: bool) -> None:
        self.label = name
        self.words: tuple[str, ...] = (name,)
        self._http = over_http
        self.transport = "http" if over_http else "stdio"
        self.sources: SourceFiles | None = SourceFiles(_first_files(name))
        self.logins: LoginSteps = LoginSteps()
        self._environment = {**os.environ, **environment, **self.sources.environment}
        self._command = (sys.executable, "-m", "mcprev", "serve", name)
        self._process: asyncio.subprocess.Process | None = None
        self._background = Background(_logger, "what the server writes to stderr")
        self._port: int | None = None

    async def start(self, stderr: Callable[[bytes], None]) -> None:
        """Start the server over HTTP and wait until it listens. Raises `ProcessExited` if it ends before."""
        if not self._http:
            return
        port = self._port = self._port or _free_port()
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            "--http",
            f"{HOST}:{port}",
            "--log-level",
            "warning",  # each request is in the events
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            **HERE.group_options,
        )
        process_groups.started(process.pid)
        tail = bytearray()

        def keep(data: bytes) -> None:
            tail.extend(data)
            del tail[:-TAIL]
            stderr(data)

        self._background.start(_read(process, keep))
        try:
            async with asyncio.timeout(STARTING):
                while not await _listens(port):
                    if process.returncode is not None:
                        break
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            await self.stop()
            raise ProcessExited(
                f"the server did not listen at {HOST}:{port} within {STARTING:g} s",
                returncode=None,
                stderr=tail.decode(errors="replace"),
            ) from None
        if process.returncode is not None:
            await self._background.finish()
            self._port = None
            raise ProcessExited(
                f"the server ended with exit code {process.returncode}",
                returncode=process.returncode,
                stderr=tail.decode(errors="replace"),
            )

    def target(self) -> Target:
        """Return the target of one connection."""
        if self._http:
            return http(f"http://{HOST}:{self._port}/mcp")
        return stdio(*self._command, env=self._environment, stderr=ignore)

    async def stop(self) -> None:
        """End the server over HTTP, if it runs, and the processes that it started."""
        process, self._process = self._process, None
        if process is not None:
            try:
                with suppress(TimeoutError, ProcessLookupError):
                    if process.returncode is None:
                        HERE.ask_to_end(process)
                    async with asyncio.timeout(STOPPING):
                        await process.wait()
            finally:
                process_groups.kill(process.pid)
            await process.wait()
        await self._background.aclose()

    def close(self) -> None:
        """Stop to watch the source files."""
        if self.sources is not None:
            self.sources.close()


def ignore(_: bytes) -> None:
    """Take what a process writes to stderr, which the tap has told already."""


def _first_files(name: str) -> list[str]:
    """Return the file that a name of `mcprev serve` has in it."""
    file, ending, _ = name.rpartition(".py")
    return [f"{file}{ending}"] if ending else []


async def _read(process: asyncio.subprocess.Process, keep: Callable[[bytes], None]) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(64 * 1024):
        keep(data)
    await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        found: int = free.getsockname()[1]
        return found
