"""A server with few descriptors: `crowded_server.py LOOP DESCRIPTORS OPTIONS`. It takes them all while stdin says so.

It says on stderr at which port it listens. A line `take` on stdin has it open files until no descriptor is left, a
line `give` has it close them; each is confirmed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import sys
from typing import Any

import mcprev
from mcprev_types.latest import models as m


def say(*words: object) -> None:
    """Tell the test."""
    print(*words, file=sys.stderr, flush=True)  # noqa: T201 - how it is told


class Empty(mcprev.ServerHandler):
    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        return m.CallToolResult(content=[])


async def obey() -> None:
    """Take and give back descriptors."""
    loop = asyncio.get_running_loop()
    taken: list[int] = []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line == "take\n":
            try:
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                pass
        while line == "give\n" and taken:
            os.close(taken.pop())
        say("did", line.strip())


async def main() -> None:
    """Serve until a signal comes."""
    options: dict[str, Any] = json.loads(sys.argv[3])
    server = mcprev.Server(Empty(), "crowded", "1")
    obeying = asyncio.create_task(obey())
    await server.serve_http(port=0, ready=lambda port: say("port", port), **options)
    obeying.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    most = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if sys.argv[1] == "uvloop":
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())
