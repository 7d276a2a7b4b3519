"""A server in several real processes: `mcprev serve --workers`, and what it says."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

LISTENS: Final = "listening at "
READY: Final = re.compile(r"worker (\d+) \(process (\d+)\) is ready")
ENDED: Final = re.compile(r"worker (\d+) \(process (\d+)\) (?:ended|was ended)")
LIMIT: Final = 120.0
"""Seconds within which workers start, or end that wait for nothing."""


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class ServedWorkers:
    """The command while it runs."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.lines: list[str] = []
        """What it has said on stderr."""
        self.pids: dict[int, int] = {}
        """The process of each worker that is ready, by its number."""
        self.starts = 0
        """How many workers have got ready."""
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def said(self) -> str:
        return "\n".join(self.lines)

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while line := (await self.process.stderr.readline()).decode(errors="replace"):
            self.lines.append(line.rstrip("\n"))
            if found := READY.search(line):
                self.pids[int(found[1])] = int(found[2])
                self.starts += 1
            elif (found := ENDED.search(line)) and self.pids.get(int(found[1])) == int(found[2]):
                del self.pids[int(found[1])]
            self._news.set()
        self._news.set()

    async def until(self, text: str = "", *, starts: int = 0) -> None:
        """Wait until it has said a text, and until so many workers have got ready."""
        async with asyncio.timeout(LIMIT):
            while text not in self.said or self.starts < starts:
                assert not self._reading.done(), self.said
                self._news.clear()
                await self._news.wait()

    def send(self, number: int) -> None:
        """Send a signal to the supervisor."""
        self.process.send_signal(number)

    def kill(self, number: int, how: int = signal.SIGKILL) -> int:
        """Send a signal to a worker; return its process."""
        pid = self.pids[number]
        os.kill(pid, how)
        return pid

    async def ended(self, within: float = LIMIT) -> int:
        """Wait for its end; the exit code."""
        async with asyncio.timeout(within):
            await self._reading
            return await self.process.wait()

    async def aclose(self) -> None:
        """End it, whatever it does."""
        with suppress(ProcessLookupError):
            self.process.kill()  # workers stop by themselves then
        for pid in self.pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._reading
        await self.process.wait()


@asynccontextmanager
async def served(
    target: Path | str,
    workers: int | None,
    *options: str,
    cwd: Path | None = None,
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
    wait: bool = True,
    python: Sequence[str] = (),
) -> AsyncGenerator[ServedWorkers, None]:
    """Serve a module in workers, all of which are ready; None: in one process without a supervisor."""
    port = free_port() if port is None else port
    process = await asyncio.create_subprocess_exec(
        sys.executable, *python, "-m", "mcprev", "serve", str(target), "--http", f"127.0.0.1:{port}",
        *(() if workers is None else ("--workers", str(workers))), *options, cwd=cwd, stderr=asyncio.subprocess.PIPE, limit=1024 * 1024,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    made = ServedWorkers(process, port)
    try:
        if wait:
            await made.until(LISTENS, starts=workers or 0)
        yield made
    finally:
        await made.aclose()
