"""Calls that several workers count together, and services that share a store without sharing anything in it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

import mcprev
from api.wire import served
from fuzz.fuzzing import each_once
from helpers.named import ROW_E
from helpers.running import run as run_within
from mcprev import Records, StoreError
from mcprev.sharing import counting as module
from mcprev.sharing.counting import PARTS, count_call
from mcprev.stores import prefixed
from mcprev.stores.prefixed import ServiceRecords
from stores.unreliable import Unreliable, loop_time

run: Final = partial(run_within, limit=100_000)


class Clock:
    """The time of day, as a worker has it whose clock is `apart` from the loop's."""

    apart = 0.0

    def time(self) -> float:
        return 1e9 + loop_time() + self.apart


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


@each_once
@pytest.mark.parametrize("apart", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(20))
def test_no_window_has_more_calls_than_allowed_at_all_workers_together(
    seed: int, apart: float, clock: Clock
) -> None:
    """Several workers at once, at any times. With clocks that differ, all that is said is how much is let through."""

    async def main() -> None:
        choose = random.Random(seed)  # noqa: S311 - no secret
        store = Unreliable()
        most, seconds = choose.choice([(1, 1.0), (3, 10.0), (20, 60.0), (7, 3600.0)])
        allowed: list[float] = []

        async def pause(name: str, key: str) -> None:
            for _ in range(choose.randrange(3)):
                await asyncio.sleep(0)

        store.before = pause

        async def worker(ahead: float) -> None:
            for _ in range(60):
                clock.apart = ahead
                waits = await count_call(store, ("rate", "ann"), most, seconds)
                assert 0 <= waits <= seconds + 2 * seconds / PARTS
                if waits == 0:
                    allowed.append(loop_time())
                await asyncio.sleep(choose.choice([0, seconds / 50, seconds / 9, seconds / 3]))

        await asyncio.gather(worker(0), worker(apart), worker(-apart))
        assert len(allowed) >= most
        for at in allowed:
            within = sum(at <= other < at + seconds for other in allowed)
            assert within <= (most if not apart else 3 * most)

    run(main())


@pytest.mark.parametrize(("most", "seconds"), [(1, 1.0), (5, 60.0)])
def test_who_waits_as_long_as_it_is_told_is_allowed_and_not_much_later_than_needed(
    most: int, seconds: float, clock: Clock
) -> None:
    async def main() -> None:
        store = Unreliable()
        for _ in range(20):
            begun = loop_time()
            for _ in range(most):
                assert await count_call(store, ("x",), most, seconds) == 0
            waits = await count_call(store, ("x",), most, seconds)
            assert waits > 0
            assert await count_call(store, ("y",), most, seconds) == 0
            await asyncio.sleep(waits)
            assert seconds <= loop_time() - begun <= seconds * (1 + 2 / PARTS) + 0.01
            await store.remove(next(key for key, _, _ in store.writes[-1:]))

    run(main())


def test_a_clock_that_is_far_ahead_keeps_others_out_for_one_window_at_most(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        clock.apart = 86_400.0
        assert await count_call(store, ("x",), 1, 60.0) == 0
        clock.apart = 0.0
        waits = await count_call(store, ("x",), 1, 60.0)
        assert 0 < waits <= 60 * (1 + 2 / PARTS)
        await asyncio.sleep(waits)
        assert await count_call(store, ("x",), 1, 60.0) == 0

    run(main())


def test_what_clocks_differ_by_lets_nobody_have_twice_as_much_again_and_again(clock: Clock) -> None:
    """A worker whose clock is ahead by more than the window does not forget what the other one has counted."""

    async def main() -> None:
        store = Unreliable()
        allowed = dict.fromkeys((0.0, 5.0), 0)
        for _ in range(100):
            for ahead in allowed:
                clock.apart = ahead
                allowed[ahead] += await count_call(store, ("x",), 2, 1.0) == 0
            await asyncio.sleep(0.1)
        assert sum(allowed.values()) <= 2 * 10 + 4
        assert min(allowed.values()) >= 5, "neither of them keeps the other one out"

    run(main())


def test_a_count_is_small_and_ends_after_its_window(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        for _ in range(500):
            await count_call(store, ("ann",), 10_000, 60.0)
            await asyncio.sleep(0.7)
        key, value, ttl = store.writes[-1]
        assert "ann" not in key
        assert len(json.loads(value)) <= PARTS + 1
        assert ttl == pytest.approx(60 * (1 + 2 / PARTS))
        assert len({key for key, _, _ in store.writes}) == 1

    run(main())


def test_many_calls_at_once_are_all_counted(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        waits = await asyncio.gather(*(count_call(store, ("x",), 100, 60.0) for _ in range(200)))
        assert waits.count(0) == 100

    run(main())


@pytest.mark.parametrize("value", [b"", b"[]", b"7", b'{"x": 1}', b'{"1": "x"}', b'{"1": null}', b"\xff"])
def test_a_record_that_holds_something_else_is_an_error_of_the_store(value: bytes, clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        await count_call(store, ("x",), 1, 60.0)
        await store.write(store.writes[-1][0], value)
        with pytest.raises(StoreError, match="an invalid value for a count"):
            await count_call(store, ("x",), 1, 60.0)

    run(main())


def test_a_count_that_others_overtake_all_the_time_fails_in_bounded_time(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()

        async def overtake(name: str, key: str) -> None:
            if name == "write":
                await store.held.write(key, b"{}")

        store.before = overtake
        with pytest.raises(StoreError, match="keep changing"):
            await count_call(store, ("x",), 1, 60.0)

    run(main())


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("ab",), ("a,b",), ("a", "b", "")])
def test_counts_of_other_names_are_apart(names: tuple[str, ...], clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        others: list[tuple[str, ...]] = [("a", "b"), ("b", "a"), ("ab",), ("a,b",), ("a", "b", "")]
        for other in others:
            assert await count_call(store, other, 1, 60.0) == 0
        assert await count_call(store, names, 1, 60.0) > 0

    run(main())


# -- servers -----------------------------------------------------------------------------------------------


def limited(store: Records | None, name: str = "s") -> mcprev.App:
    app = mcprev.App(name, "1", store=store, middleware=[mcprev.RateLimit("3/hour")])

    @app.tool
    async def ping() -> str:
        return "pong"

    return app


def test_a_rate_limit_counts_the_calls_of_all_workers_of_its_service_together() -> None:
    pytest.importorskip("limits")

    async def main() -> None:
        store = Unreliable()
        apps = [limited(store), limited(store), limited(store, "another"), limited(None)]

        async def calls(app: mcprev.App) -> list[bool]:
            found: list[bool] = []
            async with served(app.server, ROW_E) as hand:
                for _ in range(2):
                    result = (await hand.ask("tools/call", {"name": "ping", "arguments": {}})).result
                    found.append(bool(result.get("isError")))
            return found

        assert [await calls(app) for app in (*apps, apps[0])] == [
            [False, False], [False, True], [False, False], [False, False], [True, True],
        ]  # fmt: skip
        store.away = True
        async with served(apps[0].server, ROW_E) as hand:
            result = (await hand.ask("tools/call", {"name": "ping", "arguments": {}})).message
            assert "pong" not in json.dumps(result), "what cannot be counted is not let through"
        store.away = False
        for app in apps:
            await app.server.aclose()
        await asyncio.sleep(0.01)

    run(main())


# -- services ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_services_of_one_store_neither_see_nor_change_each_other_s_records(seed: int) -> None:
    async def main() -> None:
        choose = random.Random(seed)  # noqa: S311 - no secret
        store = Unreliable()
        names = ["a", "b", "a/", "", "A", "é"]
        services = {name: ServiceRecords(store, name) for name in names}
        twins = {name: ServiceRecords(store, name) for name in names}
        model: dict[tuple[str, str], bytes] = {}
        for step in range(300):
            name, key = choose.choice(names), choose.choice(["k", "a/k", "/k", ""])
            records = choose.choice([services, twins])[name]
            there = model.get((name, key))
            found = await records.read(key)
            assert (None if found is None else found.value) == there
            match choose.randrange(4):
                case 0:
                    assert await records.remove(key) is (there is not None)
                    model.pop((name, key), None)
                case 1:
                    version = await records.write(key, b"x", seen=0, ttl=60)
                    assert (version is None) is (there is not None)
                    assert version is None or store.writes[-1][2] == 60
                    model.setdefault((name, key), b"x")
                case 2 if found is not None:
                    assert not await records.remove(key, seen=found.version + 1)
                    assert await records.write(key, b"y", seen=found.version) is not None
                    model[name, key] = b"y"
                case _:
                    await records.write(key, b"%d" % step)
                    model[name, key] = b"%d" % step

    run(main())


def test_a_store_of_three_methods_may_belong_to_one_event_loop() -> None:
    class Own(mcprev.MemoryRecords):
        async def aclose(self) -> None: ...

    assert ServiceRecords(Own(), "s").release is None
    store = mcprev.MemoryStore()
    assert ServiceRecords(store, "s").release == store.aclose


OPERATIONS: Final[dict[str, Callable[[Records], Any]]] = {
    "read": lambda records: records.read("k"),
    "write": lambda records: records.write("k", b"1"),
    "remove": lambda records: records.remove("k"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_of_a_store_that_does_not_answer_fails_in_time(name: str) -> None:
    async def main() -> None:
        store = Unreliable()

        async def hang(_name: str, _key: str) -> None:
            await asyncio.Event().wait()

        store.before = hang
        begun = loop_time()
        with pytest.raises(StoreError, match="the store did not respond within 5 s"):
            await OPERATIONS[name](ServiceRecords(store, "s"))
        assert loop_time() - begun == pytest.approx(prefixed.LONGEST, abs=0.1)
        # Whoever is cancelled meanwhile is cancelled, and nothing else.
        waiting = asyncio.ensure_future(OPERATIONS[name](ServiceRecords(store, "s")))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()

    run(main())


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_of_a_whole_store_has_one_time_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of all its operations, 2 s."""
    limits: list[float] = []
    timeout = asyncio.timeout

    def noted(seconds: float) -> asyncio.Timeout:
        limits.append(seconds)
        return timeout(seconds)

    async def main() -> None:
        records = prefixed.of_service(mcprev.MemoryStore(), "s")
        monkeypatch.setattr("asyncio.timeout", noted)
        await OPERATIONS[name](records)
        monkeypatch.undo()
        assert limits == [2.0]

    run(main())


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_error_of_a_store_of_the_user_is_a_store_error_without_its_text(name: str) -> None:
    async def main() -> None:
        store = Unreliable()

        async def fail(_name: str, _key: str) -> None:
            raise OSError("redis://user:password@host")

        store.before = fail
        with pytest.raises(StoreError, match="the store failed: OSError") as caught:
            await OPERATIONS[name](ServiceRecords(store, "s"))
        assert "password" not in str(caught.value)

    run(main())
