"""What a call costs a client, as far as it can be counted, and that what is saved on it does not show."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import mcprev
from helpers.requirements import D, E, req
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.limits import BURST
from mcprev.errors import ConversionError
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.lines import LineConnection

MOST = 45
"""Python functions that one call of a tool may run, nine of the event loop's among them: 38 to 42 today."""
OPENER = re.compile(rb'"(initialize|server/discover)"')
PREFIX = "io.modelcontextprotocol/"
TEXT = {"content": [{"type": "text", "text": "hi"}]}
WRONG: tuple[dict[str, Any], ...] = (
    {}, {"name": 1}, {"name": "echo", "arguments": []}, {"name": "echo", "requestState": 1},
)  # fmt: skip
BOTH = [row for row in DEFAULT if row.name in (D, E)]


class Pipe(asyncio.Transport):
    """A server that answers when the test says so: what is written to it is kept, but for what opens a session."""

    def __init__(self, connection: LineConnection, row: Revision) -> None:
        super().__init__()
        self.connection = connection
        self.revision = row
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))
        if OPENER.search(self.written[0]):
            asyncio.get_running_loop().call_soon(self.answer, self.introduction(), self.take())

    @property
    def requests(self) -> list[dict[str, Any]]:
        messages = [json.loads(line) for data in self.written for line in data.splitlines()]
        return [message for message in messages if "id" in message]

    def introduction(self) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"tools": {}}
        if self.revision.handshake:
            info = {"name": "s", "version": "1"}
            return {
                "protocolVersion": self.revision.version,
                "capabilities": capabilities,
                "serverInfo": info,
            }
        said: dict[str, Any] = {"supportedVersions": [self.revision.version], "capabilities": capabilities}
        return {**said, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    def take(self) -> list[dict[str, Any]]:
        taken = self.requests
        self.written.clear()
        return taken

    def answer(self, result: dict[str, Any], requests: Sequence[dict[str, Any]]) -> None:
        answers = [{"jsonrpc": "2.0", "id": request["id"], "result": result} for request in requests]
        self.connection.data_received("".join(f"{json.dumps(a)}\n" for a in answers).encode())

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


class Target:
    """What `connect` connects to."""

    pipe: Pipe

    def __init__(self, row: Revision) -> None:
        self._revision = row

    async def open(self, side: ClientProtocol, desk: RequestHandler[Connection], /) -> LineConnection:
        connection = LineConnection(side, desk, logging.getLogger("mcprev.client"), linger=0)
        self.pipe = Pipe(connection, self._revision)
        connection.connection_made(self.pipe)
        return connection

    async def close(self) -> None:
        """Nothing is left to close."""


def run(row: Revision, work: Callable[[mcprev.Client, Pipe], Awaitable[None]]) -> None:
    async def main() -> None:
        target = Target(row)
        async with mcprev.connect(target, mode=row.name) as client:
            await turn()
            target.pipe.written.clear()
            await work(client, target.pipe)

    asyncio.run(asyncio.wait_for(main(), 20))


async def turn() -> None:
    """Let everything run that can."""
    for _ in range(3):
        await asyncio.sleep(0)


def unheard(progress: float, total: float | None, message: str | None) -> None:
    """Progress that nobody waits for."""


def result(row: Revision) -> dict[str, Any]:
    return TEXT if row.handshake else {**TEXT, "resultType": "complete"}


@contextmanager
def counting() -> Generator[list[int]]:
    """Count the Python functions that are run."""
    calls = [0]

    def count(frame: FrameType, event: str, arg: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_calls_of_a_call(row: Revision) -> None:
    """Few Python functions for each of many calls, from the caller to the wire and back."""
    width = 100

    async def work(client: mcprev.Client, pipe: Pipe) -> None:
        spent = 0
        for counted in (False, True):
            tasks = [asyncio.create_task(client.call_tool("echo", {"text": "hi"})) for _ in range(width)]
            with counting() as sending:
                await turn()
            requests = pipe.take()
            answers = [{"jsonrpc": "2.0", "id": request["id"], "result": result(row)} for request in requests]
            data = "".join(f"{json.dumps(answer)}\n" for answer in answers).encode()
            with counting() as receiving:
                pipe.connection.data_received(data)
                await turn()
            assert len(requests) == width
            assert all(task.done() and task.result().content for task in tasks)
            spent = sending[0] + receiving[0] if counted else 0
        assert 10 < spent / width <= MOST, f"{spent / width} Python calls for one call of a tool"

    run(row, work)


@pytest.mark.parametrize("row", BOTH, ids=lambda row: row.name)
def test_writes(row: Revision) -> None:
    """A call that is alone is written at once, those of a crowd in bursts: none waits long, and each write has many."""

    async def work(client: mcprev.Client, pipe: Pipe) -> None:
        one = asyncio.create_task(client.call_tool("echo"))
        await asyncio.sleep(0)  # its first step, and nothing after it
        assert len(pipe.requests) == len(pipe.written) == 1
        pipe.answer(result(row), pipe.take())
        await one
        crowd = [asyncio.create_task(client.call_tool("echo")) for _ in range(3 * BURST)]
        await asyncio.sleep(0)
        assert 2 * BURST < len(pipe.requests) <= 3 * BURST
        await turn()
        assert len(pipe.requests) == 3 * BURST
        assert [request["id"] for request in pipe.requests] == sorted(r["id"] for r in pipe.requests)
        assert len(pipe.written) == 4
        pipe.answer(result(row), pipe.take())
        await asyncio.gather(*crowd)

    run(row, work)


@req("SEAM-4", "META-9", at=(D, E))
@pytest.mark.parametrize("row", BOTH, ids=lambda row: row.name)
def test_what_is_kept_between_calls_does_not_show(row: Revision) -> None:
    """Each call is judged, and says of itself what it is told to: nothing of one gets into the next."""

    async def ask(client: mcprev.Client, pipe: Pipe, params: dict[str, Any], **options: Any) -> Any:
        task = asyncio.create_task(client.call("tools/call", params, **options))
        await turn()
        (request,) = pipe.take()
        pipe.answer(result(row), [request])
        await task
        assert request["params"]["_meta"].pop("progressToken") == request["id"]
        return request["params"]

    async def work(client: mcprev.Client, pipe: Pipe) -> None:
        params: dict[str, Any] = {"name": "echo", "arguments": {"x": [1]}, "_meta": {"lost": 1}}
        plain = await ask(client, pipe, params)
        meta = plain.pop("_meta", {})
        assert plain == {"name": "echo", "arguments": {"x": [1]}}
        assert (meta == {}) is row.handshake
        assert "lost" not in meta
        more = await ask(client, pipe, params, meta={"org.example/a": 1}, log_level="debug")
        assert more["_meta"].pop("org.example/a") == 1
        assert more["_meta"].pop(PREFIX + "logLevel", None) == (None if row.handshake else "debug")
        assert more["_meta"] == meta
        reported = await ask(client, pipe, params, progress=unheard)
        assert reported["_meta"] == meta
        for wrong in WRONG:
            if row.handshake and "requestState" in wrong:
                continue  # left out there, whatever it is
            with pytest.raises(ConversionError, match="not valid"):
                await client.call("tools/call", wrong)
        again = await ask(client, pipe, params)
        assert again.pop("_meta", {}) == meta
        assert params == {"name": "echo", "arguments": {"x": [1]}, "_meta": {"lost": 1}}
        assert not pipe.requests

    run(row, work)
