"""Tools that go on by themselves, on the wire of both vocabularies and of revisions that have none (TASK-*, TASKX-*)."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Final

import pytest

import mcprev
from api.authors import form, text
from api.wire import Error, HandClient, HandServer, Json, Message, served, serving
from api.workers import spread, workers
from helpers.requirements import A, B, C, D, E, req
from helpers.running import run
from mcprev.protocol import tasks as task_records
from mcprev.protocol.tasks import EXTENSION
from mcprev.revisions import DEFAULT, Revision, TaskSupport as Place
from mcprev.wire.meta_keys import RELATED
from mcprev_types.latest import models as m

__all__ = ["workers"]
pytestmark = pytest.mark.usefixtures("workers")
CORE: Final = next(row for row in DEFAULT if row.tasks is Place.CORE)
MODERN: Final = next(row for row in DEFAULT if row.tasks is Place.EXTENSION)
KNOWS: Final[dict[str, Json]] = {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}
ASKABLE: Final[dict[str, Json]] = {"elicitation": {"form": {}}}
ACCEPT: Final = {"action": "accept", "content": {"name": "bob"}}
CHOSEN: Final[Message] = {"action": "accept", "content": {"value": "bob"}}
TASKS: Final = {
    "slow": "optional",
    "must": "required",
    "ask": "optional",
    "fail": "optional",
    "tool_error": "optional",
}


class Author(mcprev.ServerHandler):
    """Tools that wait for the test before they end."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.stopped = asyncio.Event()
        self.started = asyncio.Event()

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        names = [*TASKS, "plain"]
        return m.ListToolsResult(
            tools=[m.Tool(name=name, input_schema=m.ToolInputSchema()) for name in names]
        )

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        if params.name == "plain":
            await ctx.detach()
            return text("plain")
        await ctx.detach(poll_interval=20, message="at it")
        self.started.set()
        try:
            if params.name == "ask":
                answers = [await ctx.ask("one", form("one")), await ctx.ask("two", form("two"))]
                return text([answer.action for answer in answers])
            await self.gate.wait()
            await ctx.progress(1, 2)
            await ctx.set_status("nearly there")
            if params.name == "fail":
                raise mcprev.RpcError("broken", code=-31000, data={"x": 1})
            return (
                text("done") if params.name != "tool_error" else m.CallToolResult(content=[], is_error=True)
            )
        except asyncio.CancelledError:
            self.stopped.set()
            raise


def make(author: Author, **options: Any) -> mcprev.Server:
    """A server, or several workers of one store; those with a store of tasks have it for themselves."""
    if "store" in options:
        return mcprev.Server(author, "tasks", "1", tasks=mcprev.Tasks(TASKS, **options))
    made: mcprev.Server = spread(
        partial(mcprev.Server, author, "tasks", "1", tasks=mcprev.Tasks(TASKS, **options))
    )
    return made


def related(task_id: str) -> Message:
    return {RELATED: {"taskId": task_id}}


async def start(hand: HandClient, name: str, **task: Json) -> Message:
    """Call a tool as a task; the members of the task."""
    given: Message = {"name": name, "arguments": {}}
    if hand.revision.tasks is Place.CORE:
        result = (await hand.ask("tools/call", {**given, "task": task})).result
        assert set(result) == {"task"}
        return dict(result["task"])
    result = (await hand.ask("tools/call", given)).result
    assert result.pop("resultType") == "task"
    return result


async def ended(hand: HandClient, task_id: str) -> Message:
    """Look until the task has ended."""
    while True:
        found = (await hand.ask("tasks/get", {"taskId": task_id})).result
        if found["status"] not in ("working", "input_required"):
            return found


each_kind = pytest.mark.parametrize("row", [CORE, MODERN], ids=lambda row: row.name)


@req("TASK-1", "TASKX-1", "TASKX-6", "TOOL-10")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_what_is_declared(row: Revision) -> None:
    async def main() -> None:
        async with served(make(Author()), row) as hand:
            capabilities = hand.hello["capabilities"]
            assert ("tasks" in capabilities) is (row is CORE)
            assert (EXTENSION in capabilities.get("extensions", {})) is (row.tasks is Place.EXTENSION)
            tools = (await hand.ask("tools/list")).result["tools"]
            said = {tool["name"]: tool["execution"]["taskSupport"] for tool in tools if "execution" in tool}
            assert said == (TASKS if row is CORE else {})
        async with served(mcprev.Server(Author(), "none", "1"), row) as hand:
            assert "tasks" not in hand.hello["capabilities"]
            assert "extensions" not in hand.hello["capabilities"]
            assert (await hand.ask("tasks/get", {"taskId": "x"})).code == -32601

    run(main())


@req("TASK-2", "TASK-4", "TASKX-2", "TASKX-6")
@each_kind
def test_a_task_is_answered_at_once_and_comes_to_its_result(row: Revision) -> None:
    async def main() -> None:
        author = Author()
        async with served(make(author), row, capabilities=KNOWS) as hand:
            task = await start(hand, "slow")
            assert (task["status"], "result" in task, "inputRequests" in task) == ("working", False, False)
            found = (await hand.ask("tasks/get", {"taskId": task["taskId"]})).result
            assert found["status"] == "working"
            author.gate.set()
            found = await ended(hand, task["taskId"])
            assert (found["status"], found["statusMessage"]) == ("completed", "nearly there")
            if row is MODERN:
                assert found["resultType"] == "complete"
                assert found["result"]["content"] == [{"type": "text", "text": "done"}]
                assert RELATED not in found["result"].get("_meta", {})
            else:
                assert "result" not in found
                result = (await hand.ask("tasks/result", {"taskId": task["taskId"]})).result
                assert result == {
                    "content": [{"type": "text", "text": "done"}],
                    "_meta": related(task["taskId"]),
                }

    run(main())


@req("TASK-4", "TASK-6")
def test_the_result_is_waited_for() -> None:
    async def main() -> None:
        author = Author()
        async with served(make(author), CORE) as hand:
            task = await start(hand, "slow")
            params = {"taskId": task["taskId"]}
            hand.send({"jsonrpc": "2.0", "id": "wait", "method": "tasks/result", "params": params})
            await hand.ask("ping")
            assert not any(found.get("id") == "wait" for found in hand.got)
            author.gate.set()
            found = await hand.get(lambda found: found.get("id") == "wait")
            assert found["result"]["_meta"] == related(task["taskId"])
            told = [
                found["params"] for found in hand.got if found.get("method") == "notifications/tasks/status"
            ]
            assert [(params["status"], params.get("statusMessage")) for params in told] == [
                ("working", "at it"),
                ("working", "nearly there"),
                ("completed", "nearly there"),
            ]

    run(main())


@req("TASK-8", "TASKX-2")
@each_kind
def test_errors_of_tools_and_of_the_protocol(row: Revision) -> None:
    async def main() -> None:
        author = Author()
        author.gate.set()
        async with served(make(author), row, capabilities=KNOWS) as hand:
            broken = await ended(hand, (await start(hand, "fail"))["taskId"])
            failed = await ended(hand, (await start(hand, "tool_error"))["taskId"])
            if row is MODERN:
                assert (broken["status"], failed["status"]) == ("failed", "completed")
                assert broken["error"] == {"code": -31000, "message": "broken", "data": {"x": 1}}
                assert ("result" in broken, failed["result"]["isError"]) == (False, True)
            else:
                assert (broken["status"], failed["status"]) == ("failed", "failed")
                assert (await hand.ask("tasks/result", {"taskId": broken["taskId"]})).code == -31000
                result = (await hand.ask("tasks/result", {"taskId": failed["taskId"]})).result
                assert result["isError"] is True

    run(main())


@req("TASK-4", "TASK-6", "META-8")
def test_in_sessions_what_a_task_asks_comes_while_its_result_is_waited_for() -> None:
    async def main() -> None:
        async with served(
            make(Author()), CORE, capabilities=ASKABLE, replies={"elicitation/create": ACCEPT}
        ) as hand:
            task = await start(hand, "ask")
            while (await hand.ask("tasks/get", {"taskId": task["taskId"]})).result[
                "status"
            ] != "input_required":
                pass
            assert not [found for found in hand.got if found.get("method") == "elicitation/create"]
            result = (await hand.ask("tasks/result", {"taskId": task["taskId"]})).result
            assert result["content"][0]["text"] == "['accept', 'accept']"
            asked = [found["params"] for found in hand.got if found.get("method") == "elicitation/create"]
            assert [params["_meta"] for params in asked] == [related(task["taskId"])] * 2

    run(main())


class Mixed(Author):
    """A tool that asks in both ways: with a result, and while it runs."""

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        chosen = await ctx.elicit("which?", ["bob", "eve"])
        if "more" not in (params.input_responses or {}):
            return m.InputRequiredResult(input_requests={"more": form()})
        return text(chosen.action)


@req("TASK-4")
def test_a_task_that_runs_again_asks_no_question_again() -> None:
    async def main() -> None:
        def reply(asked: Message) -> Message:
            return CHOSEN if "value" in asked["params"]["requestedSchema"]["properties"] else ACCEPT

        replies: dict[str, Any] = {"elicitation/create": reply}
        async with served(make(Mixed()), CORE, capabilities=ASKABLE, replies=replies) as hand:
            task = await start(hand, "ask")
            result = (await hand.ask("tasks/result", {"taskId": task["taskId"]})).result
            assert result["content"][0]["text"] == "accept"
            assert len([found for found in hand.got if found.get("method") == "elicitation/create"]) == 2

    run(main())


@req("TASK-4")
def test_a_task_does_not_ask_what_the_client_did_not_declare() -> None:
    class Asking(Author):
        async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
            return m.InputRequiredResult(input_requests={"more": form("who is it?")})

    async def main() -> None:
        async with served(make(Asking()), CORE) as hand:
            task = await start(hand, "ask")
            result = (await hand.ask("tasks/result", {"taskId": task["taskId"]})).result
            assert result["isError"] is True
            assert "who is it?" in result["content"][0]["text"]

    run(main())


@req("TASKX-2", "TASKX-3")
def test_as_an_extension_what_a_task_asks_is_answered_by_update() -> None:
    async def main() -> None:
        async with served(make(Author()), MODERN, capabilities=KNOWS) as hand:
            task_id = (await start(hand, "ask"))["taskId"]

            async def asked() -> list[str]:
                return list(
                    (await hand.ask("tasks/get", {"taskId": task_id})).result.get("inputRequests", ())
                )

            while await asked() != ["one"]:
                pass
            update: Message = {"taskId": task_id, "inputResponses": {"one": "accept"}}
            assert (await hand.ask("tasks/update", update)).code == -32602
            assert await asked() == ["one"]
            update["inputResponses"] = {"nobody": ACCEPT}
            assert await asked() == ["one"]
            update["inputResponses"] = {"one": ACCEPT}
            ack = (await hand.ask("tasks/update", update)).result
            assert {name for name in ack if name != "_meta"} == {"resultType"}
            while await asked() != ["two"]:
                pass
            # What has been answered is ignored, however it is answered again.
            await hand.ask("tasks/update", update)
            assert await asked() == ["two"]
            await hand.ask(
                "tasks/update", {"taskId": task_id, "inputResponses": {"two": {"action": "decline"}}}
            )
            found = await ended(hand, task_id)
            assert found["result"]["content"][0]["text"] == "['accept', 'decline']"

    run(main())


@req("TASK-5", "TASKX-3", "CANC-4")
@each_kind
def test_a_task_that_is_given_up_stays_so(row: Revision) -> None:
    async def main() -> None:
        author = Author()
        async with served(make(author), row, capabilities=KNOWS) as hand:
            task_id = (await start(hand, "slow"))["taskId"]
            await author.started.wait()
            given_up = (await hand.ask("tasks/cancel", {"taskId": task_id})).result
            assert given_up.get("status") == ("cancelled" if row is CORE else None)
            await author.stopped.wait()
            author.gate.set()
            assert (await hand.ask("tasks/get", {"taskId": task_id})).result["status"] == "cancelled"
            again = await hand.ask("tasks/cancel", {"taskId": task_id})
            assert again.code == -32602 if row is CORE else again.result["resultType"] == "complete"
            if row is CORE:
                assert (await hand.ask("tasks/result", {"taskId": task_id})).code == -32602

    run(main())


@req("TASK-5", "TASKX-5")
@each_kind
def test_a_task_that_is_not_there(row: Revision) -> None:
    methods = ["get", "cancel", "result" if row is CORE else "update"]

    async def main() -> None:
        async with served(make(Author()), row, capabilities=KNOWS) as hand:
            for method in methods:
                for params in ({"taskId": "nobody"}, {"taskId": 7}, {}):
                    assert (await hand.ask(f"tasks/{method}", params)).code == -32602

    run(main())


@req("TASK-1", "TASK-3")
def test_in_the_core_the_client_decides_within_what_the_tool_can() -> None:
    async def main() -> None:
        author = Author()
        author.gate.set()
        async with served(make(author), CORE) as hand:
            asks: Message = {"task": {}}
            assert (await hand.ask("tools/call", {"name": "plain", **asks})).code == -32601
            assert (await hand.ask("tools/call", {"name": "must"})).code == -32601
            assert (await hand.ask("tools/call", {"name": "slow"})).result["content"][0]["text"] == "done"
            assert (await hand.ask("tools/call", {"name": "slow", "task": {"ttl": "long"}})).code == -32602
            assert "task" in (await hand.ask("tools/call", {"name": "must", **asks})).result
        async with served(mcprev.Server(author, "none", "1"), CORE) as hand:
            assert (await hand.ask("tools/call", {"name": "slow", **asks})).result["content"][0][
                "text"
            ] == "done"

    run(main())


@req("TASKX-1", "TASKX-5", "MOD-16")
def test_as_an_extension_tasks_are_for_those_who_declare_it() -> None:
    async def main() -> None:
        author = Author()
        author.gate.set()
        async with served(make(author), MODERN) as hand:
            assert (await hand.ask("tools/call", {"name": "slow"})).result["resultType"] == "complete"
            refused = await hand.ask("tools/call", {"name": "must"})
            assert refused.code == -32021
            assert refused.error["data"]["requiredCapabilities"]["extensions"] == {EXTENSION: {}}
            for method in ("get", "update", "cancel"):
                assert (await hand.ask(f"tasks/{method}", {"taskId": "x"})).code == -32021
            for method in ("result", "list"):
                assert (await hand.ask(f"tasks/{method}", {"taskId": "x"})).code == -32601

    run(main())


@req("TASKX-6", at=(A, B, C))
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.tasks is Place.NONE], ids=lambda row: row.name)
def test_where_there_are_no_tasks_the_call_takes_as_long_as_it_takes(row: Revision) -> None:
    async def main() -> None:
        author = Author()
        async with served(make(author), row) as hand:
            waiting = asyncio.ensure_future(hand.ask("tools/call", {"name": "must", "task": {}}))
            await author.started.wait()
            assert not waiting.done()
            author.gate.set()
            assert (await waiting).result["content"][0]["text"] == "done"

    run(main())


@req("TASK-7")
def test_a_session_lists_its_own_tasks_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprev.protocol.tasks.PAGE", 2)

    async def main() -> None:
        server = make(Author())
        async with served(server, CORE) as other, served(server, CORE) as hand:
            await start(other, "slow")
            ids = [(await start(hand, "slow"))["taskId"] for _ in range(5)]
            seen: list[str] = []
            cursor: Message = {}
            while True:
                page = (await hand.ask("tasks/list", cursor)).result
                seen += [task["taskId"] for task in page["tasks"]]
                if "nextCursor" not in page:
                    break
                cursor = {"cursor": page["nextCursor"]}
            assert seen == ids
            assert (await hand.ask("tasks/list", {"cursor": "nobody"})).code == -32602
            await server.aclose()

    run(main())


@req("PROG-4", at=D)
def test_progress_of_a_task_goes_on_until_its_end() -> None:
    async def main() -> None:
        author = Author()
        async with served(make(author), CORE) as hand:
            params: Message = {"name": "slow", "task": {}, "_meta": {"progressToken": "t"}}
            task = (await hand.ask("tools/call", params)).result["task"]
            author.gate.set()
            await ended(hand, task["taskId"])
            told = [found["params"] for found in hand.got if found.get("method") == "notifications/progress"]
            assert told == [{"progressToken": "t", "progress": 1, "total": 2}]

    run(main())


@req("PROG-4", at=E)
def test_without_a_session_a_task_reports_no_progress() -> None:
    """Its call is answered as soon as it is one, and reports belong to the call."""

    async def main() -> None:
        author = Author()
        async with served(make(author), MODERN, capabilities=KNOWS) as hand:
            task = (await hand.ask("tools/call", {"name": "slow"}, meta={"progressToken": "t"})).result
            author.gate.set()
            assert (await ended(hand, task["taskId"]))["status"] == "completed"
            assert not [found for found in hand.got if found.get("method") == "notifications/progress"]

    run(main())


@req("TASK-2", "TASK-7", at=(D, E))
@each_kind
def test_what_is_kept_and_for_how_long(row: Revision) -> None:
    now = 1e9
    store = mcprev.MemoryTaskStore(max_tasks=2, clock=lambda: now)

    async def main() -> None:
        nonlocal now
        author = Author()
        author.gate.set()
        async with served(make(author, store=store, ttl=None), row, capabilities=KNOWS) as hand:
            ids = [(await start(hand, "slow"))["taskId"] for _ in range(3)]
            for task_id in ids[1:]:
                assert (await ended(hand, task_id))["ttl" if row is CORE else "ttlMs"] is None
        async with served(make(author, store=store, ttl=1000), row, capabilities=KNOWS) as hand:
            task_id = (await start(hand, "slow"))["taskId"]
            await ended(hand, task_id)
            now = 1e12
            assert (await hand.ask("tasks/get", {"taskId": task_id})).code == -32602

    run(main())


@req("TASK-2", everywhere=True)
@pytest.mark.parametrize("step", [-1e9, 1e9])
def test_a_task_is_kept_for_its_time_whatever_the_time_of_day_is(step: float) -> None:
    async def main() -> None:
        now = 5.0
        store = mcprev.MemoryTaskStore(clock=lambda: now)
        task = task_records.begin(time.time() + step, ttl=1000, poll=None, owner="ann", session=None)
        for each in (task, task_records.complete(task, {}, time.time())):
            await store.save(each)
        now += 0.9
        assert await store.load(task.id) is not None
        now += 0.2
        assert await store.load(task.id) is None
        assert await store.list("ann", None) == []
        await store.save(task_records.complete(task, {}, time.time()))
        assert await store.load(task.id) is not None, "nothing is remembered of what was deleted"

    run(main())


@req("SEC-6", everywhere=True)
def test_who_has_large_results_pushes_out_none_of_others() -> None:
    store = mcprev.MemoryTaskStore(max_bytes=5_000)

    def ended_task(owner: str | None, session: str | None, size: int) -> task_records.Task:
        task = task_records.begin(time.time(), ttl=None, poll=None, owner=owner, session=session)
        return task_records.complete(task, {"content": [{"type": "text", "text": "x" * size}]}, time.time())

    async def main() -> None:
        others = [ended_task("ann", "s1", 300) for _ in range(5)] + [ended_task(None, "s3", 300)]
        for task in others:
            await store.save(task)
        made = [ended_task("eve", f"of eve {number}", 1_000) for number in range(9)]
        for task in made:
            await store.save(task)
        assert [await store.load(task.id) for task in others] == others
        assert await store.list("eve", None) == made[-2:]
        await store.save(ended_task("eve", None, 10_000))
        assert await store.list("eve", None) == []
        assert [await store.load(task.id) for task in others] == others

    run(main())


@req("SEC-6", everywhere=True)
def test_who_has_many_tasks_pushes_out_none_of_others() -> None:
    store = mcprev.MemoryTaskStore(max_tasks=5)

    def ended_task(owner: str | None, session: str | None) -> task_records.Task:
        task = task_records.begin(time.time(), ttl=None, poll=None, owner=owner, session=session)
        return task_records.complete(task, {"content": []}, time.time())

    async def main() -> None:
        others = [ended_task("ann", "s1"), ended_task("ann", "s2"), ended_task(None, "s3")]
        for task in others:
            await store.save(task)
        made = [ended_task("eve", f"of eve {number}") for number in range(9)]
        for task in made:
            await store.save(task)
        assert [await store.load(task.id) for task in others] == others
        assert await store.list("eve", None) == made[-2:]

    run(main())


# -- the client ------------------------------------------------------------------------------------------


class Person(mcprev.ClientHandler):
    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        return m.ElicitResult.from_wire(ACCEPT)


def connect(server: mcprev.Server, row: Revision, **options: Any) -> mcprev.connect:
    return mcprev.connect(mcprev.memory(server), handler=Person(), mode=row.name, **options)


@req("TASK-4", "TASKX-4")
@each_kind
def test_a_client_starts_and_follows_a_task(row: Revision) -> None:
    async def main() -> None:
        author = Author()
        async with connect(make(author), row) as client:
            task = await client.start_tool("slow", ttl=5000)
            assert await task.refresh() == "working"
            author.gate.set()
            assert (await task.result(5)).content[0].to_wire()["text"] == "done"
            asking = await client.start_tool("ask")
            assert (await asking.result(5)).content[0].to_wire()["text"] == "['accept', 'accept']"
            broken = await client.start_tool("fail")
            with pytest.raises(mcprev.RpcError, match="broken"):
                await broken.result(5)

    run(main())


@req("TASK-4", "TASK-5", "TASKX-4")
@each_kind
@pytest.mark.parametrize("ends", ["result", "cancel"])
def test_only_the_result_of_a_task_asks_the_user(row: Revision, ends: str) -> None:
    """Fetching the status, taking the task up again and cancelling it mean the same at every revision."""

    async def main() -> None:
        asked: list[str] = []
        author = Author()

        def answer(question: m.ElicitRequestParams) -> m.ElicitResult:
            asked.append(question.message)
            return m.ElicitResult.from_wire(ACCEPT)

        async with mcprev.connect(mcprev.memory(make(author)), elicitation=answer, mode=row.name) as client:
            task = await client.start_tool("ask")
            while await task.refresh() != "input_required":
                pass
            found = await client.task(task.id)
            assert (await found.refresh(), asked) == ("input_required", [])
            messages = [each["params"]["message"] for each in found.input_requests.values()]
            assert messages == ([] if row is CORE else ["one"])
            if ends == "cancel":
                await found.cancel()
                assert (found.status, asked) == ("cancelled", [])
                await author.stopped.wait()
            else:
                await found.result(5)
                assert asked == ["one", "two"]
                assert not found.input_requests

    run(main())


@req("TASK-4", "TASKX-4", "TASK-8")
@each_kind
def test_a_client_takes_up_the_task_of_another(row: Revision) -> None:
    async def main() -> None:
        app, gate = (
            mcprev.App("s", "1", tasks=mcprev.Tasks({"slow": "optional"}, poll_interval=60_000)),
            asyncio.Event(),
        )

        @app.tool
        async def slow(ctx: mcprev.Context) -> str:
            await ctx.detach()
            await gate.wait()
            return "done"

        async with connect(app.server, row) as client:
            task_id = (await client.start_tool("slow")).id
        async with connect(app.server, row) as client:
            task = await client.task(task_id)
            assert (task.id, task.status) == (task_id, "working")
            waiting = asyncio.ensure_future(task.result(5))
            gate.set()
            # However long the server wants to be left alone, the first look comes soon.
            assert (await waiting).content[0].to_wire()["text"] == "done"
            with pytest.raises(mcprev.InvalidParams, match="Unknown task"):
                await client.task("nothing")
        await app.server.aclose()

    run(main())


@req("TASKX-4", "TASK-4")
def test_a_call_that_was_answered_at_once_is_a_task_without_id() -> None:
    async def main() -> None:
        async with connect(make(Author()), MODERN) as client:
            task = await client.start_tool("plain")
            assert (task.id, task.status) == ("", "completed")

    run(main())


@req("TASK-3", "TASK-4", "TASKX-4")
@each_kind
def test_a_tool_that_requires_a_task_is_called_like_any_other(row: Revision) -> None:
    """What an older revision says of its tasks is there for who asks, in the types of the latest one too."""

    async def main() -> None:
        author = Author()
        author.gate.set()
        async with connect(make(author), row) as client:
            for _ in range(2):
                assert (await client.call_tool("must")).content[0].to_wire()["text"] == "done"
            if row is CORE:
                told = {tool.name: tool.to_wire().get("execution") async for tool in client.tools()}
                assert told == {
                    "plain": None,
                    **{name: {"taskSupport": word} for name, word in TASKS.items()},
                }
                assert client.capabilities.to_wire()["tasks"]["requests"] == {"tools": {"call": {}}}

    run(main())


@req("TASK-3", at=D)
def test_what_a_server_refuses_otherwise_is_not_called_again() -> None:
    async def main() -> None:
        refusing: dict[str, Any] = {"tools/call": Error(-32601, "no such tool")}
        several: list[tuple[Message, int]] = [({}, 1), ({"requests": {"tools": {"call": {}}}}, 2)]
        for tasks, calls in several:
            async with serving(CORE, refusing, capabilities={"tools": {}, "tasks": tasks}) as (client, hand):
                hand.capabilities["tasks"] = tasks
                with pytest.raises(mcprev.MethodNotFound, match="no such tool"):
                    await client.call_tool("t")
                sent = [found for found in hand.requests if found["method"] == "tools/call"]
                assert ["task" in found["params"] for found in sent] == [False, True][:calls]

    run(main())


@req("TASK-3", at=D)
@pytest.mark.parametrize("validate", ["warn", "off"])
def test_that_a_tool_requires_a_task_is_found_out_once(validate: Any) -> None:
    """From the list of tools, or from the first refusal; again when the tools change, and the other way round too."""

    async def main() -> None:
        must = {"listed", "unlisted"}

        def answer(message: Message) -> Message | Error:
            wanted = message["params"]["name"] in must
            refused = Error(-32601, "required" if wanted else "forbidden")
            return refused if wanted is not ("task" in message["params"]) else {"content": []}

        tool = {"name": "listed", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
        replies: dict[str, Any] = {"tools/list": {"tools": [tool]}, "tools/call": answer}
        offers: Message = {"tools": {"listChanged": True}, "tasks": {"requests": {"tools": {"call": {}}}}}
        async with serving(CORE, replies, capabilities=offers, validate=validate) as (client, hand):

            async def sent(name: str) -> list[bool]:
                before = len(hand.asked("tools/call"))
                await client.call_tool(name)
                return ["task" in params for params in hand.asked("tools/call")[before:]]

            await client.list_tools()
            assert await sent("listed") == [True]
            assert [await sent("unlisted") for _ in range(2)] == [[False, True], [True]]
            must.clear()
            assert [await sent("unlisted") for _ in range(2)] == [[True, False], [False]]
            hand.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            assert await sent("plain") == [False]
            assert await sent("listed") == [False]

    run(main())


@req("TASK-5", "TASKX-4")
@each_kind
def test_a_client_gives_a_task_up(row: Revision) -> None:
    async def main() -> None:
        author = Author()
        async with connect(make(author), row) as client:
            task = await client.start_tool("slow")
            with pytest.raises(mcprev.RequestTimeout, match="has not ended within"):
                await task.result(0.01)
            await task.cancel()
            assert task.status == "cancelled"
            await author.stopped.wait()
            with pytest.raises(mcprev.TaskCancelled):
                await task.result(5)

    run(main())


@req("TASKX-4")
def test_calls_are_followed_without_the_callers_noticing() -> None:
    async def main() -> None:
        author = Author()
        async with connect(make(author), MODERN) as client:
            waiting = asyncio.ensure_future(client.call_tool("must"))
            await author.started.wait()
            author.gate.set()
            assert (await waiting).content[0].to_wire()["text"] == "done"
            assert (await client.call_tool("ask")).content[0].to_wire()["text"] == "['accept', 'accept']"
        async with connect(make(author), MODERN, tasks=False) as client:
            with pytest.raises(mcprev.MissingClientCapability):
                await client.call_tool("must")

    run(main())


@req("TASKX-4", "CANC-4", at=(D, E))
def test_a_call_that_is_given_up_gives_up_its_task() -> None:
    async def main() -> None:
        author = Author()
        async with connect(make(author), MODERN) as client:
            with pytest.raises(mcprev.RequestTimeout):
                await client.call_tool("slow", total_timeout=0.1)
            await author.stopped.wait()

    run(main())


@req("TASKX-4")
def test_each_question_is_answered_once() -> None:
    looks = 0
    question = {"method": "elicitation/create", "params": form("who?").to_wire()["params"]}
    told = {
        "taskId": "t",
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "ttlMs": None,
    }

    def get(_: Message) -> Message:
        nonlocal looks
        looks += 1
        if looks < 4:
            return {**told, "status": "input_required", "inputRequests": {"k": question}, "pollIntervalMs": 1}
        return {**told, "status": "completed", "result": {"content": []}}

    replies: dict[str, Any] = {
        "tools/call": {**told, "resultType": "task", "status": "working", "pollIntervalMs": 1},
        "tasks/get": get,
        "tasks/update": {},
    }

    async def main() -> None:
        async with serving(MODERN, replies, handler=Person()) as (client, server):
            assert (await client.call_tool("x")).content == []
            assert server.asked("tasks/update") == [{"taskId": "t", "inputResponses": {"k": ACCEPT}}]

    run(main())


@req("TASKX-4", "BASE-15")
@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"taskId": "t"},
        {"taskId": 7, "status": "working"},
        {"taskId": "t", "status": "odd"},
        {"taskId": "t", "status": ["working"]},
        {"taskId": "t", "status": "input_required", "inputRequests": ["who?"]},
        {"taskId": "t", "status": "input_required", "inputRequests": {"k": "who?"}},
    ],
)
def test_what_is_no_task_is_an_error(bad: Message) -> None:
    async def main() -> None:
        async with serving(MODERN, {"tools/call": {"resultType": "task", **bad}}) as (client, _):
            with pytest.raises(mcprev.RemoteProtocolError, match="no valid id, status or requests"):
                await client.call_tool("x")
        refusing: dict[str, Any] = {"tools/call": Error(-32603)}
        async with serving(MODERN, refusing) as (client, server):
            assert isinstance(server, HandServer)
            with pytest.raises(mcprev.InternalError):
                await client.call_tool("x")

    run(main())
