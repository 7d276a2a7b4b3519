"""Tasks of a bridge: who sees which, who is asked what, and how they end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import mcprev
from api.wire import SUBSCRIPTION_ID, Error, Message
from bridge.hands import Downstream, Servers, Upstream, bridge_to, bridged, capabilities_of, said, text
from bridge.task_hands import (
    POLL,
    TASK_METHODS,
    capabilities_with_tasks,
    finished,
    long_work,
    marked_tool,
    offering_tasks,
    started,
)
from helpers.requirements import req
from helpers.running import run
from mcprev.protocol import tasks
from mcprev.revisions import DEFAULT, Revision, TaskSupport
from mcprev.wire.meta_keys import RELATED

WITH_TASKS = [row for row in DEFAULT if row.tasks is not TaskSupport.NONE]
ACROSS = [(row, there) for row in WITH_TASKS for there in WITH_TASKS if row.tasks is not there.tasks]
across = pytest.mark.parametrize(("row", "there"), ACROSS, ids=lambda found: found.name)


def servers_of(there: Revision, **tools: Any) -> Servers:
    """Servers whose tools are `long_work` and others, which can only run as tasks."""
    known = {"long_work": long_work, **tools}
    listed = {"tools": [marked_tool(there, name) for name in known]}
    return Servers(
        lambda: offering_tasks(Upstream(there, {**known, **TASK_METHODS}, {"tools/list": dict(listed)}))
    )


def client_of(row: Revision) -> Downstream:
    return Downstream(row, capabilities_with_tasks(row, capabilities_of(row)))


async def ended(client: Downstream, id_: str) -> Message:
    """The state of a task that has ended."""
    while True:
        state = (await client.ask(tasks.GET, {"taskId": id_})).result
        if state["status"] in tasks.FINAL:
            return state
        await asyncio.sleep(POLL / 1000)


@req("SEAM-10", "TASK-1", "TASKX-1", "TOOL-10")
@across
def test_each_side_declares_and_lists_tasks_in_its_own_way(row: Revision, there: Revision) -> None:
    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        async with bridged(bridge_to(servers, there), client):
            capabilities, core = client.hello["capabilities"], row.tasks is TaskSupport.CORE
            assert ("tasks" in capabilities) is core
            assert (tasks.EXTENSION in capabilities.get("extensions", {})) is not core
            (listed,) = (await client.ask("tools/list")).result["tools"]
            if core:
                assert listed["execution"] == {"taskSupport": "optional"}
        servers.check()

    run(main())


@req("SEAM-10", "TASK-4", "TASKX-3")
@across
def test_many_tasks_at_once_get_their_own_answers(row: Revision, there: Revision) -> None:
    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        async with bridged(bridge_to(servers, there), client):
            found = await asyncio.gather(*(started(client, "long_work") for _ in range(12)))
            ids = {task["taskId"] for task in found}
            assert len(ids) == 12
            assert not any(
                id_ in up.tasks for up in servers.upstreams for id_ in ids
            ), "no id of the server is shown"
            ends = await asyncio.gather(*(finished(client, id_) for id_ in ids))
            assert all("in a task" in str(answers) for _, answers in ends)
            assert len(servers.made) <= 5, "tasks do not keep connections for themselves"
            if row.tasks is TaskSupport.CORE:
                listed = (await client.ask(tasks.LIST)).result["tasks"]
                assert {task["taskId"] for task in listed} == ids
        servers.check()

    run(main())


async def failing(up: Upstream, request: Message) -> Message | Error:
    """A task that fails before anybody asks."""
    found = await long_work(up, request)
    if isinstance(found, Error):
        return found
    id_ = (found.get("task") or found)["taskId"]
    up.tasks[id_] = {"status": "failed", "error": {"code": -32603, "message": "it broke"}}
    return found


async def nameless(up: Upstream, _request: Message) -> Message | Error:
    """A task without an id, which is none."""
    core = up.revision.tasks is TaskSupport.CORE
    return {"task": {"status": "working"}} if core else {"resultType": "task", "status": "working"}


async def plain(_up: Upstream, _request: Message) -> Message | Error:
    """A tool that ends at once, whatever it is asked for."""
    return text("at once")


@req("SEAM-10", "TASK-5", "TASKX-2")
@across
def test_a_task_ends_as_that_of_the_server_does(row: Revision, there: Revision) -> None:
    async def main() -> None:
        servers = servers_of(there, failing=failing, nameless=nameless, plain=plain)
        client = client_of(row)
        core = row.tasks is TaskSupport.CORE
        async with bridged(bridge_to(servers, there), client):
            if core:
                task = await started(client, "failing")
                assert (await ended(client, task["taskId"]))["status"] == "failed"
                error = (await client.ask(tasks.RESULT, {"taskId": task["taskId"]})).error
                assert error["message"] == "it broke"
                task = await started(client, "nameless")
                assert (await ended(client, task["taskId"]))["status"] == "failed"
                task = await started(client, "plain")
                assert said((await client.ask(tasks.RESULT, {"taskId": task["taskId"]})).result) == "at once"
            else:
                assert "has no id" in (await client.call("nameless"))["message"]
                assert said(await client.call("plain")) == "at once"
            for method in (tasks.GET, tasks.CANCEL):
                assert (await client.ask(method, {"taskId": "theirs-1"})).error["code"] == -32602

    run(main())


@req("SEAM-10", "SUB-9")
@pytest.mark.parametrize(("row", "there"), [pair for pair in ACROSS if pair[0].listens], ids=lambda r: r.name)
def test_a_listen_stream_carries_the_states_of_tasks(row: Revision, there: Revision) -> None:
    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        async with bridged(bridge_to(servers, there), client):
            task = await started(client, "long_work")
            filter_ = {"taskIds": [task["taskId"], "theirs-1"]}
            listening = asyncio.ensure_future(
                client.ask("subscriptions/listen", {"notifications": filter_}, id_="states")
            )
            confirmed = await client.heard("notifications/subscriptions/acknowledged")
            assert confirmed["notifications"] == {"taskIds": [task["taskId"]]}
            await asyncio.gather(finished(client, task["taskId"]))
            states = [m["params"] for m in client.got if m.get("method") == tasks.TASK_NOTIFICATION]
            assert states[-1]["status"] == "completed"
            assert all(state["_meta"][SUBSCRIPTION_ID] == "states" for state in states)
            listening.cancel()

    run(main())


@req("SEAM-10", "SUB-2", "SUB-9")
@pytest.mark.parametrize(("row", "there"), [pair for pair in ACROSS if pair[0].listens], ids=lambda r: r.name)
def test_one_listen_stream_carries_states_of_tasks_and_changes_of_the_server(
    row: Revision, there: Revision
) -> None:
    """The tasks are acknowledged with the rest, and what the server is asked for does not name them."""

    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        async with bridged(bridge_to(servers, there), client):
            task = await started(client, "long_work")
            filter_ = {"taskIds": [task["taskId"], "theirs-1"], "toolsListChanged": True}
            listening = asyncio.ensure_future(
                client.ask("subscriptions/listen", {"notifications": filter_}, id_="both")
            )
            confirmed = await client.heard("notifications/subscriptions/acknowledged")
            assert confirmed["notifications"] == {"taskIds": [task["taskId"]], "toolsListChanged": True}
            assert confirmed["_meta"][SUBSCRIPTION_ID] == "both"
            up, *_ = [up for up in servers.upstreams if up.listens or there.handshake]
            assert not any("taskIds" in wanted for _, wanted in up.listens)
            meta: Message = {"_meta": {SUBSCRIPTION_ID: up.listens[0][0]}} if up.listens else {}
            for each in servers.upstreams if there.handshake else [up]:
                each.tell("notifications/tools/list_changed", meta or None)
            changed = await client.heard("notifications/tools/list_changed")
            assert changed["_meta"][SUBSCRIPTION_ID] == "both"
            await finished(client, task["taskId"])
            states = [m["params"] for m in client.got if m.get("method") == tasks.TASK_NOTIFICATION]
            assert states[-1]["status"] == "completed"
            assert all(state["_meta"][SUBSCRIPTION_ID] == "both" for state in states)
            acknowledged = [m.get("method") for m in client.got].count(
                "notifications/subscriptions/acknowledged"
            )
            assert acknowledged == 1
            assert not listening.done()
            for each in servers.upstreams:
                await each.aclose()
            await client.heard("notifications/tools/list_changed")  # the server is back
            assert not listening.done()
            listening.cancel()
        servers.check()

    run(main())


@req("SEAM-10", "SUB-2", "SUB-9")
@pytest.mark.parametrize(("row", "there"), [pair for pair in ACROSS if pair[0].listens], ids=lambda r: r.name)
def test_a_listen_stream_with_tasks_and_changes_needs_a_client_that_declares_tasks(
    row: Revision, there: Revision
) -> None:
    """It is refused before the server is asked."""

    async def main() -> None:
        servers, client = servers_of(there), Downstream(row, capabilities_of(row))
        filter_: Message = {"taskIds": ["one"], "toolsListChanged": True}
        async with bridged(bridge_to(servers, there), client):
            error = (await client.ask("subscriptions/listen", {"notifications": filter_})).error
            assert error["data"] == {"requiredCapabilities": dict(tasks.NEEDS)}
            assert not any(up.listens for up in servers.upstreams)

    run(main())


@req("SEAM-10", "TASK-7")
@across
def test_the_end_of_a_connection_ends_its_tasks(row: Revision, there: Revision) -> None:
    """That of the client's session cancels the task of the server; that of the server fails the task."""

    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        async with bridged(bridge_to(servers, there), client):
            task = await started(client, "long_work")
            found: list[Upstream] = []
            while not found:
                await asyncio.sleep(0)
                found = [up for up in servers.upstreams if up.tasks]
            (up,) = found
            if row.handshake:
                await client.aclose()
                while not up.cancelled and not up.lost:  # noqa: ASYNC110 - in a few turns of the loop
                    await asyncio.sleep(0)
            else:
                await up.aclose()
                assert (await ended(client, task["taskId"]))["status"] == "failed"

    run(main())


@req("SEAM-10", "TASK-8")
def test_what_a_task_reports_reaches_a_session(tmp_path: Path) -> None:
    """Its status message, its status, and progress; and the recording has the answers about it."""
    ((row, there),) = (pair for pair in ACROSS if pair[0].handshake)
    path = tmp_path / "both.jsonl"

    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        async with bridged(bridge_to(servers, there, record=path), client):
            params = {"name": "long_work", "task": {}, "_meta": {"progressToken": "mine"}}
            task = (await client.ask("tools/call", params)).result["task"]
            assert (await client.heard("notifications/progress"))["progressToken"] == "mine"
            result = (await client.ask(tasks.RESULT, {"taskId": task["taskId"]})).result
            assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
            told = [m["params"] for m in client.got if m.get("method") == tasks.STATUS]
            assert [state["status"] for state in told][-1] == "completed"
            assert told[-1]["statusMessage"] == "at it"
            recorded = path.read_text()
            assert recorded.count('"status":"completed"') >= 1
            assert f'"taskId":"{task["taskId"]}"' in recorded

    run(main())


@req("SEAM-10", "TASK-7")
def test_clients_of_this_library_run_tasks_across() -> None:
    """Both ends are real: a client of each revision, in front of an app whose tool becomes a task."""

    async def main() -> None:
        class Handler(mcprev.ServerHandler):
            async def call_tool(self, ctx: mcprev.Context, params: Any) -> Any:
                from mcprev_types.latest import models as m

                await ctx.detach()
                return m.CallToolResult(content=[m.TextContent(text="done")])

            async def list_tools(self, ctx: mcprev.Context, params: Any) -> Any:
                from mcprev_types.latest import models as m

                schema = m.ToolInputSchema.from_wire({"type": "object"})
                return m.ListToolsResult(tools=[m.Tool(name="slow", input_schema=schema)])

        for there in DEFAULT:
            server = mcprev.Server(Handler(), "s", "1", tasks=mcprev.Tasks({"slow": "optional"}))
            bridge = mcprev.Bridge(server, server_revisions=[there.name])
            async with bridge.running():
                for row in DEFAULT:
                    async with mcprev.connect(bridge, mode=row.name) as client:
                        assert (await client.call_tool("slow", {})).text == "done", (row, there)
                        if TaskSupport.NONE not in (row.tasks, there.tasks):
                            task = await client.start_tool("slow", {})
                            assert (await task.result(5)).text == "done", (row, there)

    run(main())
