"""SIGTERM and SIGINT while a task runs: it has `drain` as calls have, and the log says how many did not end in time.

HTTP-3, LIFE-16, TASKX-2. Each test stops a real process.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.requirements import D, E, req
from helpers.running import run

SCRIPT: Final = Path(__file__).parent / "task_server.py"
FAILED: Final = b"WARNING:mcprev.server:the server stops, so tasks that run have failed: 1\n"
SOON: Final = 30
"""Seconds within which a server ends that waits for nothing; its `drain` is longer in those tests."""
each_kind: Final = pytest.mark.parametrize("revision", [D, E])
each_way: Final = pytest.mark.parametrize("how", ["http", "uvicorn", "mounted", "held"])


class Running:
    """A server in a process of its own, with a task that runs."""

    def __init__(self, process: asyncio.subprocess.Process, task: str) -> None:
        self.process, self.task = process, task
        assert process.stdin is not None
        assert process.stderr is not None
        self.input, self.errors = process.stdin, process.stderr

    async def ended(self, within: float | None = None) -> bytes:
        """Wait for its end, which is a good one; return what it still said."""
        said = await asyncio.wait_for(self.errors.read(), within)
        assert await asyncio.wait_for(self.process.wait(), within) == 0, said
        assert b"Traceback" not in said
        return said


@asynccontextmanager
async def running(how: str, revision: str, store: str, **options: object) -> AsyncGenerator[Running, None]:
    """A server whose client has begun a task and gone away."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, how, store, json.dumps(options), stdin=pipe, stderr=pipe
    )
    try:
        assert process.stderr is not None
        port = (await process.stderr.readline()).removeprefix(b"port ")
        url = f"http://127.0.0.1:{int(port)}/mcp"
        async with mcprev.connect(url, revisions=[revision]) as client:
            task = await client.start_tool("build")
            assert await process.stderr.readline() == b"begun\n"
        yield Running(process, task.id)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def told_by_another(store: str, revision: str, task: str) -> str:
    """What another process of the same store says of a task."""
    app = mcprev.App("stopping-tasks", "1", store=mcprev.open_store(store))

    @app.tool(task="optional")
    def build() -> str:
        raise AssertionError("it is not called here")

    async with mcprev.connect(app, revisions=[revision]) as client:
        found = await client.task(task)
        try:
            return (await found.result()).text
        except mcprev.RpcError as error:
            return f"{found.status}: {error}"


@pytest.mark.slow
@req("HTTP-3", "TASKX-2", at=E)
@req("HTTP-3", "LIFE-16", at=D)
@each_kind
@each_way
@pytest.mark.parametrize("kept", ["in a store", "in memory"])
@each_once
def test_a_task_that_ends_within_drain_is_completed(
    revision: str, how: str, kept: str, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'tasks.db'}" if kept == "in a store" else ""

    async def test() -> None:
        async with running(how, revision, store, drain=60) as server:
            server.process.send_signal(signal.SIGTERM)
            server.input.write(b"go\n")
            assert await server.ended() == b"built\n"
        if store:
            assert await told_by_another(store, revision, server.task) == "built"

    run(test())


@pytest.mark.slow
@req("HTTP-3", "TASKX-2", at=E)
@req("HTTP-3", "LIFE-16", at=D)
@each_kind
@each_way
@pytest.mark.parametrize("kept", ["in a store", "in memory"])
@each_once
def test_the_log_says_how_many_tasks_did_not_end_within_drain(
    revision: str, how: str, kept: str, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'tasks.db'}" if kept == "in a store" else ""

    async def test() -> None:
        async with running(how, revision, store, drain=0.3) as server:
            server.process.send_signal(signal.SIGTERM)
            said = await server.errors.readline()
            server.input.write(b"go\n")  # the thread that reads it would keep the process
            assert (said, await server.ended()) == (FAILED, b"")
        if store:
            told = await told_by_another(store, revision, server.task)
            assert told.startswith("failed: ")
            assert "the server stopped before the task ended" in told

    run(test())


@pytest.mark.slow
@req("HTTP-3", at=E)
@pytest.mark.parametrize("how", ["http", "uvicorn", "mounted"])
def test_a_second_interrupt_does_not_wait_for_tasks(how: str) -> None:
    async def test() -> None:
        async with running(how, E, "", drain=60) as server:
            saying = asyncio.create_task(server.errors.readline())
            # A second one that comes before the server has taken the first is the same as the first.
            while not saying.done():
                server.process.send_signal(signal.SIGINT)
                await asyncio.wait({saying}, timeout=0.2)
            said = await saying
            server.input.write(b"go\n")
            assert (said, await server.ended(SOON)) == (FAILED, b"")

    run(test())


@req("STDIO-6", at=D)
def test_on_stdio_tasks_end_with_the_process() -> None:
    async def test() -> None:
        said = bytearray()
        command = mcprev.stdio(sys.executable, str(SCRIPT), "stdio", "", "{}", stderr=said.extend)
        async with mcprev.connect(command, revisions=[D]) as client:
            assert (await client.start_tool("build")).status == "working"
        assert bytes(said).endswith(b"begun\n" + FAILED)

    run(test())
