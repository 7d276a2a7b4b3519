"""What decides whether a server is ready: whether its store responds and takes writes, with real ones that take none."""

from __future__ import annotations

import asyncio
import logging
import resource
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

import mcprev
from helpers.asgi_bridge import Client
from helpers.redis_server import RedisServer
from helpers.running import pass_time, passing, run, until
from mcprev.core.store_probe import FRESH, NO_WRITES, PROBE, WRITES, StoreProbe
from mcprev.stores.redis import RedisStore
from mcprev.stores.redis_listener import advice
from mcprev.stores.sqlite import SqliteStore

Change = Callable[[], Awaitable[object]]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test, which saves into a folder of its own and refuses writes when that fails."""
    (tmp_path / "data").mkdir()
    server = RedisServer("--dir", str(tmp_path / "data")).start()
    yield server
    server.end()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says about the store."""
    return [record.getMessage() for record in caplog.records if record.name == "mcprev.store"]


async def tried(probe: StoreProbe, seconds: float = FRESH) -> str | None:
    """What the probe says after some time."""
    pass_time(seconds)
    return await probe.failure()


async def fails_and_recovers(store: mcprev.Store, breaks: Change, mends: Change) -> None:
    """A store that takes no writes is noticed at the next write, and its recovery at the next look."""
    probe = StoreProbe(store)
    assert await probe.failure() is None
    await breaks()
    assert await tried(probe, WRITES) == NO_WRITES
    assert await tried(probe) == NO_WRITES
    await mends()
    assert await tried(probe) is None


@pytest.mark.parametrize(
    ("breaks", "mends", "says"),
    [
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "a replica"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "raise `maxmemory`"),
        ("BGSAVE", "CONFIG SET stop-writes-on-bgsave-error no", "cannot save to its disk"),
        (
            "ACL SETUSER default -@write",
            "ACL SETUSER default +@all",
            "lacks a permission",
        ),
    ],
    ids=["replica", "no memory", "MISCONF", "may not write"],
)
def test_a_redis_that_only_reads_is_not_ready(
    own: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, breaks: str, mends: str, says: str
) -> None:
    async def main() -> None:
        store = RedisStore(own.url())

        async def command(text: str) -> Any:
            return await store._run(*shlex.split(text))  # pyright: ignore[reportPrivateUsage]

        async def broken() -> None:
            if breaks == "BGSAVE":
                await command("CONFIG SET save '3600 1000000'")
                (tmp_path / "data").rmdir()
            await command(breaks)
            while breaks == "BGSAVE" and await saves():  # noqa: ASYNC110 - Redis tells nobody
                await asyncio.sleep(0)

        async def saves() -> bool:
            return bool((await command("INFO persistence"))["rdb_last_bgsave_status"] == "ok")

        await fails_and_recovers(store, broken, lambda: command(mends))
        await store.aclose()

    run(main())
    first, second = said(caplog)
    assert first.startswith(f"not ready: {NO_WRITES}: the store at unix://")
    assert says in first
    assert second == "ready again: the store responds and takes writes"


def test_a_full_file_is_not_ready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "store", max_bytes=100_000)

        async def fill() -> None:
            for size in (4096, 256):
                with suppress(mcprev.StoreError):
                    for number in range(1000):
                        await store.write(f"{size} {number}", b"x" * size, index="all")

        async def empty() -> None:
            for key, _ in await store.listed("all", limit=1000):
                await store.remove(key)

        await fails_and_recovers(store, fill, empty)
        await store.aclose()

    run(main())
    assert "it has no room" in said(caplog)[0]


def test_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    """The system refuses every byte beyond the sizes that the files have."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def allow(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))

    async def main() -> None:
        store = SqliteStore(tmp_path / "store")
        try:
            await fails_and_recovers(store, lambda: allow(1), lambda: allow(limit[0]))
        finally:
            await allow(limit[0])
        await store.aclose()

    run(main())


class Scripted(mcprev.MemoryStore):
    """A store that does as it is told, and counts what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.writes = 0
        self.takes: Change = awaits_nothing

    @override
    async def read(self, key: str, /) -> mcprev.Record | None:
        self.reads += 1
        return await super().read(key)

    @override
    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        self.writes += 1
        await self.takes()
        return await super().write(key, value, seen=seen, ttl=ttl, index=index)


async def awaits_nothing() -> None:
    """A store that takes writes."""


async def refuses() -> None:
    raise mcprev.StoreError("no room")


def test_writes_are_seldom_while_they_succeed_and_leave_nothing() -> None:
    async def main() -> None:
        store = Scripted()
        probe = StoreProbe(store)
        for _ in range(10):
            assert await tried(probe) is None
        assert (store.reads, store.writes) == (10, 2)
        store.takes = refuses
        await tried(probe, WRITES)
        for _ in range(3):
            assert await tried(probe) == NO_WRITES
        assert store.writes == 6

    run(main())


def test_a_write_that_hangs_is_bounded() -> None:
    async def main() -> None:
        store = Scripted()
        store.takes = asyncio.Event().wait
        assert await passing(PROBE, StoreProbe(store).failure(), lambda: store.writes == 1) == NO_WRITES

    run(main())


def test_clients_are_told_which_it_is_and_every_initialize_of_a_ready_server_succeeds() -> None:
    """`/ready` is 503 as long as no session begins, and 200 as soon as one does."""

    async def main() -> None:
        store = Scripted()
        app = mcprev.App("stored", "1", store=store)
        app.health()
        made = app.asgi()
        client = Client(made)
        for takes, status, says in ((awaits_nothing, 200, "ready"), (refuses, 503, NO_WRITES)):
            store.takes = takes
            pass_time(WRITES)
            found = await client.send("GET", path="/ready").done()
            assert (found.status, found.json) == (status, {"status": says})
        await made.aclose()
        await app.server.aclose()

    run(main())


@pytest.mark.parametrize("how", ["serve_http", "lifespan"])
def test_a_store_that_cannot_be_used_is_logged_at_the_start(
    caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Also in a single process, which serves all the same, and nobody asks whether it is ready."""

    async def main() -> None:
        store = Scripted()
        store.takes = refuses
        app = mcprev.App("stored", "1", store=store)
        listens = asyncio.Event()
        made = app.asgi()
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def send(_: Any) -> None:
            listens.set()

        serving = asyncio.create_task(
            app.server.serve_http(port=0, ready=lambda _: listens.set())
            if how == "serve_http"
            else made({"type": "lifespan"}, events.get, send)
        )
        events.put_nowait({"type": "lifespan.startup"})
        await listens.wait()
        await until(lambda: "mcprev.store" in {record.name for record in caplog.records})
        serving.cancel()
        await asyncio.wait({serving})
        await made.aclose()
        await app.server.aclose()

    with caplog.at_level(logging.WARNING):
        run(main())
    assert said(caplog) == [f"not ready: {NO_WRITES}: no room"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("max number of clients reached"), "max number of clients reached"),
        (ConnectionError("Error -2 connecting to no.example:6379. Name or service not known."), "not known"),
        (ValueError("ERR value is not an integer\x1b[2J"), "error: ERR value is not an integer [2J"),
        (ValueError("user ann with s3cret-2 and s3cret"), "user ... with ... and ..."),
        (ValueError("x" * 900), "x" * 200),
        (OSError(), "OSError"),
    ],
)
def test_redis_s_own_reason_is_shown_without_what_is_secret(error: Exception, words: str) -> None:
    shown = advice(error, ("ann", "s3cret", "s3cret-2"))
    assert words in shown
    assert "s3cret" not in shown
    assert len(shown) < 300
    assert shown.isprintable()
