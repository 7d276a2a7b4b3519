"""Pipes that are slow, closed on one side, or full of something else, between two processes."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from typing import Any

import pytest

import mcprev
from engine.fakes import initialize, modern, notification, request
from faults.processes import BOUND, HERE, OURS, exists, nothing_left
from helpers.requirements import D, E, req
from helpers.running import run, until
from mcprev.errors import ConnectionLost, ProcessExited, RequestTimeout
from mcprev.revisions import DEFAULT, Revision, TaskSupport
from mcprev.transports.stdio.client import TAIL
from mcprev.transports.stdio.pipes import PipeTransport
from mcprev.wire.jsonrpc import MAX_LINE
from mcprev_types.latest import models as m

MEGABYTE = 1 << 20


def bad(fault: str, *arguments: str, **options: Any) -> mcprev.stdio:
    return mcprev.stdio(
        sys.executable, "-S", "-E", str(HERE / "bad_pipes.py"), fault, *arguments, grace=0.3, **options
    )


def connected(target: mcprev.stdio, **options: Any) -> mcprev.connect:
    return mcprev.connect(target, mode=D, restart=False, validate="off", **options)


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


@req("STDIO-9", "STDIO-1", everywhere=True)
def test_a_server_that_reads_byte_by_byte() -> None:
    """It gets everything, and the client is not held up by it."""

    async def main() -> None:
        async with connected(bad("reads byte by byte")) as client:
            call = asyncio.create_task(client.call_tool("x", {"text": "x" * 300_000}))
            turns = 0
            while not call.done():
                await asyncio.sleep(0.001)
                turns += 1
            assert said(call.result()) == "300000"
            assert turns > 5

    with nothing_left():
        run(main())


@req("LIFE-18", "STDIO-5", "STDIO-9", "CANC-7", everywhere=True)
@pytest.mark.parametrize("fault", ["never reads", "neither reads nor stops writing"])
def test_a_server_that_does_not_read(fault: str) -> None:
    """Calls that cannot even be written run into their timeouts, and closing is bounded all the same."""

    async def main() -> None:
        target = bad(fault)
        async with asyncio.timeout(BOUND), connected(target) as client:
            first = asyncio.create_task(client.call_tool("x", timeout=None, total_timeout=None))
            big = {"text": "x" * MEGABYTE}
            for _ in range(3):
                with pytest.raises(RequestTimeout):
                    await client.call_tool("x", big, timeout=0.1, total_timeout=0.1)
            given_up = asyncio.create_task(client.call_tool("x", big))
            await asyncio.sleep(0)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            # What this side waits for may come at any time, so it reads however much it has to write.
            assert not client.connection._paused
            began = time.monotonic()
            await client.aclose()
            assert time.monotonic() - began < BOUND / 2
            with pytest.raises(ConnectionLost):
                await first
        assert target.pid is not None
        assert not exists(target.pid)

    with nothing_left():
        run(main())


@req("LIFE-16", "STDIO-5", everywhere=True)
@pytest.mark.parametrize("fault", ["closes stdout", "closes stdin"])
def test_a_server_that_lives_on_with_half_of_its_pipes(fault: str) -> None:
    async def main() -> None:
        target = bad(fault)
        async with asyncio.timeout(BOUND), connected(target) as client:
            for _ in range(2):
                with pytest.raises(ConnectionLost) as caught:
                    await client.call_tool("x")
                assert not isinstance(caught.value, ProcessExited)
            assert target.pid is not None
            assert exists(target.pid)
        assert not exists(target.pid)

    with nothing_left():
        run(main())


@req("STDIO-4", everywhere=True)
def test_a_server_that_closes_its_stderr_is_as_good_as_any() -> None:
    async def main() -> None:
        async with connected(bad("closes stderr")) as client:
            for _ in range(3):
                assert said(await client.call_tool("x")) == "0"
                # Longer than a process that is ending gets for its last words.
                await asyncio.sleep(0.25)
            assert client.connection.error is None

    with nothing_left():
        run(main())


@req("STDIO-1", "LIFE-16", everywhere=True)
def test_a_server_that_ends_in_the_middle_of_a_line() -> None:
    async def main() -> None:
        async with connected(bad("half a line")) as client:
            with pytest.raises(ProcessExited) as caught:
                await client.call_tool("x")
            assert caught.value.returncode == 0

    with nothing_left():
        run(main())


@req("STDIO-3", "STDIO-9", everywhere=True)
@pytest.mark.parametrize("fault", ["noise", "an endless line", "writes byte by byte"])
def test_whatever_else_is_on_stdout_is_skipped(fault: str) -> None:
    """Binary data, nesting without end, and a line that is longer than any message may be."""

    async def main() -> None:
        async with connected(bad(fault, str(MAX_LINE))) as client:
            for _ in range(2):
                assert said(await client.call_tool("x")) == "0"
            assert bool(client.connection.tolerated_violations) is (fault != "writes byte by byte")

    with nothing_left():
        run(main())


@req("STDIO-4", everywhere=True)
def test_a_flood_on_stderr_is_read_and_not_kept() -> None:
    async def main() -> None:
        size = 0

        def count(data: bytes) -> None:
            nonlocal size
            size += len(data)

        target = bad("stderr", stderr=count)
        async with connected(target) as client:
            assert said(await client.call_tool("x")) == "0"
            assert size == 20 * MEGABYTE
            (process,) = target._processes
            assert len(process._tail) == TAIL

    with nothing_left():
        run(main())


@req("STDIO-4", everywhere=True)
def test_a_reader_of_stderr_that_raises_harms_nobody() -> None:
    async def main() -> None:
        def broken(data: bytes) -> None:
            raise ValueError(len(data))

        async with connected(bad("stderr", stderr=broken)) as client:
            assert said(await client.call_tool("x")) == "0"

    with nothing_left():
        run(main())


# -- the server's end ------------------------------------------------------------------------------------


def opening(row: Revision) -> list[dict[str, Any]]:
    return [initialize(row), notification("notifications/initialized")] if row.handshake else []


def call(row: Revision, name: str, id_: int) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": {"text": "x" * 100_000}}
    return request("tools/call", params, id_) if row.handshake else modern("tools/call", params, id_)


def started() -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*OURS], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)


@pytest.mark.slow
@req("STDIO-1", "STDIO-9", at=(D, E))
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.name in (D, E)], ids=lambda row: row.name)
def test_a_client_that_writes_and_reads_byte_by_byte(row: Revision) -> None:
    process = started()
    assert process.stdin is not None
    assert process.stdout is not None
    messages = [*opening(row), call(row, "pid", 7)]
    messages[-1]["params"]["arguments"] = {}
    for byte in b"".join(json.dumps(message).encode() + b"\r\n" for message in messages):
        process.stdin.write(bytes([byte]))
    output = b""
    while output.count(b"\n") < (2 if row.handshake else 1):
        output += process.stdout.read(1)
    assert json.loads(output.splitlines()[-1])["id"] == 7
    _, complaints = process.communicate(timeout=BOUND)
    assert (process.returncode, complaints) == (0, b"")


@req("STDIO-6", "STDIO-9", at=(D, E))
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.name in (D, E)], ids=lambda row: row.name)
def test_a_client_that_never_reads_does_not_keep_the_server(row: Revision) -> None:
    """The server has answers that nobody takes; it ends soon after its stdin does."""
    process = started()
    assert process.stdin is not None
    asked = [*opening(row), *(call(row, "echo", number) for number in range(10, 30))]
    data = memoryview(b"".join(json.dumps(message).encode() + b"\n" for message in asked))
    os.set_blocking(process.stdin.fileno(), False)
    # The server stops reading when its answers are not read: then the pipe takes no more, and something was asked.
    asking_until = time.monotonic() + BOUND
    while data and select.select([], [process.stdin], [], 0.5)[1]:
        data = data[os.write(process.stdin.fileno(), data) :]
        assert time.monotonic() < asking_until
    assert data, "the server took everything"
    process.stdin.close()
    began = time.monotonic()
    assert process.wait(BOUND) == 0
    assert time.monotonic() - began < BOUND / 2
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()


@req("STDIO-9", "TASK-8", at=D)
def test_a_task_waits_for_a_client_that_does_not_read_its_statuses() -> None:
    count, row = 200, next(row for row in DEFAULT if row.tasks is TaskSupport.CORE)
    reached: list[int] = []
    app = mcprev.App("slow", "1.0")

    @app.tool(task="optional")
    async def work(ctx: mcprev.Context) -> str:
        for number in range(count):
            await ctx.set_status(f"{number} {'x' * 10_000}")
            reached.append(number)
            await asyncio.sleep(0)
        return "the end"

    call: dict[str, Any] = {"name": "work", "arguments": {}, "task": {}}
    sent = [initialize(row), notification("notifications/initialized"), request("tools/call", call, 2)]

    async def main() -> None:
        (incoming, ours), (theirs, outgoing) = os.pipe(), os.pipe()
        connection = app.server.connection()
        await PipeTransport(connection).open(incoming, outgoing)
        os.write(ours, b"".join(json.dumps(each).encode() + b"\n" for each in sent))
        for _ in range(10 * count):
            await asyncio.sleep(0)
        assert 0 < len(reached) < count / 5
        heard = b""
        async with asyncio.timeout(BOUND):
            while f"{count - 1} xxx".encode() not in heard:
                heard += await asyncio.to_thread(os.read, theirs, MEGABYTE)
        await until(lambda: len(reached) == count)  # what is heard is written before the task goes on
        os.close(ours)
        await connection.closed
        os.close(theirs)

    run(main())
