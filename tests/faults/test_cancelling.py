"""A user's task is cancelled at each of its suspensions in turn, and again while it cleans up: nothing is left over."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, TypeAlias

import pytest

import mcprev
from api.authors import form, text
from faults.processes import BOUND, nothing_left, tiny
from fuzz.fuzzing import each_once
from helpers.requirements import D, E, req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision, TaskSupport as Place
from mcprev_types.latest import models as m

ENOUGH: Final = 2000
"""More suspensions than any of these scenarios has."""


class Author(mcprev.ServerHandler):
    """Tools that take some turns of the loop, so that they can be met at work."""

    def __init__(self) -> None:
        self.running = 0
        self.met = 0
        """How many were cancelled at work."""

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        self.running += 1
        try:
            return await self.work(ctx, params.name)
        except asyncio.CancelledError:
            self.met += 1
            raise
        finally:
            self.running -= 1

    async def work(self, ctx: mcprev.Context, name: str) -> m.CallToolResult:
        if name == "change":
            ctx.changed("tools")
        elif name == "ask":
            return text((await ctx.ask("q", form())).action)
        elif name == "task":
            await ctx.detach(poll_interval=1)
        for number in range(3):
            await ctx.progress(number)
            await asyncio.sleep(0)
        return text(name)


class Person(mcprev.ClientHandler):
    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        await asyncio.sleep(0)
        return m.ElicitResult(action="decline")


class Steps:
    """Awaits a coroutine and counts its suspensions; from one of them on its task is cancelled, so many times."""

    def __init__(self, work: Coroutine[Any, Any, None], first: int, times: int) -> None:
        self.taken = 0
        self._work = work
        self._cancelled = range(first, first + times)

    def __await__(self) -> Generator[Any, Any, None]:
        inner = self._work.__await__()
        task = asyncio.current_task()
        assert task is not None
        raised: BaseException | None = None
        while True:
            try:
                waits_for = next(inner) if raised is None else inner.throw(raised)
            except StopIteration:
                return
            self.taken += 1
            if self.taken in self._cancelled:
                # It takes effect when the task sees what it is to wait for.
                task.cancel()
            raised = None
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - it belongs to the one that waits
                raised = error


async def _steps(steps: Steps) -> None:
    await steps


Scenario: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"


async def cancelled_everywhere(scenario: Scenario, after: Callable[[], Awaitable[None]], times: int) -> int:
    """Run a scenario anew for each of its suspensions, cancelled there; `after` looks at what is left. How many."""
    others = asyncio.all_tasks()
    for number in range(1, ENOUGH):
        steps = Steps(scenario(), number, times)
        task = asyncio.create_task(_steps(steps))
        try:
            async with asyncio.timeout(BOUND):
                await asyncio.wait({task})
                while left := asyncio.all_tasks() - others:
                    await asyncio.wait(left)
                await after()
        except BaseException as error:
            error.add_note(f"at suspension {number}: {asyncio.all_tasks() - others}")
            raise
        if task.cancelled():
            continue
        if task.exception() is not None:
            task.result()
        if steps.taken < number:
            return number
    raise AssertionError("the scenario has no end")


def server(author: Author) -> mcprev.Server:
    return mcprev.Server(author, "s", "1", tasks=mcprev.Tasks({"task": "optional"}), validate=False)


def connected(target: mcprev.Target, row: Revision) -> mcprev.connect:
    return mcprev.connect(target, mode=row.name, handler=Person(), restart=False, cache=False, validate="off")


def can_ask(row: Revision) -> bool:
    return row.input_in_results or "elicitation/create" in row.methods


async def use(client: mcprev.Client, row: Revision) -> None:
    """Everything there is to do with a server."""
    await client.list_tools()
    await client.call_tool("x", progress=lambda _, __, ___: None)
    if can_ask(row):
        await client.call_tool("ask")
    async with client.listen(tools=True) as changes:
        await client.call_tool("change")
        await anext(changes)
    await client.call_tool("task")
    if row.tasks is not Place.NONE:
        await (await client.start_tool("task")).result()


each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


@req("CANC-7", "LIFE-16")
@pytest.mark.parametrize("times", [1, 3])
@each_row
def test_from_connecting_to_closing(row: Revision, times: int) -> None:
    async def main() -> None:
        author = Author()
        made = server(author)

        async def live() -> None:
            async with connected(mcprev.memory(made), row) as client:
                await use(client, row)

        async def after() -> None:
            assert not made._connections
            await made.aclose()
            assert author.running == 0

        assert await cancelled_everywhere(live, after, times) > 8
        assert author.met > 2

    run(main(), limit=60)


@req("CANC-7", "CANC-2", "LIFE-16", at=[row.name for row in DEFAULT])
@pytest.mark.parametrize("times", [1, 3])
@each_row
def test_the_connection_survives(row: Revision, times: int) -> None:
    """The handler is cancelled, no call is left open on either side, and the next call is answered."""

    async def main() -> None:
        author = Author()
        made = server(author)
        async with connected(mcprev.memory(made), row) as client:
            (end,) = made._connections

            async def after() -> None:
                async with asyncio.timeout(BOUND):
                    assert (await client.call_tool("x")).content == text("x").content
                    assert (author.running, client.connection.protocol.waiting) == (0, False)
                    assert (end.protocol.waiting, end.protocol.connection.incoming) == (False, {})
                assert not client.session.listeners
                assert client.connection.error is None

            assert await cancelled_everywhere(lambda: use(client, row), after, times) > 6
        assert author.met > 2
        await made.aclose()

    run(main(), limit=60)


@req("CANC-7", "STDIO-5", at=(D, E))
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.name in (D, E)], ids=lambda row: row.name)
@each_once
def test_over_processes(row: Revision, times: int) -> None:
    """Wherever it was cancelled, the process is gone, and so is its child."""

    async def main() -> None:
        async def live() -> None:
            async with connected(tiny("nowhere", grace=0.5, env={"CHILD": "quiet"}), row) as client:
                await client.call_tool("x")
                async with client.listen(uris=["a:1"]):
                    await client.call_tool("ask")

        async def after() -> None:
            pass

        assert await cancelled_everywhere(live, after, times) > 8

    with nothing_left():
        run(main(), limit=60)
