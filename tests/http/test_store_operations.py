"""What a request costs the store of several workers, counted; and that sessions are opened whoever else opens some."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from helpers.asgi_bridge import Client, initialize, notification
from helpers.redis_server import RedisServer
from helpers.running import run, until
from helpers.served import QUICK, Served
from helpers.several_workers import Front, work
from mcprev.errors import StoreError
from mcprev.revisions import DEFAULT
from mcprev.sharing.leases import is_alive
from mcprev.sharing.quotas import SHARE, Quotas
from mcprev.sharing.sessions import SharedSessions
from mcprev.sharing.streams import BACKLOG, PACE
from mcprev.sharing.worker import COMPLAIN, WRITERS, Worker

Make = Callable[..., Front]
NEWEST: Final = next(row for row in reversed(DEFAULT) if row.handshake)
NOTHING: Final[dict[str, int]] = {}


class Counted(mcprev.MemoryStore):
    """A store that counts its operations by the first part of the key; what workers do by themselves is not counted."""

    def __init__(self) -> None:
        super().__init__(clock=asyncio.get_running_loop().time)
        self.counts: Counter[str] = Counter()
        self.rows = 0
        """How many records were listed."""

    def _count(self, operation: str, key: str) -> None:
        _, _, name = key.partition("/")
        self.counts[f"{operation} {name.partition('/')[0]}"] += 1

    async def read(self, key: str, /) -> Any:
        self._count("read", key)
        return await super().read(key)

    async def write(self, key: str, value: bytes, /, **options: Any) -> Any:
        self._count("write", key)
        return await super().write(key, value, **options)

    async def remove(self, key: str, /, **options: Any) -> bool:
        self._count("remove", key)
        return await super().remove(key, **options)

    async def listed(self, index: str, /, **options: Any) -> Any:
        self._count("list", index)
        found = await super().listed(index, **options)
        self.rows += len(found)
        return found

    async def append(self, log: str, items: Any, /, **options: Any) -> Any:
        self._count("append", log)
        return await super().append(log, items, **options)

    def taken(self) -> dict[str, int]:
        """What was counted since the last time."""
        own = ("changes", "workers", "inbox", "keys")
        found = {name: number for name, number in self.counts.items() if name.split(" ")[1] not in own}
        found |= {name: number for name, number in self.counts.items() if name == "append inbox"}
        self.counts.clear()
        return found


def at(front: Front, client: Client, number: int) -> Client:
    """The same client of the same session, at one worker."""
    found = Client(front.apps[number])
    found.session, found.revision = client.session, client.revision
    return found


def counted(stores: list[Counted]) -> Counted:
    """Make a store that the test can reach."""
    stores.append(Counted())
    return stores[-1]


def test_what_requests_of_a_session_cost_the_store() -> None:
    """The table of docs/stores.md: each line is one request, or one that another worker gets."""

    async def test(handler: Served, make: Make) -> None:
        front = make(defer=QUICK, json_response=True)
        store = stores[-1]
        opened = {"write mark": 1, "write session": 1}
        client = Client(front.apps[0], client=("192.0.2.1", 7))
        ids: list[str] = []
        for number in range(3):
            done = await client.post(initialize(NEWEST)).done()
            ids.append(done.headers["mcp-session-id"])
            block = {"read count": 2, "write count": 2, "list sessions": 3}
            assert store.taken() == (opened if number else block | opened)
        client.revision = NEWEST
        client.session = {
            "mcp-session-id": ids[-1],
            "mcp-protocol-version": NEWEST.version,
        }
        await client.post(notification("notifications/initialized")).done()
        assert store.taken() == {"write session": 1}, "the other workers have not loaded it"
        for _ in range(3):
            assert (await client.call("whose").done()).status == 200
        assert store.taken() == NOTHING, "a JSON answer of a copy that is loaded"
        assert (await at(front, client, 1).call("whose").done()).status == 200
        assert store.taken() == {"read session": 1, "write session": 1}, "another worker loads it"
        assert (await at(front, client, 1).call("whose").done()).status == 200
        assert store.taken() == NOTHING
        for tries in (2, 1):  # the first time, the copy does not know what loading it elsewhere has changed
            await client.request("logging/setLevel", {"level": "error"}).done()
            assert store.taken() == {"write session": tries, "append inbox": 2, "read session": tries}
        assert (await client.send("DELETE").done()).status == 204
        await asyncio.sleep(1)
        removed = {"read session": 2, "remove session": 1, "remove mark": 1, "append inbox": 2}
        assert store.taken() == removed, "the room of the session is left for others of this worker"

    work(test, partial(counted, stores := list[Counted]()), number=2)


def test_what_a_stream_of_a_request_costs_the_store() -> None:
    """One append for what is sent in a row, whatever the number of messages."""

    async def test(handler: Served, make: Make) -> None:
        front = make(json_response=False)
        store = stores[-1]
        client = await Client(front.apps[0]).open(NEWEST)
        store.taken()
        assert (await client.call("whose").done()).status == 200
        await asyncio.sleep(0.1)
        assert store.taken() == {"append stream": 1}

    work(test, partial(counted, stores := list[Counted]()))


def test_a_request_without_a_session_costs_the_store_nothing() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make()
        store = stores[-1]
        row = next(row for row in reversed(DEFAULT) if not row.handshake)
        client = Client(front)
        client.revision = row
        await client.call("whose").done()
        store.taken()
        for _ in range(3):
            assert (await client.call("whose").done()).status == 200
        assert store.taken() == NOTHING

    work(test, partial(counted, stores := list[Counted]()))


class Busy(Counted):
    """A store that takes its time for each append to a stream."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.now, self.most, self.away = seconds, 0, 0, False

    async def append(self, log: str, items: Any, /, **options: Any) -> Any:
        if "/stream/" not in log:
            return await super().append(log, items, **options)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        if self.away:
            raise StoreError("the store is away")
        return await super().append(log, items, **options)


@pytest.mark.slow
@pytest.mark.parametrize("away", [False, True])
def test_a_store_that_is_slower_than_its_clients_slows_them_down_and_starves_nothing(
    away: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Else what is not stored yet would become more and more, and leases would end behind it. It is said now and then."""

    async def test(handler: Served, make: Make) -> None:
        front = make(json_response=False)
        store, loop = stores[-1], asyncio.get_running_loop()
        client = await Client(front.apps[0]).open(NEWEST)
        directory = front.apps[0].dispatcher.directory
        assert isinstance(directory, SharedSessions)
        worker = directory.worker
        number, most, begun = worker.number, 0, loop.time()
        store.away = away

        async def calls(lane: int) -> None:
            nonlocal most
            for each in range(20):
                assert (await client.call("whose", id_=100 * lane + each).done()).status == 200
                most = max(most, worker.unstored)

        await asyncio.gather(*(calls(lane) for lane in range(1, 33)))
        assert store.most <= WRITERS
        assert most <= BACKLOG + 32 if not away else loop.time() - begun < 20 * PACE + 5
        assert worker.number == number
        said = [text for text in caplog.messages if "cannot be stored now" in text]
        assert len(said) <= (2 + (loop.time() - begun) / COMPLAIN if away else 0)
        store.away = False
        await until(lambda: not worker.unstored)

    stores: list[Busy] = []

    def make_store() -> Busy:
        stores.append(Busy(0.5))
        return stores[-1]

    work(test, make_store, partial(run, limit=1000))


@pytest.mark.slow
def test_a_lease_that_the_event_loop_cannot_renew_is_renewed_by_its_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop has its connections busy; the thread has one of its own."""
    monkeypatch.setattr("mcprev.sharing.worker.RENEW", 0.05)
    monkeypatch.setattr("mcprev.sharing.worker.LEASE", 0.4)

    class Crowded(mcprev.MemoryStore):
        crowded = False

        async def write(self, key: str, value: bytes, /, **options: Any) -> Any:
            if self.crowded and threading.current_thread() is threading.main_thread():
                raise StoreError("no connection is free")
            return await super().write(key, value, **options)

    async def main() -> None:
        store, lapsed = Crowded(), list[bool]()

        async def handle(message: dict[str, Any]) -> None:
            del message

        worker = Worker(store, handle, lapsed.append, store.aclose)
        number = await worker.start()
        store.crowded = True
        await asyncio.sleep(1.5)
        assert (worker.number, lapsed) == (number, [])
        assert await is_alive(store, number)
        assert "cannot be renewed: no connection is free" in caplog.text
        store.crowded = False
        await worker.aclose()
        await store.aclose()

    run(main())


# -- many at once ------------------------------------------------------------------------------------------


@pytest.fixture
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store.db"
        return
    server = RedisServer().start()
    yield server.url(secrets.token_hex(4))
    server.end()


@pytest.mark.parametrize("urls", ["sqlite", "redis"], indirect=True)
def test_sessions_are_opened_at_many_workers_at_once_and_none_is_refused(urls: str) -> None:
    """Eight workers that have a connection each open 100 sessions each, of one client."""
    opened: list[int] = []
    many, each = 8, 100

    async def worker() -> None:
        store = mcprev.open_store(urls)
        quotas = Quotas(store, "sessions", ttl=60, limit=10_000, per_client=1_000)
        index = quotas.client_index("ann")
        refused = await asyncio.gather(*(quotas.take(index, 1) for _ in range(each)))
        opened.append(refused.count(None))
        await store.aclose()

    async def main() -> None:
        await asyncio.gather(*(worker() for _ in range(many)))
        assert opened == [each] * many
        store = mcprev.open_store(urls)
        record = await store.read("count/sessions")
        assert record is not None
        assert many * each <= int(record.value) < many * (each + 10_000 // SHARE)
        await store.aclose()

    run(main(), limit=60)


@pytest.mark.parametrize("limit", [3, 1_000])
def test_what_is_counted_is_never_too_low_and_room_that_is_given_back_is_used(limit: int) -> None:
    """Workers open and end sessions in any order: with a low limit, never one too many; else, fewer than `SHARE` says."""

    async def main() -> None:
        store = mcprev.MemoryStore(clock=asyncio.get_running_loop().time)
        workers = [Quotas(store, "s", ttl=60, limit=limit, per_client=10**6) for _ in range(3)]
        keys: list[str] = []

        async def take(quotas: Quotas) -> bool:
            refused = await quotas.take("", 1)
            if refused is None:
                keys.append(secrets.token_hex(8))
                await store.write(f"session/{keys[-1]}", b"1", ttl=60, index="s")
            return refused is None

        while await take(workers[len(keys) % 3]):
            assert len(keys) < limit * 2
        most = limit + 3 * max(0, limit // SHARE - 1)
        assert limit <= len(keys) + 3 * (limit // SHARE)
        assert len(keys) <= most
        for number in range(3):
            await store.remove(f"session/{keys.pop()}")
            await workers[number].give_back("", "")
            await asyncio.sleep(2)
            assert await take(workers[number])
            assert not await take(workers[number]) or limit > 3
        assert len(keys) <= most
        await asyncio.sleep(61)  # all have expired, and nobody has counted them down
        keys.clear()
        for number in range(limit):
            assert await take(workers[number % 3])

    run(main(), limit=1_000)


def test_who_opens_sessions_beyond_the_limit_does_not_make_the_store_list_all_of_them_each_time() -> None:
    async def main() -> None:
        store = Counted()
        quotas = Quotas(store, "a/s", ttl=60, limit=500, per_client=10**6)
        for number in range(500):
            assert await quotas.take("", 1) is None
            await store.write(f"session/{number}", b"1", ttl=60, index="a/s")
        store.rows = 0
        for _ in range(20):
            assert await quotas.take("", 1) is not None
        assert store.rows <= 500 + 20 * 16
        await asyncio.sleep(2)
        assert await quotas.take("", 1) is not None

    run(main(), limit=1_000)
