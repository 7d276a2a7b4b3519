"""Stores of records: compare-and-set, times to live, bounds."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from mcprev import MemoryRecords, Record, Records, StoreError


@dataclass(slots=True)
class Clock:
    """A clock that tests turn."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Model:
    """What a store has to hold, in the plainest way: each record with the time of its end."""

    records: dict[str, tuple[Record, float]] = field(default_factory=dict[str, tuple[Record, float]])

    def read(self, key: str, now: float) -> Record | None:
        record, ends = self.records.get(key, (None, 0.0))
        return record if ends > now else None


@pytest.mark.parametrize("seed", range(10))
def test_a_store_does_what_a_plain_dictionary_with_times_does(seed: int) -> None:
    async def main() -> None:
        choose = random.Random(seed)  # noqa: S311 - no secret
        clock, model = Clock(), Model()
        store: Records = MemoryRecords(clock=clock)
        versions: set[int] = set()
        for step in range(500):
            key = choose.choice("abcd")
            there = model.read(key, clock.now)
            assert await store.read(key) == there
            current = 0 if there is None else there.version
            seen = choose.choice([None, 0, current, current, current + 1])
            fits = seen is None or seen == current
            match choose.randrange(4):
                case 0 | 1:
                    ttl = choose.choice([None, 0.5, 1.0, 20.0])
                    version = await store.write(key, b"%d" % step, seen=seen, ttl=ttl)
                    assert (version is not None) == fits
                    if version is not None:
                        assert version > 0
                        assert version not in versions
                        versions.add(version)
                        ends = float("inf") if ttl is None else clock.now + ttl
                        model.records[key] = (Record(b"%d" % step, version), ends)
                case 2:
                    assert await store.remove(key, seen=seen) == (fits and there is not None)
                    if fits:
                        model.records.pop(key, None)
                case _:
                    clock.now += choose.choice([0.1, 0.5, 1.0])

    asyncio.run(main())


def test_of_two_that_replace_one_version_one_wins() -> None:
    async def main() -> None:
        store = MemoryRecords()
        version = await store.write("key", b"first", seen=0)
        assert version is not None
        won = await asyncio.gather(*(store.write("key", b"%d" % n, seen=version) for n in range(5)))
        assert [number is not None for number in won].count(True) == 1

    asyncio.run(main())


def test_a_store_without_room_says_so_and_keeps_what_it_has() -> None:
    async def main() -> None:
        clock = Clock()
        store = MemoryRecords(max_bytes=2000, clock=clock)
        kept = await store.write("kept", b"x" * 500)
        assert await store.write("brief", b"x" * 500, ttl=1) is not None
        with pytest.raises(StoreError, match=r"is full.*raise `max_bytes`"):
            await store.write("more", b"x" * 500)
        with pytest.raises(StoreError, match="is full: it has"):
            await store.write("kept", b"x" * 1500)
        assert await store.read("kept") == Record(b"x" * 500, kept or 0)
        assert await store.read("more") is None
        assert await store.write("kept", b"x" * 501) is not None  # counts once, not twice
        clock.now += 1
        assert await store.write("more", b"x" * 500) is not None  # the time of another is over
        assert await store.remove("kept")
        assert await store.write("last", b"x" * 500) is not None

    asyncio.run(main())


def test_records_that_are_renewed_for_ever_take_no_more_room() -> None:
    async def main() -> None:
        store = MemoryRecords(max_bytes=5000)
        for _ in range(3000):
            await store.write("key", b"value", ttl=100)
        held = store._endings  # pyright: ignore[reportPrivateUsage] - the length of what no method shows
        assert len(held) < 200

    asyncio.run(main())
