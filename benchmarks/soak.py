"""Many clients at once over HTTP, for a while: python benchmarks/soak.py [--clients N] [--seconds S]

A server in a process of its own on loopback, clients of every revision that has HTTP in this one, each calling a tool
that reports progress. Every answer is checked; what fails is counted and shown, and any failure is exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter

import mcprev
from mcprev.revisions import DEFAULT, HttpShape, Revision
from mcprev_types.latest import models as m

ROWS = tuple(row for row in DEFAULT if row.http is not HttpShape.SSE)


class Echo(mcprev.ServerHandler):
    """Reports progress, then echoes."""

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        """Say what there is."""
        return m.ListToolsResult(tools=[m.Tool(name="echo", input_schema=m.ToolInputSchema())])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        """Echo."""
        text = (params.arguments or {})["text"]
        await ctx.progress(1, 1)
        return m.CallToolResult(content=[m.TextContent(text=text)])


def serve() -> None:
    """The server's process: says its port, then serves."""
    server = mcprev.Server(Echo(), "echo", "1")
    asyncio.run(server.serve_http(port=0, ready=lambda port: print(port, flush=True)))


def memory_of(pid: int) -> float:
    """The resident memory of a process, in MB."""
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


async def use(url: str, row: Revision, number: int, end: float, errors: Counter[str]) -> int:
    """One client: call until the end, and check what comes."""
    done = 0
    reported: list[float] = []

    def told(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        reported.append(progress)

    try:
        async with mcprev.connect(mcprev.http(url), mode=row.name) as client:
            while time.monotonic() < end:
                text = f"{number}-{done}"
                result = await client.call_tool("echo", {"text": text}, progress=told)
                done += 1
                if result.content != [m.TextContent(text=text)]:
                    errors[f"{row.name}: the answer of somebody else"] += 1
    except mcprev.McpError as error:
        errors[f"{row.name}: {type(error).__name__}: {error}"] += 1
    if len(reported) != done:
        errors[f"{row.name}: {done} calls, {len(reported)} reports"] += 1
    return done


async def soak(clients: int, seconds: float) -> bool:
    """Run them all. Whether nothing failed."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    port = int(await server.stdout.readline())
    errors: Counter[str] = Counter()
    began, end = memory_of(server.pid), time.monotonic() + seconds
    counts = await asyncio.gather(
        *(
            use(f"http://127.0.0.1:{port}/mcp", ROWS[number % len(ROWS)], number, end, errors)
            for number in range(clients)
        )
    )
    print(
        f"{clients} clients, {seconds:g} s, {sum(counts)} calls, fewest {min(counts)}, {errors.total()} errors"
    )
    print(f"the server's memory: {began:.0f} MB before, {memory_of(server.pid):.0f} MB after")
    for error, count in errors.most_common(10):
        print(f"  {count} x {error}")
    server.terminate()
    await server.wait()
    return not errors


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    elif not asyncio.run(soak(options.clients, options.seconds)):
        sys.exit(1)


if __name__ == "__main__":
    main()
