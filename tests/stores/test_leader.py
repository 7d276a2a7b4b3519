"""A job that one process runs at a time, of all that share a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.running import run, until
from mcprev.errors import StoreError
from mcprev.sharing.leader import LEASE, RENEW, run_as_leader


class Away(mcprev.MemoryStore):
    """A store that can be away."""

    away = False

    async def write(self, key: str, value: bytes, /, **options: Any) -> int | None:
        if self.away:
            raise StoreError("the store is away")
        return await super().write(key, value, **options)


def trial(test: Any) -> None:
    async def main() -> None:
        await test(Away(clock=asyncio.get_running_loop().time))

    run(main(), limit=600)


class Job:
    """A job that never ends by itself, and says where it runs."""

    def __init__(self) -> None:
        self.running: list[int] = []
        self.most = 0

    async def __call__(self, number: int) -> None:
        self.running.append(number)
        self.most = max(self.most, len(self.running))
        try:
            await asyncio.Event().wait()
        finally:
            self.running.remove(number)


def test_one_runs_and_another_takes_over() -> None:
    async def test(store: Away) -> None:
        job = Job()
        tasks = [asyncio.create_task(run_as_leader(store, "sweep", lambda n=n: job(n))) for n in range(3)]  # type: ignore[misc]
        other = asyncio.create_task(run_as_leader(store, "other", lambda: job(9)))
        await asyncio.sleep(2 * LEASE)
        assert sorted(job.running) == [0, 9]
        other.cancel()
        await asyncio.wait({other})
        job.most = 0
        for number in range(3):
            assert len(job.running) == 1
            first = job.running[0]
            tasks[first].cancel()
            await asyncio.wait({tasks[first]})
            await asyncio.sleep(2 * RENEW)
            assert len(job.running) == (number < 2)
        assert job.most == 1

    trial(test)


def test_who_cannot_renew_stops_before_another_begins() -> None:
    async def test(store: Away) -> None:
        job = Job()
        task = asyncio.create_task(run_as_leader(store, "sweep", lambda: job(0)))
        await asyncio.sleep(1)
        begun = asyncio.get_running_loop().time()
        store.away = True
        await until(lambda: not job.running)
        assert asyncio.get_running_loop().time() - begun < LEASE
        store.away = False
        await asyncio.sleep(LEASE + RENEW)
        assert job.running == [0]
        task.cancel()
        await asyncio.wait({task})

    trial(test)


async def closely(condition: Callable[[], bool]) -> None:
    """Look often, as what is looked for may last for a moment only."""
    while not condition():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.02)


@each_once
@pytest.mark.parametrize("seconds", [0.0, 1.0, 2.9, 4.9, 60.0])
@pytest.mark.parametrize("late", [0.0, 4.9, 9.9])
def test_however_late_the_store_answers_a_job_ends_before_the_lease_does(late: float, seconds: float) -> None:
    """The store has written the lease long before it says so, then it takes `seconds` to fail."""

    async def test(store: Away) -> None:
        job, loop = Job(), asyncio.get_running_loop()

        class Late(Away):
            written = float("-inf")

            async def write(self, key: str, value: bytes, /, **options: Any) -> int | None:
                if self.away:
                    await asyncio.sleep(seconds)
                    raise StoreError("the store is away")
                self.written = loop.time()
                found = await super().write(key, value, **options)
                await asyncio.sleep(late)
                return found

        slow = Late(clock=loop.time)
        task = asyncio.create_task(run_as_leader(slow, "sweep", lambda: job(0)))
        for _ in range(3):
            await closely(lambda: bool(job.running))
            slow.away = True
            await closely(lambda: not job.running)
            assert loop.time() < slow.written + LEASE - 3
            slow.away = False
        task.cancel()
        await asyncio.wait({task})

    trial(test)


def test_a_job_that_returns_or_raises_ends_it_here() -> None:
    async def test(store: Away) -> None:
        async def returns() -> None:
            await asyncio.sleep(1)

        async def raises() -> None:
            await asyncio.sleep(1)
            raise RuntimeError("the job failed")

        await run_as_leader(store, "sweep", returns)
        with pytest.raises(RuntimeError, match="the job failed"):
            await run_as_leader(store, "sweep", raises)
        await run_as_leader(store, "sweep", returns)

    trial(test)


def test_another_process_with_the_record_is_believed() -> None:
    """A process that was frozen for longer than its lease finds another one in the record, and stops."""

    async def test(store: Away) -> None:
        job = Job()
        task = asyncio.create_task(run_as_leader(store, "sweep", lambda: job(0)))
        await asyncio.sleep(1)
        await store.write("leader/sweep", b"another", ttl=LEASE)
        await asyncio.sleep(2 * RENEW)
        assert job.running == []
        task.cancel()
        await asyncio.wait({task})

    trial(test)
