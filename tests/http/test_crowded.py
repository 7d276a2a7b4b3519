"""More connections than a server holds, and than its process has descriptors for (SEC-6, HTTP-31).

Each test runs a real process with few descriptors, and fills it from here.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from helpers.requirements import E, req
from helpers.running import run
from helpers.wired_calls import call
from mcprev.serving.accepting import connection_limit

resource = pytest.importorskip("resource", reason="descriptors are not limited here")

SCRIPT: Final = Path(__file__).parent / "crowded_server.py"
LISTING: Final = call("nothing")
LOOPS: Final = [
    "asyncio",
    pytest.param(
        "uvloop",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed"
        ),
    ),
]
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Crowded:
    """A server with few descriptors, and the connections to it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.errors = b""
        self.port = 0
        self.open: list[Ends] = []

    async def said(self, start: str) -> str:
        """Wait until it says a line that begins like this; the rest of that line."""
        assert self.process.stderr is not None
        while True:
            line = await self.process.stderr.readline()
            assert line, self.errors
            if line.startswith(start.encode()):
                return line[len(start) :].decode().strip()
            self.errors += line

    async def does(self, what: str) -> None:
        """Have it do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(what.encode() + b"\n")
        await self.said(f"did {what}")

    async def connect(self) -> Ends:
        """One more connection, which the kernel takes at once, the server perhaps later."""
        ends = await asyncio.open_connection("127.0.0.1", self.port)
        self.open.append(ends)
        return ends

    def seconds(self) -> float:
        """The processor time that it has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@asynccontextmanager
async def crowded(loop: str, descriptors: int, **options: object) -> AsyncGenerator[Crowded, None]:
    """A server that listens."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        SCRIPT,
        loop,
        str(descriptors),
        json.dumps(options),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
    )
    server = Crowded(process)
    try:
        server.port = int(await server.said("port"))
        yield server
    finally:
        for _, writer in server.open:
            writer.close()
        assert process.stdin is not None
        process.stdin.close()
        process.terminate()
        _, errors = await process.communicate()
    assert process.returncode == 0, errors


async def answer(ends: Ends) -> bytes:
    """Send a request and read the first line of its answer."""
    ends[1].write(LISTING)
    return await ends[0].readline()


@pytest.mark.slow
@req("SEC-6", "HTTP-31", at=E)
@pytest.mark.parametrize("loop", LOOPS)
def test_idle_connections_make_room_for_new_ones(loop: str) -> None:
    """A hundred connections that say nothing keep nobody out, and one with a request in progress stays."""

    async def test() -> None:
        async with crowded(loop, 256, max_connections=20) as server:
            busy = await server.connect()
            busy[1].write(LISTING[:-5])
            for _ in range(100):
                await server.connect()
            assert (await answer(await server.connect())).startswith(b"HTTP/1.1 200")
            closed = [await reader.read() for reader, _ in server.open[1:82]]
            assert closed == [b""] * 81, "the server has closed them"
            busy[1].write(LISTING[-5:])
            assert (await busy[0].readline()).startswith(b"HTTP/1.1 200")
        assert len(server.errors) < 1000

    run(test())


@pytest.mark.slow
@req("SEC-6", "HTTP-31", at=E)
@pytest.mark.parametrize("loop", LOOPS)
def test_connections_wait_while_all_others_are_in_use(loop: str) -> None:
    async def test() -> None:
        async with crowded(loop, 256, max_connections=5) as server:
            for _ in range(5):
                (await server.connect())[1].write(LISTING[:-5])
            late = asyncio.create_task(answer(await server.connect()))
            done, _ = await asyncio.wait({late}, timeout=0.5)
            assert not done
            server.open[0][1].write(LISTING[-5:])
            assert (await server.open[0][0].readline()).startswith(b"HTTP/1.1 200")
            assert (await late).startswith(b"HTTP/1.1 200")
        assert server.errors.count(b"limit of connections") <= 1

    run(test())


@pytest.mark.slow
@req("SEC-6", "HTTP-31", at=E)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_without_descriptors_waits_and_says_so_once(loop: str) -> None:
    """At the limit of the process nothing spins and little is logged; with descriptors again all are served."""

    async def test() -> None:
        async with crowded(loop, 100) as server:
            await server.does("take")
            began = server.seconds()
            waiting = [asyncio.create_task(answer(await server.connect())) for _ in range(30)]
            done, _ = await asyncio.wait(waiting, timeout=2)
            assert not done
            assert server.seconds() - began < 0.5, "of processor time, in two seconds"
            await server.does("give")
            for task in waiting:
                assert (await task).startswith(b"HTTP/1.1 200")
        assert server.errors.count(b"Too many open files") == 1
        assert len(server.errors) < 1000

    run(test())


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    ("descriptors", "wanted", "limit"),
    [
        (1024, 10_000, 896), (65_536, 10_000, 10_000), (1024, 100, 100), (64, 10_000, 32), (16, 10_000, 1),
        (resource.RLIM_INFINITY, 10_000, 10_000),
    ],
)  # fmt: skip
def test_connections_leave_descriptors_for_others(
    descriptors: int, wanted: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getrlimit(kind: int) -> tuple[int, int]:
        return descriptors, descriptors

    monkeypatch.setattr(resource, "getrlimit", getrlimit)
    assert connection_limit(wanted) == limit
