"""Closing from anywhere, twice, while everything is under way; and a connection that dies under a hundred calls."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import mcprev
from api.authors import form, text
from api.test_reopening import Flaky
from faults.processes import BOUND
from helpers.requirements import req
from helpers.running import run, until
from mcprev.errors import ConnectionLost
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
MANY = 100


class Author(mcprev.ServerHandler):
    """Tools that end the connection they are called over, or the server; those that end nothing wait."""

    def __init__(self) -> None:
        self.running = 0
        self.server: mcprev.Server | None = None

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        self.running += 1
        try:
            if params.name == "close":
                await ctx.connection.aclose()
            elif params.name == "close the server":
                assert self.server is not None
                await asyncio.gather(self.server.aclose(), self.server.aclose())
            elif params.name == "ask":
                await ctx.ask("q", form())
            elif params.name == "progress":
                await ctx.progress(1)
            elif params.name == "x":
                return text("x")
            await asyncio.Event().wait()
        finally:
            self.running -= 1
        raise AssertionError


class Closing(mcprev.ClientHandler):
    """Closes the client when it is asked something."""

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        await ctx.client.aclose()
        return m.ElicitResult(action="cancel")


def make() -> tuple[mcprev.Server, Author]:
    author = Author()
    author.server = made = mcprev.Server(author, "s", "1", validate=False)
    return made, author


def connected(made: mcprev.Server, row: Revision, **options: Any) -> mcprev.connect:
    return mcprev.connect(mcprev.memory(made), mode=row.name, restart=False, validate="off", **options)


async def fails(call: asyncio.Future[Any]) -> None:
    """See that who waited is told."""
    with pytest.raises(ConnectionLost):
        async with asyncio.timeout(BOUND):
            await call


@req("LIFE-16")
@each_row
@pytest.mark.parametrize("name", ["close", "close the server"])
def test_a_server_is_closed_by_one_of_its_handlers(row: Revision, name: str) -> None:
    async def main() -> None:
        made, author = make()
        async with connected(made, row) as client:
            others = [asyncio.ensure_future(client.call_tool("wait")) for _ in range(3)]
            await fails(asyncio.ensure_future(client.call_tool(name)))
            for other in others:
                await fails(other)
        await until(lambda: not made._connections)
        assert author.running == 0

    run(main())


@req("LIFE-16")
@each_row
def test_a_client_is_closed_by_its_handler(row: Revision) -> None:
    if not (row.input_in_results or "elicitation/create" in row.methods):
        return

    async def main() -> None:
        made, author = make()
        async with connected(made, row, handler=Closing()) as client:
            other = asyncio.ensure_future(client.call_tool("wait"))
            await fails(asyncio.ensure_future(client.call_tool("ask")))
            await fails(other)
        await until(lambda: not made._connections)
        assert author.running == 0

    run(main())


@req("LIFE-16", "PROG-1")
@each_row
def test_a_client_is_closed_by_who_hears_of_progress(row: Revision) -> None:
    async def main() -> None:
        made, author = make()
        client = await connected(made, row)
        closing: list[asyncio.Task[None]] = []

        def told(*_: object) -> None:
            closing.extend(asyncio.create_task(client.aclose()) for _ in range(2))

        await fails(asyncio.ensure_future(client.call_tool("progress", progress=told)))
        await asyncio.gather(*closing)
        await until(lambda: not made._connections)
        assert author.running == 0

    run(main())


@req("LIFE-16")
@each_row
def test_closed_twice_by_several_and_by_one_who_is_cancelled(row: Revision) -> None:
    async def main() -> None:
        made, author = make()
        client = await connected(made, row)
        calls = [asyncio.ensure_future(client.call_tool("wait")) for _ in range(3)]
        await until(lambda: author.running == 3)
        first = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(BOUND):
            await asyncio.gather(first, *(client.aclose() for _ in range(3)), return_exceptions=True)
            await asyncio.create_task(client.aclose())
        for call in calls:
            await fails(call)
        assert (author.running, made._connections) == (0, set())
        await fails(asyncio.ensure_future(client.call_tool("x")))

    run(main())


@req("LIFE-16")
@each_row
@pytest.mark.parametrize("when", ["at once", "before it is acknowledged", "while it is read"])
def test_closed_while_somebody_listens(row: Revision, when: str) -> None:
    """Who listens, or begins to, is told that the connection is gone: nobody cancelled it."""

    async def main() -> None:
        made, _ = make()
        client = await connected(made, row)

        async def listen() -> None:
            async with client.listen(tools=True) as changes:
                await anext(changes)

        listening = asyncio.create_task(listen())
        for _ in range({"at once": 0, "before it is acknowledged": 1, "while it is read": 20}[when]):
            await asyncio.sleep(0)
        await client.aclose()
        async with asyncio.timeout(BOUND):
            (end,) = await asyncio.gather(listening, return_exceptions=True)
        assert isinstance(end, ConnectionLost | StopAsyncIteration), repr(end)

    run(main())


@req("LIFE-16", "STDIO-7")
@each_row
@pytest.mark.parametrize("how", ["cut", "close", "server"])
def test_a_hundred_calls_in_flight(row: Revision, how: str) -> None:
    """Each is told, once, and no handler goes on; with another connection the next call is answered."""

    async def main() -> None:
        made, author = make()
        target = Flaky(made)
        connecting = mcprev.connect(target, mode=row.name, restart=how == "cut", validate="off")
        async with connecting as client:
            connection = client.connection
            ends: list[BaseException] = []

            def ended(call: asyncio.Future[Any]) -> None:
                error = call.exception()
                assert error is not None
                ends.append(error)

            calls = [asyncio.ensure_future(client.call_tool("wait")) for _ in range(MANY)]
            for call in calls:
                call.add_done_callback(ended)
            await until(lambda: author.running == MANY)
            ways: dict[str, Callable[[], Any]] = {
                "cut": target.cut, "close": client.aclose, "server": made.aclose
            }  # fmt: skip
            async with asyncio.timeout(BOUND):
                await ways[how]()
                await asyncio.wait(calls)
            assert len(ends) == MANY
            assert all(isinstance(end, ConnectionLost) and end.in_flight for end in ends)
            await until(lambda: author.running == 0)
            assert not connection.protocol.waiting
            if how == "cut":
                assert (await client.call_tool("x")).content == text("x").content
                assert client.reopened == 1

    run(main())


@req("STDIO-6", "SEC-6", everywhere=True)
def test_clients_of_this_process_that_close_together_close_each_connection_once() -> None:
    """Not each of them all: the work grows with their number, and no faster."""
    closed: list[object] = []

    class Counting(mcprev.Server):
        def connection(self) -> Any:
            made = super().connection()
            aclose = made.aclose

            async def counted(error: ConnectionLost | None = None) -> None:
                closed.append(made)
                await aclose(error)

            made.aclose = counted  # type: ignore[method-assign]
            return made

    async def main() -> None:
        ended: list[str] = []

        @asynccontextmanager
        async def lifespan(_: mcprev.Server) -> AsyncGenerator[None, None]:
            yield
            ended.append("lifespan")

        target = mcprev.memory(Counting(Author(), "s", "1", lifespan=lifespan))
        clients = [await mcprev.connect(target) for _ in range(MANY)]
        first, *others = clients
        await first.aclose()
        assert len(closed) == 1, "a client waits until the server's end of its connection is closed"
        assert not ended
        await asyncio.gather(*(client.aclose() for client in others))
        assert len(closed) == MANY
        assert ended == ["lifespan"]

    run(main())
