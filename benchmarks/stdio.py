"""The stdio server by bytes: start, memory, one call after the other, a thousand at a time (performance.md).

The client is raw (bytes over pipes, no runtime of ours), so that only the server is measured; the floor is a
bare asyncio loop with the standard library's json. The peers take turns; each figure is the median of the runs,
with minimum and maximum, and answers are checked. With `--peer PYTHON` the official SDK of that interpreter is
measured too. Only ratios within one run travel to another machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import IO, Any, Final

from mcprev.revisions import DEFAULT

FLOOR: Final = """
import asyncio, json, sys
class P(asyncio.Protocol):
    rest = b""
    def data_received(self, data):
        lines = (self.rest + data).split(b"\\n")
        self.rest = lines.pop()
        out = []
        for line in lines:
            m = json.loads(line)
            if "id" not in m: continue
            if m["method"] == "initialize":
                r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
                     "serverInfo": {"name": "floor", "version": "1"}}
            else:
                r = {"content": [{"type": "text", "text": m["params"]["arguments"]["text"]}]}
            out.append(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}).encode())
        if out: w.write(b"\\n".join(out) + b"\\n")
    def eof_received(self): done.set_result(None)
async def main():
    global w, done
    loop = asyncio.get_running_loop(); done = loop.create_future()
    w, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    await loop.connect_read_pipe(P, sys.stdin)
    await done
asyncio.run(main())
"""
OURS: Final = """
import mcprev
from mcprev_types.latest import models as m
class Echo(mcprev.ServerHandler):
    async def call_tool(self, ctx, params):
        return m.CallToolResult(content=[m.TextContent(text=params.arguments["text"])])
mcprev.Server(Echo(), "echo", "1").run_stdio()
"""
SDK: Final = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
import mcp.types as t
async def echo(*a):
    params = a[-1]
    text = params["text"] if isinstance(params, dict) else params.arguments["text"]
    content = [t.TextContent(type="text", text=text)]
    return content if isinstance(params, dict) else t.CallToolResult(content=content)
async def tools(*a):
    tool = t.Tool(name="echo", inputSchema={"type": "object"})
    return t.ListToolsResult(tools=[tool]) if a else [tool]
try:
    s = Server("echo", on_call_tool=echo, on_list_tools=tools)
except TypeError:
    s = Server("echo"); s.list_tools()(tools); s.call_tool()(echo)
async def main():
    async with stdio_server() as (r, w): await s.run(r, w, s.create_initialization_options())
anyio.run(main)
"""
REVISION: Final = [row for row in DEFAULT if row.handshake][-1]
OPENING: Final = (
    {
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": REVISION.version, "capabilities": {}, "clientInfo": {"name": "b", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)  # fmt: skip


@dataclass
class Peer:
    """One server, and what was measured of it."""

    name: str
    command: list[str]
    figures: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, figure: str, value: float) -> None:
        """Keep one figure."""
        self.figures.setdefault(figure, []).append(value)


def call(number: int) -> bytes:
    """One call of the echo tool."""
    params = {"name": "echo", "arguments": {"text": f"hello {number}"}}
    return (
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
        + b"\n"
    )


def check(line: bytes, numbers: set[int]) -> None:
    """The answer is to one of these calls, and right."""
    answer: dict[str, Any] = json.loads(line)
    number = answer["id"]
    numbers.remove(number)
    text = answer["result"]["content"][0]["text"]
    if text != f"hello {number}":
        raise AssertionError(line)


def measure(peer: Peer, sequential: int, pipelined: int, window: int) -> None:
    """One run of one server."""
    started = time.perf_counter()
    process = subprocess.Popen(peer.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    stdin.write(json.dumps(OPENING[0]).encode() + b"\n")
    stdin.flush()
    json.loads(stdout.readline())["result"]["protocolVersion"]
    peer.add("start ms", (time.perf_counter() - started) * 1000)
    stdin.write(json.dumps(OPENING[1]).encode() + b"\n")
    _pipeline(stdin, stdout, 1, 500, window)  # warm-up

    latencies: list[float] = []
    for number in range(1000, 1000 + sequential):
        data, before = call(number), time.perf_counter()
        stdin.write(data)
        stdin.flush()
        line = stdout.readline()
        latencies.append(time.perf_counter() - before)
        check(line, {number})
    peer.add("sequential p50 µs", statistics.median(latencies) * 1e6)

    cpu, wall = _cpu(process.pid), time.perf_counter()
    _pipeline(stdin, stdout, 100_000, pipelined, window)
    wall = time.perf_counter() - wall
    peer.add("pipelined/s", pipelined / wall)
    peer.add("CPU µs", (_cpu(process.pid) - cpu) / pipelined * 1e6)
    peer.add("RSS MB", _rss(process.pid))
    stdin.close()
    if process.wait(10):
        raise AssertionError(f"{peer.name} exited with {process.returncode}")


def _pipeline(stdin: IO[bytes], stdout: IO[bytes], first: int, count: int, window: int) -> None:
    """Calls with `window` of them in flight; answers are checked after the clock has stopped elsewhere."""
    for start in range(first, first + count, window):
        numbers = set(range(start, min(start + window, first + count)))
        stdin.write(b"".join(map(call, sorted(numbers))))
        stdin.flush()
        for line in [stdout.readline() for _ in range(len(numbers))]:
            check(line, numbers)


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer", action="append", default=[], help="python with the official SDK")
    options = parser.parse_args()
    peers = [Peer("floor", [sys.executable, "-c", FLOOR]), Peer("mcprev", [sys.executable, "-c", OURS])]
    peers += [Peer(f"sdk {python}", [python, "-c", SDK]) for python in options.peer]
    for run in range(options.runs):
        for peer in peers:
            slow = peer.name.startswith("sdk")
            measure(peer, 200 if slow else 1000, 1000 if slow else 20_000, 1000)
        if sys.stderr.isatty():
            print(f"\r\x1b[Krun {run + 1} of {options.runs}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    for figure in peers[0].figures:
        print(figure)
        for peer in peers:
            values = peer.figures[figure]
            median, floor = statistics.median(values), statistics.median(peers[0].figures[figure])
            line = f"  {peer.name:<24} {median:>10.1f}  ({min(values):.1f} to {max(values):.1f})"
            print(f"{line}  {median / floor:.2f} of the floor")


if __name__ == "__main__":
    main()
