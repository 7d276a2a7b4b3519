"""The server's process is killed at every step of a client's life: all who wait are told, and nothing is left."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest

import mcprev
from faults.processes import BOUND, OURS, each, exists, group, nothing_left, soon, tiny
from helpers.lanes import turns
from helpers.named import SOME_ROWS
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import ConnectionLost, NegotiationError, ProcessExited
from mcprev.revisions import Revision, TaskSupport
from mcprev_types.latest import models as m

ANYTHING = m.ElicitResult(action="accept", content={"name": "bob"})


class Person(mcprev.ClientHandler):
    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        return ANYTHING


def points(row: Revision) -> dict[str, set[str]]:
    """Where the server may die, and in which part of the client's life that is seen."""
    opener = "initialize" if row.handshake else "server/discover"
    found = {
        "start": {"open"},
        opener: {"open"},
        f"half-{opener}": {"open"},
        f"after-{opener}": {"open", "call"},
        "tools/call": {"call"},
        "half-tools/call": {"call"},
        "after-tools/call": {"progress"},
        "progress": {"progress"},
        "progressing": {"progress"},
        "listen": {"listen"},
        "listening": {"change"},
        "close": {"close"},
    }
    if row.handshake:
        found["notifications/initialized"] = {"open", "call"}
    if can_ask(row):
        found |= {"ask": {"ask"}, "asking": {"ask"}, "asked": {"ask"}}
    return found


def can_ask(row: Revision) -> bool:
    return row.input_in_results or "elicitation/create" in row.methods


class Life:
    """What a client does from its beginning to its end, and where that ended."""

    def __init__(self, row: Revision) -> None:
        self.revision = row
        self.step = "open"
        self.pending: list[asyncio.Task[Any]] = []

    async def live(self, target: mcprev.stdio) -> None:
        connecting = mcprev.connect(
            target, mode=self.revision.name, handler=Person(), restart=False, cache=False, validate="off"
        )
        async with connecting as client:
            self.pending = [asyncio.create_task(client.call_tool("wait")) for _ in range(3)]
            self.step = "call"
            await client.call_tool("x")
            self.step = "progress"
            await client.call_tool("progress", progress=lambda _, __, ___: None)
            if can_ask(self.revision):
                self.step = "ask"
                await client.call_tool("ask")
            self.step = "listen"
            async with client.listen(uris=["a:1"]) as changes:
                self.step = "change"
                if target._command[-1] == "listening":
                    await anext(changes)
            self.step = "close"


async def killed_at(row: Revision, point: str) -> None:
    target, life = tiny(point, env={"CHILD": "quiet"}), Life(row)
    async with asyncio.timeout(BOUND):
        if point == "close":
            await life.live(target)
        else:
            with pytest.raises((NegotiationError, ConnectionLost)) as caught:
                await life.live(target)
            error = caught.value
            if isinstance(error, ProcessExited):
                assert error.returncode == -signal.SIGKILL
            assert (life.step == "open") is isinstance(error, NegotiationError)
        ends = await asyncio.gather(*life.pending, return_exceptions=True)
    assert life.step in points(row)[point]
    assert all(isinstance(end, ConnectionLost) and end.in_flight for end in ends), ends
    assert target.pid is not None
    assert not exists(target.pid)
    await soon(lambda: not group(target.pid or 0), "a child of the server is left")


@pytest.mark.slow
@req("LIFE-16", "STDIO-5")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_killed_at_every_step(row: Revision) -> None:
    with nothing_left():
        run(each({point: killed_at(row, point) for point in points(row)}), limit=2 * BOUND)


@req("LIFE-16", "STDIO-5", everywhere=True)
def test_killed_while_its_child_holds_the_pipes() -> None:
    """The pipes stay open, so that only the process itself tells that it is gone."""

    async def main() -> None:
        target = tiny("tools/call", env={"CHILD": "holding"})
        async with asyncio.timeout(BOUND), mcprev.connect(target, mode=E, restart=False) as client:
            with pytest.raises(ProcessExited) as caught:
                await client.call_tool("x")
            assert caught.value.returncode == -signal.SIGKILL
        await soon(lambda: not group(target.pid or 0), "the child is left")

    with nothing_left():
        run(main())


async def to_the_end(changes: mcprev.Subscription) -> None:
    async for _ in changes:
        pass


async def killed_again_at(row: Revision, point: str, mark: Path) -> None:
    """Callers learn that there is no server any more, as soon as the attempts are used up; who listens waits for it."""
    target = tiny("tools/call", point, str(mark), env={"CHILD": "quiet"})
    restart = ReconnectPolicy(limit=2, backoff=0.001)
    async with (
        asyncio.timeout(2 * BOUND),
        mcprev.connect(target, mode=row.name, restart=restart, validate="off") as client,
        client.listen(tools=True) as changes,
    ):
        with pytest.raises(ProcessExited):
            await client.call_tool("x")
        callers = [asyncio.create_task(client.call_tool("x")) for _ in range(5)]
        for end in await asyncio.gather(*callers, return_exceptions=True):
            assert isinstance(end, ConnectionLost)
        for _ in range(
            restart.limit
        ):  # a server that dies after it was reached ends the calls of one attempt
            with pytest.raises(ConnectionLost):
                await client.call_tool("x")
        with pytest.raises(ConnectionLost, match="not opened again"):
            await client.call_tool("x")
        listening = asyncio.create_task(to_the_end(changes))
        await turns()
        assert not listening.done()
        await client.aclose()
        with pytest.raises(ConnectionLost, match="closed"):
            await listening
    await soon(lambda: not group(target.pid or 0), "a child of the server is left")


@req("STDIO-7", "LIFE-16", "SUB-5")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_killed_while_it_is_started_again(row: Revision, tmp_path: Path) -> None:
    opener = "initialize" if row.handshake else "server/discover"
    places = ("start", f"half-{opener}", f"after-{opener}")
    cases = {place: killed_again_at(row, place, tmp_path / str(n)) for n, place in enumerate(places)}
    with nothing_left():
        run(each(cases), limit=3 * BOUND)


@req("STDIO-5", everywhere=True)
def test_killed_while_it_is_being_ended() -> None:
    """The time it would have had to end by itself is not waited for."""

    async def main() -> None:
        target = mcprev.stdio(*OURS, "stubborn", grace=30.0)
        client = await mcprev.connect(target, restart=False, mode="legacy")
        closing = asyncio.create_task(client.aclose())
        await until(client.connection.closed.done)
        assert target.pid is not None
        assert exists(target.pid)
        os.kill(target.pid, signal.SIGKILL)
        async with asyncio.timeout(BOUND):
            await closing
        assert not exists(target.pid)

    with nothing_left():
        run(main())


class Slow(mcprev.ClientHandler):
    """Takes its time to answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.stopped = asyncio.Event()
        self.go = asyncio.Event()

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        self.asked.set()
        try:
            await self.go.wait()
        finally:
            self.stopped.set()
        return ANYTHING


@req("LIFE-16", "STDIO-5", "SUB-4")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_killed_with_everything_under_way(row: Revision) -> None:
    """Calls, one of which reports, a question at the client's user, a task and a subscription: each of them ends."""

    async def main() -> None:
        target, handler, reports = mcprev.stdio(*OURS), Slow(), asyncio.Event()
        connecting = mcprev.connect(target, mode=row.name, handler=handler, restart=False, validate="off")
        async with connecting as client, client.listen(tools=True) as changes:
            calls: list[Any] = [client.call_tool("wait") for _ in range(5)]
            calls.append(client.call_tool("progress", progress=lambda _, __, ___: reports.set()))
            if can_ask(row):
                calls.append(client.call_tool("ask"))
            task = client.call_tool("task") if row.tasks is TaskSupport.NONE else client.start_tool("task")
            calls.append(
                task if row.tasks is TaskSupport.NONE else cast("mcprev.ClientTask", await task).result()
            )
            calls.append(anext(changes))
            pending = [asyncio.ensure_future(call) for call in calls]
            await reports.wait()
            if can_ask(row):
                await handler.asked.wait()
            assert target.pid is not None
            os.kill(target.pid, signal.SIGKILL)
            if row.input_in_results:
                # What a result asks for is answered with another request, to whoever is there by then.
                await client.connection.closed
                assert not handler.stopped.is_set()
                handler.go.set()
            async with asyncio.timeout(BOUND):
                ends = await asyncio.gather(*pending, return_exceptions=True)
            assert all(isinstance(end, ConnectionLost) for end in ends), ends
            if row.handshake and can_ask(row):
                assert handler.stopped.is_set()
        assert not exists(target.pid)

    with nothing_left():
        run(main())
