"""The keys of request states that several workers share (SEC-5, MRTR-4)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import itertools
import random
from base64 import b64encode
from functools import partial
from typing import Any, Final

import pytest

import mcprev
from api.scripted import form, handler
from api.wire import HandClient, served
from helpers.named import ROW_E
from helpers.running import run as run_within
from mcprev import Records, RequestStateSealer, StoreError
from mcprev.errors import InvalidParams
from mcprev.protocol.request_state import LIFETIME, SKEW
from mcprev.sharing import keys as module
from mcprev.sharing.keys import REFRESH, RETRY, ROTATION, SPREAD, SharedKeys, StoredKey, in_order, next_keys
from mcprev_types.latest import models as m
from stores.unreliable import Unreliable

run: Final = partial(run_within, limit=10_000)
KEEP: Final = LIFETIME + 2 * SKEW
APART: Final = 5.0
"""Seconds by which the clocks of workers may differ."""


class Clock:
    """The time of day and the monotonic time that `keys` reads, of the worker whose turn it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.apart = 1e9, 0.0
        monkeypatch.setattr(module, "time", self)

    def time(self) -> float:
        return self.now + self.apart

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


# -- the steps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_at_any_times_the_steps_keep_to_the_order_of_a_rotation(seed: int) -> None:
    """Whoever calls at whatever time: the ring changes by one step, no key signs early, none goes too soon."""
    choose = random.Random(seed)  # noqa: S311 - no secret
    now, keys = 1e9, list[StoredKey]()
    signed: dict[bytes, float] = {}
    """When each key was last allowed to sign."""
    for _ in range(300):
        now += choose.choice([0, 1, APART, REFRESH, SPREAD, KEEP, ROTATION / 3])
        at = now + choose.choice([-APART, 0, APART])
        before, keys = keys, next_keys(keys, at, KEEP, add=choose.random() < 0.05)
        assert next_keys(keys, at, KEEP) == keys, "a step that is done is not due again"
        assert sum(key.signs is None for key in keys) <= 1
        assert all(key.signs is not None for key in keys[:-1]), "the one that does not sign yet is the last"
        kept = {key.key: key for key in keys}
        assert len(kept) == len(keys) <= 4
        for old in before:
            new = kept.get(old.key)
            if new is None:
                assert at - signed[old.key] >= KEEP - 2 * APART
            else:
                assert new.added == old.added
                assert new.signs == old.signs or (old.signs is None and at - old.added >= SPREAD)
        assert before == [] or len({key.key for key in keys} - {key.key for key in before}) <= 1
        if not before:
            assert [(key.added, key.signs) for key in keys] == [(at, at)]
        signs = in_order(keys)[0]
        signed[signs] = now
        assert (
            signs == max((key for key in keys if key.signs is not None), key=lambda key: key.signs or 0).key
        )
        assert sorted(in_order(keys)) == sorted(kept)


def test_the_order_of_the_ring() -> None:
    one, two, three = (StoredKey(bytes([number]) * 32, 0, 0) for number in range(3))
    late = three._replace(signs=None)
    assert in_order([one]) == (one.key,)
    assert in_order([one, two, three]) == (three.key, two.key, one.key)
    assert in_order([one, two, late]) == (two.key, late.key, one.key)
    assert in_order([one, late]) == (one.key, late.key)


def test_the_days_of_a_key() -> None:
    (first,) = next_keys([], 0, KEEP)
    assert next_keys([first], ROTATION - 1, KEEP) == [first]
    _, second = both = next_keys([first], ROTATION, KEEP)
    assert (second.added, second.signs) == (ROTATION, None)
    assert next_keys(both, ROTATION + SPREAD - 1, KEEP) == both
    assert next_keys(both, 9 * ROTATION, KEEP, add=True)[1].key == second.key, "one new key at a time"
    at = ROTATION + SPREAD
    signing = next_keys(both, at, KEEP)
    assert signing == [first, second._replace(signs=at)]
    assert next_keys(signing, at + KEEP - 1, KEEP) == signing
    assert next_keys(signing, at + KEEP, KEEP) == signing[1:]
    assert len({key.key for key in (*signing, *next_keys([], 0, KEEP))}) == 3
    assert all(len(key.key) == 32 for key in signing)


def test_the_times_fit_each_other() -> None:
    """What is read late, and what clocks differ by, is less than what a new key waits and an old one stays."""
    assert REFRESH + 2 * APART < SPREAD
    assert KEEP >= LIFETIME + REFRESH + 2 * APART
    assert SPREAD < ROTATION


# -- workers -----------------------------------------------------------------------------------------------


class Worker:
    """A worker: its keys, how far its clock is ahead, and what it seals and opens."""

    def __init__(self, store: Records, clock: Clock, apart: float = 0.0) -> None:
        self.clock, self.apart = clock, apart
        self.ring = SharedKeys(store, LIFETIME)
        self.sealer = RequestStateSealer(self.ring)

    async def refresh(self) -> None:
        self.clock.apart = self.apart
        await self.ring.refresh()

    def seal(self) -> str:
        return self.sealer.seal("x", method="t", params={}, principal=None, now=self.clock.now + self.apart)

    def open(self, token: str) -> None:
        now = self.clock.now + self.apart
        assert self.sealer.open(token, method="t", params={}, principal=None, now=now) == "x"


@pytest.mark.parametrize("seed", range(10))
def test_a_state_that_any_worker_seals_is_accepted_by_all_for_its_lifetime_during_rotations(
    seed: int, clock: Clock
) -> None:
    """Workers serve at any times, with clocks 5 s apart, and somebody rotates; each reads again before it serves."""

    async def main() -> None:
        choose = random.Random(seed)  # noqa: S311 - no secret
        store = Unreliable()
        workers = [Worker(store, clock, apart) for apart in (0, APART, -APART)]
        sealed: list[tuple[float, str]] = []
        used: set[bytes] = set()
        for _ in range(400):
            clock.now += choose.choice([0, 1, 10, REFRESH, 100, ROTATION / 10])
            worker = choose.choice(workers)
            await worker.refresh()
            if choose.random() < 0.05:
                await worker.ring.rotate()
            used.add(worker.ring()[0])
            sealed.append((clock.now, worker.seal()))
            sealed = [each for each in sealed if clock.now - each[0] < LIFETIME - 2 * APART]
            for _, token in sealed[-20:]:
                other = choose.choice(workers)
                await other.refresh()
                other.open(token)
        assert len(used) > 3

    run(main())


def test_a_new_key_is_accepted_everywhere_before_anybody_signs_with_it(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store, clock, APART), Worker(store, clock, -APART)
        for worker in (one, other):
            await worker.refresh()
        (first,) = one.ring()
        await one.ring.rotate()
        assert one.ring()[0] == first
        assert len(one.ring()) == 2
        second = one.ring()[1]
        signing: dict[int, float] = {}
        begun = clock.now
        for _ in range(40):
            clock.now += 10
            for number, worker in enumerate((one, other)):
                await worker.refresh()
                if clock.now - begun >= REFRESH:
                    assert second in worker.ring()
                if worker.ring()[0] == second:
                    signing.setdefault(number, clock.now - begun)
        assert set(signing) == {0, 1}
        assert all(SPREAD - 2 * APART <= at <= SPREAD + 2 * APART + REFRESH + 10 for at in signing.values())
        clock.now += KEEP
        await one.refresh()
        assert one.ring() == (second,), "what the old one has sealed has expired"

    run(main())


def test_a_rotation_by_hand_ends_no_key_whatever_its_lifetime_is(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        worker = Worker(store, clock)
        await worker.refresh()
        (first,) = worker.ring()
        for _ in range(2):
            await SharedKeys(store, 1.0).rotate()
            clock.now += SPREAD
            await worker.refresh()
        assert first in worker.ring()

    run(main())


def test_workers_that_start_at_once_agree_on_one_key(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        workers = [Worker(store, clock) for _ in range(10)]
        await asyncio.gather(*(worker.refresh() for worker in workers))
        assert len({worker.ring() for worker in workers}) == 1

    run(main())


def test_the_store_is_read_once_in_a_while_and_once_for_many_requests(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        worker = Worker(store, clock)

        async def request() -> None:
            await worker.refresh()
            worker.open(worker.seal())

        await asyncio.gather(*(request() for _ in range(50)))
        assert len(store.reads) == 1
        clock.now += REFRESH - 1
        await worker.refresh()
        assert len(store.reads) == 1
        clock.now += 1
        for _ in range(5):
            await worker.refresh()
        assert len(store.reads) == 2
        assert len(store.writes) == 1

    run(main())


def test_with_keys_at_hand_no_request_waits_for_one_that_reads_them(clock: Clock) -> None:
    async def main() -> None:
        store = Unreliable()
        worker = Worker(store, clock)
        await worker.refresh()
        clock.now += REFRESH
        gate = asyncio.Event()

        async def wait(name: str, key: str) -> None:
            await gate.wait()

        store.before = wait
        first = asyncio.create_task(worker.refresh())
        await asyncio.sleep(0)
        await worker.refresh()
        assert not first.done()
        worker.open(worker.seal())
        gate.set()
        await first

    run(main())


def test_while_the_store_is_away_keys_stay_and_it_is_asked_again_now_and_then(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = Unreliable()
        one, late = Worker(store, clock), Worker(store, clock)
        await one.refresh()
        token = one.seal()
        store.away = True
        clock.now += REFRESH
        for _ in range(10):
            for worker in (one, late):
                await worker.refresh()
        assert len(store.reads) == 3
        one.open(one.seal())
        for use in (late.seal, partial(late.open, token)):
            with pytest.raises(StoreError, match="keys of request states could not be read"):
                use()
        clock.now += RETRY
        store.away = False
        await late.refresh()
        late.open(token)

    run(main())
    assert "the store is asked again" in caplog.text


def test_a_rotation_that_cannot_be_stored_is_an_error_and_one_that_is_overtaken_all_the_time_ends(
    clock: Clock,
) -> None:
    async def main() -> None:
        store = Unreliable()
        worker = Worker(store, clock)
        await worker.refresh()
        store.away = True
        with pytest.raises(StoreError):
            await worker.ring.rotate()
        store.away = False
        found = await store.read("keys")
        assert found is not None

        async def overtake(name: str, key: str) -> None:
            if name == "write":
                await store.held.write("keys", found.value)

        store.before = overtake
        with pytest.raises(StoreError, match="keep changing"):
            await worker.ring.rotate()

    run(main())


@pytest.mark.parametrize(
    "value",
    [
        b"", b"{}", b"7", b"[]", b"[[]]", b'[["!", 0, 0]]', b'[["AAAA", 0, null]]', b'[["AAAA", "x", 0]]', b'[["AAAA", 0, 0]]', b"\xff",
    ],
)  # fmt: skip
def test_a_record_that_holds_something_else_is_reported_and_not_overwritten(
    value: bytes, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = Unreliable()
        await store.write("keys", value)
        worker = Worker(store, clock)
        await worker.refresh()
        with pytest.raises(StoreError):
            worker.seal()
        found = await store.read("keys")
        assert found is not None
        assert found.value == value

    run(main())
    assert "has an invalid value for the keys" in caplog.text


def test_a_server_of_several_loops_one_after_the_other_goes_on(clock: Clock) -> None:
    worker = Worker(mcprev.MemoryRecords(), clock)

    async def main() -> None:
        await asyncio.gather(*(worker.refresh() for _ in range(5)))
        clock.now += REFRESH
        worker.ring._keys = ()

    run(main())
    run(main())


def test_keys_are_not_told_to_the_log(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Unreliable()
        worker = Worker(store, clock)
        await worker.refresh()
        store.away = True
        clock.now += REFRESH
        await worker.refresh()
        for key in worker.ring():
            assert key.hex() not in caplog.text
            assert repr(key) not in caplog.text
            assert b64encode(key).decode() not in caplog.text

    run(main())


# -- servers -----------------------------------------------------------------------------------------------


async def ask_twice(ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
    ctx.state = (ctx.state or "") + "+"
    for key in ("one", "two"):
        await ctx.ask(key, form())
    return m.CallToolResult(content=[m.TextContent(text=ctx.state)])


def make(store: Records, name: str = "s", **options: Any) -> mcprev.Server:
    made = handler(mcprev.ServerHandler, call_tool=ask_twice)
    return mcprev.Server(made, name, "1", store=store, validate=False, **options)


ASKS: Final[dict[str, Any]] = {"elicitation": {"form": {}}}
GIVEN: Final[dict[str, Any]] = {"action": "accept", "content": {"name": "bob"}}


async def first(hand: HandClient) -> dict[str, Any]:
    """Call the tool, which asks; the params of the retry."""
    result = (await hand.ask("tools/call", {"name": "t"})).result
    assert list(result["inputRequests"]) == ["one"]
    return {"name": "t", "inputResponses": {"one": GIVEN}, "requestState": result["requestState"]}


def test_what_a_worker_asks_is_answered_at_any_other_of_the_service_and_at_no_other_service() -> None:
    async def main() -> None:
        store = Unreliable()
        servers = [make(store, "a"), make(store, "a"), make(store, "b")]
        for start, other in itertools.permutations(range(3), 2):
            async with (
                served(servers[start], ROW_E, capabilities=ASKS) as one,
                served(servers[other], ROW_E, capabilities=ASKS) as two,
            ):
                answer = await two.ask("tools/call", await first(one))
                if 2 in (start, other):
                    assert answer.code == InvalidParams.CODE
                else:
                    assert list(answer.result["inputRequests"]) == ["two"]
        for server in servers:
            await server.aclose()
        await asyncio.sleep(0.01)

    run(main())


def test_keys_that_the_author_gives_are_used_and_none_are_stored() -> None:
    async def main() -> None:
        store = Unreliable()
        server = make(store, states=RequestStateSealer([b"x" * 32]))
        async with served(server, ROW_E, capabilities=ASKS) as hand:
            assert (await hand.ask("tools/call", await first(hand))).result["inputRequests"]
        assert not [key for key, _, _ in store.writes if key.endswith("/keys")]
        await server.aclose()
        await asyncio.sleep(0.01)

    run(main())


def test_no_key_outlives_a_state_by_much() -> None:
    """The record is bounded: however often somebody rotates, few keys are kept."""
    keys = next_keys([], 0, KEEP)
    most = 0
    for second in range(0, 20_000, 10):
        keys = next_keys(keys, second, KEEP, add=True)
        most = max(most, len(keys))
    assert most <= 2 + KEEP / SPREAD + 1
