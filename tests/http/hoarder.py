"""Run as a program: many bodies that parse to much, sent to a tool that never answers; print what became of them.

The answer is one line of JSON: how many requests were refused, and by how many bytes this process has grown.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import mcprev
from mcprev_types.latest import models as m

COUNT: Final = 60
LISTS: Final = 240_000
META: Final = (
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
)
BODY: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"x":['
    + b"[]," * LISTS
    + b'[]]},"_meta":%b}}' % META
)
SCOPE: Final = {
    "type": "http",
    "method": "POST",
    "path": "/mcp",
    "query_string": b"",
    "client": ("203.0.113.1", 1),
    "server": ("127.0.0.1", 8000),
    "headers": [
        (b"accept", b"application/json, text/event-stream"),
        (b"content-type", b"application/json"),
        (b"mcp-protocol-version", b"2026-07-28"),
        (b"mcp-method", b"tools/call"),
        (b"mcp-name", b"slow"),
    ],
}


class Slow(mcprev.ServerHandler):
    """A server whose tool waits."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.running = 0

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        self.running += 1
        await self.gate.wait()
        return m.CallToolResult(content=[])


async def main() -> None:
    handler = Slow()
    app = mcprev.Server(handler, "slow", "1").asgi(defer=60, max_values=3 * LISTS)
    refused: list[int] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start" and message["status"] != 200:
            refused.append(message["status"])

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls = [asyncio.ensure_future(app(SCOPE, receive, send)) for _ in range(COUNT)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert handler.running + len(refused) == COUNT
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    sys.stdout.write(json.dumps({"refused": refused, "grown": grown, "held": app.budget.held}))
    handler.gate.set()
    await asyncio.gather(*calls)
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
