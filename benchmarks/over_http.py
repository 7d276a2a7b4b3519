"""HTTP by bytes: sessions that respond in JSON or streams, requests of the stateless era, and the client.

Everything runs on uvicorn, with httptools and uvloop and again with h11; 32 connections are kept alive by a raw client
of our own (`http_load`) on uvloop, which takes less than any server: it is not what is measured. Each connection has a
session of its own; in the mode "shared" its requests are of 32 sessions in turn, as behind a proxy. "stateless" alone
is how each server responds without options: ours in JSON where nothing precedes the response, the SDK in a stream. The
floor of the servers is a bare ASGI app that only reads and writes JSON, that of the clients a bare POST with aiohttp.
Servers take turns; each figure is the median of the runs, with minimum and maximum, and responses are checked. With
`--peer PYTHON` the official SDK of that interpreter, 2 or newer, is measured too: its low-level server and `MCPServer`;
with `--fastmcp PYTHON` FastMCP. Only ratios within one run travel to another machine.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import http_servers
import uvloop
from client import MEASURE
from http_load import calls, load
from report import Peer, cpu_seconds, progress, release, show
from stdio_servers import REVISION

from mcprev.revisions import DEFAULT, Revision

LANES: Final = 32
STATELESS: Final = next(row for row in reversed(DEFAULT) if not row.handshake)
MODES: Final = (
    ("session JSON", REVISION, "json"),
    ("session JSON shared", REVISION, "json"),
    ("session SSE", REVISION, "sse"),
    ("stateless", STATELESS, "default"),
    ("stateless JSON", STATELESS, "json"),
    ("stateless SSE", STATELESS, "sse"),
)
FLOOR_CLIENT: Final = MEASURE + """
import aiohttp
async def main():
    async with aiohttp.ClientSession() as session:
        async def call(text):
            params = {"name": "echo", "arguments": {"text": text}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            async with session.post(command[0], json=message) as response:
                return json.loads(await response.read())["result"]["content"][0]["text"]
        await measure(call, one, many, width)
asyncio.run(main())
"""
OURS_CLIENT: Final = MEASURE + """
import mcprev
async def main():
    async with mcprev.connect(mcprev.http(command[0]), mode=revision) as client:
        async def call(text):
            return (await client.call_tool("echo", {"text": text})).content[0].text
        await measure(call, one, many, width)
asyncio.run(main())
"""
SDK_CLIENT: Final = MEASURE + """
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
async def main():
    async with streamable_http_client(command[0]) as streams:
        async with ClientSession(*streams[:2]) as session:
            await session.initialize()
            async def call(text):
                return (await session.call_tool("echo", {"text": text})).content[0].text
            await measure(call, one, many, width)
asyncio.run(main())
"""
FASTMCP_CLIENT: Final = MEASURE + """
from fastmcp import Client
async def main():
    async with Client(command[0], mode="legacy") as client:
        async def call(text):
            return (await client.call_tool_mcp("echo", {"text": text})).content[0].text
        await measure(call, one, many, width)
asyncio.run(main())
"""


@contextmanager
def running(command: list[str], *options: str) -> Generator[tuple[int, int], None, None]:
    """A server while it runs, called with `options` and a free port: its port and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen([*command, *options, str(port)])
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        else:
            raise TimeoutError(f"no server at port {port}")
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(10)


def measure(peer: Peer, mode: str, row: Revision, form: str, parser: str, count: int) -> None:
    """One run of one server in one mode."""
    with running(peer.command, form, parser) as (port, pid):
        each = count // LANES
        uvloop.run(load(port, [calls(port, row, 10_000 * lane, 20) for lane in range(1, LANES + 1)]))
        lanes = [calls(port, row, 100_000 * lane, each) for lane in range(1, LANES + 1)]
        if mode.endswith("shared"):
            lanes = [[lanes[(lane + turn) % LANES][turn] for turn in range(each)] for lane in range(LANES)]
        cpu = cpu_seconds(pid)
        seconds, made = uvloop.run(load(port, lanes))
        cpu = cpu_seconds(pid) - cpu
    for requests, done in zip(lanes, made, strict=True):
        for request, answer in zip(requests, done.answers, strict=True):
            if said(request) not in answer.replace(b'": ', b'":'):
                raise AssertionError(answer[:1000])
    peer.add(f"{mode}, {parser}: requests/s", each * LANES / seconds)
    latencies = [latency for done in made for latency in done.latencies]
    peer.add(f"{mode}, {parser}: p50 ms", statistics.median(latencies) * 1000)
    peer.add(f"{mode}, {parser}: CPU µs", cpu / (each * LANES) * 1e6)


def said(request: bytes) -> bytes:
    """What the answer to a call repeats."""
    text: str = json.loads(request.partition(b"\r\n\r\n")[2])["params"]["arguments"]["text"]
    return b'"text":"%s"' % text.encode()


def measure_client(peer: Peer, one: int, many: int) -> None:
    """One run of one client against the bare server."""
    with running([sys.executable, "-c", http_servers.FLOOR], "json", "httptools") as (port, _):
        arguments = [REVISION.version, str(one), str(many), str(LANES), f"http://127.0.0.1:{port}/mcp"]
        command = [peer.command[0], "-c", peer.client, *arguments]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for figure, value in found.items():
        peer.add(f"client, {figure}", value)


def run(peers: list[Peer], parsers: list[str], *, quick: bool) -> None:
    """One run of everything, the servers in turn."""
    for parser in parsers:
        for mode, row, form in MODES:
            for peer in peers:
                measure(peer, mode, row, form, parser, 640 if quick else 1600 if peer.slow else 16_000)
    for peer in peers:
        if peer.client:
            scale = 20 if quick else 5 if peer.slow else 1
            measure_client(peer, 2000 // scale, 10_000 // scale)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short run, to see that everything works")
    parser.add_argument("--peer", action="append", default=[], help="python with the official SDK")
    parser.add_argument("--fastmcp", action="append", default=[], help="python with FastMCP")
    parser.add_argument("--parser", action="append", default=[], choices=["httptools", "h11"])
    options = parser.parse_args()
    peers = [
        Peer("floor", [sys.executable, "-c", http_servers.FLOOR], FLOOR_CLIENT),
        Peer("mcprev", [sys.executable, "-c", http_servers.OURS], OURS_CLIENT),
        Peer("mcprev App", [sys.executable, "-c", http_servers.APP]),
    ]
    for python in options.peer:
        peers.append(Peer(release(python, "mcp"), [python, "-c", http_servers.SDK], SDK_CLIENT))
        peers.append(Peer(f"{release(python, 'mcp')} MCPServer", [python, "-c", http_servers.SDK_APP]))
    peers += [
        Peer(release(python, "fastmcp"), [python, "-c", http_servers.FASTMCP], FASTMCP_CLIENT)
        for python in options.fastmcp
    ]
    runs = 1 if options.quick else options.runs
    for number in range(1, runs + 1):
        run(peers, options.parser or ["httptools", "h11"], quick=options.quick)
        progress(number, runs)
    show(peers)


if __name__ == "__main__":
    main()
