"""A bridge beside other proxies in one run: calls per second, added time, CPU and memory, over stdio and HTTP.

Behind each stands the same stdio server, and before each the same raw client, at 2025-11-25. `direct` is that server without
anything before it: over HTTP, the same handler served by this project. `across` is a bridge whose server speaks another
revision, and `floor` a bare relay, the least that any front can do. The programs take turns; each figure is that of the best
round, because whatever else runs on the machine only makes it worse, with the median beside it; responses are checked. FastMCP's
proxy, mcp-proxy and supergateway are measured where `make bench-bridge` has installed them. Only ratios within one run travel
to another machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiohttp
from report import Peer, byte_code, peak_megabytes, progress
from stdio_servers import OURS, REVISION

from mcprev.revisions import DEFAULT

ROOT: Final = Path(__file__).resolve().parents[1]
INTEROP: Final = ROOT / ".interop"
WINDOW: Final = 16
"""Calls at a time, where throughput is measured."""
LARGE: Final = "x" * 1_000_000
HTTP: Final = OURS.replace("run_stdio()", "run_http(port=int(sys.argv[1]))").replace(
    "import mcprev\n", "import sys, mcprev\n", 1
)
FASTMCP: Final = """
import sys
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
proxy = create_proxy(StdioTransport(sys.argv[2], [sys.argv[3]]))
if sys.argv[1] == "stdio":
    proxy.run(transport="stdio", show_banner=False)
else:
    proxy.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="ERROR")
"""
FLOOR: Final = """
import asyncio, os, sys
from pydantic_core import from_json, to_json
waiting, asked, buffers = {}, [0], {"client": [], "server": []}
def lines(side, data):
    buffer = buffers[side]
    if b"\\n" not in data:
        return buffer.append(data) or []
    found = b"".join([*buffer, data]).split(b"\\n")
    buffers[side] = [found.pop()]
    return found
def to_server(message, answer):
    if "id" in message:
        asked[0] += 1
        waiting[asked[0]] = message["id"], answer
        message["id"] = asked[0]
    server.write(to_json(message) + b"\\n")
class Server(asyncio.SubprocessProtocol):
    def pipe_data_received(self, fd, data):
        for line in lines("server", data):
            message = from_json(line)
            message["id"], answer = waiting.pop(message["id"])
            answer(to_json(message))
class Pipes(asyncio.Protocol):
    def data_received(self, data):
        for line in lines("client", data):
            to_server(from_json(line), lambda answer: out.write(answer + b"\\n"))
    def eof_received(self): end.set_result(None)
class Http(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.pieces, self.missing = transport, [], 0
    def data_received(self, data):
        self.pieces.append(data)
        if self.missing:
            self.missing -= len(data)
        else:
            head, _, body = b"".join(self.pieces).partition(b"\\r\\n\\r\\n")
            self.pieces = [body]
            self.missing = int(head.lower().split(b"content-length: ")[1].split(b"\\r")[0]) - len(body)
        if not self.missing:
            message, self.pieces = from_json(b"".join(self.pieces)), []
            to_server(message, lambda answer: self.write(b"200 OK", answer))
            if "id" not in message:
                self.write(b"202 Accepted", b"")
    def write(self, status, body):
        head = b"HTTP/1.1 %b\\r\\nContent-Type: application/json\\r\\nMcp-Session-Id: floor\\r\\nContent-Length: %d\\r\\n\\r\\n"
        self.transport.write(head % (status, len(body)) + body)
async def main():
    global server, out, end
    loop = asyncio.get_running_loop()
    end = loop.create_future()
    process, _ = await loop.subprocess_exec(Server, *sys.argv[2:])
    server = process.get_pipe_transport(0)
    if sys.argv[1] == "stdio":
        out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
        await loop.connect_read_pipe(Pipes, sys.stdin)
    else:
        await loop.create_server(Http, "127.0.0.1", int(sys.argv[1]))
    await end
try:
    from uvloop import run
except ImportError:
    from asyncio import run
run(main())
"""
"""The least that a front can do, in the fastest loop: both sides parsed and written, and an id changed; it knows no protocol and
checks nothing."""
Exchange: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
OPENING: Final = {
    "protocolVersion": REVISION.version, "capabilities": {}, "clientInfo": {"name": "b", "version": "1"},
}  # fmt: skip


def fronts(server: Path, port: str, *, over_http: bool) -> list[Peer]:
    """What is measured over one transport; `port` is where it listens over HTTP."""
    python, bridge = sys.executable, str(Path(sys.executable).with_name("mcprev"))
    behind, other = [python, str(server)], DEFAULT[-1].name
    fastmcp = INTEROP / "fastmcp-4.1.2" / "bin" / "python"
    proxy = INTEROP / "mcp-proxy" / "bin" / "mcp-proxy"
    gateway = INTEROP / "supergateway" / "node_modules" / ".bin" / "supergateway"
    if not over_http:
        found = [
            Peer("direct", behind),
            Peer("mcprev bridge", [bridge, "bridge", "--", *behind]),
            Peer("mcprev bridge, across", [bridge, "bridge", "--server-revision", other, "--", *behind]),
            Peer("floor", [python, "-c", FLOOR, "stdio", *behind]),
        ]
        if fastmcp.exists():
            found.append(Peer("FastMCP proxy", [str(fastmcp), "-c", FASTMCP, "stdio", *behind]))
        return found
    served = ["bridge", "--http", port]
    found = [
        Peer("direct", [python, "-c", HTTP, port]),
        Peer("mcprev bridge", [bridge, *served, "--", *behind]),
        Peer("mcprev bridge, across", [bridge, *served, "--server-revision", other, "--", *behind]),
        Peer("floor", [python, "-c", FLOOR, port, *behind]),
    ]
    if fastmcp.exists():
        found.append(Peer("FastMCP proxy", [str(fastmcp), "-c", FASTMCP, port, *behind]))
    if proxy.exists():
        found.append(Peer("mcp-proxy", [str(proxy), "--port", port, "--log-level", "ERROR", "--", *behind]))
    if gateway.exists():
        command = " ".join(behind)
        options = ["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none", "--port", port]
        found.append(Peer("supergateway", [str(gateway), "--stdio", command, *options]))
    return found


# -- clients --------------------------------------------------------------------------------------------------


@dataclass
class Pipes:
    """A raw client of a process; answers are found by their ids."""

    process: asyncio.subprocess.Process
    waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(
        default_factory=dict[int, "asyncio.Future[dict[str, Any]]"]
    )

    async def read(self) -> None:
        """Take answers until the process ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            found = json.loads(line)
            waiting = self.waiting.pop(found.get("id"), None)
            if waiting is not None:
                waiting.set_result(found)

    async def exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.waiting[message["id"]] = answer
        self.send(message)
        return await answer

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")


@asynccontextmanager
async def over_pipes(peer: Peer) -> AsyncGenerator[tuple[int, Exchange]]:
    """A process with an open session, and how to exchange messages with it."""
    process = await asyncio.create_subprocess_exec(
        *peer.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2**25,
    )
    client = Pipes(process)
    reading = asyncio.ensure_future(client.read())
    try:
        async with asyncio.timeout(60):
            await client.exchange({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING})
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield process.pid, client.exchange
    finally:
        reading.cancel()
        await end(process)


@asynccontextmanager
async def over_http(peer: Peer, port: str) -> AsyncGenerator[tuple[int, Exchange]]:
    """The same over HTTP."""
    process = await asyncio.create_subprocess_exec(
        *peer.command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/mcp"
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    try:
        async with aiohttp.ClientSession() as session:

            async def exchange(message: dict[str, Any]) -> dict[str, Any]:
                async with session.post(url, data=json.dumps(message), headers=headers) as response:
                    text = await response.text()
                    if response.status >= 400:
                        raise ConnectionError(text[:200])
                    if "mcp-session-id" in response.headers:
                        headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
                    if response.content_type != "text/event-stream":
                        return dict(json.loads(text or "{}"))
                    events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
                    return next(found for each in events if "id" in (found := json.loads(each or "{}")))

            async with asyncio.timeout(60):
                while True:
                    try:
                        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING}
                        await exchange(opening)
                        break
                    except (aiohttp.ClientError, ConnectionError):
                        await asyncio.sleep(0.1)
            headers["MCP-Protocol-Version"] = REVISION.version
            await exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
            yield process.pid, exchange
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process, whatever it does."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            process.kill()
    await process.wait()


def family(pid: int) -> list[int]:
    """A process and those that it has started, itself first."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process so far, to the nanosecond: ticks are too coarse for some hundred calls."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


# -- what is measured -----------------------------------------------------------------------------------------


async def measure(peer: Peer, pid: int, exchange: Exchange, text: str, count: int, size: str) -> None:
    """One round: calls one after the other, then several at a time."""
    ids = iter(range(1, 10**9))

    async def call() -> float:
        began = time.perf_counter()
        id_ = next(ids)
        params = {"name": "echo", "arguments": {"text": text}}
        answer = await exchange({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})
        took = time.perf_counter() - began
        if answer.get("id") != id_ or answer["result"]["content"][0]["text"] != text:
            raise AssertionError(str(answer)[:300])
        return took

    for _ in range(max(3, count // 10)):
        await call()
    pids = family(pid)
    before, own = sum(map(cpu_seconds, pids)), cpu_seconds(pid)
    client = time.process_time()
    times = sorted([await call() for _ in range(count)])
    peer.add(f"{size}: p50, us", 1e6 * statistics.median(times))
    peer.add(f"{size}: p99, us", 1e6 * times[min(len(times) - 1, int(0.99 * len(times)))])
    left = count

    async def several() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await call()

    began = time.perf_counter()
    await asyncio.gather(*(several() for _ in range(WINDOW)))
    peer.add(f"{size}: calls/s, {WINDOW} at a time", count / (time.perf_counter() - began))
    spent = sum(map(cpu_seconds, pids)) - before
    peer.add(f"{size}: CPU of the front, us a call", 1e6 * (cpu_seconds(pid) - own) / (2 * count))
    peer.add(f"{size}: CPU without the client, us a call", 1e6 * spent / (2 * count))
    peer.add(
        f"{size}: CPU with the client, us a call", 1e6 * (spent + time.process_time() - client) / (2 * count)
    )
    peer.add(f"{size}: memory of the front, MB", peak_megabytes(pid))


def best(peer: Peer, figure: str) -> float | None:
    """The best round of a figure: the most calls, or the least of anything else."""
    values = peer.figures.get(figure)
    return None if not values else max(values) if "calls/s" in figure else min(values)


def show(peers: list[Peer], title: str) -> None:
    """Print the best and the median of every figure, and the ratios of the best to the direct one, and to ours."""
    direct, ours = peers[0], peers[1]
    print(f"\n{title}")
    for figure in dict.fromkeys(figure for peer in peers for figure in peer.figures):
        base, mine = best(direct, figure), best(ours, figure)
        print(f"  {figure}")
        for peer in peers:
            found = best(peer, figure)
            if found is None or not base or mine is None:
                continue
            line = f"    {peer.name:<24} {found:>10.1f}  (median {peer.median(figure):.1f})"
            if peer is not direct:
                line += f"  {found / base:.2f} of direct"
            added = " p50" in figure or " p99" in figure
            if added and peer is not direct:
                line += f", {found - base:.0f} added"
            if peer not in peers[:3]:
                line += f"; mcprev's is {mine / found:.2f} of it"
                if added and found > base:
                    line += f", what it adds {(mine - base) / (found - base):.2f}"
            print(line)


async def run(rounds: int, count: int, transports: list[str], server: Path) -> None:
    """Measure everything, the programs by turns."""
    done, steps, refused = 0, rounds * len(transports), dict[str, str]()
    measured = {way: fronts(server, str(free_port()), over_http=way == "http") for way in transports}
    for _ in range(rounds):
        for way, peers in measured.items():
            for peer in peers:
                port = next((word for word in peer.command if word.isdigit()), "")
                opened = over_http(peer, port) if way == "http" else over_pipes(peer)
                async with opened as (pid, exchange):
                    await measure(peer, pid, exchange, "hello", count, "small")
                    try:
                        await measure(peer, pid, exchange, LARGE, max(3, count // 50), "1 MB")
                    except ConnectionError as error:
                        refused[peer.name] = " ".join(str(error).split())[-90:]
            done += 1
            progress(done, steps)
    for way, peers in measured.items():
        show(
            peers,
            f"over {way}, {rounds} rounds of {count} calls, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        )
    for name, why in refused.items():
        print(f"\n{name} takes no messages of 1 MB: {why}")


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only see that everything works")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--only", choices=("stdio", "http"))
    options = parser.parse_args()
    rounds, count = (1, 20) if options.quick else (options.rounds, options.calls)
    with byte_code(), tempfile.TemporaryDirectory() as folder:
        server = Path(folder) / "echo_server.py"
        server.write_text(OURS, encoding="utf-8")
        ways = [options.only] if options.only else ["stdio", "http"]
        asyncio.run(run(rounds, count, ways, server))


if __name__ == "__main__":
    main()
