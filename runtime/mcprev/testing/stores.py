"""What every store must do, as tests: derive a class from one of these in a module of your tests, and pytest runs them.

    class TestMyStore(StoreContract):
        def store(self, place):
            return MyStore(place)

`RecordsContract` is for a store with the three methods of `mcprev.Records`, `StoreContract` for a whole `mcprev.Store`,
and
`mcprev.testing.shared_stores.SharedStoreContract` for one that several processes share. The tests take some seconds, mostly of waiting.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from mcprev.core.store import LogBounds, LogItem, Record, Records, Store
from mcprev.errors import StoreError
from mcprev.sharing.leases import Lease, is_alive, workers
from mcprev.testing.store_models import (
    BRIEF,
    KEPT,
    ROUNDS,
    TIME_OF_TEST,
    LogModel,
    close_store,
    count_up,
    has_ended,
    has_lapsed,
    is_gone,
    plain,
    wait_until,
)


class RecordsContract:
    """What records must do. A test has records of its own, at a `place` that no other test gets."""

    def store(self, place: str) -> Records:
        """Return a new store of what is at a place, which is the path of a file that does not exist yet.

        Two stores of one place share what they store, as those of two workers do. Another process calls it too, for
        a new object of this class: what else it needs, it takes from the environment.
        """
        raise NotImplementedError

    def test_a_record_is_what_was_written(self, tmp_path: Path) -> None:
        """Keys and values of any kind come back as they are, to another worker too."""
        keys = ["key", "a/b:c", "{braces}", "with space", "ключ", "quote'\"%\\", "line\nline", "k" * 300]

        async def main() -> None:
            async with self._stores(tmp_path, 2) as (store, other):
                for number, key in enumerate(keys):
                    assert await store.read(key) is None
                    value = json.dumps({"key": key, "number": number}, ensure_ascii=False).encode()
                    version = await store.write(key, value)
                    assert version is not None
                    assert version > 0
                    assert await store.read(key) == await other.read(key) == Record(value, version)
                large = b'"' + bytes(range(32, 127)).replace(b'"', b"").replace(b"\\", b"") * 5000 + b'"'
                assert await store.write("large", large, ttl=60)
                found = await other.read("large")
                assert found is not None
                assert found.value == large
                for key in keys:
                    assert await other.remove(key)
                    assert await store.read(key) is None
                    assert not await store.remove(key)

        self._run(main)

    def test_a_record_is_replaced_by_compare_and_set(self, tmp_path: Path) -> None:
        """Many steps of all kinds by two workers have the same outcome as with a dictionary."""

        async def main() -> None:
            choose = random.Random(1)  # noqa: S311 - no secret
            model: dict[str, Record] = {}
            latest: dict[str, int] = {}
            async with self._stores(tmp_path, 2) as stores:
                for step in range(150):
                    key, store = choose.choice("abc"), choose.choice(stores)
                    there = model.get(key)
                    assert await store.read(key) == there
                    current = 0 if there is None else there.version
                    seen = choose.choice([None, 0, current, current, current + 1])
                    fits = seen is None or seen == current
                    if choose.randrange(3):
                        value, ttl = b"%d" % step, choose.choice([None, 60.0])
                        version = await store.write(key, value, seen=seen, ttl=ttl)
                        assert (version is not None) == fits
                        if version is not None:
                            assert version > latest.get(key, 0), "a version was given twice, or went back"
                            latest[key] = version
                            model[key] = Record(value, version)
                    else:
                        assert await store.remove(key, seen=seen) == (fits and there is not None)
                        if fits:
                            model.pop(key, None)

        self._run(main)

    def test_of_those_who_replace_one_version_one_wins(self, tmp_path: Path) -> None:
        """Tasks of two workers count together, and no count is lost."""

        async def main() -> None:
            async with self._stores(tmp_path, 2) as stores:
                first = await asyncio.gather(*(each.write("first", b"1", seen=0) for each in stores * 5))
                assert len([version for version in first if version is not None]) == 1
                await asyncio.gather(*(count_up(store, "count", 5) for store in stores * 3))
                found = await stores[0].read("count")
                assert found is not None
                assert found.value == b"30"

        self._run(main)

    def test_a_record_ends_with_its_time(self, tmp_path: Path) -> None:
        """An expired record is not there; the last write says when that is."""

        async def main() -> None:
            async with self._stores(tmp_path, 2) as (store, other):
                await store.write("renewed", b"1", ttl=BRIEF)
                await store.write("renewed", b"2", ttl=60)
                await store.write("kept", b"1", ttl=BRIEF)
                await store.write("kept", b"2")
                await store.write("long", b"1", ttl=60)
                await store.write("long", b"2", ttl=BRIEF)
                version = await store.write("brief", b"1", ttl=BRIEF)
                assert version is not None
                for key in ("brief", "long"):
                    await wait_until(partial(is_gone, other, key))
                assert not await store.remove("brief")
                assert await store.write("brief", b"2", seen=version) is None
                again = await store.write("brief", b"2", seen=0, ttl=60)
                assert again is not None
                assert again > version
                for key in ("renewed", "kept", "brief"):
                    found = await other.read(key)
                    assert found is not None
                    assert found.value == b"2"

        self._run(main)

    def test_a_store_outlives_event_loops(self, tmp_path: Path) -> None:
        """One store serves several event loops, one after the other and at once."""
        store = self.store(str(tmp_path / "store"))

        async def main() -> None:
            await asyncio.gather(*(count_up(store, "count", 3) for _ in range(3)))
            await close_store(store)

        for _ in range(2):
            self._run(main)
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self._run(main)
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread of the test
                errors.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIME_OF_TEST)
        assert errors == []

        async def check() -> None:
            found = await store.read("count")
            assert found is not None
            assert found.value == b"36"
            await close_store(store)

        self._run(check)

    @asynccontextmanager
    async def _stores(self, folder: Path, number: int) -> AsyncGenerator[list[Records]]:
        """Open stores of one place, and close them."""
        stores = [self.store(str(folder / "store")) for _ in range(number)]
        try:
            yield stores
        finally:
            for store in stores:
                await close_store(store)

    @staticmethod
    def _run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run(asyncio.wait_for(main(), TIME_OF_TEST))


class StoreContract(RecordsContract):
    """What a whole store must do."""

    @override
    def store(self, place: str) -> Store:
        """Return a new store of what is at a place; see `RecordsContract.store`."""
        raise NotImplementedError

    def test_an_index_lists_those_first_that_were_not_written_for_longest(self, tmp_path: Path) -> None:
        """A record is listed as long as it is there, with its last version, in pages of any size."""

        async def main() -> None:
            async with self._opened(tmp_path, 2) as (store, other):
                for number in range(7):
                    await store.write(f"key {number}", b"%d" % number, index="index", ttl=60)
                await store.write("key 1", b"again", index="index")
                await store.write("key 2", b"elsewhere", index="other")
                await store.write("key 3", b"nowhere")
                await store.write("brief", b"1", index="index", ttl=BRIEF)
                await store.remove("key 4")
                await wait_until(lambda: is_gone(store, "brief"))
                for size in (1, 2, 3, 100):
                    found: list[tuple[str, Record]] = []
                    while page := await other.listed(
                        "index", after=found[-1][1].version if found else 0, limit=size
                    ):
                        assert len(page) <= size
                        found += page
                    assert [key for key, _ in found] == ["key 0", "key 5", "key 6", "key 1"]
                    assert [await store.read(key) for key, _ in found] == [record for _, record in found]
                assert [key for key, _ in await store.listed("other")] == ["key 2"]
                for index in ("", "unknown"):
                    assert list(await store.listed(index)) == []

        self._run(main)

    def test_a_log_is_what_was_appended_within_its_bounds(self, tmp_path: Path) -> None:
        """Many appends of all kinds by two workers have the same outcome as with a list."""

        async def main() -> None:
            choose = random.Random(2)  # noqa: S311 - no secret
            bounds = LogBounds(ttl=60, items=8, size=400)
            model = LogModel(bounds)
            async with self._opened(tmp_path, 2) as stores:
                for step in range(80):
                    store = choose.choice(stores)
                    items = [
                        LogItem(
                            b"%d " % step + b"x" * choose.choice([0, 10, 100, 500]), choose.random() < 0.5
                        )
                        for _ in range(choose.choice([0, 1, 1, 1, 3, 12]))
                    ]
                    seen = choose.choice([None, model.last, model.last + 1])
                    last = await store.append("log", items, bounds=bounds, seen=seen)
                    if seen in {None, model.last}:
                        model.append(items)
                        assert last == model.last
                    else:
                        assert last is None
                    after = choose.randrange(model.last + 3)
                    assert plain(await choose.choice(stores).tail("log", after)) == model.tail(after)

        self._run(main)

    def test_a_log_takes_no_more_when_it_is_complete(self, tmp_path: Path) -> None:
        """A complete log can be read, and not be appended to, also one that was empty; then it ends."""

        async def main() -> None:
            async with self._opened(tmp_path, 2) as (store, other):
                assert plain(await store.tail("log", 0)) == ([], 0, False, False)
                assert await store.append("log", [LogItem(b"1"), LogItem(b"2")], bounds=KEPT) == 2
                await other.complete("log", ttl=60)
                for after, items in ((0, [(1, b"1"), (2, b"2")]), (2, [])):
                    assert plain(await store.tail("log", after, wait=60)) == (items, 2, False, True)
                for seen in (None, 2):
                    assert await store.append("log", [LogItem(b"3")], bounds=KEPT, seen=seen) is None
                await store.complete("empty", ttl=60)
                assert await other.append("empty", [LogItem(b"1")], bounds=KEPT) is None
                assert plain(await store.tail("empty", 0)) == ([], 0, False, True)
                await store.complete("log", ttl=BRIEF)

        self._run(main)

    def test_a_log_ends_with_its_time(self, tmp_path: Path) -> None:
        """A log that began anew has lost what its readers knew; each append gives it more time."""

        async def main() -> None:
            brief = LogBounds(ttl=BRIEF)
            async with self._opened(tmp_path, 2) as (store, other):
                await store.append("log", [LogItem(b"old")] * 3, bounds=brief)
                await store.append("kept", [LogItem(b"1")], bounds=brief)
                await other.append("kept", [LogItem(b"2")], bounds=brief)
                assert await other.append("kept", [], bounds=KEPT) == 2
                await store.append("complete", [LogItem(b"1")], bounds=KEPT)
                await store.complete("complete", ttl=BRIEF)
                for log in ("log", "complete"):
                    await wait_until(partial(has_ended, other, log))
                assert plain(await other.tail("log", 3, wait=60)) == ([], 0, True, False)
                assert await other.append("log", [LogItem(b"new")], bounds=KEPT) == 1
                assert plain(await store.tail("log", 0)) == ([(1, b"new")], 1, False, False)
                assert plain(await store.tail("log", 3)) == ([], 1, True, False)
                assert await store.append("complete", [LogItem(b"1")], bounds=KEPT) == 1
                assert (await store.tail("kept", 0)).last == 2

        self._run(main)

    def test_a_reader_waits_for_what_others_append(self, tmp_path: Path) -> None:
        """Readers of several logs are woken by appends and by the end of a log, each by its own."""

        async def main() -> None:
            async with self._opened(tmp_path, 2) as (store, other):
                await store.append("a", [LogItem(b"old")], bounds=KEPT)
                begun = time.monotonic()
                tails = [
                    asyncio.create_task(reader.tail(log, 1 if log == "a" else 0, wait=20))
                    for log in ("a", "b", "c")
                    for reader in (store, other)
                ]
                quiet = asyncio.create_task(store.tail("quiet", 0, wait=0.3))
                await other.append("a", [LogItem(b"new")], bounds=KEPT)
                await store.append("b", [LogItem(b"1"), LogItem(b"2", droppable=True)], bounds=KEPT)
                for tail in tails[:4]:
                    assert (await tail).items
                assert not any(tail.done() for tail in tails[4:])
                await other.complete("c", ttl=60)
                found = [plain(await tail) for tail in tails]
                assert found[:2] == [([(2, b"new")], 2, False, False)] * 2
                assert found[2:4] == [([(1, b"1"), (2, b"2")], 2, False, False)] * 2
                assert found[4:] == [([], 0, False, True)] * 2
                assert plain(await quiet) == ([], 0, False, False)
                assert time.monotonic() - begun < 10, "the readers were not woken, but had waited to the end"

        self._run(main)

    def test_a_reader_that_follows_a_log_misses_nothing(self, tmp_path: Path) -> None:
        """What several writers append while a reader waits again and again arrives once, in order."""

        async def main() -> None:
            async with self._opened(tmp_path, 3) as (store, *writers):

                async def write(writer: Store, name: int) -> None:
                    for number in range(ROUNDS):
                        item = LogItem(json.dumps([name, number]).encode())
                        assert await writer.append("log", [item], bounds=KEPT)
                        await asyncio.sleep(0)

                async def read() -> list[tuple[int, bytes]]:
                    found: list[tuple[int, bytes]] = []
                    while len(found) < ROUNDS * len(writers):
                        tail = await store.tail("log", found[-1][0] if found else 0, wait=20)
                        assert not tail.lost
                        found += tail.items
                    return found

                reading = asyncio.create_task(read())
                await asyncio.gather(*(write(writer, name) for name, writer in enumerate(writers)))
                found = await reading
                assert [number for number, _ in found] == [*range(1, ROUNDS * len(writers) + 1)]
                for name in range(len(writers)):
                    of_it = [value[1] for _, each in found if (value := json.loads(each))[0] == name]
                    assert of_it == [*range(ROUNDS)]

        self._run(main)

    def test_an_append_with_a_number_happens_once(self, tmp_path: Path) -> None:
        """Of those who append after one number, one does."""

        async def main() -> None:
            async with self._opened(tmp_path, 2) as stores:
                for seen in range(5):
                    done = await asyncio.gather(
                        *(each.append("log", [LogItem(b"1")], bounds=KEPT, seen=seen) for each in stores * 3)
                    )
                    assert sorted(done, key=str) == [seen + 1, *[None] * 5]

        self._run(main)

    def test_a_store_can_be_closed_by_anybody_and_more_than_once(self, tmp_path: Path) -> None:
        """A wait ends with `StoreError` when the store is closed; what is used later opens again."""

        async def main() -> None:
            async with self._opened(tmp_path, 2) as (store, other):
                await store.write("key", b"1")
                waiting = asyncio.create_task(store.tail("log", 0, wait=20))
                await asyncio.sleep(0.05)
                await asyncio.gather(*(asyncio.create_task(store.aclose()) for _ in range(3)))
                try:
                    await waiting
                except StoreError as error:
                    assert "closed" in str(error)  # noqa: PT017 - the suite runs without pytest too
                else:
                    raise AssertionError("the wait goes on")
                await store.aclose()
                found = await store.read("key")
                assert found is not None
                waiting = asyncio.create_task(store.tail("log", 0, wait=20))
                await other.append("log", [LogItem(b"1")], bounds=KEPT)
                assert (await waiting).last == 1
                await store.aclose()

        self._run(main)

    def test_a_lease_has_a_number_that_no_other_ever_has(self, tmp_path: Path) -> None:
        """A lease that ended is not renewed, and its number is not given again."""

        async def main() -> None:
            async with self._opened(tmp_path, 2) as (store, other):
                opened = await asyncio.gather(
                    *(Lease.open(each, note=n) for n, each in enumerate([store, other] * 3))
                )
                assert sorted(lease.number for lease in opened) == [*range(1, 7)]
                assert len({lease.epoch for lease in opened}) == 1
                assert all([await lease.renew() for lease in opened])
                assert sorted(await workers(store)) == [*range(1, 7)]
                await opened[0].end()
                assert not await opened[0].renew()
                assert not await is_alive(other, opened[0].number)
                brief = await Lease.open(store, note="brief", ttl=BRIEF)
                assert (await workers(other))[brief.number] == "brief"
                await wait_until(lambda: has_lapsed(other, brief.number))
                assert not await brief.renew()
                assert brief.number not in await workers(store)
                assert (await Lease.open(other)).number == 8
                assert await is_alive(store, opened[1].number)

        self._run(main)

    @asynccontextmanager
    async def _opened(self, folder: Path, number: int) -> AsyncGenerator[list[Store]]:
        async with self._stores(folder, number) as stores:
            yield cast("list[Store]", stores)
