"""The client against a bare stdio server: one call after the other, and a hundred at a time.

Each client runs in a process of its own and calls the echo tool of the bare server of `stdio_servers`, which costs next
to nothing; the floor is a client of bare asyncio streams. They take turns; each figure is the median of the runs,
with minimum and maximum, and responses are checked. With `--peer PYTHON` the official SDK's client of that
interpreter is measured too, with `--fastmcp PYTHON` that of FastMCP. Only ratios within one run travel to another machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Final

from report import Peer, progress, release, show
from stdio_servers import FLOOR as SERVER, REVISION

MEASURE: Final = """
import asyncio, json, sys, time
async def measure(call, one, many, width):
    async def calls(first, count):
        for number in range(first, first + count):
            text = f"hello {number}"
            if await call(text) != text:
                raise AssertionError(number)
    await calls(0, 50)
    figures = {}
    started, cpu = time.perf_counter(), time.process_time()
    await calls(1000, one)
    figures["1 in flight, calls/s"] = one / (time.perf_counter() - started)
    figures["1 in flight, CPU \u00b5s"] = (time.process_time() - cpu) / one * 1e6
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(calls(100_000 * lane, many // width) for lane in range(1, width + 1)))
    figures[f"{width} in flight, calls/s"] = many / (time.perf_counter() - started)
    figures[f"{width} in flight, CPU \u00b5s"] = (time.process_time() - cpu) / many * 1e6
    print(json.dumps(figures))
revision, one, many, width = sys.argv[1], *map(int, sys.argv[2:5])
command = sys.argv[5:]
"""
FLOOR: Final = MEASURE + """
async def main():
    server = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1)
    waiting = {}
    async def read():
        while line := await server.stdout.readline():
            answer = json.loads(line)
            waiting.pop(answer["id"]).set_result(answer["result"])
    reading = asyncio.create_task(read())
    number = 0
    async def ask(method, params):
        nonlocal number
        number += 1
        future = waiting[number] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.stdin.write(json.dumps(message).encode() + b"\\n")
        return await future
    await ask("initialize", {"protocolVersion": revision})
    async def call(text):
        result = await ask("tools/call", {"name": "echo", "arguments": {"text": text}})
        return result["content"][0]["text"]
    await measure(call, one, many, width)
    server.stdin.close()
    await server.wait()
    await reading
asyncio.run(main())
"""
OURS: Final = MEASURE + """
import mcprev
async def main():
    async with mcprev.connect(mcprev.stdio(*command), mode=revision) as client:
        async def call(text):
            return (await client.call_tool("echo", {"text": text})).content[0].text
        await measure(call, one, many, width)
asyncio.run(main())
"""
SDK: Final = MEASURE + """
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
async def main():
    async with stdio_client(StdioServerParameters(command=command[0], args=command[1:])) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            await session.initialize()
            async def call(text):
                return (await session.call_tool("echo", {"text": text})).content[0].text
            await measure(call, one, many, width)
asyncio.run(main())
"""
FASTMCP: Final = MEASURE + """
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
async def main():
    async with Client(StdioTransport(command[0], command[1:]), mode="legacy") as client:
        async def call(text):
            return (await client.call_tool_mcp("echo", {"text": text})).content[0].text
        await measure(call, one, many, width)
asyncio.run(main())
"""


def measure(peer: Peer, one: int, many: int, width: int) -> None:
    """One run of one client."""
    command = [*peer.command, REVISION.version, *map(str, (one, many, width)), sys.executable, "-c", SERVER]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for figure, value in found.items():
        peer.add(figure, value)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one short run, to see that everything works")
    parser.add_argument("--peer", action="append", default=[], help="python with the official SDK")
    parser.add_argument("--fastmcp", action="append", default=[], help="python with FastMCP")
    options = parser.parse_args()
    peers = [Peer("floor", [sys.executable, "-c", FLOOR]), Peer("mcprev", [sys.executable, "-c", OURS])]
    peers += [Peer(release(python, "mcp"), [python, "-c", SDK]) for python in options.peer]
    peers += [Peer(release(python, "fastmcp"), [python, "-c", FASTMCP]) for python in options.fastmcp]
    runs = 1 if options.quick else options.runs
    for run in range(runs):
        for peer in peers:
            scale = 10 if options.quick else 3 if peer.slow else 1
            measure(peer, 2000 // scale, 20_000 // scale, 100)
        progress(run + 1, runs)
    show(peers)


if __name__ == "__main__":
    main()
