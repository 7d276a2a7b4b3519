"""What a call over HTTP costs a client, as far as it can be counted instead of timed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import mcprev
import mcprev_types
from fuzz.fuzzing import each_once
from helpers.raw_server import Mcp, text, tool
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision
from mcprev.wire.sse import encode_message

MOST: Final = {"json": 76, "sse": 102}
"""Python functions of ours that one call of a tool may run: 70 to 73 today, 93 to 98 where a stream answers."""
OURS: Final = tuple(str(Path(module.__path__[0]).resolve()) for module in (mcprev, mcprev_types))
LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
TIMES: Final = 64


class Server(asyncio.Protocol):
    """Answers each request with one write, so that each answer comes in one piece."""

    def __init__(self, row: Revision, form: str) -> None:
        self.revision = row
        self.form = form
        self.transport: Any = None
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, rest = self.data.partition(b"\r\n\r\n")
        found = LENGTH.search(head)
        length = 0 if found is None else int(found[1])
        if end and len(rest) >= length:
            self.data = rest[length:]
            self.transport.write(self.answer(head[:4] == b"POST", rest[:length]))

    def answer(self, posted: bool, body: bytes) -> bytes:
        if not posted or b'"id"' not in body:
            return b"HTTP/1.1 %d Status\r\nContent-Length: 0\r\n\r\n" % (202 if posted else 405)
        message = json.loads(body)
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": self.result(message["method"])})
        if self.form == "sse" and message["method"] == "tools/call":
            event = encode_message(answer.encode())
            return (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)
            )
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            len(answer),
            answer.encode(),
        )

    def result(self, method: str) -> dict[str, Any]:
        info = {"name": "s", "version": "1"}
        capabilities: dict[str, Any] = {"tools": {}}
        results: dict[str, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": self.revision.version, "capabilities": capabilities, "serverInfo": info,
            },
            "server/discover": {"supportedVersions": [self.revision.version], "capabilities": capabilities},
            "tools/list": {"tools": [tool("echo")]},
            "tools/call": text("hi"),
        }  # fmt: skip
        return Mcp(self.revision).complete(results[method])


@asynccontextmanager
async def connected(row: Revision, form: str) -> AsyncGenerator[mcprev.Client, None]:
    server = await asyncio.get_running_loop().create_server(lambda: Server(row, form), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, mcprev.connect(mcprev.http(f"http://127.0.0.1:{port}/"), mode=row.name) as client:
        yield client


@contextmanager
def counting() -> Generator[list[int], None, None]:
    """Count the Python functions of ours that are run."""
    calls = [0]

    def count(frame: FrameType, event: str, arg: object) -> None:
        calls[0] += event == "call" and frame.f_code.co_filename.startswith(OURS)

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("form", MOST)
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.version_header], ids=lambda row: row.name)
@each_once
def test_calls_of_a_call(row: Revision, form: str, width: int) -> None:
    """Few Python functions for each of many calls, one at a time or many, and no more connections than that."""

    async def main() -> None:
        async with connected(row, form) as client:

            async def calls() -> None:
                for _ in range(TIMES // width):
                    assert (await client.call_tool("echo", {"text": "hi"})).content

            spent = 0.0
            for _ in range(2):
                with counting() as counted:
                    await asyncio.gather(*(calls() for _ in range(width)))
                spent = counted[0] / TIMES
            assert 10 < spent <= MOST[form], f"{spent} Python calls for one call of a tool"

    run(main())
