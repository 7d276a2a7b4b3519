"""A server to be stopped: `stopping_server.py HOW OPTIONS`, where HOW is asyncio, uvloop, stdio, uvicorn or mounted.

It says on stderr at which port it listens and which tool has begun. Calls of `short` end with the first line on
stdin, `long` never, `asks` when the client answers, `stuck` sits in a thread that cannot be stopped.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import time
from typing import Any

import mcprev
from mcprev.transports.http.server.health import health_routes
from mcprev_types.latest import models as m


def say(*words: object) -> None:
    """Tell the test."""
    print(*words, file=sys.stderr, flush=True)  # noqa: T201 - how it is told


class Slow(mcprev.ServerHandler):
    line: asyncio.Future[str] | None = None

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        say("begun", params.name)
        loop = asyncio.get_running_loop()
        if params.name == "short":
            self.line = self.line or loop.run_in_executor(None, sys.stdin.readline)
            await asyncio.shield(self.line)
        elif params.name == "stuck":
            await loop.run_in_executor(None, time.sleep, 3600)
        elif params.name == "asks":
            await ctx.ask("roots", m.ListRootsRequest())
        else:
            await loop.create_future()
        return m.CallToolResult(content=[m.TextContent(text="in time")])


def main() -> None:
    """Serve until a signal comes."""
    how, options = sys.argv[1], json.loads(sys.argv[2])
    logging.basicConfig(level=logging.WARNING)
    server = mcprev.Server(Slow(), "stopping", "1", http={"routes": health_routes()})

    async def serve(**options: Any) -> None:
        await server.serve_http(port=0, ready=lambda port: say("port", port), **options)

    if how in {"uvicorn", "mounted"}:
        import uvicorn
        from starlette.applications import Starlette
        from starlette.routing import Mount

        app: Any = server.asgi(**options)
        app = app if how == "uvicorn" else Starlette(routes=[Mount("/", app)])
        with socket.create_server(("127.0.0.1", 0)) as listening:
            say("port", listening.getsockname()[1])
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])
    elif how == "stdio":
        server.run_stdio()
    elif how == "uvloop":
        import uvloop

        uvloop.run(serve(**options))
    elif how == "asyncio":
        asyncio.run(serve(**options))
    else:
        server.run_http(port=int(how), **options)


if __name__ == "__main__":
    main()
