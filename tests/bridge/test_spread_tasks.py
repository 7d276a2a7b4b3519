"""Tasks of a bridge in several processes, while one of them is lost."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from api.wire import LOG_LEVEL, Message
from bridge.hands import SAMPLE, SAMPLED, Downstream, Servers, Upstream, capabilities_of
from bridge.spread import Processes, spread
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
from helpers.running import run, until
from mcprev.protocol import tasks
from mcprev.revisions import DEFAULT, Revision, TaskSupport

WITH_TASKS: Final = [row for row in DEFAULT if row.tasks is not TaskSupport.NONE]
ACROSS: Final = [(row, there) for row in WITH_TASKS for there in WITH_TASKS if row.tasks is not there.tasks]
across = pytest.mark.parametrize(("row", "there"), ACROSS, ids=lambda found: found.name)
IN_A_SESSION: Final = [(row, there) for row, there in ACROSS if row.handshake]
LIMIT: Final = 30.0
URI: Final = "a:x"
UPDATED: Final = "notifications/resources/updated"


async def noted(up: Upstream, request: Message) -> Any:
    """A task of a call whose log level is kept."""
    meta: Message = request["params"].get("_meta") or {}
    up.replies["level"] = {"level": meta.get(LOG_LEVEL)}
    return await long_work(up, request)


TOOLS: Final = {"long_work": long_work, "noted": noted, **TASK_METHODS}


def servers_of(there: Revision) -> Servers:
    listed = {"tools": [marked_tool(there, name) for name in ("long_work", "noted")]}
    replies: Any = {"tools/list": listed, "resources/subscribe": {}, "logging/setLevel": {}}
    return Servers(lambda: offering_tasks(Upstream(there, TOOLS, replies)))


def client_of(row: Revision) -> Downstream:
    return Downstream(row, capabilities_with_tasks(row, capabilities_of(row)))


async def ended(client: Downstream, id_: str) -> Message:
    """The state of a task that has ended."""
    while True:
        state = (await client.ask(tasks.GET, {"taskId": id_})).result
        if state["status"] in tasks.FINAL:
            return state
        await asyncio.sleep(POLL / 1000)


@pytest.mark.slow
@req("SEAM-10", "TASK-5", "TASKX-2")
@across
def test_a_task_whose_process_is_killed_has_failed(row: Revision, there: Revision) -> None:
    """Who asks for it anywhere learns so, and who waits for its result gets an error."""

    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        client.replies[SAMPLE] = lambda _: None
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            other = next(number for number in processes.alive if number not in processes.holders())
            way.to = [other]
            id_ = (await started(client, "long_work"))["taskId"]
            result, asked = None, dict[str, Any]()
            if row.tasks is TaskSupport.CORE:
                way.to = [number for number in processes.alive if number != other][:1]
                result = asyncio.ensure_future(client.ask(tasks.RESULT, {"taskId": id_}))
                asked = await client.get(lambda found: found.get("method") == SAMPLE)
            await processes.kill(other)
            assert (await ended(client, id_))["status"] == "failed"
            if result is not None:
                client.send({"jsonrpc": "2.0", "id": asked["id"], "result": SAMPLED})
                assert "ended" in (await result).error["message"]
        servers.check()

    run(main(), limit=LIMIT)


def told(servers: Servers) -> list[str]:
    """What was cancelled at the server."""
    return [reason for up in servers.upstreams for reason in up.cancelled]


@req("SEAM-10", "TASK-3", "TASKX-4")
@across
def test_a_task_is_cancelled_at_another_process(row: Revision, there: Revision) -> None:
    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            for number in tuple(processes.alive):
                for other in tuple(processes.alive):
                    way.to = [number, other]
                    id_ = (await started(client, "long_work"))["taskId"]
                    assert "result" in (await client.ask(tasks.CANCEL, {"taskId": id_})).message
                    assert (await ended(client, id_))["status"] == "cancelled"
            await until(lambda: len({one for one in told(servers) if one.startswith("task ")}) == 9)
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "SUB-5", "TASK-4")
@pytest.mark.parametrize(("row", "there"), IN_A_SESSION, ids=lambda found: found.name)
def test_the_process_of_a_task_takes_its_session_over(row: Revision, there: Revision) -> None:
    """It already has a connection to the server, which was told nothing of the session until then."""

    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        processes = Processes(servers, there, 2)
        async with spread(processes, client) as (way,):
            await client.ask("resources/subscribe", {"uri": URI})
            (holder,) = processes.holders()
            (way.to,) = ([number] for number in processes.alive if number != holder)
            id_ = (await started(client, "long_work"))["taskId"]
            await processes.kill(holder)
            assert "result" in (await client.ask("tools/list")).message
            await until(
                lambda: any(
                    URI in up.listens[-1][1].get("resourceSubscriptions", ()) for up in open_listens(servers)
                )
            )
            (up,) = open_listens(servers)
            listen, _ = up.listens[-1]
            await client.heard(UPDATED)  # all may have changed
            up.tell(UPDATED, {"uri": URI, "_meta": {"io.modelcontextprotocol/subscriptionId": listen}})
            await client.heard(UPDATED)
            _, answers = await finished(client, id_)
            assert "in a task" in str(answers)
        servers.check()

    run(main(), limit=LIMIT)


def open_listens(servers: Servers) -> list[Upstream]:
    """The connections to the server on which a stream was opened."""
    return [up for up in servers.upstreams if up.listens and not up.lost]


@req("SEAM-10", "LOG-2", "TASK-1")
@pytest.mark.parametrize(("row", "there"), IN_A_SESSION, ids=lambda found: found.name)
def test_a_task_has_the_log_level_of_its_session_at_every_process(row: Revision, there: Revision) -> None:
    async def main() -> None:
        servers, client = servers_of(there), client_of(row)
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            for level in ("debug", "error"):
                await client.ask("logging/setLevel", {"level": level})
                for number in tuple(processes.alive):
                    way.to = [number]
                    await started(client, "noted")
                    await until(lambda: any("level" in up.replies for up in servers.upstreams))
                    (up,) = (up for up in servers.upstreams if "level" in up.replies)
                    assert up.replies.pop("level") == {"level": level}, number
        servers.check()

    run(main(), limit=LIMIT)
