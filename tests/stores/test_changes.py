"""Changes that workers tell each other by versions in a store (SUB-3, SUB-8)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

import mcprev
from api.scripted import server as scripted
from api.wire import HandClient, served
from helpers.named import ROW_D, ROW_E
from helpers.running import run as run_within
from mcprev import MemoryStore, Records, StoreError
from mcprev.protocol.subscriptions import ACKNOWLEDGED, LISTEN, Changed
from mcprev.sharing.changes import LOOK, MAX_CHARS, Change, ChangeLog, SharedChanges
from mcprev_types.latest import models as m
from stores.unreliable import Unreliable

run: Final = partial(run_within, limit=10_000)  # the clock goes on by itself
LISTS: Final = (Changed.TOOLS, Changed.PROMPTS, Changed.RESOURCES)


class Worker(SharedChanges):
    """A worker that notes what its clients are told; they have subscribed to `uris`."""

    def __init__(self, records: Records, uris: tuple[str, ...] = ()) -> None:
        self.told: list[Change] = []
        self.uris = uris
        super().__init__(records, lambda kind, uri: self.told.append((kind, uri)), ())

    def _subscribed(self) -> set[str]:
        return set(self.uris)

    def news(self) -> list[Change]:
        """What was told since the last time."""
        found, self.told[:] = list(self.told), []
        return found


async def stop(*workers: SharedChanges) -> None:
    for each in workers:
        await each.aclose()
    await asyncio.sleep(0.01)


# -- the record --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_whoever_looks_at_any_times_hears_of_each_change_after_it_and_of_nothing_else(seed: int) -> None:
    """Against a list of all changes; a resource None stands for all of them."""
    choose = random.Random(seed)  # noqa: S311 - no secret
    log, history = ChangeLog(), list[Change]()
    uris = [f"note://{number}/" + "x" * choose.choice([5, 5, 20_000]) for number in range(12)]
    looked = dict.fromkeys(range(4), 0)
    for _ in range(200):
        change: Change = choose.choice(
            [*((kind, None) for kind in LISTS), *((Changed.RESOURCE, uri) for uri in uris * 2)]
        )
        log.add(change)
        history.append(change)
        assert log.number == len(history)
        assert sum(map(len, log.changed)) <= MAX_CHARS
        who = choose.randrange(6)
        if who in looked:
            found, missed = log.since(looked[who]), set(history[looked[who] :])
            assert len(found) == len(set(found))
            if (Changed.RESOURCE, None) in found:
                assert {each for each in missed if each[1] is None} == {
                    each for each in found if each[1] is None
                } - {(Changed.RESOURCE, None)}
                assert any(each[1] not in dict(found).values() for each in missed if each[1])
            else:
                assert set(found) == missed
            looked[who] = log.number
            assert log.since(log.number) == []


def test_lists_are_not_forgotten_however_many_resources_change() -> None:
    log = ChangeLog()
    log.add((Changed.TOOLS, None))
    for number in range(1000):
        log.add((Changed.RESOURCE, "x" * 1000 + str(number)))
    assert log.since(0)[:2] == [(Changed.RESOURCE, None), (Changed.TOOLS, None)]
    assert log.since(1)[0] == (Changed.RESOURCE, None)
    assert log.since(log.forgotten)[0] != (Changed.RESOURCE, None)
    assert (Changed.RESOURCE, None) in log.since(log.forgotten - 1)


def test_what_has_changed_longest_ago_is_forgotten_first() -> None:
    log = ChangeLog()
    one, two, three = (name * (MAX_CHARS // 3) for name in "abc")
    for uri in (one, two, one, three):
        log.add((Changed.RESOURCE, uri))
    assert [uri for _, uri in log.since(0)] == [None, one, three]


def test_a_uri_with_spaces_is_one_uri() -> None:
    log = ChangeLog()
    log.add((Changed.RESOURCE, "note://a b  c"))
    assert log.since(0) == [(Changed.RESOURCE, "note://a b  c")]


@pytest.mark.parametrize(
    "value",
    [
        b"", b"7", b"[]", b"{}", b'["e", 1, [], 0]', b'["e", 1, {"tools": "x"}, 0]', b'["e", 1, {"odd": 1}, 0]',
        b'["e", null, {}, 0]', b"\xff",
    ],
)  # fmt: skip
def test_a_record_that_holds_something_else_is_reported_and_not_overwritten(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = Unreliable()
        await store.write("changes", value)
        worker = Worker(store)
        worker.start()
        worker.publish(Changed.TOOLS, None)
        await asyncio.sleep(3)
        found = await store.read("changes")
        assert found is not None
        assert found.value == value
        await stop(worker)

    run(main())
    assert "changes cannot be exchanged" in caplog.text


# -- workers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [Unreliable, partial(MemoryStore, notification_delay=0.03), partial(MemoryStore, lose_notifications=1), partial(MemoryStore, duplicate_notifications=1)], ids=["records", "late", "lost", "doubled"])  # fmt: skip
def test_each_worker_is_told_once_within_a_second_and_not_of_its_own_changes(
    store: Callable[[], Records],
) -> None:
    async def main() -> None:
        records = store()
        one, other, third = (Worker(records) for _ in range(3))
        for worker in (one, other, third):
            worker.start()
        await asyncio.sleep(1)
        changes: list[Change] = [(Changed.TOOLS, None), (Changed.RESOURCE, "a"), (Changed.RESOURCE, "b")]
        for change in changes:
            one.publish(*change)
            one.publish(*change)
        await asyncio.sleep(2 * LOOK)
        assert (one.news(), other.news(), third.news()) == ([], changes, changes)
        other.publish(*changes[0])
        await asyncio.sleep(2 * LOOK)
        assert (one.news(), other.news(), third.news()) == (changes[:1], [], changes[:1])
        await asyncio.sleep(20)
        assert one.news() == other.news() == third.news() == []
        await stop(one, other, third)

    run(main())


@pytest.mark.parametrize("seed", range(20))
def test_two_workers_that_publish_at_once_lose_nothing_whatever_the_store_does(seed: int) -> None:
    """It fails, also after it has written; workers look and stop looking; each hears of each change of the others."""

    async def main() -> None:
        choose = random.Random(seed)  # noqa: S311 - no secret
        store = Unreliable()
        workers = [Worker(store) for _ in range(3)]
        made: list[set[Change]] = [set(), set(), set()]
        store.deaf = lambda _: choose.random() < 0.15

        async def pause(name: str, key: str) -> None:
            for _ in range(choose.randrange(4)):
                await asyncio.sleep(0)
            if choose.random() < 0.1:
                raise StoreError("away")

        store.before = pause

        async def work(number: int) -> None:
            for step in range(15):
                match choose.randrange(6):
                    case 0:
                        workers[number].stop()
                    case 1 | 2:
                        workers[number].start()
                    case _:
                        change: Change = choose.choice(
                            [(Changed.TOOLS, None), (Changed.RESOURCE, f"{number} {step}")]
                        )
                        made[number].add(change)
                        workers[number].publish(*change)
                await asyncio.sleep(choose.choice([0, 0, 0.1, LOOK]))

        await asyncio.gather(*(work(number) for number in range(3)))
        store.before, store.deaf = None, lambda _: False
        for worker in workers:
            worker.start()
        await asyncio.sleep(5)
        for number, worker in enumerate(workers):
            others = set[Change]().union(*(each for other, each in enumerate(made) if other != number))
            assert others <= set(worker.told)
        for worker in workers:
            worker.news()
        await asyncio.sleep(5)
        assert [worker.news() for worker in workers] == [[], [], []]
        await stop(*workers)

    run(main())


def test_a_change_made_while_nobody_looks_is_told_when_somebody_does() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        other.start()
        await asyncio.sleep(1)
        other.stop()
        await asyncio.sleep(1)
        one.publish(Changed.TOOLS, None)
        await asyncio.sleep(5)
        before = len(store.reads)
        await asyncio.sleep(60)
        assert (other.news(), len(store.reads)) == ([], before), "without clients the store is left alone"
        other.start()
        await asyncio.sleep(0.1)
        assert other.news() == [(Changed.TOOLS, None)]
        other.stop()
        other.start()  # before the end of the one that was stopped
        one.publish(Changed.PROMPTS, None)
        await asyncio.sleep(2 * LOOK)
        assert other.news() == [(Changed.PROMPTS, None)]
        await stop(one, other)

    run(main())


def test_a_worker_that_stops_looking_while_it_stores_a_change_stores_it_all_the_same() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        one.start()
        other.start()
        await asyncio.sleep(0.2)
        writing = asyncio.Event()

        async def slow(name: str, key: str) -> None:
            if name == "write" and not writing.is_set():
                writing.set()
                await asyncio.sleep(1)

        store.before = slow
        with pytest.MonkeyPatch.context() as patch:
            # The look takes what was published without a loop.
            patch.setattr(asyncio, "get_running_loop", lambda: (_ for _ in ()).throw(RuntimeError()))
            one.publish(Changed.TOOLS, None)
        await writing.wait()
        one.publish(Changed.PROMPTS, None)
        one.stop()
        await asyncio.sleep(3)
        assert set(other.news()) == {(Changed.TOOLS, None), (Changed.PROMPTS, None)}
        await stop(one, other)

    run(main())


def test_changes_outlive_the_loss_of_the_store_for_a_while_and_too_many_become_all_resources(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store, ("mine", "yours"))
        one.start()
        other.start()
        await asyncio.sleep(1)
        store.away = True
        await asyncio.sleep(5)
        one.publish(Changed.PROMPTS, None)
        for number in range(1000):
            one.publish(Changed.RESOURCE, f"{number:01000}")
        one.publish(Changed.TOOLS, None)
        await asyncio.sleep(5)
        assert sum(len(uri or "") for _, uri in one._own) <= MAX_CHARS
        assert other.news() == []
        store.away = False
        await asyncio.sleep(2)
        told = other.news()
        assert {
            (Changed.PROMPTS, None),
            (Changed.TOOLS, None),
            (Changed.RESOURCE, "mine"),
            (Changed.RESOURCE, "yours"),
        } <= set(told)
        await stop(one, other)

    run(main())
    errors = [each.message for each in caplog.records if each.levelname == "ERROR"]
    assert len(errors) == 3, "once for each worker that looks, and once for what is published"


def test_a_store_that_began_anew_counts_as_a_change_of_everything_once() -> None:
    everything = {*((kind, None) for kind in LISTS), (Changed.RESOURCE, "mine")}

    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store, ("mine",))
        one.start()
        other.start()
        one.publish(Changed.TOOLS, None)
        await asyncio.sleep(2)
        other.news()
        store.lose_everything()
        await asyncio.sleep(2)
        told = other.news()
        assert (set(told), len(told)) == (everything, 4)
        await asyncio.sleep(5)
        assert other.news() == []
        one.publish(Changed.PROMPTS, None)
        await asyncio.sleep(2)
        assert other.news() == [(Changed.PROMPTS, None)]
        # Also where others have begun the new record already.
        store.lose_everything()
        one._epoch = ""
        one._told = 0
        one.publish(Changed.PROMPTS, None)
        await asyncio.sleep(2)
        assert set(other.news()) == everything
        await stop(one, other)

    run(main())


def test_a_store_that_lost_its_last_changes_counts_as_a_change_of_everything() -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        one.start()
        other.start()
        one.publish(Changed.TOOLS, None)
        await asyncio.sleep(2)
        before = store.copy()
        for kind in (Changed.TOOLS, Changed.RESOURCES):
            one.publish(kind, None)
            await asyncio.sleep(2)
        other.news()
        store.go_back(before)
        await asyncio.sleep(2)
        assert set(other.news()) == {(kind, None) for kind in LISTS}
        one.publish(Changed.PROMPTS, None)
        await asyncio.sleep(2)
        assert other.news() == [(Changed.PROMPTS, None)]
        await stop(one, other)

    run(main())


def test_a_client_that_cannot_be_told_keeps_no_other_news_back(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store, told = Unreliable(), list[Changed]()

        def apply(kind: Changed, uri: str | None) -> None:
            told.append(kind)
            if kind is Changed.TOOLS:
                raise ValueError("a middleware of the author")

        one, other = Worker(store), SharedChanges(store, apply, ())
        other.start()
        await asyncio.sleep(1)
        for kind in (Changed.TOOLS, Changed.PROMPTS):
            one.publish(kind, None)
        await asyncio.sleep(2)
        assert told == [Changed.TOOLS, Changed.PROMPTS]
        await stop(one, other)

    run(main())
    assert "could not be notified" in caplog.text


def test_closing_waits_for_what_is_published_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        one.publish(Changed.TOOLS, None)
        await one.aclose()
        found = await store.read("changes")
        assert found is not None
        assert json.loads(found.value)[2] == {"tools": 1}
        store.away = True
        other.publish(Changed.TOOLS, None)
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(other.aclose(), other.aclose())
        assert asyncio.get_running_loop().time() - begun < 3
        await asyncio.sleep(0.01)

    run(main())


def test_a_server_of_several_loops_one_after_the_other_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The lock of one loop does not hold up the next one."""
    store = Unreliable()
    one, other = Worker(store), Worker(store)

    async def main() -> None:
        other.start()
        await asyncio.sleep(0.2)
        for _ in range(3):
            one.publish(Changed.TOOLS, None)
            one.start()
            await asyncio.sleep(0)
        await asyncio.sleep(2)
        assert other.news() == [(Changed.TOOLS, None)]
        await stop(one, other)

    run(main())
    run(main())
    assert caplog.messages == []


def test_a_change_that_a_change_makes_is_stored_though_nobody_looks_any_more() -> None:
    """The look that is ended takes it, before it is published."""

    async def main() -> None:
        store = Unreliable()
        one, other = Worker(store), Worker(store)
        other.start()
        await asyncio.sleep(1)
        writing = asyncio.Event()

        async def slow(name: str, key: str) -> None:
            if name == "write" and not writing.is_set():
                writing.set()
                await asyncio.sleep(1)

        def apply(kind: Changed, uri: str | None) -> None:
            if kind is Changed.TOOLS:
                store.before = slow
                third.publish(Changed.PROMPTS, None)

        third = SharedChanges(store, apply, ())
        third.start()
        await asyncio.sleep(1)
        one.publish(Changed.TOOLS, None)
        await writing.wait()
        third.stop()
        await asyncio.sleep(5)
        assert other.news() == [(Changed.TOOLS, None), (Changed.PROMPTS, None)]
        await stop(one, other, third)

    run(main())


# -- servers -----------------------------------------------------------------------------------------------


async def read(ctx: mcprev.Context, params: m.ReadResourceRequestParams) -> m.ReadResourceResult:
    return m.ReadResourceResult(contents=[])


async def subscribe(ctx: mcprev.Context, params: Any) -> None: ...


def make(store: Records, name: str = "s") -> mcprev.Server:
    async def tools(ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    made = scripted({"store": store}, list_tools=tools, read_resource=read)
    assert made.store is not None
    return made


def notified(hand: HandClient) -> list[str]:
    """The methods and URIs of the changes that a client was told of."""
    found = [
        each for each in hand.got if "method" in each and "id" not in each and each["method"] != ACKNOWLEDGED
    ]
    return [each["method"].partition("/")[2] + each.get("params", {}).get("uri", "") for each in found]


@pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)
def test_clients_of_every_worker_are_told_what_they_have_subscribed_to_and_once(row: Any) -> None:
    async def main() -> None:
        store = Unreliable()
        servers = [make(store) for _ in range(3)]
        async with (
            served(servers[0], row) as one,
            served(servers[1], row) as other,
            served(servers[1], row) as third,
        ):
            for hand in (one, other):
                if row.handshake:
                    await hand.ask("resources/subscribe", {"uri": "note://1"})
                else:
                    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["note://1"]}
                    params = {"notifications": wanted, "_meta": hand.stamp}
                    hand.send({"jsonrpc": "2.0", "id": "l", "method": LISTEN, "params": params})
                    await hand.heard(ACKNOWLEDGED)
            await asyncio.sleep(1)
            for _ in range(3):
                servers[0].changed("tools")
                servers[0].changed("resource", "note://1")
                servers[0].changed("resource", "note://2")
            await asyncio.sleep(2)
            lists, note = "tools/list_changed", "resources/updatednote://1"
            assert notified(one) == [lists, note] * 3
            assert sorted(notified(other)) == [note, lists]
            assert notified(third) == ([lists] if row.handshake else [])
            servers[2].changed("resource", "note://1")
            await asyncio.sleep(2)
            assert notified(one)[-1] == notified(other)[-1] == note
            store.lose_everything()
            await asyncio.sleep(2)
            others = ["resources/list_changed"] if row.handshake else []
            assert sorted(notified(other)[3:]) == [*others, note, lists]
        for server in servers:
            await server.aclose()
        await asyncio.sleep(0.01)

    run(main())


def test_a_server_that_closes_stores_its_last_change_first() -> None:
    async def main() -> None:
        store = Unreliable()

        async def slow(name: str, key: str) -> None:
            await asyncio.sleep(0.2)

        store.before = slow
        server = make(store)
        server.changed("tools")
        await server.aclose()
        assert [key.partition("/")[2] for key, _, _ in store.writes] == ["changes"]

    run(main())


def test_a_change_elsewhere_makes_a_worker_read_its_tools_again() -> None:
    listed = 0

    async def tools(ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        nonlocal listed
        listed += 1
        return m.ListToolsResult(tools=[m.Tool(name="t", input_schema=m.ToolInputSchema())])

    async def call(ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        return m.CallToolResult(content=[])

    async def main() -> None:
        store = Unreliable()
        servers = [scripted({"store": store}, list_tools=tools, call_tool=call) for _ in range(2)]
        async with served(servers[0], ROW_E) as hand:
            for _ in range(3):
                await hand.ask("tools/call", {"name": "t"})
            assert listed == 1
            servers[1].changed("tools")
            await asyncio.sleep(2)
            await hand.ask("tools/call", {"name": "t"})
            assert listed == 2
        for server in servers:
            await server.aclose()
        await asyncio.sleep(0.01)

    run(main())


@pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)
def test_changes_of_a_mounted_app_reach_other_workers_and_only_those_who_see_the_resource(row: Any) -> None:
    """The guard of the app is asked in the worker of the client."""

    async def main() -> None:
        store = Unreliable()
        seen = [True]

        async def sees(ctx: mcprev.Context) -> bool:
            return seen[0]

        def build() -> mcprev.App:
            outer, inner = mcprev.App("outer", "1", store=store), mcprev.App("inner", "1")

            @inner.resource("note://1", visible=sees)
            def note() -> str:
                return "text"

            outer.mount(inner)
            return outer

        apps = [build(), build()]
        async with served(apps[1].server, row) as hand:
            if row.handshake:
                await hand.ask("resources/subscribe", {"uri": "note://1"})
            else:
                wanted = {"resourceSubscriptions": ["note://1"]}
                params = {"notifications": wanted, "_meta": hand.stamp}
                hand.send({"jsonrpc": "2.0", "id": "l", "method": LISTEN, "params": params})
                await hand.heard(ACKNOWLEDGED)
            await asyncio.sleep(1)
            for visible, number in ((True, 1), (False, 1), (True, 2)):
                seen[0] = visible
                apps[0].server.changed("resource", "note://1")
                await asyncio.sleep(2)
                assert len(notified(hand)) == number
        for app in apps:
            await app.server.aclose()
        await asyncio.sleep(0.01)

    run(main())
