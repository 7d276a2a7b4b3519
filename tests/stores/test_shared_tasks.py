"""The tasks of several workers on one store: compare-and-set, leases, claims, lists and quotas (TASK-4, TASK-5, TASK-7)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.running import run as run_within
from mcprev import MemoryRecords, MemoryStore, Record, Records, StoreError, open_store
from mcprev.errors import InternalError
from mcprev.protocol import tasks
from mcprev.protocol.tasks import Status, Task
from mcprev.sharing import leases, tasks as module
from mcprev.sharing.task_form import decode_task, encode_task
from mcprev.sharing.tasks import (
    GRACE,
    LEASE,
    LONGEST,
    REFUSED,
    RENEW,
    SHORTEST,
    SUSPECT,
    WORKER_LOST,
    SharedTasks,
)
from mcprev.sharing.watching import LONGEST_PAUSE
from mcprev.stores.prefixed import ServiceRecords
from stores.unreliable import Unreliable

MOST: Final = 3
"""The running tasks of one owner, in these tests."""
run: Final = partial(run_within, limit=10_000)  # the clock goes on by itself


class Worker(SharedTasks):
    """A worker as the tests see it: its tasks run until the test says otherwise."""

    def __init__(self, records: Records, most: int = MOST) -> None:
        self.ids: set[str] = set()
        super().__init__(records, self.ids, most)

    async def start(
        self, owner: str | None = "ann", ttl: int | None = 60_000, session: str | None = None
    ) -> Task:
        task = tasks.begin(time.time(), ttl=ttl, poll=None, owner=owner, session=session)
        task = replace(task, worker=self.worker)
        self.ids.add(task.id)
        try:
            version = await self.replace(task, 0)
        except BaseException:
            self.ids.discard(task.id)
            raise
        assert version is not None
        return replace(task, version=version)

    async def end(self, task: Task) -> Task | None:
        found = await self.change(task.id, lambda found: tasks.complete(found, {"content": []}, time.time()))
        self.ids.discard(task.id)
        return found

    async def attending(self) -> asyncio.Task[None]:
        async def look() -> bool:
            return False

        return asyncio.create_task(self.attend(look))


def note(to: list[Task], found: Task) -> bool:
    """Keep what is told of a task, until it ends."""
    to.append(found)
    return not found.ended


async def stop(*running: asyncio.Task[Any]) -> None:
    for each in running:
        each.cancel()
    await asyncio.wait(running)


# -- who works ---------------------------------------------------------------------------------------------


def test_a_task_of_a_worker_without_a_lease_has_failed_and_says_that_it_may_have_run() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other, third = Worker(store), Worker(store), Worker(store)
        task = await one.start()
        await asyncio.sleep(LEASE - 0.1)
        assert (await other.load(task.id)) == task
        await asyncio.sleep(0.2)
        assert (await other.load(task.id)) == task, "nobody is dead at first sight"
        await asyncio.sleep(SUSPECT + 0.1)
        found = await other.load(task.id)
        assert found is not None
        assert (found.status, found.error) == ("failed", WORKER_LOST)
        assert WORKER_LOST["data"] == {"reason": "worker_lost", "mayHaveRun": True}
        assert found == await third.load(task.id) == await one.load(task.id)
        # Whose death is known is not waited for again.
        second = await one._read((await one.start()).id)
        assert second is not None
        await store.remove(f"worker/{one.worker}")
        found = await other.load(second.id)
        assert found is not None
        assert found.status == "failed"

    run(main())


def test_a_worker_that_renews_its_lease_lives() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        task = await one.start()
        attending = await one.attending()
        for _ in range(20):
            await asyncio.sleep(2.5)
            assert await other.load(task.id) == task
        renewals = [key for key, _, _ in store.writes if key.startswith("worker/")]
        assert 50 / (RENEW + LONGEST_PAUSE) - 1 <= len(renewals) <= 50 / RENEW + 2
        await stop(attending)
        await asyncio.sleep(LEASE + 0.1)
        await other.load(task.id)
        await asyncio.sleep(SUSPECT + 0.1)
        found = await other.load(task.id)
        assert found is not None
        assert found.status == "failed"

    run(main())


def test_the_outage_of_a_store_ends_no_lease_of_those_who_live() -> None:
    """It lasts longer than a lease, and somebody looks as soon as it is over."""

    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        task = await one.start()
        attending = await one.attending()
        store.away = True
        await asyncio.sleep(3 * LEASE)
        store.away = False
        for _ in range(200):
            assert await other.load(task.id) == task
            await asyncio.sleep(0.05)
        await stop(attending)

    run(main())


@pytest.mark.parametrize("away", [0.5, 3.0, LEASE, 3 * LEASE])
def test_who_has_renewed_its_own_lease_for_long_enough_waits_no_longer(away: float) -> None:
    """Then the store was there, and a lease that is missing was not renewed. After an outage, it waits again."""

    async def main() -> None:
        store = Unreliable()
        one, other, judge = Worker(store), Worker(store), Worker(store)
        task, living = await one.start(), await other.start()
        await judge.start()
        attending = [await judge.attending(), await other.attending()]
        await asyncio.sleep(LEASE + RENEW)
        found = await judge.load(task.id)
        assert found is not None
        assert found.status == "failed", "at first sight"
        for _ in range(3):
            store.away = True
            await asyncio.sleep(away)
            store.away = False
            for _ in range(200):
                assert await judge.load(living.id) == living
                await asyncio.sleep(0.05)
        for each in attending:
            await stop(each)

    run(main())


def test_who_was_missing_once_and_then_seen_is_not_dead_the_next_time() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        task = await one.start()
        for _ in range(3):
            await store.remove(f"worker/{one.worker}")
            assert await other.load(task.id) == task
            await asyncio.sleep(SUSPECT / 2)
            await store.write(f"worker/{one.worker}", b"{}")
            assert await other.load(task.id) == task
            await asyncio.sleep(10 * SUSPECT)

    run(main())


def test_a_task_that_its_own_worker_does_not_run_has_failed() -> None:
    async def main() -> None:
        one = Worker(Unreliable())
        task = await one.start()
        one.ids.clear()
        found = await one.load(task.id)
        assert found is not None
        assert found.error == WORKER_LOST

    run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_forked_workers_have_names_of_their_own_and_do_not_end_each_other_s_tasks() -> None:
    """As with a server that is made before its workers are forked: `gunicorn --preload`."""
    store = MemoryRecords()
    one = Worker(store)
    asyncio.run(one.start())
    names = {one.worker}
    for _ in range(2):
        receive, send = os.pipe()
        child = os.fork()
        if not child:
            asyncio.run(one.start())
            alive = store._found(f"worker/{one.worker}") is not None
            os.write(send, (one.worker if alive else "-").encode())
            os._exit(0)
        os.waitpid(child, 0)
        names.add(os.read(receive, 100).decode())
        os.close(receive)
        os.close(send)
    assert len(names - {"-"}) == 3
    assert one.worker in names


class Blocked:
    """An event loop that a handler blocks, and what others see of its lease meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (("LEASE", 0.3), ("RENEW", 0.05), ("LONGEST_PAUSE", 0.02)):
            monkeypatch.setattr(module, name, value)

    def seen(self, records: Records, look: Callable[[str], bool], seconds: float) -> tuple[bool, int]:
        """Block a loop for so long; whether the lease was there at its end, and the threads afterwards."""

        async def main() -> bool:
            worker = Worker(records)
            await worker.start()
            attending = await worker.attending()
            await asyncio.sleep(0.1)
            time.sleep(seconds)  # noqa: ASYNC251 - a handler that blocks
            found = look(worker.worker)
            await stop(attending)
            return found

        found = asyncio.run(main())
        for thread in threading.enumerate():
            if thread.name == "mcprev lease":
                thread.join(5)
        return found, sum(thread.name == "mcprev lease" for thread in threading.enumerate())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_handler_that_blocks_the_loop_does_not_end_the_lease(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = MemoryStore() if kind == "memory" else open_store(f"sqlite:///{tmp_path}/file")
    records, released = ServiceRecords(store, "s"), list[str]()

    async def release() -> None:
        released.append(threading.current_thread().name)
        await store.aclose()

    records.release = release

    def look(name: str) -> bool:
        found: list[Record | None] = []

        async def read() -> None:
            found.append(await records.read(f"worker/{name}"))
            await store.aclose()

        thread = threading.Thread(target=lambda: asyncio.run(read()))
        thread.start()
        thread.join()
        return found[0] is not None

    assert Blocked(monkeypatch).seen(records, look, 1.0) == (True, 0)
    assert set(released) == {"mcprev lease"}, "it leaves no connection behind"


def test_a_loop_that_is_blocked_for_too_long_counts_as_dead(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leases, "STUCK", 0.2)
    store = MemoryStore()
    records = ServiceRecords(store, "s")

    def look(name: str) -> bool:
        return store._found(records._prefix + f"worker/{name}") is not None

    assert Blocked(monkeypatch).seen(records, look, 1.0) == (False, 0)
    assert "has been blocked for" in caplog.text


def test_tasks_that_follow_each_other_share_one_thread_which_ends_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To start one takes longer than many a task."""
    monkeypatch.setattr(module, "RENEW", 0.2)

    async def main() -> set[threading.Thread]:
        worker = Worker(ServiceRecords(MemoryStore(), "s"))
        await worker.start()
        found = set[threading.Thread]()
        for _ in range(20):
            attending = await worker.attending()
            await asyncio.sleep(0)
            found |= {thread for thread in threading.enumerate() if thread.name == "mcprev lease"}
            await stop(attending)
        return found

    for _ in range(2):
        (thread,) = asyncio.run(main())
        thread.join(5)
        assert not thread.is_alive()


def test_a_store_that_belongs_to_one_loop_is_used_by_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    records = MemoryRecords()

    def look(name: str) -> bool:
        assert not [thread for thread in threading.enumerate() if thread.name == "mcprev lease"]
        return records._found(f"worker/{name}") is not None

    assert Blocked(monkeypatch).seen(records, look, 0.5) == (False, 0)


def test_a_task_that_has_ended_is_read_and_nothing_more() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        task = await one.end(await one.start())
        assert task is not None
        await store.remove(f"worker/{one.worker}")
        reads, writes = len(store.reads), len(store.writes)
        for worker in (one, other):
            assert await worker.load(task.id) == task
        assert (len(store.reads), len(store.writes)) == (reads + 2, writes)

    run(main())


# -- compare-and-set ---------------------------------------------------------------------------------------


class Race:
    """A task that its runner, clients at other workers and an unreliable store work on at once."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)  # noqa: S311 - no secret
        self.store = Unreliable()
        self.workers = [Worker(self.store) for _ in range(3)]
        self.given: dict[str, int] = {}
        """Who has answered, by question."""
        self.ends: set[Status] = set()
        self.id = ""

    async def pause(self, _name: str, _key: str) -> None:
        for _ in range(self.choose.randrange(4)):
            await asyncio.sleep(0)

    async def change(self, who: int, change: Callable[[Task], Task]) -> None:
        with suppress(StoreError):  # it may have been carried out
            await self.workers[who].change(self.id, change)

    async def ended(self) -> bool:
        """Whether the task has ended; what has been seen of it before is so still."""
        found = await self.store.held.read(f"task/{module._hash(self.id)}")
        assert found is not None
        latest = decode_task(found)
        for name, value in latest.given.items():
            assert self.given.setdefault(name, value["result"]["by"]) == value["result"]["by"]
        if latest.ended:
            self.ends.add(latest.status)
        assert latest.ended is bool(self.ends)
        assert len(self.ends) <= 1
        return latest.ended

    async def client(self, who: int) -> None:
        for _ in range(12):
            answer = {f"k{self.choose.randrange(8)}": {"result": {"by": who}}}
            await self.change(who, lambda found, answer=answer: tasks.give(found, answer, time.time()))  # type: ignore[misc]
            if not await self.ended() and self.choose.random() < 0.03:
                await self.change(who, lambda found: tasks.cancel(found, time.time()))

    async def runner(self) -> None:
        for number in range(8):

            def ask(found: Task, key: str = f"k{number}") -> Task:
                return found if key in found.used else tasks.require_input(found, key, {}, time.time())

            await self.change(0, ask)
        await self.change(0, lambda found: tasks.complete(found, {"content": []}, time.time()))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_several_workers_do_no_answer_is_overwritten_and_the_first_end_stays(seed: int) -> None:
    async def main() -> None:
        race = Race(seed)
        race.id = (await race.workers[0].start()).id
        race.store.before = race.pause
        race.store.deaf = lambda _: race.choose.random() < 0.1
        await asyncio.gather(race.runner(), race.client(1), race.client(2))
        await race.ended()

    run(main())


def test_a_change_that_others_overtake_all_the_time_fails_in_bounded_time() -> None:
    async def main() -> None:
        store = Unreliable()
        one = Worker(store)
        task = await one.start()
        name = f"task/{module._hash(task.id)}"

        async def overtake(operation: str, key: str) -> None:
            if operation == "write" and key == name:
                await store.held.write(name, encode_task(task))

        store.before = overtake
        with pytest.raises(StoreError, match="keep changing"):
            await one.change(task.id, lambda found: tasks.set_status(found, "x", time.time()))
        one.ids.clear()
        with pytest.raises(StoreError, match="keep changing"):
            await one.load(task.id)

    run(main())


@pytest.mark.parametrize("seed", range(20))
def test_a_task_is_read_as_it_was_stored(seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311 - no secret
    values: list[Any] = [None, True, 1, 1.0, "1", "\ud800", [], {}, {"a": [1, {"b": None}]}, "\x00é"]
    task = Task(
        choose.choice(["a", "\u2028"]),
        choose.random(),
        choose.random() * 1e9,
        choose.choice([None, 0, 2**53]),
        choose.choice([None, 5]),
        choose.choice([None, "ann"]),
        choose.choice([None, "s"]),
        choose.choice(list(Status)),
        choose.choice([None, "at it"]),
        {"k": choose.choice(values)},
        frozenset(choose.sample(["k", "l", "m"], 2)),
        choose.choice([None, {"r": choose.choice(values)}]),
        choose.choice([None, {"code": 1, "message": "x"}]),
        {"l": choose.choice(values)},
        choose.choice([None, "w"]),
        7,
    )
    found = decode_task(Record(encode_task(task), 7))
    assert found == task
    assert repr(found.result) == repr(task.result), "1, 1.0 and True are not the same"


@pytest.mark.parametrize(
    "value",
    [b"", b"[]", b"{}", b"7", b'{"format": 2}', b'{"format": []}', b'{"format": 1}', b"\xff"],
)
def test_a_record_that_holds_something_else_is_an_error_of_the_store(value: bytes) -> None:
    with pytest.raises(StoreError, match=r"in the store|the store has an invalid value"):
        decode_task(Record(value, 1))

    async def main() -> None:
        store = Unreliable()
        one = Worker(store)
        await store.write(f"task/{module._hash('x')}", value)
        with pytest.raises(StoreError):
            await one.load("x")
        await store.write(str(module._list_of("ann", None)), value)
        with pytest.raises(StoreError):
            await one.page("ann", None, None, 5)
        with pytest.raises(StoreError):
            await one.start()

    run(main())


def test_a_task_that_has_ended_keeps_neither_questions_nor_answers() -> None:
    task = tasks.begin(0, ttl=None, poll=None, owner=None, session=None)
    for key in "abc":
        task = tasks.require_input(task, key, {}, 0)
    for key in "ab":  # the second one comes before the handler has taken the first
        task = tasks.give(task, {key: {"result": {"secret": key}}}, 0)
    task = tasks.give(task, {"a": {"result": {"secret": "another"}}, "x": {"result": {}}}, 0)
    assert set(task.asked) == {"c"}
    assert task.given == {key: {"result": {"secret": key}} for key in "ab"}
    for ended in (tasks.complete(task, {}, 0), tasks.fail_task(task, {}, 0), tasks.cancel(task, 0)):
        assert (ended.asked, ended.given) == ({}, {})


def test_a_task_of_another_form_is_refused_with_both_forms() -> None:
    """Another version of the library has stored it."""
    task = tasks.begin(0, ttl=None, poll=None, owner=None, session=None)
    value = json.dumps({**json.loads(encode_task(task)), "format": 2}).encode()
    with pytest.raises(StoreError, match="has the form 2, not 1"):
        decode_task(Record(value, 1))


def test_a_record_of_another_task_is_no_answer() -> None:
    async def main() -> None:
        store = Unreliable()
        one = Worker(store)
        await store.write(f"task/{module._hash('x')}", encode_task(await one.start()))
        assert await one.load("x") is None

    run(main())


def test_the_store_learns_neither_the_ids_of_tasks_nor_owners_from_keys() -> None:
    async def main() -> None:
        store = Unreliable()
        one = Worker(store)
        task = await one.start("ann", session="session")
        async with one.claim(task, "question"):
            pass
        assert {key.partition("/")[0] for key, _, _ in store.writes} == {"task", "tasks", "worker", "claim"}
        for key, _, _ in store.writes:
            assert not any(name in key for name in (task.id, "ann", "session", "question"))

    run(main())


def test_how_long_records_are_kept() -> None:
    async def main() -> None:
        store = Unreliable()
        one = Worker(store, 10)

        def kept(kind: str) -> float | None:
            return [ttl for key, _, ttl in store.writes if key.startswith(kind + "/")][-1]

        task = await one.start(ttl=60_000)
        assert kept("task") == pytest.approx(60 + GRACE, abs=1)
        assert kept("tasks") == pytest.approx(60 + GRACE, abs=1)
        assert kept("worker") == LEASE
        await one.end(task)
        assert kept("task") == pytest.approx(60, abs=1)
        await one.start(ttl=0)
        assert kept("tasks") == pytest.approx(60 + GRACE, abs=1), "as long as the longest of its tasks"
        task = await one.start(ttl=None)
        assert kept("task") == LONGEST
        assert kept("tasks") == pytest.approx(LONGEST, abs=1)
        await one.end(task)
        assert kept("task") == LONGEST
        task = await one.start(ttl=0)
        await one.end(task)
        assert kept("task") == SHORTEST
        await asyncio.sleep(SHORTEST + 0.1)
        assert await one.load(task.id) is None
        async with one.claim(task, "k"):
            assert kept("claim") == LEASE

    run(main())


# -- lists and quotas --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_an_owner_has_at_most_so_many_running_tasks_at_all_workers_together(seed: int) -> None:
    async def main() -> None:
        choose = random.Random(seed)  # noqa: S311 - no secret
        store = Unreliable()
        workers = [Worker(store) for _ in range(3)]
        running: dict[str, dict[str, tuple[Worker, Task]]] = {"ann": {}, "eve": {}}
        started = dict.fromkeys(running, 0)

        async def pause(name: str, key: str) -> None:
            for _ in range(choose.randrange(3)):
                await asyncio.sleep(0)

        store.before = pause

        async def client(worker: Worker, owner: str) -> None:
            for _ in range(6):
                if running[owner] and choose.random() < 0.3:
                    _, (by, task) = running[owner].popitem()
                    await by.end(task)
                    continue
                try:
                    task = await worker.start(owner)
                except InternalError:
                    await asyncio.sleep(REFUSED)
                    continue
                running[owner][task.id] = (worker, task)
                started[owner] += 1
                assert len(running[owner]) <= MOST

        async with asyncio.TaskGroup() as group:
            for worker in workers:
                for owner in running:
                    group.create_task(client(worker, owner))
        await asyncio.sleep(REFUSED)
        for owner, each in running.items():
            assert started[owner] >= MOST
            # What has ended leaves room, whoever ran it.
            for by, task in each.values():
                await by.end(task)
            for worker in workers:
                await worker.start(owner)

    run(main())


def test_tasks_of_a_dead_worker_leave_room() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        for _ in range(MOST):
            await one.start()
        with pytest.raises(InternalError):
            await other.start()
        await asyncio.sleep(LEASE + 0.1)
        with pytest.raises(InternalError):
            await other.start()
        await asyncio.sleep(SUSPECT + 0.1)
        await other.start()

    run(main())


def test_who_is_refused_again_and_again_does_not_keep_the_store_busy() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store, 50), Worker(store, 50)
        attending = await one.attending()
        for _ in range(50):
            await one.start()
        before = len(store.reads)
        for _ in range(100):
            with pytest.raises(InternalError, match="too many"):
                await other.start()
        assert len(store.reads) - before < 250
        await other.start("bob")
        await other.start(None, session="s")
        await asyncio.sleep(REFUSED)
        assert await one.end((await one.page("ann", None, None, 1) or [])[0])
        await other.start()
        await stop(attending)

    run(main())


def test_a_task_that_is_refused_or_cannot_be_listed_is_not_stored() -> None:
    async def main() -> None:
        store = Unreliable()
        one = Worker(store, 1)
        await one.start()
        with pytest.raises(InternalError):
            await one.start()
        lists = str(module._list_of("bob", None))

        async def fail(name: str, key: str) -> None:
            if name == "write" and key == lists:
                raise StoreError("away")

        store.before = fail
        with pytest.raises(StoreError):
            await one.start("bob")
        held = [key for key in vars(store.held)["_held"] if key.startswith("task/")]
        assert len(held) == 1

    run(main())


def test_a_list_has_each_owner_s_tasks_in_order_and_no_others_page_by_page() -> None:
    async def main() -> None:
        store = Unreliable()
        workers = [Worker(store, 50) for _ in range(3)]
        mine: list[str] = []
        for number in range(20):
            worker = workers[number % 3]
            mine.append((await worker.start("ann", session=f"s{number}")).id)
            await worker.start("eve", session=f"s{number}")
            await worker.start(None, session="ann")
        sessions = await workers[0].list(None, "ann")
        assert len(sessions) == 20
        assert await workers[0].list(None, "other") == []
        assert await workers[0].list(None, None) == []
        for worker in workers:
            assert [task.id for task in await worker.list("ann", "whatever")] == mine
            seen: list[str] = []
            while page := await worker.page("ann", None, seen[-1] if seen else None, 7):
                assert len(page) <= 7
                seen += [task.id for task in page]
            assert seen == mine
            strange: list[object] = ["nobody", 7, [], sessions[0].id]
            for odd in strange:
                assert await worker.page("ann", None, odd, 7) is None

    run(main())


def test_a_list_that_names_a_task_of_somebody_else_does_not_show_it() -> None:
    """Whoever has put it there."""

    async def main() -> None:
        store = Unreliable()
        one = Worker(store)
        mine, theirs = await one.start("ann"), await one.start("eve")
        value = json.dumps({"tasks": [[mine.id, True], [theirs.id, True]], "ends": time.time() + 60})
        await store.write(str(module._list_of("ann", None)), value.encode())
        assert [task.id for task in await one.list("ann", None)] == [mine.id]

    run(main())


def test_no_task_is_missing_from_a_list_to_which_several_add_at_once() -> None:
    async def main() -> None:
        store = Unreliable()
        workers = [Worker(store, 100) for _ in range(3)]
        started = await asyncio.gather(*(worker.start() for worker in workers for _ in range(8)))
        found = await workers[0].list("ann", None)
        assert {task.id for task in found} == {task.id for task in started}

    run(main())


def test_a_long_list_loses_what_is_gone_then_the_oldest_that_have_ended_and_never_what_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LISTED", 20)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.1)

    async def main() -> None:
        store = Unreliable()
        one = Worker(store, 50)
        attending = await one.attending()
        running = [await one.start() for _ in range(3)]
        ended = [await one.start() for _ in range(8)]
        for task in ended:
            await one.end(task)
        gone = [await one.start(ttl=0) for _ in range(9)]
        for task in gone:
            await one.end(task)
        await asyncio.sleep(SHORTEST + 1)
        more = [await one.start() for _ in range(9)]
        assert [task.id for task in await one.list("ann", None)] == [
            task.id for task in (*running, *ended, *more)
        ], "first that is dropped which is gone"
        for task in more:
            await one.end(task)
        last = await one.start()
        left = [task.id for task in await one.list("ann", None)]
        # Of 20 two had to go, and the new one came.
        assert left == [task.id for task in (*running, *ended[2:], *more, last)]
        for task in ended[:2]:
            assert await one.load(task.id) is None
        await stop(attending)

    run(main())


def test_a_list_that_is_full_loses_those_that_are_gone_also_where_it_knows_their_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LISTED", 3)

    async def main() -> None:
        one = Worker(Unreliable())
        ended, running = await one.start(), await one.start()
        await one.end(ended)
        entries = [(ended.id, False), ("gone", False), (running.id, True)]
        assert await one._tidied(entries) == [(ended.id, False), (running.id, True)]
        monkeypatch.setattr(module, "MAX_LISTED", 4)
        assert await one._tidied(entries) == entries, "nothing is read for a list that has room"

    run(main())


def test_a_list_is_kept_for_a_bounded_time_though_a_clock_was_years_ahead() -> None:
    async def main() -> None:
        store = Unreliable()
        one = Worker(store)
        with pytest.MonkeyPatch.context() as patch:
            true = time.time
            patch.setattr(time, "time", lambda: true() + 1e9)
            await one.start()
        await one.start()
        assert max(ttl or 0 for key, _, ttl in store.writes if key.startswith("tasks/")) <= LONGEST

    run(main())


def test_tasks_of_nobody_are_in_no_list_and_count_for_nobody() -> None:
    async def main() -> None:
        store = Unreliable()
        one = Worker(store)
        for _ in range(MOST + 1):
            await one.start(None)
        assert not [key for key, _, _ in store.writes if key.startswith("tasks/")]

    run(main())


def test_a_list_of_tasks_that_are_gone_is_not_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIDY", 10)

    async def main() -> None:
        store = Unreliable()
        one = Worker(store, 50)
        attending = await one.attending()
        first = await one.start()
        gone = [await one.start(ttl=0) for _ in range(12)]
        last = await one.start()
        for task in gone:
            await one.end(task)
        await asyncio.sleep(SHORTEST + 1)
        for reads in (15, 3):
            before = len(store.reads)
            assert [task.id for task in await one.list("ann", None)] == [first.id, last.id]
            assert len([key for key in store.reads[before:] if key.startswith("task")]) == reads
        await stop(attending)

    run(main())


# -- waiting -----------------------------------------------------------------------------------------------


def test_a_quiet_task_is_looked_up_seldom_however_many_wait_for_it() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        attending = await one.attending()
        task = await one.start()
        told: list[list[Task]] = [[] for _ in range(30)]
        following = [asyncio.create_task(other.follow(task, partial(note, to))) for to in told]
        await asyncio.sleep(5)
        before = len(store.reads)
        await asyncio.sleep(10)
        reads = [key for key in store.reads[before:] if key.startswith("task/")]
        assert 10 <= len(reads) <= 10 / (LONGEST_PAUSE / 2) + 2
        assert all(
            each == [task] * len(each) for each in told
        ), "told once a second, though nothing has changed"
        assert all(len(each) >= 10 for each in told)
        await one.end(task)
        await asyncio.wait(following)
        assert {each[-1].status for each in told} == {"completed"}
        await stop(attending)

    run(main())


def test_a_change_of_this_process_is_seen_at_once_and_one_of_another_within_a_second() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        attending = await one.attending()
        for worker, within in ((one, 0.0), (other, 2 * LONGEST_PAUSE)):
            task = await one.start()
            seen: asyncio.Future[float] = asyncio.get_running_loop().create_future()

            def tell(found: Task, seen: asyncio.Future[float] = seen) -> bool:
                if found.ended:
                    seen.set_result(asyncio.get_running_loop().time())
                return not found.ended

            following = asyncio.create_task(worker.follow(task, tell))
            await asyncio.sleep(3)
            await one.end(task)
            ended = asyncio.get_running_loop().time()
            assert await seen - ended <= within + 0.01
            await following
        await stop(attending)

    run(main())


def test_those_who_follow_a_task_ride_out_an_outage_and_say_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        attending = await one.attending()
        task = await one.start()
        told: list[Task] = []
        following = asyncio.create_task(other.follow(task, partial(note, told)))
        await asyncio.sleep(1)
        store.away = True
        await asyncio.sleep(10 * LEASE)
        store.away = False
        await asyncio.sleep(2)
        assert not following.done()
        await one.end(task)
        await following
        assert told[-1].status == "completed"
        await stop(attending)

    run(main())
    errors = [each.message for each in caplog.records if each.levelname == "ERROR"]
    assert errors.count("a task cannot be looked up; the store is asked again: the store is away") == 1
    assert errors.count("a running task cannot be looked up: the store is away") == 1


def test_who_waits_for_a_result_rides_out_a_short_outage_and_fails_in_a_long_one() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        attending = await one.attending()
        task = await one.start()

        async def wait() -> Task | None:
            async for found in other.looks(task):
                if found.ended:
                    return found
            return None

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(1)
        store.away = True
        await asyncio.sleep(LEASE / 2)
        store.away = False
        await asyncio.sleep(2)
        assert not waiting.done()
        await asyncio.sleep(5 * LEASE)
        store.away = True
        await asyncio.sleep(LEASE / 2)
        store.away = False
        await asyncio.sleep(2)
        assert not waiting.done(), "each outage has its own time"
        store.away = True
        await asyncio.wait({waiting}, timeout=2 * LEASE)
        assert isinstance(waiting.exception(), StoreError)
        store.away = False
        store.lose_everything()
        assert await wait() is None, "a task that is gone is waited for no longer"
        await stop(attending)

    run(main())


# -- claims ------------------------------------------------------------------------------------------------


def test_one_worker_at_a_time_may_ask_a_question() -> None:
    async def main() -> None:
        store = Unreliable()
        workers = [Worker(store) for _ in range(4)]
        task = await workers[0].start()
        asking = asked = 0

        async def ask(worker: Worker) -> None:
            nonlocal asking, asked
            for _ in range(10):
                async with (
                    worker.claim(task, "one") as claimed,
                    worker.claim(task, f"other {id(worker)}") as other,
                ):
                    assert other
                    if claimed:
                        asking += 1
                        asked += 1
                        assert asking == 1
                        await asyncio.sleep(3 * LEASE)  # the client takes its time
                        asking -= 1
                await asyncio.sleep(0.1)

        await asyncio.gather(*(ask(worker) for worker in workers))
        assert asked >= 4

    run(main())


def test_the_claim_of_a_dead_worker_ends_with_its_lease() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        task = await one.start()
        claim = one.claim(task, "one")
        assert await claim.__aenter__()
        renewing = [each for each in asyncio.all_tasks() if "renew" in repr(each.get_coro())]
        await stop(*renewing)  # the process is killed
        async with other.claim(task, "one") as claimed:
            assert not claimed
        await asyncio.sleep(LEASE + 0.1)
        async with other.claim(task, "one") as claimed:
            assert claimed
        await claim.__aexit__(None, None, None)

    run(main())


def test_a_worker_that_was_frozen_takes_no_claim_from_the_next_one() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other, third = Worker(store), Worker(store), Worker(store)
        task = await one.start()
        frozen = True

        async def freeze(name: str, key: str) -> None:
            while frozen and key.startswith("claim/"):  # noqa: ASYNC110 - the clock of the test goes on
                await asyncio.sleep(0.1)

        async def is_of(name: str, value: bytes) -> None:
            for _ in range(40):
                await asyncio.sleep(LEASE / 20)
                found = await store.read(name)
                assert found is not None
                assert found.value == value, "it is still of the other one"
            async with third.claim(task, "one") as wrong:
                assert not wrong

        next_one = other.claim(task, "one")
        async with one.claim(task, "one") as claimed:
            assert claimed
            store.before = freeze
            await asyncio.sleep(RENEW + LEASE + 1)
            store.before = None
            assert await next_one.__aenter__(), "the first one has not renewed it in time"
            name, value, _ = store.writes[-1]
            frozen = False
            await is_of(name, value)
        await is_of(name, value)
        await next_one.__aexit__(None, None, None)
        async with third.claim(task, "one") as claimed:
            assert claimed

    run(main())


def test_a_claim_is_kept_where_it_is_unknown_whether_it_was_renewed(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        task = await one.start()
        async with one.claim(task, "one") as claimed:
            assert claimed
            store.deaf = lambda key: key.startswith("claim/")
            await asyncio.sleep(RENEW + 0.5)
            store.deaf = lambda _: False
            await asyncio.sleep(3 * LEASE)
            async with other.claim(task, "one") as wrong:
                assert not wrong
        async with other.claim(task, "one") as claimed:
            assert claimed

    run(main())
    assert "cannot be renewed" in caplog.text


def test_a_claim_that_cannot_be_removed_ends_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        task = await one.start()
        async with one.claim(task, "one") as claimed:
            assert claimed
            store.away = True
        store.away = False
        await asyncio.sleep(LEASE + 0.1)
        async with other.claim(task, "one") as claimed:
            assert claimed

    run(main())
    assert "it ends by itself" in caplog.text


def test_what_is_stored_is_json() -> None:
    async def main() -> None:
        store = Unreliable()
        one = Worker(store)
        task = await one.start()
        async with one.claim(task, "one"):
            pass
        for _, value, _ in store.writes:
            json.loads(value)

    run(main())
