"""New connections over HTTP: how many a server takes in a second, and how long a first request waits beside busy ones.

"new": 32 clients, each of which connects, sends one call, reads the response and disconnects, again and again. "beside
busy": one such client, while 32 connections that are kept open send one call after another. Latencies are from before
`connect` to the whole response. Calls are of the stateless era, so that no session has to be opened.

The client is one process on epoll and bare sockets; the share of its core that it takes is printed, because it would be
the bottleneck if that came near 100 %. All servers run on uvicorn with httptools and uvloop: a bare ASGI app is the
floor; "mcprev" has its own connections, as in `run_http`, "mcprev on uvicorn" is the same app on uvicorn alone. Servers
run side by side and take turns in short rounds; each figure is the median of the rounds, with minimum and maximum, and
responses are checked. With `--peer PYTHON` the official SDK of that interpreter, 2 or newer, is measured too,
with `--fastmcp PYTHON` FastMCP. Only ratios within one run travel to another machine.
"""

from __future__ import annotations

import argparse
import select
import socket
import statistics
import sys
import time
from contextlib import ExitStack
from typing import Final

import http_servers
from http_load import calls, whole
from over_http import LANES, STATELESS, running, said
from report import Peer, cpu_seconds, progress, release, show

LIMIT: Final = 60.0
"""Seconds after which a round has failed."""


def drive(port: int, call: bytes, count: int, *, lanes: int, busy: int) -> tuple[list[float], int]:
    """Send `count` calls over as many connections, `lanes` at a time, beside `busy` kept ones that never rest.

    Returns the seconds of each call with its connection, and the number of calls of the kept connections.
    """
    poll = select.epoll()
    waiting: dict[int, tuple[socket.socket, float]] = {}
    kept: set[int] = set()
    latencies: list[float] = []
    parts: dict[int, bytes] = {}
    begun = also = 0
    answer = said(call)

    def connect() -> int:
        began = time.perf_counter()
        lane = socket.create_connection(("127.0.0.1", port))
        lane.sendall(call)
        waiting[lane.fileno()] = lane, began
        poll.register(lane, select.EPOLLIN)
        return lane.fileno()

    kept.update(connect() for _ in range(busy))
    for _ in range(lanes):
        connect()
        begun += 1
    until = time.monotonic() + LIMIT
    while len(latencies) < count:
        if time.monotonic() > until:
            raise TimeoutError(f"{len(latencies)} of {count} calls in {LIMIT:.0f} s")
        for number, _ in poll.poll(1.0):
            lane, began = waiting[number]
            data = lane.recv(65536)
            if not data:
                raise ConnectionError("the server closed a connection")
            data = parts.pop(number, b"") + data
            if not whole(data):
                parts[number] = data
                continue
            if not data.startswith(b"HTTP/1.1 200") or answer not in data.replace(b'": ', b'":'):
                raise AssertionError(data[:1000])
            if number in kept:
                also += 1
                lane.sendall(call)
                continue
            latencies.append(time.perf_counter() - began)
            del waiting[number]
            lane.close()
            if begun < count:
                connect()
                begun += 1
    for lane, _ in waiting.values():
        lane.close()
    poll.close()
    return latencies, also


def measure(peer: Peer, port: int, pid: int, count: int) -> None:
    """One round of one server."""
    call = calls(port, STATELESS, 1, 1)[0]
    for mode, lanes, busy, number in (("new", LANES, 0, count), ("beside busy", 1, LANES, count // 20)):
        cpu, own, began = cpu_seconds(pid), time.process_time(), time.perf_counter()
        latencies, also = drive(port, call, number, lanes=lanes, busy=busy)
        seconds = time.perf_counter() - began
        if busy:
            peer.add(f"{mode}: requests/s of the busy", also / seconds)
        else:
            peer.add(f"{mode}: connections/s", number / seconds)
            peer.add(f"{mode}: CPU µs", (cpu_seconds(pid) - cpu) / number * 1e6)
        peer.add(f"{mode}: p50 ms", statistics.median(latencies) * 1000)
        peer.add(f"{mode}: p99 ms", sorted(latencies)[len(latencies) * 99 // 100] * 1000)
        peer.add(f"{mode}: longest ms", max(latencies) * 1000)
        peer.add(f"{mode}: client's core %", (time.process_time() - own) / seconds * 100)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--count", type=int, default=4000, help="connections of a round")
    parser.add_argument("--quick", action="store_true", help="one short run, to see that everything works")
    parser.add_argument("--peer", action="append", default=[], help="python with the official SDK")
    parser.add_argument("--fastmcp", action="append", default=[], help="python with FastMCP")
    options = parser.parse_args()
    peers = [
        Peer("floor", [sys.executable, "-c", http_servers.FLOOR]),
        Peer("mcprev", [sys.executable, "-c", http_servers.OURS]),
        Peer("mcprev on uvicorn", [sys.executable, "-c", http_servers.ON_UVICORN]),
    ]
    peers += [Peer(release(python, "mcp"), [python, "-c", http_servers.SDK]) for python in options.peer]
    peers += [
        Peer(release(python, "fastmcp"), [python, "-c", http_servers.FASTMCP]) for python in options.fastmcp
    ]
    runs, count = (1, 400) if options.quick else (options.runs, options.count)
    with ExitStack() as stack:
        servers = [stack.enter_context(running(peer.command, "json", "httptools")) for peer in peers]
        for peer, (port, pid) in zip(peers, servers, strict=True):
            measure(Peer(peer.name, []), port, pid, 400)
        for number in range(1, runs + 1):
            for peer, (port, pid) in zip(peers, servers, strict=True):
                measure(peer, port, pid, count // 4 if peer.slow else count)
            progress(number, runs)
    show(peers)


if __name__ == "__main__":
    main()
