"""The stdio server by bytes: start, memory, one call after the other, a thousand at a time.

The client is raw (bytes over pipes, no runtime of ours), so that only the server is measured; the floor is a
bare asyncio loop with the standard library's json. The peers take turns; each figure is the median of the runs,
with minimum and maximum, and responses are checked. A start finds byte code, as that of an installed package does. With
`--peer PYTHON` the official SDK of that interpreter, 2 or newer, is measured too: its low-level server and `MCPServer`; with
`--fastmcp PYTHON` FastMCP. Only ratios within one run travel to another machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import IO, Any, Final

from report import Peer, byte_code, cpu_seconds, peak_megabytes, progress, release, show
from stdio_servers import APP, FASTMCP, FLOOR, OURS, PARTS, REVISION, SDK, SDK_APP

OPENING: Final = (
    {
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": REVISION.version, "capabilities": {}, "clientInfo": {"name": "b", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)  # fmt: skip


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

    cpu = cpu_seconds(process.pid)
    wall = _pipeline(stdin, stdout, 100_000, pipelined, window)
    peer.add("pipelined/s", pipelined / wall)
    peer.add("CPU µs", (cpu_seconds(process.pid) - cpu) / pipelined * 1e6)
    peer.add("RSS MB", peak_megabytes(process.pid))
    stdin.close()
    if process.wait(10):
        raise AssertionError(f"{peer.name} exited with {process.returncode}")


def measure_part(part: Peer) -> None:
    """One start and end of a program that does nothing else."""
    started = time.perf_counter()
    subprocess.run(part.command, check=True)
    part.add("start ms", (time.perf_counter() - started) * 1000)


def _pipeline(stdin: IO[bytes], stdout: IO[bytes], first: int, count: int, window: int) -> float:
    """Calls with `window` of them in flight, and the seconds they took.

    They are written down before the clock starts and checked after it has stopped, so that no server waits for
    this process to think.
    """
    chunks = [
        b"".join(call(number) for number in range(start, min(start + window, first + count)))
        for start in range(first, first + count, window)
    ]
    lines: list[bytes] = []
    started = time.perf_counter()
    for chunk in chunks:
        stdin.write(chunk)
        stdin.flush()
        lines.extend(stdout.readline() for _ in range(chunk.count(b"\n")))
    seconds = time.perf_counter() - started
    numbers = set(range(first, first + count))
    for line in lines:
        check(line, numbers)
    return seconds


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one short run, to see that everything works")
    parser.add_argument("--peer", action="append", default=[], help="python with the official SDK")
    parser.add_argument("--fastmcp", action="append", default=[], help="python with FastMCP")
    options = parser.parse_args()
    ours = {"floor": FLOOR, "mcprev": OURS, "mcprev App": APP}
    peers = [Peer(name, [sys.executable, "-c", code]) for name, code in ours.items()]
    for python in options.peer:
        peers += [
            Peer(release(python, "mcp"), [python, "-c", SDK]),
            Peer(f"{release(python, 'mcp')} MCPServer", [python, "-c", SDK_APP]),
        ]
    peers += [Peer(release(python, "fastmcp"), [python, "-c", FASTMCP]) for python in options.fastmcp]
    parts = [Peer(name, [sys.executable, "-c", code]) for name, code in PARTS.items()]
    runs = 1 if options.quick else options.runs
    with byte_code():
        for peer in peers:
            measure(Peer(peer.name, peer.command), 1, 1, 1)
        for run in range(runs):
            for peer in peers:
                slow = options.quick or peer.slow
                measure(peer, 200 if slow else 1000, 1000 if slow else 20_000, 1000)
            for part in parts:
                measure_part(part)
            progress(run + 1, runs)
    show([*peers, *parts])


if __name__ == "__main__":
    main()
