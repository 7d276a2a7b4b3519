"""Listen streams that carry the states of tasks, and a client that hears of them (SUB-9)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

import mcprev
from api.scripted import form, server, text
from api.transports import http, over, reach
from api.wire import SUBSCRIPTION_ID, HandClient, Json, Message, served, serving
from api.workers import WORKERS, spread, workers
from helpers.requirements import D, E, req
from helpers.running import run, until
from mcprev.protocol import tasks
from mcprev.protocol.subscriptions import ACKNOWLEDGED, LISTEN, Changed
from mcprev.protocol.tasks import EXTENSION, STATUS, TASK_NOTIFICATION
from mcprev.revisions import DEFAULT, Revision, TaskSupport as Place
from mcprev_types.latest import models as m

__all__ = ["workers"]
pytestmark = pytest.mark.usefixtures("workers")
CORE: Final = next(row for row in DEFAULT if row.tasks is Place.CORE)
MODERN: Final = next(row for row in DEFAULT if row.tasks is Place.EXTENSION)
KNOWS: Final[dict[str, Json]] = {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}
ACCEPT: Final = {"action": "accept", "content": {"name": "bob"}}


class Slow:
    """A tool that goes on when the test says so, and the server it is part of."""

    def __init__(self, store: mcprev.MemoryTaskStore | None = None) -> None:
        self.steps: asyncio.Queue[str] = asyncio.Queue()
        self.tasks = mcprev.Tasks({"slow": "optional"}, store=store, poll_interval=60_000)
        self.server = spread(self.make)

    def make(self, **shared: Any) -> mcprev.Server:
        return server({"tasks": self.tasks, **shared}, call_tool=self.call)

    async def call(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        await ctx.detach()
        while (step := await self.steps.get()) != "end":
            if step == "ask":
                await ctx.ask("name", form())
            elif step == "fail":
                raise mcprev.RpcError("broken", code=-31000)
            else:
                await ctx.set_status(step)
        return text("done")


async def start(hand: HandClient) -> str:
    """Start a task; its name."""
    found = (await hand.ask("tools/call", {"name": "slow", "arguments": {}})).result
    return str(found["taskId"])


async def listen(hand: HandClient, id_: Json, **wanted: Json) -> Json:
    """Open a stream; what it will carry."""
    params = {"notifications": wanted, "_meta": hand.stamp}
    hand.send({"jsonrpc": "2.0", "id": id_, "method": LISTEN, "params": params})
    await until(lambda: bool(on(hand, id_)))
    first = on(hand, id_)[0]
    assert first["method"] == ACKNOWLEDGED
    return first["params"]["notifications"]


def on(hand: HandClient, id_: Json) -> list[Message]:
    """What came on a stream."""
    found = [message for message in hand.got if "method" in message]
    return [message for message in found if message["params"].get("_meta", {}).get(SUBSCRIPTION_ID) == id_]


async def state(hand: HandClient, id_: Json, number: int) -> Message:
    """The state of a task that came as this number on a stream, from 1 on."""
    await until(lambda: len(on(hand, id_)) > number)
    message = on(hand, id_)[number]
    assert message["method"] == TASK_NOTIFICATION
    return {name: value for name, value in message["params"].items() if name != "_meta"}


@req("SUB-9", "TASKX-2", "TASKX-3", "META-7")
def test_a_stream_tells_of_each_state_all_that_a_look_would() -> None:
    async def main() -> None:
        slow = Slow()
        async with served(slow.server, MODERN, capabilities=KNOWS) as hand:
            task = await start(hand)
            assert await listen(hand, 1, taskIds=[task]) == {"taskIds": [task]}
            assert (await state(hand, 1, 1))["status"] == "working"
            slow.steps.put_nowait("at it")
            assert (await state(hand, 1, 2))["statusMessage"] == "at it"
            slow.steps.put_nowait("ask")
            told = await state(hand, 1, 3)
            assert (told["status"], list(told["inputRequests"])) == ("input_required", ["name"])
            await hand.ask("tasks/update", {"taskId": task, "inputResponses": {"name": ACCEPT}})
            assert (await state(hand, 1, 4))["status"] == "working"
            slow.steps.put_nowait("end")
            told = await state(hand, 1, 5)
            looked = (await hand.ask("tasks/get", {"taskId": task})).result
            assert told == {
                name: value for name, value in looked.items() if name not in ("_meta", "resultType")
            }
            assert (told["status"], told["result"]["content"][0]["text"]) == ("completed", "done")
            await hand.settle()
            assert len(on(hand, 1)) == 6
            assert slow.server.tasks is not None
            assert not slow.server.tasks.running

    run(main())


@req("SUB-9", "TASKX-3", "TASK-5", at=E)
@pytest.mark.parametrize(("how", "status"), [("cancel", "cancelled"), ("fail", "failed")])
def test_a_stream_tells_how_a_task_ended(how: str, status: str) -> None:
    async def main() -> None:
        slow = Slow()
        async with served(slow.server, MODERN, capabilities=KNOWS) as hand:
            task = await start(hand)
            await listen(hand, 1, taskIds=[task])
            if how == "cancel":
                await hand.ask("tasks/cancel", {"taskId": task})
            slow.steps.put_nowait(how)
            told = await state(hand, 1, 2)
            assert (told["status"], "error" in told) == (status, how == "fail")
            # Who comes later is told how it ended, and nobody is told anything more.
            assert await listen(hand, 2, taskIds=[task]) == {"taskIds": [task]}
            assert await state(hand, 2, 1) == told
            await hand.settle()
            assert [len(on(hand, id_)) for id_ in (1, 2)] == [3, 2]

    run(main())


@req("SUB-9", "SUB-2", "SUB-3", "SUB-6", "SUB-8", "META-7", at=E)
@pytest.mark.parametrize("workers", [1], indirect=True)  # what it counts comes later from other workers
def test_streams_carry_the_tasks_they_were_opened_for_and_what_else_they_asked_for() -> None:
    async def list_tools(ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    async def main() -> None:
        slow = Slow()
        made = server(
            {"tasks": mcprev.Tasks({"slow": "optional"})}, call_tool=slow.call, list_tools=list_tools
        )
        async with served(made, MODERN, capabilities=KNOWS) as hand:
            one, other = await start(hand), await start(hand)
            assert await listen(hand, "a", taskIds=[one, one, "nobody", 7], toolsListChanged=True) == {
                "taskIds": [one],
                "toolsListChanged": True,
            }
            assert await listen(hand, "b", taskIds=[other, one]) == {"taskIds": [other, one]}
            assert await listen(hand, "c", taskIds=[]) == {"taskIds": []}
            assert await listen(hand, "d", taskIds="x", toolsListChanged=True) == {
                "taskIds": [],
                "toolsListChanged": True,
            }
            assert await listen(hand, "e", taskIds=None) == {}
            await hand.settle()
            made.changed("tools")
            hand.tell("notifications/cancelled", {"requestId": "b"})
            await hand.settle()
            slow.steps.put_nowait("hello")  # whichever of the two takes it
            await hand.settle()
            await hand.ask("tasks/cancel", {"taskId": one})
            await hand.settle()
            streams = {
                id_: [found["params"].get("status") or found["method"] for found in on(hand, id_)]
                for id_ in "abcde"
            }
            changed = "notifications/tools/list_changed"
            assert streams["a"][:3] == [ACKNOWLEDGED, "working", changed]
            assert streams["a"][-1] == "cancelled"
            assert streams["b"] == [ACKNOWLEDGED, "working", "working"]  # one for each
            assert streams["d"] == [ACKNOWLEDGED, changed]
            assert streams["c"] == streams["e"] == [ACKNOWLEDGED]
        await made.aclose()

    run(main())


@req("SUB-9", "TASKX-1", "TASKX-5")
def test_who_has_not_declared_the_extension_is_refused() -> None:
    async def main() -> None:
        filter_ = {"notifications": {"taskIds": ["x"]}}
        async with served(Slow().server, MODERN) as hand:
            refused = await hand.ask(LISTEN, filter_)
            assert refused.code == -32021
            assert refused.error["data"]["requiredCapabilities"]["extensions"] == {EXTENSION: {}}
        # A server without tasks does not know the member, and says what it will carry.
        async with served(server(call_tool=Slow().call), MODERN) as hand:
            assert await listen(hand, 1, taskIds=["x"]) == {}

    run(main())


@req("SUB-9", "TASK-7")
def test_tasks_of_others_and_tasks_elsewhere_are_not_told_of() -> None:
    async def main() -> None:
        store = mcprev.MemoryTaskStore()
        slow = Slow(store)

        def begin(owner: str | None = None) -> tasks.Task:
            return tasks.begin(1e9, ttl=None, poll=None, owner=owner, session=None)

        elsewhere, over_there, eves = begin(), tasks.cancel(begin(), 1e9), tasks.cancel(begin("eve"), 1e9)
        for task in (elsewhere, over_there, eves):
            await store.save(task)
        async with served(slow.server, MODERN, capabilities=KNOWS) as hand:
            ids = [elsewhere.id, eves.id, over_there.id]
            assert await listen(hand, 1, taskIds=ids) == {"taskIds": [over_there.id]}
            assert (await state(hand, 1, 1))["status"] == "cancelled"

    run(main())


class SlowStore(mcprev.MemoryTaskStore):
    """Lets the test decide when a task is found."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self, task_id: str, /) -> tasks.Task | None:
        found = await super().load(task_id)
        self.asked.set()
        await self.gate.wait()
        return found


@req("SUB-9", "TASKX-2", "CANC-2", at=E)
@pytest.mark.parametrize("given_up", [False, True])
def test_what_happens_while_a_task_is_looked_up_is_not_missed(given_up: bool) -> None:
    async def main() -> None:
        slow, store = Slow(), SlowStore()
        made = server({"tasks": mcprev.Tasks({"slow": "optional"}, store=store)}, call_tool=slow.call)
        async with served(made, MODERN, capabilities=KNOWS) as hand:
            task = await start(hand)
            store.gate.clear()
            params = {"notifications": {"taskIds": [task]}, "_meta": hand.stamp}
            hand.send({"jsonrpc": "2.0", "id": 1, "method": LISTEN, "params": params})
            await store.asked.wait()
            slow.steps.put_nowait("end")
            assert made.tasks is not None
            desk = made.tasks
            await until(lambda: not desk.running)
            if given_up:
                hand.tell("notifications/cancelled", {"requestId": 1})
            store.gate.set()
            if given_up:
                assert not [found for found in await hand.settle() if found["method"] == ACKNOWLEDGED]
            else:
                assert (await state(hand, 1, 1))["status"] == "completed"

    run(main())


# -- the client ------------------------------------------------------------------------------------------


class Person(mcprev.ClientHandler):
    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        return m.ElicitResult.from_wire(ACCEPT)


@req("SUB-9", "SUB-7", "TASKX-4", "TASK-8")
@pytest.mark.parametrize("row", [CORE, MODERN], ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("workers", "wired"), [(1, False), (1, True), (WORKERS, False)], indirect=["workers"]
)
def test_a_client_hears_of_its_task(row: Revision, wired: bool) -> None:
    """Without it, the client would look once a minute."""

    async def at(target: mcprev.Target, slow: Slow) -> None:
        async with mcprev.connect(target, handler=Person(), mode=row.name) as client:
            task = await client.start_tool("slow")
            async with client.listen(tasks=[task.id]) as changes:
                assert list(changes.honoured["taskIds"]) == [task.id]
                change = await anext(changes)
                assert change == mcprev.Change(Changed.TASK, task=task.id)
                slow.steps.put_nowait("at it")
                while task.message != "at it":
                    assert await anext(changes) == change
                    await task.refresh()
                slow.steps.put_nowait("end")
                while await task.refresh() != "completed":
                    assert await anext(changes) == change

    async def main() -> None:
        slow = Slow()
        if wired:
            with over(http()):
                async with reach(slow.server, row) as target:
                    await at(target, slow)
        else:
            await at(mcprev.memory(slow.server), slow)

    run(main())


@req("SUB-9", "SUB-7", at=(D, E))
def test_in_sessions_only_news_of_the_tasks_that_are_listened_to_count() -> None:
    def status(id_: Json) -> Message:
        when = "2026-01-01T00:00:00Z"
        return {"taskId": id_, "status": "working", "createdAt": when, "lastUpdatedAt": when, "ttl": None}

    async def main() -> None:
        async with serving(CORE) as (client, hand), client.listen(tasks=["t"]) as changes:
            assert await anext(changes) == mcprev.Change(Changed.TASK, task="t")
            for id_ in ("u", "t"):
                hand.tell(STATUS, status(id_))
            assert await anext(changes) == mcprev.Change(Changed.TASK, task="t")
            await client.ping()
            assert not changes._waiting  # pyright: ignore[reportPrivateUsage]

    run(main())


@req("SUB-9", "TASKX-5")
def test_a_client_that_has_given_up_tasks_is_told_so() -> None:
    async def main() -> None:
        target = mcprev.memory(Slow().server)
        async with mcprev.connect(target, mode=MODERN.name, tasks=False) as client:
            with pytest.raises(mcprev.MissingClientCapability):
                await client.listen(tasks=["x"]).__aenter__()

    run(main())
