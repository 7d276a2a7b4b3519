"""What it costs that a request of a session reaches another process of a bridge than the one that holds the session.

Two processes of `mcprev bridge --http` share a store, before the same stdio server. One raw client has one session, and calls
at the process that holds it, then at the other one. `one process` is a bridge without a store. CPU is that of the process that is
called, and of what it has started. Only ratios within one run travel to another machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from bridging import OPENING, Exchange, end, free_port, measure, show
from report import Peer, byte_code, progress
from stdio_servers import OURS, REVISION

from mcprev.revisions import DEFAULT

BRIDGE: Final = str(Path(sys.executable).with_name("mcprev"))


class Session:
    """One session of a raw client, whose requests go to any process."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}

    async def exchange(self, url: str, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return its answer."""
        async with self._http.post(url, json=message, headers=self._headers) as response:
            text = await response.text()
            if response.status >= 400:
                raise ConnectionError(text[:200])
            if "mcp-session-id" in response.headers:
                self._headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
                self._headers["MCP-Protocol-Version"] = REVISION.version
            if response.content_type != "text/event-stream":
                found: dict[str, Any] = json.loads(text or "{}")
                return found
            events = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
            answer: dict[str, Any] = json.loads(events[-1])
            return answer

    async def open(self, url: str) -> None:
        """Open the session, as soon as a process listens."""
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.exchange(
                        url, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING}
                    )
                    break
                except (aiohttp.ClientError, ConnectionError):
                    await asyncio.sleep(0.1)
        await self.exchange(url, {"jsonrpc": "2.0", "method": "notifications/initialized"})

    def at(self, url: str) -> Exchange:
        """What exchanges messages with a process."""
        return lambda message: self.exchange(url, message)


@asynccontextmanager
async def bridge(server: Path, store: str | None, *options: str) -> AsyncGenerator[tuple[int, str]]:
    """A process of a bridge, and its URL."""
    port = free_port()
    environment = {**os.environ, **({} if store is None else {"MCPREV_STORE": store})}
    process = await asyncio.create_subprocess_exec(
        BRIDGE, "bridge", "--http", str(port), *options, "--", sys.executable, str(server),
        stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    try:
        yield process.pid, f"http://127.0.0.1:{port}/mcp"
    finally:
        await end(process)


async def round_of(
    peers: Sequence[Peer], server: Path, store: str, count: int, options: Sequence[str]
) -> None:
    """Measure every place once."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        pid, alone = await stack.enter_async_context(bridge(server, None, *options))
        session = Session(http)
        await session.open(alone)
        await measure(peers[0], pid, session.at(alone), "hello", count, "small")
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        pid, holder = await stack.enter_async_context(bridge(server, store, *options))
        other_pid, other = await stack.enter_async_context(bridge(server, store, *options))
        await Session(http).open(other)
        session = Session(http)
        await session.open(holder)
        await measure(peers[1], pid, session.at(holder), "hello", count, "small")
        await measure(peers[2], other_pid, session.at(other), "hello", count, "small")


async def run(rounds: int, count: int, server: Path, stores: dict[str, str]) -> None:
    """Measure with every store, at one revision and across two."""
    ways: dict[str, tuple[str, ...]] = {"one revision": (), "across": ("--server-revision", DEFAULT[-1].name)}
    steps = itertools.count(1)
    for name, store in stores.items():
        for way, options in ways.items():
            peers = [Peer(title, []) for title in ("one process", "at the holder", "elsewhere")]
            for _ in range(rounds):
                await round_of(peers, server, store, count, options)
                progress(next(steps), rounds * len(ways) * len(stores))
            load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
            show(peers, f"{name}, {way}: {rounds} rounds of {count} calls, {load}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only see that everything works")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    rounds, count = (1, 20) if options.quick else (options.rounds, options.calls)
    with byte_code(), tempfile.TemporaryDirectory() as folder:
        server = Path(folder) / "echo_server.py"
        server.write_text(OURS, encoding="utf-8")
        stores = {"SQLite": f"sqlite:///{folder}/bridge.db"}
        redis = shutil.which("redis-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        process = None
        if redis is not None:
            port = free_port()
            process = subprocess.Popen(
                [redis, "--port", str(port), "--save", "", "--dir", folder], stdout=subprocess.DEVNULL
            )
            stores["Redis"] = f"redis://127.0.0.1:{port}/0"
            time.sleep(1)
        try:
            asyncio.run(run(rounds, count, server, stores))
        finally:
            if process is not None:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
