"""A server with a task to be stopped: `task_server.py HOW STORE OPTIONS`, where HOW is http, uvicorn, mounted, held or stdio and STORE a URL or empty.

`mounted` is within another app, which tells nothing of its end; `held` by the lifespan of that.

It says on stderr at which port it listens, and when the task has begun and ended, which it does with the first line on
stdin, and never on `stdio`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
from typing import Any

import mcprev


def say(*words: object) -> None:
    """Tell the test."""
    print(*words, file=sys.stderr, flush=True)  # noqa: T201 - how it is told


def main() -> None:
    """Serve until a signal comes."""
    how, store, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    logging.basicConfig(level=logging.WARNING)
    app = mcprev.App("stopping-tasks", "1", store=mcprev.open_store(store) if store else None)

    @app.tool(task="optional")
    async def build(ctx: mcprev.Context) -> str:
        await ctx.detach()
        say("begun")
        loop = asyncio.get_running_loop()
        await (loop.run_in_executor(None, sys.stdin.readline) if how != "stdio" else loop.create_future())
        say("built")
        return "built"

    if how == "http":
        asyncio.run(app.server.serve_http(port=0, ready=lambda port: say("port", port), **options))
    elif how == "stdio":
        app.run_stdio()
    else:
        import uvicorn
        from starlette.applications import Starlette
        from starlette.routing import Mount

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: None)  # uvicorn sends it again at its end
        with socket.create_server(("127.0.0.1", 0)) as listening:
            say("port", listening.getsockname()[1])
            asgi = app.asgi(**options)
            routes = [Mount("/", asgi)]
            served: Any = {
                "uvicorn": asgi,
                "mounted": Starlette(routes=routes),
                "held": Starlette(
                    routes=routes, lifespan=lambda _web: asgi.running()
                ),  # pyright: ignore[reportUnknownLambdaType]
            }[how]
            uvicorn.Server(uvicorn.Config(served, log_level="warning")).run([listening])


if __name__ == "__main__":
    main()
