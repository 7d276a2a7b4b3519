"""The server that stdio tests start: it echoes, prints where it must not, starts children, waits, dies."""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import mcprev
from mcprev_types.latest import models as m


class Echo(mcprev.ServerHandler):
    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        arguments: dict[str, Any] = params.arguments or {}
        if params.name == "print":
            print("noise on stdout", flush=True)
            os.write(1, b"raw noise\n")
            subprocess.run(["sh", "-c", "echo child noise; cat"], check=True)  # noqa: ASYNC221
        if params.name == "die":
            print("last words", file=sys.stderr, flush=True)
            os._exit(arguments.get("code", 3))
        if params.name == "wait":
            await asyncio.Event().wait()
        if params.name == "child":
            child = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220
            return m.CallToolResult(content=[m.TextContent(text=str(child.pid))])
        return m.CallToolResult(content=[m.TextContent(text=str(arguments.get("text", os.getpid())))])


if __name__ == "__main__":
    mcprev.Server(Echo(), "echo", "1").run_stdio()
