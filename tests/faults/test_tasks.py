"""Tasks when things go wrong: a slow store, one that raises, clients that hang up, handlers that do not end."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from api.authors import form, text
from api.test_reopening import QUICK, Flaky
from api.wire import HandClient, Message, Reply, served
from faults.processes import BOUND
from helpers.requirements import D, E, req
from helpers.running import pass_time, run, until
from mcprev.errors import ConnectionLost, InputDeclined, RequestTimeout
from mcprev.protocol import tasks as task_records
from mcprev.protocol.tasks import EXTENSION, Task
from mcprev.revisions import DEFAULT, Revision, TaskSupport as Place
from mcprev_types.latest import models as m

CORE: Final = next(row for row in DEFAULT if row.tasks is Place.CORE)
MODERN: Final = next(row for row in DEFAULT if row.tasks is Place.EXTENSION)
KNOWS: Final[dict[str, Any]] = {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}
ACCEPT: Final = {"action": "accept", "content": {"name": "bob"}}
each_kind = pytest.mark.parametrize("row", [CORE, MODERN], ids=lambda row: row.name)


class Store(mcprev.MemoryTaskStore):
    """Takes its time, and fails, as stores in other places do."""

    def __init__(self) -> None:
        super().__init__()
        self.saving = asyncio.Event()
        self.may_save = asyncio.Event()
        self.may_save.set()
        self.may_load = asyncio.Event()
        self.may_load.set()
        self.broken: Callable[[Task], bool] = lambda _: False
        self.saved: list[str] = []
        self.turns = 0
        self.loads = 0

    async def save(self, task: Task, /) -> None:
        self.saving.set()
        await self.may_save.wait()
        if self.turns:
            # The first to come is the last to be done.
            self.turns -= 1
            for _ in range(self.turns * 5):
                await asyncio.sleep(0)
        if self.broken(task):
            raise OSError("the store is away")
        self.saved.append(task.status)
        await super().save(task)

    async def load(self, task_id: str, /) -> Task | None:
        self.loads += 1
        found = await super().load(task_id)
        await self.may_load.wait()
        await asyncio.sleep(0)
        return found


class Author(mcprev.ServerHandler):
    """Tools that wait for the test."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.ends: list[BaseException] = []

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        try:
            await ctx.detach(poll_interval=10)
            self.started.set()
            if params.name == "ask":
                return text((await ctx.ask("one", form("one"))).action)
            if params.name == "hurry":
                return text((await ctx.ask("one", form("one"), timeout=0.01)).action)
            await self.gate.wait()
            return text("done")
        except BaseException as end:
            self.ends.append(end)
            self.stopped.set()
            if params.name == "deaf":
                await self.gate.wait()
            if params.name == "messy":
                raise ValueError("while cleaning up") from None
            raise


NAMES: Final[tuple[str, ...]] = ("slow", "ask", "hurry", "deaf", "messy")


def make(author: Author, store: Store | None = None, **options: Any) -> mcprev.Server:
    tools: dict[str, str] = dict.fromkeys(NAMES, "optional")
    return mcprev.Server(
        author, "tasks", "1", tasks=mcprev.Tasks(tools, store=store, **options), validate=False
    )


def call(row: Revision, name: str) -> Message:
    return {"name": name} | ({"task": {}} if row is CORE else {})


async def start(hand: HandClient, name: str) -> str:
    result = (await hand.ask("tools/call", call(hand.revision, name))).result
    return str((result["task"] if hand.revision is CORE else result)["taskId"])


async def look(hand: HandClient, task_id: str) -> Message:
    return (await hand.ask("tasks/get", {"taskId": task_id})).result


@req("TASK-2", "TASKX-2", at=(D, E))
@each_kind
def test_a_store_that_cannot_take_a_task(row: Revision) -> None:
    """The call is answered with an error, no task is left, and the next call is served."""

    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store, max_running=1)
        async with served(made, row, capabilities=KNOWS) as hand:
            store.broken = lambda _: True
            for _ in range(3):
                answer = await hand.ask("tools/call", call(row, "slow"))
                # The author detaches in a tool, which fails with it; a client's wish for a task comes before any tool.
                assert (
                    (answer.code == -32603) if row is CORE else (answer.failure == "the tool 'slow' failed")
                )
            store.broken = lambda _: False
            author.gate.set()
            task_id = await start(hand, "slow")
            while (await look(hand, task_id))["status"] != "completed":
                pass
        await made.aclose()

    run(main())


@req("TASK-2", "TASK-7", "SEC-6", at=D)
def test_the_tasks_of_one_session_leave_room_for_others() -> None:
    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store, max_running_each=2)
        async with (
            served(made, CORE, capabilities=KNOWS) as mine,
            served(made, CORE, capabilities=KNOWS) as yours,
        ):
            for _ in range(2):
                await start(mine, "slow")
            assert (await mine.ask("tools/call", call(CORE, "slow"))).code == -32603
            await start(yours, "slow")
        await made.aclose()

    run(main())


@req("TASK-4", "TASK-2", at=(D, E))
@each_kind
@pytest.mark.parametrize("times", [1, 100])
def test_a_store_that_cannot_take_the_end(row: Revision, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again, within bounds; whoever waits for the result gets it either way, and nobody waits for ever."""
    monkeypatch.setattr("mcprev.server.task_execution.RETRY_DELAYS", (0.001, 0.001))

    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store)
        failed = 0

        def broken(task: Task) -> bool:
            nonlocal failed
            failed += task.ended
            return task.ended and failed <= times

        store.broken = broken
        async with served(made, row, capabilities=KNOWS) as hand:
            task_id = await start(hand, "slow")
            waiting: Any = (
                asyncio.ensure_future(hand.ask("tasks/result", {"taskId": task_id})) if row is CORE else None
            )
            await hand.ask("tasks/get", {"taskId": task_id})
            author.gate.set()
            async with asyncio.timeout(BOUND):
                if waiting is not None:
                    assert (await waiting).result["content"][0]["text"] == "done"
                assert made.tasks is not None
                desk = made.tasks
                await until(lambda: not desk.running and not desk._background)
            assert failed == (2 if times == 1 else 3)
            assert (await look(hand, task_id))["status"] == ("completed" if times == 1 else "working")

    run(main())


@req("TASK-5", "TASK-2", "TASKX-3", at=(D, E))
@each_kind
def test_what_is_saved_last_is_what_is_newest(row: Revision) -> None:
    """A store that is the slower the earlier it was asked does not bring back what was."""

    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store)
        async with served(made, row, capabilities=KNOWS) as hand:
            task_id = await start(hand, "ask")
            store.turns = 6
            await hand.ask("tasks/cancel", {"taskId": task_id})
            await author.stopped.wait()
            assert made.tasks is not None
            desk = made.tasks
            await until(lambda: not desk.running)
            stored = await store.load(task_id)
            assert stored is not None
            assert stored.status == "cancelled"
            assert store.saved[-1] == "cancelled"

    run(main())


@req("TASK-5", at=D)
def test_what_has_ended_is_not_cancelled_by_one_who_looked_before() -> None:
    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store)
        async with served(made, CORE) as hand:
            task_id = await start(hand, "slow")
            store.may_load.clear()
            cancelling = asyncio.ensure_future(hand.ask("tasks/cancel", {"taskId": task_id}))
            await hand.ask("ping")
            author.gate.set()
            assert made.tasks is not None
            running = made.tasks.running[task_id]
            await until(lambda: running.task is not None and running.task.ended)
            store.may_load.set()
            await cancelling
            assert (await look(hand, task_id))["status"] == "completed"

    run(main())


@req("TASK-4", at=D)
def test_no_news_is_missed_while_a_store_is_asked() -> None:
    """The task ends while the one who waits for it is being told that it has not."""

    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store)
        async with served(made, CORE) as hand:
            task_id = await start(hand, "slow")
            store.may_load.clear()
            waiting = asyncio.ensure_future(hand.ask("tasks/result", {"taskId": task_id}))
            await hand.ask("ping")
            author.gate.set()
            assert made.tasks is not None
            desk = made.tasks
            await until(lambda: not desk.running)
            store.may_load.set()
            async with asyncio.timeout(BOUND):
                assert (await waiting).result["content"][0]["text"] == "done"

    run(main())


@req("TASK-2", "TASK-4", at=D)
@pytest.mark.parametrize("step", [-1e9, -3600, 3600, 1e9])
@pytest.mark.parametrize("ends", [True, False])
def test_a_task_of_another_process_is_waited_for_as_long_as_it_lasts_whatever_the_time_of_day_is(
    step: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store, true = Store(), time.time
        task = task_records.begin(time.time(), ttl=5000, poll=1, owner=None, session=None)
        await store.save(task)
        async with served(make(Author(), store), CORE) as hand:
            waiting = asyncio.ensure_future(hand.ask("tasks/result", {"taskId": task.id}))
            loads = store.loads
            await until(lambda: store.loads > loads + 1)
            monkeypatch.setattr(time, "time", lambda: true() + step)
            await until(lambda: store.loads > loads + 4)
            assert not waiting.done()
            if ends:
                await store.save(task_records.complete(task, {"content": []}, time.time()))
                assert (await waiting).result["content"] == []
            else:
                pass_time(5)
                assert (await waiting).code == -32602

    run(main())


@req("CANC-2", "TASK-5", at=(D, E))
@each_kind
@pytest.mark.parametrize("name", ["slow", "messy"])
def test_a_call_that_is_given_up_before_its_task_is_told(row: Revision, name: str) -> None:
    """Nobody knows the task's name: it is not left running, nor as if it were."""

    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store)
        async with served(made, row, capabilities=KNOWS) as hand:
            store.may_save.clear()
            params = call(row, name) | ({} if row.handshake else {"_meta": hand.stamp})
            hand.send({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params})
            await store.saving.wait()
            hand.tell("notifications/cancelled", {"requestId": "c"})
            await hand.ask("ping" if row.handshake else "server/discover")
            store.may_save.set()
            assert made.tasks is not None
            desk = made.tasks
            async with asyncio.timeout(BOUND):
                await until(lambda: not desk.running and not desk._background)
            assert not [found for found in hand.got if found.get("id") == "c"]
            assert all(task.ended for task in store._tasks.values())

    run(main())


def nothing(request: Message) -> None:
    """Leaves a request unanswered."""


@req("TASK-4", at=D)
def test_a_question_is_taken_over_when_the_one_who_was_asked_hangs_up() -> None:
    """Two clients of the same task: the first is asked and goes, in good order or not; the second is asked then."""

    async def main(cut: str) -> None:
        author = Author()
        made = make(author)
        silent: dict[str, Reply] = {"elicitation/create": nothing}
        replies: Any = {"elicitation/create": ACCEPT}
        async with (
            served(made, CORE, capabilities=KNOWS, replies=silent) as first,
            served(made, CORE, capabilities=KNOWS, replies=replies) as second,
        ):
            task_id = await start(first, "ask")
            first.send({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": {"taskId": task_id}})
            await first.heard("elicitation/create")
            waiting = asyncio.ensure_future(second.ask("tasks/result", {"taskId": task_id}))
            await second.ask("ping")
            assert not waiting.done()
            if cut == "cancel":
                first.tell("notifications/cancelled", {"requestId": "r"})
            elif cut == "close":
                await first.aclose()
            else:
                transport: Any = first._transport
                transport.write_eof()
            async with asyncio.timeout(BOUND):
                assert (await waiting).result["content"][0]["text"] == "accept"
            assert author.ends == []

    for cut in ("cancel", "close", "half"):
        run(main(cut))


@req("TASK-4", "TASKX-2", at=(D, E))
@each_kind
def test_a_task_outlives_its_connection(row: Revision) -> None:
    async def main() -> None:
        author = Author()
        made = make(author)
        async with served(made, row, capabilities=KNOWS) as hand:
            task_id = await start(hand, "slow")
        async with served(made, row, capabilities=KNOWS) as hand:
            assert (await look(hand, task_id))["status"] == "working"
            author.gate.set()
            while (await look(hand, task_id))["status"] != "completed":
                pass

    run(main())


@req("TASK-4", "TASKX-3", at=(D, E))
@each_kind
def test_a_question_that_is_not_answered_in_time(row: Revision) -> None:
    async def main() -> None:
        author = Author()
        async with served(make(author), row, capabilities=KNOWS) as hand:
            task_id = await start(hand, "hurry")
            async with asyncio.timeout(BOUND):
                while (found := await look(hand, task_id))["status"] not in {"failed", "completed"}:
                    pass
            if row is not CORE:
                assert found["result"]["isError"] is True
            (end,) = author.ends
            assert isinstance(end, RequestTimeout)

    run(main())


@req("LIFE-16", at=(D, E))
@each_kind
def test_closing_a_server_is_bounded(row: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a handler or a store does about being given up."""
    monkeypatch.setattr("mcprev.server.task_manager.CLOSE", 0.05)

    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store)
        async with served(made, row, capabilities=KNOWS) as hand:
            for name in ("deaf", "slow", "ask"):
                await start(hand, name)
            store.may_save.clear()
        async with asyncio.timeout(BOUND):
            await asyncio.gather(made.aclose(), made.aclose())
            await made.aclose()
        author.gate.set()
        store.may_save.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)
        assert len(author.ends) == 3

    run(main())


# -- the client ------------------------------------------------------------------------------------------


class Person(mcprev.ClientHandler):
    """Declines the first time."""

    def __init__(self) -> None:
        self.times = 0

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        self.times += 1
        if self.times == 1:
            raise mcprev.RpcError("not now", code=-31000)
        return m.ElicitResult.from_wire(ACCEPT)


@req("TASKX-4", "TASK-4", "STDIO-7", at=(D, E))
@each_kind
def test_a_client_follows_its_task_over_lost_connections(row: Revision) -> None:
    """The server is still there and so is the task: looking at it again does no harm."""

    async def main() -> None:
        author = Author()
        made = make(author)
        target = Flaky(made)
        async with mcprev.connect(target, mode=row.name, restart=QUICK) as client:
            task = await client.start_tool("slow")
            waiting = asyncio.create_task(task.result(BOUND))
            # It is being asked about, or will be after the pause that the server wants.
            await until(lambda: client.connection.protocol.waiting)
            await target.cut()
            await until(lambda: client.reopened == 1)
            assert not waiting.done()
            author.gate.set()
            assert (await waiting).content == text("done").content
            assert client.reopened == 1
            task = await client.start_tool("slow")
            await task.result(BOUND)
            target.away = 99
            await target.cut()
            with pytest.raises(ConnectionLost):
                await (await client.start_tool("slow")).result(BOUND)

    run(main())


@req("TASKX-4", "MRTR-10", at=E)
def test_what_was_declined_can_be_answered_when_it_is_seen_again() -> None:
    async def main() -> None:
        person = Person()
        async with mcprev.connect(mcprev.memory(make(Author())), handler=person, mode=MODERN.name) as client:
            task = await client.start_tool("ask")
            with pytest.raises(InputDeclined):
                await task.result(BOUND)
            assert (await task.result(BOUND)).content == text("accept").content
            assert person.times == 2

    run(main())


@req("TASKX-4", "MRTR-10", at=E)
def test_a_call_whose_question_is_declined_gives_its_task_up() -> None:
    async def main() -> None:
        author = Author()
        async with mcprev.connect(mcprev.memory(make(author)), handler=Person(), mode=MODERN.name) as client:
            with pytest.raises(InputDeclined):
                await client.call_tool("ask")
            async with asyncio.timeout(BOUND):
                await author.stopped.wait()

    run(main())


@req("TASK-5", "TASKX-2", "LIFE-16", at=(D, E))
@each_kind
@pytest.mark.parametrize("name", ["slow", "deaf"])
def test_a_task_that_ends_with_its_server_has_failed(
    row: Revision, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not the client who cancelled it; whether its handler ends or not makes no difference."""
    monkeypatch.setattr("mcprev.server.task_manager.CLOSE", 0.05)
    reason = "the server stopped before the task ended"

    async def main() -> None:
        author, store = Author(), Store()
        made = make(author, store)
        async with served(made, row, capabilities=KNOWS) as hand:
            task_id = await start(hand, name)
            other = await start(hand, "slow")
            await hand.ask("tasks/cancel", {"taskId": other})
            await until(lambda: len(made.tasks.running) == 1)  # type: ignore[union-attr]
            await made._end_work()
        stored, cancelled = await store.load(task_id), await store.load(other)
        assert stored is not None
        assert (stored.status, stored.message) == ("failed", reason)
        data = {"reason": "worker_lost", "mayHaveRun": True}
        assert stored.error == {"code": -32603, "message": reason, "data": data}
        assert cancelled is not None
        assert (cancelled.status, cancelled.message) == ("cancelled", "cancelled by the client")
        # Who asks the next server of the store reads the same.
        async with mcprev.connect(make(Author(), store), revisions=[row.name]) as client:
            task = await client.task(task_id)
            assert task.status == "failed"
            with pytest.raises(mcprev.RpcError, match=reason):
                await task.result()
        author.gate.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    run(main())


FORKED: Final = """
import asyncio, os, pickle, sys
from pathlib import Path
import mcprev

class Folder:
    async def save(self, task, /):
        Path(task.id).write_bytes(pickle.dumps(task))
    async def load(self, task_id, /):
        return pickle.loads(Path(task_id).read_bytes())
    async def list(self, owner, session, /):
        tasks = [pickle.loads(path.read_bytes()) for path in Path().iterdir()]
        return [task for task in tasks if task.belongs_to(owner, session)]

app = mcprev.App("a", "1", tasks=mcprev.Tasks({"build": "optional"}, store=Folder()))

@app.tool
def build() -> str:
    return "built"

server = app.server

async def work():
    async with mcprev.connect(server, revisions=[sys.argv[1]]) as client:
        before = (await client.raw("tasks/list"))["tasks"]
        await (await client.start_tool("build")).result()
        after = (await client.raw("tasks/list"))["tasks"]
        print(len(before), len(after), flush=True)

for _ in range(2):
    child = os.fork()
    if not child:
        asyncio.run(work())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
"""A server that is made before its two workers are forked, which share a store of tasks."""


@pytest.mark.slow
@req("TASK-7", "SEC-6", at=D)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_forked_workers_do_not_share_the_sessions_of_tasks(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, CORE.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["0 1", "0 1"]
