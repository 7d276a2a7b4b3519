"""The SQLite store writes what one turn of the event loop asks for in one transaction, and each write fails for itself."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from mcprev.core.store import LogBounds, LogItem
from mcprev.errors import StoreError
from mcprev.stores import sqlite as module
from mcprev.stores.sqlite import SqliteStore

BOUNDS: Final = LogBounds(ttl=60.0)
Work = Callable[[SqliteStore], Coroutine[Any, Any, object]]


def within(tmp_path: Path, test: Callable[[SqliteStore], Coroutine[Any, Any, None]]) -> None:
    """Run a test with a store whose tables are there."""

    async def main() -> None:
        store = SqliteStore(tmp_path / "file.db")
        await store.read("x")
        try:
            await test(store)
        finally:
            await store.aclose()

    asyncio.run(main())


@contextmanager
def transactions(store: SqliteStore) -> Generator[list[str]]:
    """Note each transaction that writes."""
    found: list[str] = []

    def note(statement: str) -> None:
        if statement.startswith(("BEGIN IMMEDIATE", "ROLLBACK")):
            found.append(statement)

    opened = store._opened.get()
    opened.db.set_trace_callback(note)
    yield found
    opened.db.set_trace_callback(None)


@contextmanager
def locked(tmp_path: Path) -> Generator[None]:
    """Another process writes, and does not end."""
    other = sqlite3.connect(tmp_path / "file.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


@pytest.mark.parametrize("number", [1, 2, 50])
def test_what_is_written_in_one_turn_of_the_loop_is_one_transaction(tmp_path: Path, number: int) -> None:
    async def test(store: SqliteStore) -> None:
        with transactions(store) as found:
            writes = [
                store.append(f"log/{n % 7}", [LogItem(b"%d" % n)], bounds=BOUNDS) for n in range(number)
            ]
            records = [store.write(f"key/{n}", b"1", ttl=60) for n in range(number)]
            assert await asyncio.gather(*writes) == [1 + n // 7 for n in range(number)]
            versions = await asyncio.gather(*records)
        assert sorted({version or 0 for version in versions}) == versions
        assert len(found) == 2  # the second is that of the records, which were not asked for before
        with transactions(store) as found:
            await asyncio.gather(
                store.write("key/0", b"2"),
                store.append("log/0", [], bounds=BOUNDS),
                store.complete("log/1", ttl=9),
            )
        assert found == ["BEGIN IMMEDIATE"]

    within(tmp_path, test)


async def too_large(store: SqliteStore) -> object:
    return await store.write("large", b"x" * 10_000_000)


async def impossible(store: SqliteStore) -> object:
    return await store.remove("key", seen=2**70)


@pytest.mark.parametrize(("work", "error"), [(too_large, StoreError), (impossible, OverflowError)])
def test_a_write_that_fails_fails_alone(tmp_path: Path, work: Work, error: type[Exception]) -> None:
    """Whether it is the first, the last or in the middle of those that are one transaction."""

    async def main() -> None:
        store = SqliteStore(tmp_path / "file.db", max_bytes=1_000_000)
        for place in range(4):
            asked: list[Any] = [store.write(f"key/{place}/{n}", b"1", seen=0) for n in range(3)]
            asked.insert(place, work(store))
            answers = await asyncio.gather(*asked, return_exceptions=True)
            failed = answers.pop(place)
            assert isinstance(failed, error)
            assert all(isinstance(answer, int) for answer in answers)
            assert [await store.read(f"key/{place}/{n}") for n in range(3)] == [
                (b"1", each) for each in answers
            ]
        assert await store.read("large") is None
        await store.aclose()

    asyncio.run(main())


def test_while_another_process_has_the_lock_all_wait_together_and_are_written_together(
    tmp_path: Path,
) -> None:
    async def test(store: SqliteStore) -> None:
        with locked(tmp_path):
            asked = [asyncio.create_task(store.write(f"key/{n}", b"1")) for n in range(10)]
            await asyncio.sleep(0.05)
            asked += [asyncio.create_task(store.write(f"key/{n}", b"2")) for n in range(10)]
            asked[3].cancel()
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in asked if task is not asked[3])
        with transactions(store) as found:
            await asyncio.wait(asked)
        assert [statement for statement in found if statement == "ROLLBACK"] == []
        values = [record.value for n in range(10) if (record := await store.read(f"key/{n}"))]
        assert values == [b"2"] * 10
        assert asked[3].cancelled()

    within(tmp_path, test)


def test_a_lock_that_does_not_end_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.2)

    async def test(store: SqliteStore) -> None:
        with locked(tmp_path):
            begun = time.monotonic()
            asked = [store.write(f"key/{n}", b"1") for n in range(20)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert time.monotonic() - begun < 2
            assert {type(answer) for answer in answers} == {StoreError}
            assert len({id(answer) for answer in answers}) == 20
        assert await store.write("key/0", b"1") is not None

    within(tmp_path, test)


def test_who_closes_the_store_waits_for_what_was_asked_before(tmp_path: Path) -> None:
    async def test(store: SqliteStore) -> None:
        asked = [asyncio.create_task(store.write(f"key/{n}", b"1")) for n in range(5)]
        await asyncio.sleep(0)
        await store.aclose()
        assert all(task.done() for task in asked)
        assert await store.read("key/4") is not None

    within(tmp_path, test)


@pytest.mark.parametrize("seed", range(5))
def test_in_any_order_each_compare_and_set_is_won_once(tmp_path: Path, seed: int) -> None:
    """Two stores of one file, as two processes have them, and writers that are cancelled at any time."""
    choose = random.Random(seed)  # noqa: S311 - no secret

    async def test(store: SqliteStore) -> None:
        stores = [store, SqliteStore(tmp_path / "file.db")]
        won: list[int] = []

        async def count(at: int) -> None:
            for _ in range(30):
                record = await stores[at].read("count")
                number = 0 if record is None else int(record.value)
                seen = 0 if record is None else record.version
                if await stores[at].write("count", b"%d" % (number + 1), seen=seen) is not None:
                    won.append(number + 1)
                await asyncio.sleep(choose.random() / 1000)

        tasks = [asyncio.create_task(count(n % 2)) for n in range(6)]
        await asyncio.sleep(0.02)
        lost = [tasks.pop().cancel() for _ in range(2)]
        await asyncio.gather(*tasks)
        record = await store.read("count")
        assert record is not None
        assert len(won) == len(set(won))
        assert len(won) <= int(record.value) <= len(won) + len(lost)
        await stores[1].aclose()

    within(tmp_path, test)


def test_a_loop_that_is_closed_while_something_waits_leaves_a_store_that_works(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "file.db")

    async def leave() -> None:
        await store.read("x")
        with locked(tmp_path):
            asking = asyncio.create_task(store.write("key", b"1"))
            await asyncio.sleep(0.01)
            asking.cancel()

    async def again() -> None:
        assert await store.write("key", b"2") is not None
        await store.aclose()

    asyncio.run(leave())
    asyncio.run(again())
