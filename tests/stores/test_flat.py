"""Everything that servers store comes to an end: cycles of work leave no more behind than the first one did.

The clock of the store is moved, not waited for. That of Redis cannot be: there, the time to live of each key is shortened.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest
import redis.asyncio

import mcprev
from helpers.asgi_bridge import Client
from helpers.http_in_process import InProcess
from helpers.named import ROW_A, ROW_D, ROW_E
from helpers.redis_server import RedisServer
from helpers.running import run
from helpers.several_workers import Front, kill
from mcprev.errors import StoreError
from mcprev.revisions import HttpShape, TaskSupport
from mcprev.stores import sqlite_file

DAY: Final = 86_400.0
KEPT: Final = {"changes", "keys", "workers"}
"""The records that stay: one each, of a bounded size."""
CYCLES: Final = 3


class Held(NamedTuple):
    """What a store holds: records and logs together, and bytes."""

    number: int
    size: int
    names: set[str]
    """The first parts of the keys that have no end, or have not ended yet."""


@dataclass
class Stored:
    """A store whose clock the test moves."""

    open: Callable[[], mcprev.Store]
    move: Callable[[float], Awaitable[None]]
    held: Callable[[], Awaitable[Held]]


class Mortal:
    """A store as a process has it: when that is dead, nothing more of it reaches the store."""

    def __init__(self, store: mcprev.Store) -> None:
        self.store, self.dead = store, False
        self.aclose = store.aclose

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.store, name)

        async def work(*arguments: Any, **options: Any) -> Any:
            if self.dead:
                raise StoreError("this process is dead")
            return await operation(*arguments, **options)

        return work


def first_part(key: str) -> str:
    """The first part of a key, after the prefix of the service."""
    return key.split("/")[1] if "/" in key else key


def in_memory() -> Stored:
    """A store in memory."""
    ahead = [0.0]
    store = mcprev.MemoryStore(clock=lambda: time.monotonic() + ahead[0])

    async def move(seconds: float) -> None:
        ahead[0] += seconds
        await store.read("x")
        await store.tail("x", 0)

    async def held() -> Held:
        names = {first_part(key) for key in (*store._held, *store._logs)}
        return Held(len(store._held) + len(store._logs), int(vars(store)["_room"].held), names)

    return Stored(lambda: store, move, held)


def in_sqlite(path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """A store in a file."""
    ahead = [0.0]
    monkeypatch.setattr(sqlite_file, "_clock", lambda: ("boot", lambda: time.monotonic() + ahead[0]))

    async def move(seconds: float) -> None:
        ahead[0] += seconds

    async def held() -> Held:
        with sqlite3.connect(path) as db:
            keys = [key for (key,) in db.execute("SELECT key FROM records UNION ALL SELECT log FROM logs")]
            (free,), (pages,) = (
                db.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_count")
            )
            (items,) = db.execute("SELECT count(*) FROM items").fetchone()
        return Held(len(keys) + items, 4096 * (pages - free), {first_part(key) for key in keys})

    return Stored(lambda: mcprev.open_store(f"sqlite:///{path}"), move, held)


def in_redis(server: RedisServer) -> Stored:
    """A store in Redis."""
    prefix = f"flat{time.monotonic_ns()}"

    def client() -> Any:
        return redis.asyncio.Redis(unix_socket_path=f"{server.folder}/socket")

    async def keys(of: Any) -> list[bytes]:
        return [key async for key in of.scan_iter(match=f"{{{prefix}}}*", count=1000)]

    async def move(seconds: float) -> None:
        async with client() as connected:
            for key in await keys(connected):
                left = await connected.pttl(key)
                if left >= 0:
                    await connected.pexpire(key, max(1, int(left - seconds * 1000)))
            await asyncio.sleep(0.01)

    async def held() -> Held:
        async with client() as connected:
            found = await keys(connected)
            size = sum([await connected.memory_usage(key) for key in found])
            indexes = sum(
                [await connected.zcard(key) for key in found if key.startswith(b"{%b}i:" % prefix.encode())]
            )
        names = {key.decode().partition(":")[2] for key in found}
        return Held(len(found) + indexes, size, {first_part(name) for name in names})

    return Stored(lambda: mcprev.open_store(server.url(prefix)), move, held)


@pytest.fixture(params=["memory", "sqlite", "redis"])
def stored(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stored]:
    """A store of each kind."""
    monkeypatch.setattr("mcprev.server.task_manager.CLOSE", 0.01)  # the tasks of a dead process have no end
    monkeypatch.setattr("mcprev.sharing.changes.CLOSE", 0.01)
    if request.param == "memory":
        yield in_memory()
    elif request.param == "sqlite":
        yield in_sqlite(tmp_path / "store.db", monkeypatch)
    else:
        yield in_redis(request.getfixturevalue("redis_server"))


def made(store: Any) -> mcprev.App:
    """A server that stores all there is to store."""
    limits = [mcprev.RateLimit("10000/hour")]
    app = mcprev.App("flat", "1", store=store, tasks=mcprev.Tasks({}, poll_interval=10), middleware=limits)

    @app.tool
    async def says(ctx: mcprev.Context) -> str:
        for number in range(20):
            await ctx.log("info", {"number": number})
        return "said"

    @app.tool
    async def visit(ctx: mcprev.Context, handle: str | None = None) -> int:
        ctx.session.open(handle)
        visits: int = await ctx.session.update("visits", lambda visits: visits + 1, 0)
        return visits

    @app.tool
    async def ask(ctx: mcprev.Context) -> str:
        answer = await ctx.elicit("who", str)
        return answer.data if isinstance(answer, mcprev.Accepted) else ""

    @app.tool(task="optional")
    async def work(seconds: float, ctx: mcprev.Context) -> str:
        await ctx.detach()
        await asyncio.sleep(seconds)
        return "done"

    return app


class Answers(mcprev.ClientHandler):
    """A client that answers questions."""

    async def elicit(self, ctx: mcprev.ClientContext, params: Any) -> Any:
        """Answer."""
        from mcprev_types.latest import models as m

        return m.ElicitResult(action="accept", content={"value": "bob"})


async def cycle(stored: Stored) -> None:
    """Two workers and their clients, whose sessions are left or ended; then the workers are killed."""
    stores = [Mortal(stored.open()) for _ in range(2)]
    apps = [made(store) for store in stores]
    front = Front([app.asgi(sse=True) for app in apps])
    connector = InProcess(front)
    async with aiohttp.ClientSession(connector=connector) as http:
        for number, row in enumerate([ROW_A, ROW_D, ROW_E]):
            path = "/sse" if row.http is HttpShape.SSE else "/mcp"
            target = mcprev.http(connector.origin + path, session=http)
            async with mcprev.connect(target, mode=row.name, handler=Answers()) as client:
                for tool in ("says", "visit", "ask", "says") if row.elicitation_modes else ("says",):
                    await client.call_tool(tool, {})
                if row.tasks is not TaskSupport.NONE:
                    task = await client.start_tool("work", {"seconds": 0.01})
                    assert (await task.result(5)).text == "done"
                    await client.start_tool("work", {"seconds": 3600.0})  # its worker dies
                if row is ROW_D:
                    await client.set_log_level("info")
                    apps[number % 2].server.changed("tools")
        for number in range(3):  # sessions that nobody ends
            left = await Client(front).open(ROW_D)
            stream = await left.send("GET").begun()
            await left.call("says").done()
            apps[number % 2].server.changed("tools")
            await stream.heard(1)
            stream.disconnect()
            await stream.done()
    for store, app, asgi in zip(stores, apps, front.apps, strict=True):
        store.dead = True
        await kill(asgi)
        await asgi.aclose(linger=0)
        await app.server.aclose()
    for store in stores:
        await store.aclose()


def test_cycles_of_work_leave_no_more_behind_than_the_first_one(stored: Stored) -> None:
    async def main() -> None:
        found: list[Held] = []
        for _ in range(CYCLES):
            await cycle(stored)
            found.append(await stored.held())
            await stored.move(2 * DAY)
        assert found[0].number > 20, found
        first, *later = found
        for held in later:
            assert held.number <= 1.3 * first.number + 10, found
            assert held.size <= 1.3 * first.size + 20_000, found
        # What a year later is left, after as much was written as has ended.
        await stored.move(365 * DAY)
        store = stored.open()
        for number in range(4 * max(held.number for held in found)):
            await store.write(f"x/other/{number % 3}", b"1", ttl=60, index="x/i")
            await store.append(
                f"x/log/{number % 3}", [mcprev.LogItem(b"1")], bounds=mcprev.LogBounds(ttl=60, items=1)
            )
        left = await stored.held()
        await store.aclose()
        assert left.names - {"other", "log", "i"} <= KEPT, left
        assert left.number < 60, left

    run(main(), limit=120)
