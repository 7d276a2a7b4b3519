"""What clients see when workers and stores fail: requests without sessions, tasks, changes and keys.

Each test is a row of one table: what happens, and what a client sees then. `worker_lost` is the error of a task whose
worker is gone; it says that the task may have run.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from api.wire import Answer, served
from api.workers import loop_records
from helpers.named import ROW_D as CORE, ROW_E as MODERN
from helpers.redis_server import RedisServer
from helpers.running import run as run_in_time
from mcprev import MemoryRecords, Store, StoreError, open_store
from mcprev.protocol.subscriptions import ACKNOWLEDGED, LISTEN
from mcprev.revisions import Revision
from mcprev.sharing import tasks as module
from mcprev.sharing.tasks import LEASE, SUSPECT
from mcprev.stores.prefixed import LONGEST as SLOWEST
from stores.fellows import ACCEPT, KNOWS, Author, Fellows, each_kind, fellows, run
from stores.test_session_state import client_of
from stores.unreliable import loop_time

LOST: Final = {
    "code": -32603,
    "message": "the process that ran the task has ended; the task may have run in part",
    "data": {"reason": "worker_lost", "mayHaveRun": True},
}
AWAY: Final = {
    "code": -32603,
    "message": "the server cannot reach its store; try again",
    "data": {"reason": "store_unavailable", "mayHaveRun": False},
}
AWAY_WHILE_IT_RAN: Final = {
    "code": -32603,
    "message": "the server cannot reach its store; the request may have run in part",
    "data": {"reason": "store_unavailable", "mayHaveRun": True},
}
IN_TIME: Final = LEASE + SUSPECT + 2
"""Seconds within which those who wait learn that a worker is dead."""


def failed(answer: Answer) -> bool:
    """Whether a call has failed with an error, of the protocol or of the tool."""
    return "error" in answer.message or bool(answer.result.get("isError"))


async def retry(made: Fellows, at: int, to: int) -> Answer:
    """Call a tool at one server, which asks, and answer at another."""
    result = (await made.hands[at].ask("tools/call", {"name": "state"})).result
    params = {"name": "state", "inputResponses": {"who": ACCEPT}, "requestState": result["requestState"]}
    return await made.hands[to].ask("tools/call", params)


# -- workers -----------------------------------------------------------------------------------------------


@each_kind
def test_worker_killed_while_it_runs_a_task(row: Revision) -> None:
    """`failed` by whoever looks; `tasks/result` ends with the error, and `tasks/get` and listen streams show it."""

    async def main() -> None:
        async with fellows(row, 3) as made:
            task = await made.start(0, "slow")
            await asyncio.sleep(60)
            begun = loop_time()
            if row is CORE:
                waiting = asyncio.ensure_future(made.hands[1].ask("tasks/result", {"taskId": task}))
                await asyncio.sleep(1)
                made.kill(0)
                assert (await waiting).error == LOST
            else:
                await made.listen(1, task)
                made.kill(0)
                await made.hears(1, "failed")
                assert made.told(1)[-1]["error"] == LOST
            assert loop_time() - begun <= IN_TIME + 1
            for at in (1, 2):
                found = await made.comes_to(at, task, "failed")
                assert found.get("error", LOST) == LOST
                assert found["statusMessage"] == LOST["message"]

    run(main())


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a process is killed")
def test_worker_killed_with_sigkill_on_a_real_store(tmp_path: Path) -> None:
    """A process of its own, and an SQLite file; the leases are short."""
    program = """
import asyncio, sys
import mcprev
from mcprev.sharing import tasks
tasks.LEASE, tasks.RENEW, tasks.LONGEST_PAUSE = 0.6, 0.2, 0.1
app = mcprev.App("a", "1", tasks=mcprev.Tasks({"slow": "optional"}, poll_interval=20), store=mcprev.open_store(sys.argv[1]))

@app.tool
async def slow(ctx: mcprev.Context) -> str:
    await ctx.detach()
    await asyncio.sleep(600)
    return "done"

async def main():
    async with mcprev.connect(app) as client:
        print((await client.start_tool("slow")).id, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
    url = f"sqlite:///{tmp_path}/file"

    async def main(task_id: str, kill: Any) -> None:
        store = open_store(url)
        app = mcprev.App("a", "1", tasks=mcprev.Tasks({}, poll_interval=20), store=store)
        async with mcprev.connect(app) as client:
            task = await client.task(task_id)
            assert task.status == "working"
            await asyncio.sleep(0.8)
            assert await task.refresh() == "working"
            kill()
            with pytest.raises(mcprev.RpcError, match="the process that ran the task has ended") as caught:
                await task.result(10)
            assert caught.value.data == LOST["data"]
        await app.server.aclose()
        await store.aclose()

    with subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "SUSPECT", 0.5)
            asyncio.run(asyncio.wait_for(main(process.stdout.readline().strip(), process.kill), 20))


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_worker_killed_while_a_question_is_open(how: str) -> None:
    """Without sessions nothing is open at the worker: with shared keys the repetition works anywhere."""

    async def main() -> None:
        async with fellows(MODERN, 2) as made:
            result = (await made.hands[0].ask("tools/call", {"name": "state"})).result
            params = {
                "name": "state",
                "inputResponses": {"who": ACCEPT},
                "requestState": result["requestState"],
            }
            if how == "killed":
                made.kill(0)
            else:
                await made.servers[0].aclose()
            answer = await made.hands[1].ask("tools/call", params)
            assert answer.result["content"][0]["text"] == "asked ++"

    run(main())


@each_kind
def test_worker_ended_by_sigterm(row: Revision) -> None:
    """Its tasks have failed, and the others say so at once."""
    reason = "the server stopped before the task ended"

    async def main() -> None:
        async with fellows(row, 2) as made:
            task = await made.start(0, "slow")
            await made.servers[0].aclose()
            found = await made.get(1, task)
            assert (found["status"], found["statusMessage"]) == ("failed", reason)
            if row is CORE:
                answer = await made.hands[1].ask("tasks/result", {"taskId": task})
                assert answer.error == {**LOST, "message": reason}

    run(main())


@each_kind
def test_worker_ended_by_sigterm_over_http(row: Revision) -> None:
    """An app that its server stops; nothing else has to close it, with or without a lifespan."""

    async def main() -> None:
        store = loop_records()
        server, other = (
            mcprev.Server(Author(), "s", "1", store=store, tasks=mcprev.Tasks({"slow": "optional"}))
            for _ in range(2)
        )
        async with client_of(server, row) as client:
            task = await client.start_tool("slow")
            assert task.status == "working"
            server.changed("tools")
        async with client_of(other, row) as client:
            assert (await client.task(task.id)).status == "failed"
        keys = [key.partition("/")[2] for key in vars(store)["_held"]]
        assert "changes" in keys, "the last change was stored, too"

    run(main(), has_both_ends=True)


@each_kind
@pytest.mark.parametrize("meanwhile", ["runs", "returns"])
def test_worker_frozen_beyond_its_lease_goes_on(row: Revision, meanwhile: str) -> None:
    """Its tasks were ended for it: its own writes fail, it cancels its handlers, and no client reads two ends."""

    async def main() -> None:
        async with fellows(row, 3) as made:
            task = await made.start(0, "slow")
            await asyncio.sleep(5)
            thawed = asyncio.Event()

            async def freeze(_name: str, _key: str) -> None:
                await thawed.wait()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("mcprev.stores.prefixed.LONGEST", 1e6)  # as nothing of the process goes on
                made.stores[0].before = freeze
                await asyncio.sleep(LEASE + 1)
                await made.get(1, task)
                await asyncio.sleep(SUSPECT + 1)
                assert (await made.get(1, task))["status"] == "failed"
                if meanwhile == "returns":
                    made.author.gate.set()
                    await asyncio.sleep(1)
                thawed.set()
            for _ in range(10):
                await asyncio.sleep(1)
                for at in range(3):
                    found = await made.get(at, task)
                    assert (found["status"], found.get("error", LOST)) == ("failed", LOST)
            (end,) = made.author.ends
            assert end == "done" if meanwhile == "returns" else isinstance(end, asyncio.CancelledError)
            # The worker goes on, and its next tasks are alive.
            made.author.gate.set()
            task = await made.start(0, "slow")
            await made.comes_to(1, task, "completed")

    run(main())


@each_kind
def test_worker_that_cannot_write_beyond_its_lease(row: Revision) -> None:
    """It reads that its task was ended for it, and does not overwrite that with the result that it could not store."""

    async def main() -> None:
        async with fellows(row, 2) as made:
            task = await made.start(0, "slow")

            async def fail(name: str, _key: str) -> None:
                if name == "write":
                    raise StoreError("the disk is full")

            made.stores[0].before = fail
            made.author.gate.set()
            await asyncio.sleep(LEASE + 3)
            await made.get(1, task)
            await asyncio.sleep(SUSPECT + 1)
            for at in (1, 0):
                assert (await made.get(at, task))["status"] == "failed"
            made.stores[0].before = None
            for _ in range(5):
                await asyncio.sleep(2)
                for at in range(2):
                    assert (await made.get(at, task))["status"] == "failed"

    run(main())


@each_kind
@pytest.mark.parametrize("step", [-86_400.0, 86_400.0])
def test_machine_clock_jumps(row: Revision, step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and tasks that run live on: the store counts their time. States may expire early."""

    async def main() -> None:
        true = time.time
        async with fellows(row, 2) as made:
            task = await made.start(0, "slow")
            monkeypatch.setattr(time, "time", lambda: true() + step)
            for _ in range(20):
                await asyncio.sleep(1)
                for at in range(2):
                    assert (await made.get(at, task))["status"] == "working"
            made.author.gate.set()
            await made.comes_to(1, task, "completed")
            if row is MODERN:
                assert (await retry(made, 0, 1)).result["content"][0]["text"] == "asked ++"
            monkeypatch.setattr(time, "time", true)

    run(main())


# -- the store is away -------------------------------------------------------------------------------------


@each_kind
def test_store_away_at_start(
    row: Revision, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What needs nothing of it is served; tasks and states fail with an error, and work when it is there."""
    monkeypatch.setattr("mcprev.sharing.keys.RETRY", 0.0)

    async def main() -> None:
        async with fellows(row, 2, prepare=lambda store: setattr(store, "away", True)) as made:
            hand = made.hands[0]
            assert (await hand.ask("tools/call", {"name": "plain"})).result["content"][0]["text"] == "plain"
            wanted: dict[str, Any] = {"name": "slow"} | ({"task": {}} if row is CORE else {})
            answer = await hand.ask("tools/call", wanted)
            assert failed(answer)
            assert row is not CORE or answer.error == AWAY, "the handler has not begun"
            for method in (
                "tasks/get",
                "tasks/cancel",
                *(("tasks/result", "tasks/list") if row is CORE else ()),
            ):
                error = (await hand.ask(method, {} if method == "tasks/list" else {"taskId": "x"})).error
                assert error == AWAY_WHILE_IT_RAN if method == "tasks/cancel" else error == AWAY, method
            if row is MODERN:
                assert failed(await hand.ask("tools/call", {"name": "state"}))
            assert not any(
                record.exc_info for record in caplog.records
            ), "each error of the store is one line"
            assert "'tasks/get' failed: the handler raised: the store is away" in caplog.messages
            made.all(lambda store: setattr(store, "away", False))
            await asyncio.sleep(2)
            task = await made.start(0, "slow")
            assert (await made.get(1, task))["status"] == "working"
            if row is MODERN:
                assert (await retry(made, 0, 1)).result["content"][0]["text"] == "asked ++"

    run(main())


@each_kind
@pytest.mark.parametrize("seconds", [3.0, 3 * LEASE])
def test_store_away_while_running(row: Revision, seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    """Requests are served; what must be a task fails; tasks go on and their ends are stored when it is back."""

    async def main() -> None:
        async with fellows(row, 2) as made:
            running, ending = await made.start(0, "step"), await made.start(0, "slow")
            if row is MODERN:
                assert not failed(await retry(made, 0, 1))
            made.all(lambda store: setattr(store, "away", True))
            wanted: dict[str, Any] = {"name": "slow"} | ({"task": {}} if row is CORE else {})
            assert failed(await made.hands[0].ask("tools/call", wanted))
            assert (await made.hands[0].ask("tasks/get", {"taskId": running})).code == -32603
            assert not failed(await made.hands[1].ask("tools/call", {"name": "plain"}))
            if row is MODERN:
                assert not failed(await retry(made, 0, 1)), "keys that were read stay"
            made.author.gate.set()
            await asyncio.sleep(seconds)
            made.all(lambda store: setattr(store, "away", False))
            await asyncio.sleep(5)
            for at in range(2):
                assert (await made.get(at, ending))["status"] == "completed"
                assert (await made.get(at, running))["status"] == "working"
            made.author.steps.put_nowait("end")
            await made.comes_to(1, running, "completed")
            assert made.author.ends.count("done") == 2
            (told,) = [each for each in caplog.messages if "the end of a task cannot be saved" in each]
            assert told, "it is said once, however long it takes"
            assert not any(
                record.exc_info for record in caplog.records
            ), "each error of the store is one line"

    run(main())


def test_store_away_while_running_changes_are_told_here_now_and_elsewhere_later() -> None:
    async def main() -> None:
        async with fellows(MODERN, 2) as made:
            for hand in made.hands:
                params = {"notifications": {"toolsListChanged": True}, "_meta": hand.stamp}
                hand.send({"jsonrpc": "2.0", "id": "c", "method": LISTEN, "params": params})
                await hand.heard(ACKNOWLEDGED)
            await asyncio.sleep(1)

            def told() -> list[int]:
                method = "notifications/tools/list_changed"
                return [sum(each.get("method") == method for each in hand.got) for hand in made.hands]

            made.all(lambda store: setattr(store, "away", True))
            made.servers[0].changed("tools")
            await asyncio.sleep(10)
            assert told() == [1, 0]
            made.all(lambda store: setattr(store, "away", False))
            await asyncio.sleep(2)
            assert told() == [1, 1]

    run(main())


@each_kind
def test_store_slow(row: Revision) -> None:
    """As away: each request that needs it fails in bounded time, and nothing hangs."""

    async def main() -> None:
        async with fellows(row, 2) as made:
            task = await made.start(0, "slow")

            async def hang(_name: str, _key: str) -> None:
                await asyncio.Event().wait()

            made.all(lambda store: setattr(store, "before", hang))
            requests: list[tuple[str, dict[str, Any]]] = [
                ("tools/call", {"name": "slow"} | ({"task": {}} if row is CORE else {})),
                ("tasks/get", {"taskId": task}),
                ("tasks/cancel", {"taskId": task}),
                *(
                    [("tasks/list", dict[str, Any]()), ("tasks/result", {"taskId": task})]
                    if row is CORE
                    else []
                ),
                *([("tasks/update", {"taskId": task})] if row is MODERN else []),
            ]
            for at in range(2):
                for method, params in requests:
                    begun = loop_time()
                    assert failed(await made.hands[at].ask(method, params)), method
                    assert loop_time() - begun <= 3 * SLOWEST + 1, method
                assert not failed(await made.hands[at].ask("tools/call", {"name": "plain"}))
            made.all(lambda store: setattr(store, "before", None))

    run(main())


@each_kind
def test_store_full(row: Revision) -> None:
    """What is stored stays; a call that must be a task fails, and the tasks that run come to their end."""

    async def main() -> None:
        async with fellows(row, 2, ttl=1000) as made:
            task = await made.start(0, "step")
            room = vars(made.stores[0].held)["_room"]
            room.most = room.held + 100
            wanted: dict[str, Any] = {"name": "slow"} | ({"task": {}} if row is CORE else {})
            assert failed(await made.hands[1].ask("tools/call", wanted))
            assert (await made.get(1, task))["status"] == "working"
            room.most *= 100
            made.author.steps.put_nowait("end")
            await made.comes_to(1, task, "completed")

    run(main())


# -- the store was restarted -------------------------------------------------------------------------------


@each_kind
def test_store_restarted_with_its_data(row: Revision) -> None:
    """Nothing but errors meanwhile, however long it takes: leases are renewed, tasks go on."""

    async def main() -> None:
        async with fellows(row, 3) as made:
            task = await made.start(0, "slow")
            if row is MODERN:
                await made.listen(1, task)
            made.all(lambda store: setattr(store, "away", True))
            await asyncio.sleep(10 * LEASE)
            made.all(lambda store: setattr(store, "away", False))
            for _ in range(100):
                for at in range(3):
                    assert (await made.get(at, task))["status"] == "working"
                await asyncio.sleep(0.1)
            made.author.gate.set()
            await made.comes_to(2, task, "completed")
            if row is MODERN:
                await asyncio.sleep(2)
                assert [each["status"] for each in made.told(1)] == ["working", "completed"]

    run(main())


@each_kind
def test_store_restarted_without_its_data(row: Revision) -> None:
    """Tasks are unknown, states of the lost keys are refused; a handler whose task is gone is cancelled."""

    async def main() -> None:
        async with fellows(row, 2) as made:
            task = await made.start(0, "slow")
            waiting = asyncio.ensure_future(made.hands[0].ask("tasks/result", {"taskId": task}))
            result = (await made.hands[0].ask("tools/call", {"name": "state"})).message.get("result", {})
            await asyncio.sleep(2)
            made.stores[0].lose_everything()
            assert (await made.hands[1].ask("tasks/get", {"taskId": task})).code == -32602
            await asyncio.sleep(2)
            (end,) = made.author.ends
            assert isinstance(end, asyncio.CancelledError)
            answer = await waiting
            assert answer.code in ({-32603, -32602} if row is CORE else {-32601})
            if row is MODERN:
                await asyncio.sleep(60)  # by then the keys are read again, wherever it is
                await made.hands[0].ask("tools/call", {"name": "plain"})
                params = {
                    "name": "state",
                    "inputResponses": {"who": ACCEPT},
                    "requestState": result["requestState"],
                }
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("mcprev.sharing.keys.REFRESH", 0.0)
                    for server in made.servers:
                        handler: Any = server.request_handler
                        handler._prepare.__self__._due = 0.0
                    for at in range(2):
                        assert (await made.hands[at].ask("tools/call", params)).code == -32602
                assert not failed(await retry(made, 0, 1))
            made.author.gate.set()
            task = await made.start(1, "slow")
            await made.comes_to(0, task, "completed")

    run(main())


@each_kind
def test_store_failed_over_and_last_writes_lost(row: Revision) -> None:
    """The runner sees an older version of its task, and writes again if the task has not ended."""

    async def main() -> None:
        async with fellows(row, 2) as made:
            task = await made.start(0, "step")
            before = made.stores[0].copy()
            made.author.steps.put_nowait("half")
            await asyncio.sleep(2)
            assert (await made.get(1, task))["statusMessage"] == "half"
            made.stores[0].go_back(before)
            assert "statusMessage" not in await made.get(1, task)
            await asyncio.sleep(2)
            for at in range(2):
                assert (await made.get(at, task))["statusMessage"] == "half"
            asking = await made.start(0, "ask")
            before = made.stores[0].copy()
            await made.hands[1].ask("tasks/cancel", {"taskId": asking})
            made.stores[0].go_back(before)
            await asyncio.sleep(2)
            assert (await made.get(1, asking))["status"] in ("input_required", "cancelled")
            made.author.steps.put_nowait("end")
            await made.comes_to(1, task, "completed")

    run(main())


# -- news, and real stores ---------------------------------------------------------------------------------


@pytest.fixture
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Store]]:
    """Three views of one store of a kind."""
    kind = request.param
    if kind == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        url = server.url(f"table{time.monotonic_ns()}")
        yield [open_store(url) for _ in range(3)]
    elif kind == "sqlite":
        yield [open_store(f"sqlite:///{tmp_path}/file") for _ in range(3)]
    else:
        store = mcprev.MemoryStore(
            lose_notifications=kind == "lost",
            duplicate_notifications=kind == "doubled",
            notification_delay=0.03 * (kind == "late"),
        )
        yield [store, store, store]


@pytest.mark.parametrize("stores", ["lost", "doubled", "late", "sqlite", "redis"], indirect=True)
@each_kind
def test_bus_message_lost_or_doubled_and_each_kind_of_store(row: Revision, stores: list[Store]) -> None:
    """A task is started at one worker, answered at the next, and read at the third; another is cancelled; all in time."""

    async def main() -> None:
        author = Author()
        servers = [
            mcprev.Server(
                author, "s", "1", store=store, tasks=mcprev.Tasks({"ask": "optional", "slow": "optional"})
            )
            for store in stores
        ]
        async with contextlib.AsyncExitStack() as stack:
            made = Fellows(row, author, [])
            for server in servers:
                hand = served(server, row, capabilities=KNOWS, replies={"elicitation/create": ACCEPT})
                made.hands.append(await stack.enter_async_context(hand))
            task, other = await made.start(0, "ask"), await made.start(1, "slow")
            if row is CORE:
                answer = await made.hands[1].ask("tasks/result", {"taskId": task})
                assert answer.result["content"][0]["text"] == "['accept', 'accept']"
                assert made.asked(1) == 2
            else:
                await made.listen(2, task)
                for key in ("one", "two"):
                    await made.asks(1, task, key)
                    await made.update(1, task, **{key: ACCEPT})
                assert not failed(await retry(made, 0, 1))
            await made.comes_to(2, task, "completed")
            await made.hands[2].ask("tasks/cancel", {"taskId": other})
            await made.comes_to(1, other, "cancelled")
            if row is MODERN:
                await made.hears(2, "completed")
        for server in servers:
            await server.aclose()
        for store in stores:
            await store.aclose()
        await asyncio.sleep(0.05)

    run_in_time(main())


def test_the_three_methods_of_a_store_are_enough() -> None:
    """A class of the author's with `read`, `write` and `remove`; the tests above use one too."""

    class Own:
        def __init__(self) -> None:
            self.held = MemoryRecords()
            self.read, self.write, self.remove = self.held.read, self.held.write, self.held.remove

    async def main() -> None:
        store = Own()
        servers = [
            mcprev.Server(Author(), "s", "1", store=store, tasks=mcprev.Tasks({"slow": "optional"}))
            for _ in range(2)
        ]
        async with (
            served(servers[0], MODERN, capabilities=KNOWS) as one,
            served(servers[1], MODERN, capabilities=KNOWS) as two,
        ):
            task = (await one.ask("tools/call", {"name": "slow"})).result["taskId"]
            await two.ask("tasks/cancel", {"taskId": task})
            assert (await one.ask("tasks/get", {"taskId": task})).result["status"] == "cancelled"
        for server in servers:
            await server.aclose()
        await asyncio.sleep(0.01)

    run(main())
