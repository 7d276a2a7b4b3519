"""Stores that fail: a server that is away, slow or full, a file that is locked or damaged, credentials, other loops."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as asyncio_redis

from helpers.redis_server import RedisServer
from mcprev import LogBounds, LogItem, LogTail, Store, StoreError, open_store
from mcprev.stores import redis as redis_store, sqlite as sqlite_store, sqlite_file
from mcprev.stores.redis_url import read_url

BOUNDS = LogBounds(ttl=60)
SECRET = "s3cret"  # noqa: S105 - of a server that the test starts
MOST = 3.5
"""Seconds within which an operation fails: the time limit of 2 s, and time for a busy machine."""


@pytest.fixture
def own() -> Iterator[RedisServer]:
    """A server that the test may stop; it keeps its data."""
    server = RedisServer("--appendonly", "yes", "--appendfsync", "always").start()
    yield server
    server.end()


@asynccontextmanager
async def opened(*urls: str) -> AsyncGenerator[list[Store]]:
    stores = [open_store(url) for url in urls]
    try:
        yield stores
    finally:
        for store in stores:
            await store.aclose()


async def waiting(store: Store, log: str) -> asyncio.Task[LogTail]:
    """Begin to wait for news of a log, and see that the server knows it."""
    task = asyncio.create_task(store.tail(log, 0, wait=60))
    channel = f"mcprev:{log}"
    while await command(store, "PUBSUB", "NUMSUB", channel) != [channel.encode(), 1]:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    return task


async def command(store: Store, *parts: str) -> object:
    """Send a command to the Redis of a store."""
    assert isinstance(store, redis_store.RedisStore)
    return await store._run(*parts)  # pyright: ignore[reportPrivateUsage]


def operations(store: Store) -> list[Coroutine[Any, Any, object]]:
    return [
        store.read("key"),
        store.write("key", b"1", index="index"),
        store.remove("key"),
        store.listed("index"),
        store.append("log", [LogItem(b"1")], bounds=BOUNDS),
        store.tail("log", 0),
        store.tail("log", 0, wait=60),
        store.complete("log", ttl=60),
    ]


@pytest.mark.parametrize("paused", [False, True], ids=["killed", "stopped"])
def test_an_operation_of_a_redis_that_is_away_fails_soon_and_goes_on_when_it_is_back(
    own: RedisServer, *, paused: bool
) -> None:
    async def main() -> None:
        async with opened(own.url()) as (store,):
            version = await store.write("kept", b"1")
            assert version is not None
            waits = await waiting(store, "quiet")
            own.pause() if paused else own.kill()
            begun = time.monotonic()
            each: list[Awaitable[object]] = [waits, *operations(store)]
            found: list[object] = await asyncio.gather(*each, return_exceptions=True)
            assert time.monotonic() - begun < MOST
            for error in found:
                assert isinstance(error, StoreError)
                said = "no response within 2 s" if paused else "cannot be reached"
                assert said in str(error)
                assert str(own.folder) in str(error)
            own.go_on() if paused else own.start()
            assert await store.read("kept") == (b"1", version)
            assert await store.write("kept", b"2", seen=version) is not None
            waits = await waiting(store, "news")
            await store.append("news", [LogItem(b"1")], bounds=BOUNDS)
            assert (await waits).last == 1

    asyncio.run(main())


def test_a_wait_goes_on_when_redis_closes_the_connection_that_hears(own: RedisServer) -> None:
    async def main() -> None:
        async with opened(own.url(), own.url()) as (store, other):
            waits = await waiting(store, "log")
            await command(other, "CLIENT", "KILL", "TYPE", "pubsub")
            await other.append("log", [LogItem(b"1")], bounds=BOUNDS)
            assert (await waits).last == 1

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_full_redis_says_so_and_keeps_what_it_has(own: RedisServer) -> None:
    async def main() -> None:
        async with opened(own.url()) as (store,):
            await store.write("kept", b"1")
            await command(store, "CONFIG", "SET", "maxmemory", "1")
            for operation in (store.write("more", b"1"), store.append("log", [LogItem(b"1")], bounds=BOUNDS)):
                with pytest.raises(StoreError, match="has no room: raise `maxmemory`"):
                    await operation
            found = await store.read("kept")
            assert found is not None

    asyncio.run(main())


def test_a_redis_that_evicts_is_named(own: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with opened(own.url(), own.url()) as (store, other):
            await store.read("key")
            assert caplog.messages == []
            await command(store, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            await other.read("key")
            await other.read("key")
            (message,) = caplog.messages
            assert "allkeys-lru" in message
            assert "noeviction" in message

    asyncio.run(main())


def test_scripts_that_the_server_has_forgotten_are_sent_again(own: RedisServer) -> None:
    async def main() -> None:
        async with opened(own.url()) as (store,):
            assert await store.write("key", b"1")
            await command(store, "SCRIPT", "FLUSH")
            assert await store.write("key", b"2")

    asyncio.run(main())


def test_no_message_shows_credentials() -> None:
    server = RedisServer("--requirepass", SECRET).start()

    async def main() -> None:
        wrong = "an0ther"
        async with opened(
            server.url(credentials=f":{SECRET}"),
            server.url(credentials=f":{wrong}"),
            server.url(),
            f"redis://user:{SECRET}@127.0.0.1:{closed_port()}/0",
            f"redis+cluster://user:{SECRET}@127.0.0.1:{closed_port()}",
            f"redis+sentinel://user:{SECRET}@127.0.0.1:{closed_port()}/primary?sentinel_password={SECRET}",
        ) as (right, *others):
            assert await right.write("key", b"1")
            for store, advice in zip(
                others,
                ["does not accept", "requires a user", *["cannot be reached"] * 2, "no sentinel knows"],
                strict=True,
            ):
                for operation in (store.read("key"), store.tail("log", 0, wait=60)):
                    with pytest.raises(StoreError, match=advice) as caught:
                        await operation
                    shown: list[BaseException | None] = [caught.value]
                    while shown[-1] is not None:
                        assert SECRET not in f"{shown[-1]} {shown[-1]!r}"
                        assert wrong not in f"{shown[-1]} {shown[-1]!r}"
                        shown.append(shown[-1].__cause__ or shown[-1].__context__)
                assert SECRET not in repr(store)

    try:
        asyncio.run(main())
    finally:
        server.end()


def closed_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


BAD_URLS = {
    "a port": f"redis://user:{SECRET}@host:{SECRET}",
    "a database": f"redis://user:{SECRET}@host/{SECRET}",
    "two hosts": f"redis://user:{SECRET}@a,b/0",
    "no host": f"redis://user:{SECRET}@/0",
    "no primary": f"redis+sentinel://user:{SECRET}@a,b",
    "a database of a cluster": f"redis+cluster://user:{SECRET}@a,b/3",
    "an option": f"redis://user:{SECRET}@host/0?password={SECRET}",
    "an option of Sentinel": f"redis://user:{SECRET}@host/0?sentinel_password={SECRET}",
    "a value": f"rediss://user:{SECRET}@host/0?ssl_min_version={SECRET}",
    "a prefix": f"redis://user:{SECRET}@host/0?prefix={{x}}",
    "a form": f"redis+other://user:{SECRET}@host/0",
    "a socket": f"unix://user:{SECRET}@",
    "a scheme": f"postgres://user:{SECRET}@host/0",
    "no URL": "file.db",
    "a path that is a host": "sqlite://file.db",
    "no path": "sqlite:///",
    "an option of SQLite": "sqlite:///file.db?cache=shared",
    "a size": "sqlite:///file.db?max_bytes=1GB",
    "a small size": "sqlite:///file.db?max_bytes=1",
    "an absolute path with one slash": "sqlite:/srv/file.db",
    "more of memory": "memory://host",
}


@pytest.mark.parametrize("url", BAD_URLS.values(), ids=list(BAD_URLS))
def test_a_url_that_is_not_usable_says_what_is(url: str) -> None:
    with pytest.raises(
        ValueError, match=r"://|`prefix`|option in the URL|path of|at least|`memory:`"
    ) as caught:
        open_store(url)
    assert SECRET not in f"{caught.value!r}"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://me:p%40ss@host", "redis://host:6379"),
        ("rediss://[::1]:7000/3?ssl_ca_certs=/a/b", "rediss://[::1]:7000"),
        ("redis+sentinel://:p@a,b:1/name?sentinel_password=x", "redis+sentinel://a:26379,b:1/name"),
        ("rediss+cluster://u:p@a:1,b:2?prefix=p", "rediss+cluster://a:1,b:2"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_messages_name_the_place_of_a_url(url: str, place: str) -> None:
    assert read_url(url).place == place


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    for name in ("redis", "redis_listener", "redis_url"):
        monkeypatch.delitem(sys.modules, f"mcprev.stores.{name}")
    with pytest.raises(ImportError, match=r"install mcprev\[redis\]"):
        open_store("redis://host")


def test_a_store_is_imported_when_it_is_opened() -> None:
    program = (
        "import sys, mcprev; mcprev.open_store; import mcprev.server.server, mcprev.transports.stdio.server; "
        "assert not {'redis', 'sqlite3', 'mcprev.stores.sqlite', 'mcprev.stores.redis'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=20)


# -- a cluster and Sentinel ----------------------------------------------------------------------------------


def test_a_cluster_keeps_a_record_and_its_index_together() -> None:
    ports: list[int] = []
    while len(ports) < 2:
        port = closed_port()
        ports += [port] if port < 55_536 and port not in ports else []  # its bus is 10,000 higher
    nodes = [RedisServer("--cluster-enabled", "yes", port=port).start() for port in ports]
    halves = [range(8192), range(8192, 16384)]

    async def main() -> None:
        url = f"redis+cluster://127.0.0.1:{ports[0]}?prefix=p"
        async with opened(url, url) as (store, other):
            for number in range(20):
                assert await store.write(f"key {number}", b"%d" % number, index="all", ttl=60)
            found: list[str] = []
            after = 0
            while page := await other.listed("all", after=after, limit=7):
                found += [key for key, _ in page]
                after = page[-1][1].version
            assert sorted(found) == sorted(f"key {number}" for number in range(20))
            logs = [f"log {number}" for number in range(6)]
            waits = [asyncio.create_task(other.tail(log, 0, wait=20)) for log in logs]
            for log in logs:
                assert await store.append(log, [LogItem(b"1")], bounds=BOUNDS, seen=0) == 1
            assert [(await wait).last for wait in waits] == [1] * 6
            assert await other.remove("key 1")
            assert "key 1" not in [key for key, _ in await store.listed("all")]
            nodes[1].kill()
            for written in range(20):
                begun = time.monotonic()
                (error,) = await asyncio.gather(store.write(f"key {written}", b"1"), return_exceptions=True)
                assert time.monotonic() - begun < MOST
                if not isinstance(error, int):
                    assert isinstance(error, StoreError)
                    assert "redis+cluster://127.0.0.1" in str(error)
                    break
            else:
                raise AssertionError("no record is on the node that is gone")

    async def join() -> None:
        library: Any = asyncio_redis
        clients = [library.Redis(port=port) for port in ports]
        for client, half in zip(clients, halves, strict=True):
            await client.execute_command("CLUSTER", "ADDSLOTS", *half)
        await clients[0].execute_command("CLUSTER", "SET-CONFIG-EPOCH", 1)
        await clients[1].execute_command("CLUSTER", "SET-CONFIG-EPOCH", 2)
        await clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", ports[1])
        ends = time.monotonic() + 15
        for client in clients:
            while True:
                info = await client.execute_command("CLUSTER", "INFO")
                text = str(info)
                if all(
                    each in text for each in ("cluster_state:ok", "cluster_slots_ok:16384", "cluster_size:2")
                ):
                    break
                assert time.monotonic() < ends, text
                await asyncio.sleep(0.02)
            await client.aclose()

    try:
        asyncio.run(join())
        asyncio.run(main())
    finally:
        for node in nodes:
            node.end()


def test_sentinel_names_the_primary(tmp_path: Path) -> None:
    primary = RedisServer("--requirepass", SECRET, port=closed_port()).start()
    port = closed_port()
    settings = tmp_path / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\nsentinel monitor primary 127.0.0.1 {primary.port} 1\n"
        f"sentinel auth-pass primary {SECRET}\n"
    )
    sentinel = RedisServer(str(settings), "--sentinel", port=port, ready=b"+monitor master").start()

    async def main() -> None:
        at = f"redis+sentinel://:{SECRET}@127.0.0.1:{port}"
        async with opened(f"{at}/primary", f"{at}/other") as (store, other):
            waits = asyncio.create_task(store.tail("log", 0, wait=20))
            await store.append("log", [LogItem(b"1")], bounds=BOUNDS)
            assert (await waits).last == 1
            with pytest.raises(StoreError, match="no sentinel knows a primary"):
                await other.read("key")

    try:
        asyncio.run(main())
    finally:
        sentinel.end()
        primary.end()


# -- SQLite ----------------------------------------------------------------------------------------------------


def test_a_file_that_is_locked_does_not_hold_up_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"

    async def main() -> None:
        async with opened(f"sqlite:///{path}") as (store,):
            await store.write("key", b"1")
            blocker = sqlite3.connect(path, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            write = asyncio.create_task(store.write("key", b"2"))
            longest, last = 0.0, time.monotonic()
            for _ in range(50):
                await asyncio.sleep(0.001)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            assert longest < 0.1
            assert not write.done()
            found = await store.read("key")
            assert found is not None
            assert found.value == b"1"
            blocker.execute("ROLLBACK")
            assert await write is not None
            blocker.execute("BEGIN IMMEDIATE")
            monkeypatch.setattr(sqlite_store, "PATIENCE", 0.1)
            with pytest.raises(StoreError, match="other processes keep it locked"):
                await store.write("key", b"3")
            blocker.close()

    asyncio.run(main())


def test_a_full_file_says_so_and_takes_more_when_records_end(tmp_path: Path) -> None:
    path = tmp_path / "store"

    async def main() -> None:
        async with opened(f"sqlite:///{path}?max_bytes=200000") as (store,):
            await store.write("kept", b"x" * 1000)
            written = 0
            error: StoreError | None = None
            while error is None:
                try:
                    assert await store.write(f"key {written}", b"x" * 1000, ttl=0.3)
                    written += 1
                except StoreError as found:
                    error = found
            assert "no room: raise `max_bytes`" in str(error)
            assert 50 < written < 250
            assert path.stat().st_size <= 200_000
            with pytest.raises(StoreError, match="no room"):
                await store.append("log", [LogItem(b"x" * 100_000)] * 2, bounds=LogBounds(ttl=60, size=10**9))
            assert (await store.tail("log", 0)).last == 0
            while await store.read(f"key {written - 1}") is not None:  # noqa: ASYNC110 - a store tells nobody
                await asyncio.sleep(0.02)
            assert await store.write("more", b"x" * 100_000) is not None
            assert await store.read("kept") is not None

    asyncio.run(main())


def test_records_and_logs_past_their_time_do_not_pile_up(tmp_path: Path) -> None:
    path = tmp_path / "store"

    async def main() -> None:
        async with opened(f"sqlite:///{path}") as (store,):
            for number in range(300):
                await store.write(f"key {number}", b"1", ttl=0.001, index="index")
                await store.append(f"log {number}", [LogItem(b"1")] * 3, bounds=LogBounds(ttl=0.001))
            database = sqlite3.connect(path)
            for table in ("records", "logs", "items"):
                found = database.execute("SELECT rowid FROM " + table)  # noqa: S608 - our own names
                assert len(found.fetchall()) < 120, table
            database.close()

    asyncio.run(main())


def _text(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def _foreign(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE records (theirs)")
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("prepare", "advice"),
    [
        (_text, "the file is not an SQLite database"),
        (_foreign, "belongs to another program"),
        (Path.mkdir, "cannot be opened"),
    ],
    ids=["text", "another database", "a folder"],
)
def test_a_file_of_somebody_else_is_left_as_it_is(
    tmp_path: Path, prepare: Callable[[Path], None], advice: str
) -> None:
    path = tmp_path / "store"
    prepare(path)
    before = path.read_bytes() if path.is_file() else b""

    async def main() -> None:
        store = open_store(f"sqlite:///{path}")
        for _ in range(2):
            with pytest.raises(StoreError, match=advice):
                await store.read("key")
        await store.aclose()

    asyncio.run(main())
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(StoreError, match=r"missing/store.*its folder must exist"):
            await open_store(f"sqlite:///{tmp_path}/missing/store").read("key")

    asyncio.run(main())


@pytest.mark.skipif(os.name == "nt", reason="its files have other permissions")
def test_only_the_owner_reads_a_new_file(tmp_path: Path) -> None:
    modes: dict[str, int] = {}
    folder = tmp_path.iterdir

    async def main() -> None:
        async with opened(f"sqlite:///{tmp_path}/with%20space%2541") as (store,):
            await store.write("key", b"1")
            modes.update((each.name, each.stat().st_mode & 0o777) for each in folder())

    asyncio.run(main())
    assert modes == {f"with space%41{end}": 0o600 for end in ("", "-wal", "-shm")}


def test_times_of_a_file_go_on_when_the_machine_or_its_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot, ticks, day = "first", 1000.0, 1_000_000.0
    monkeypatch.setattr(sqlite_file, "_clock", lambda: (boot, lambda: ticks))
    monkeypatch.setattr(time, "time", lambda: day)
    url = f"sqlite:///{tmp_path}/store"

    async def is_there() -> bool:
        async with opened(url) as (store,):
            return await store.read("key") is not None

    async def main() -> None:
        nonlocal boot, ticks, day
        async with opened(url) as (store,):
            await store.write("key", b"1", ttl=100)
        day += 3600  # somebody sets the clock of the day
        assert await is_there()
        day -= 3600
        ticks += 99
        assert await is_there()
        boot, ticks, day = "second", 5.0, day + 99.5  # the machine has restarted
        assert await is_there()
        ticks += 1
        assert not await is_there()

    asyncio.run(main())
