"""Readers of logs when news of appends is late, lost or doubled, as `MemoryStore` can let it be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from helpers.running import run
from mcprev import LogBounds, LogItem, MemoryStore, StoreError

BOUNDS = LogBounds(ttl=60)


async def appended(store: MemoryStore, *, wait: float = 60.0) -> tuple[int, float]:
    """Append an item that a reader waits for; return the number that it got, and after how long."""
    loop = asyncio.get_running_loop()
    reading = asyncio.create_task(store.tail("log", 0, wait=wait))
    await asyncio.sleep(0.01)
    begun = loop.time()
    await store.append("log", [LogItem(b"1")], bounds=BOUNDS)
    return (await reading).last, loop.time() - begun


@pytest.mark.parametrize(
    ("store", "least", "most"),
    [
        (MemoryStore, 0.0, 5.0),
        (lambda: MemoryStore(notification_delay=0.5), 0.5, 5.0),
        (lambda: MemoryStore(duplicate_notifications=1), 0.0, 5.0),
        (lambda: MemoryStore(lose_notifications=1), 29.0, 31.0),
        (lambda: MemoryStore(lose_notifications=2), 0.0, 5.0),
    ],
    ids=["as it is", "late", "doubled", "lost", "every second lost"],
)
def test_news_of_an_append_comes_as_the_store_is_told(
    store: Callable[[], MemoryStore], least: float, most: float
) -> None:
    async def main() -> None:
        last, seconds = await appended(store(), wait=30)
        assert last == 1
        assert least <= seconds <= most

    run(main(), limit=100)


def test_doubled_and_late_news_gives_a_reader_each_item_once() -> None:
    async def main() -> None:
        store = MemoryStore(notification_delay=0.03, duplicate_notifications=2, lose_notifications=3)
        found: list[int] = []

        async def read() -> None:
            while len(found) < 20:
                found.extend(number for number, _ in (await store.tail("log", len(found), wait=1)).items)

        reading = asyncio.create_task(read())
        for _ in range(20):
            await store.append("log", [LogItem(b"1")], bounds=BOUNDS)
            await asyncio.sleep(0.02)
        await reading
        assert found == [*range(1, 21)]

    run(main(), limit=100)


def test_a_wait_is_bounded() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert (await MemoryStore().tail("log", 0, wait=1e9)).last == 0
        assert loop.time() - begun < 61

    run(main(), limit=100)


def test_a_reader_that_is_cancelled_leaves_nothing() -> None:
    async def main() -> None:
        store = MemoryStore()
        reading = [asyncio.create_task(store.tail("log", 0, wait=60)) for _ in range(2)]
        await asyncio.sleep(0.01)
        reading[0].cancel()
        await asyncio.wait(reading[:1])
        await store.append("log", [LogItem(b"1")], bounds=BOUNDS)
        assert (await reading[1]).last == 1
        assert not store._news.get().logs  # pyright: ignore[reportPrivateUsage] - what no method shows

    run(main(), limit=100)


def test_logs_in_memory_are_bounded_together_and_their_room_is_free_when_they_end() -> None:
    async def main() -> None:
        now = 0.0
        store = MemoryStore(max_bytes=5000, clock=lambda: now)
        await store.append("log", [LogItem(b"x" * 2000)], bounds=LogBounds(ttl=10))
        await store.append("other", [LogItem(b"x" * 1000)], bounds=LogBounds(ttl=20))
        with pytest.raises(StoreError, match=r"is full.*raise `max_bytes`"):
            await store.append("more", [LogItem(b"x" * 2000)], bounds=BOUNDS)
        assert (await store.tail("more", 0)).last == 0
        with pytest.raises(StoreError, match="is full: it has"):
            await store.write("record", b"x" * 2000)
        now = 10.0
        assert await store.append("more", [LogItem(b"x" * 2000)], bounds=BOUNDS) == 1
        assert (await store.tail("log", 0)).last == 0
        assert (await store.tail("other", 0)).last == 1

    run(main(), limit=100)
