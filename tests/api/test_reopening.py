"""A lost connection is opened again: what fails, what waits, what is said anew, and where it ends."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mcprev
from api.authors import Everything, Helpful
from helpers.named import ROW_D
from helpers.requirements import req
from helpers.running import run, until
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import ConnectionLost, RequestTimeout, SessionExpired
from mcprev.protocol.connection_state import CallFailed
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
QUICK = ReconnectPolicy(limit=3, backoff=0, stable=60)


class Flaky(mcprev.memory):
    """A server in memory whose connection can be cut, and which may be away for some attempts."""

    restarts = QUICK

    def __init__(self, server: mcprev.Server) -> None:
        super().__init__(server)
        self.opened = 0
        self.away = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.connections: list[Connection] = []

    async def open(self, side: ClientProtocol, desk: RequestHandler[Connection], /) -> Connection:
        await self.gate.wait()
        if self.away:
            self.away -= 1
            raise ConnectionLost("nobody there", in_flight=False, retry_safe=True)
        self.opened += 1
        self.connections.append(await super().open(side, desk))
        return self.connections[-1]

    async def cut(self) -> None:
        """The server's end is gone, with nothing said."""
        end = next(reversed(self._ends.values()))
        end.protocol.connection.calls.drain()
        transport: Any = end
        transport._transport.abort()
        await end.closed
        await self.connections[-1].closed


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


def connected(target: Flaky, row: Revision, **options: Any) -> mcprev.connect:
    return mcprev.connect(target, mode=row.name, **options)


def server() -> tuple[mcprev.Server, Everything]:
    author = Everything()
    return mcprev.Server(author, "s", "1"), author


@req("STDIO-7", "NEG-7")
@each_row
def test_calls_after_a_loss_wait_for_one_new_connection(row: Revision) -> None:
    async def main() -> None:
        made, author = server()
        target = Flaky(made)
        async with connected(target, row) as client:
            lost = asyncio.create_task(client.call_tool("wait"))
            await author.started.wait()
            await target.cut()
            with pytest.raises(ConnectionLost) as caught:
                await lost
            assert caught.value.in_flight
            assert not caught.value.retry_safe
            target.gate.clear()
            waiting = [asyncio.create_task(client.call_tool("echo", {"n": n})) for n in range(20)]
            await until(lambda: client.session._replacing is not None)
            assert not any(call.done() for call in waiting)
            target.gate.set()
            assert [said(result) for result in await asyncio.gather(*waiting)] == [
                f"{{'n': {n}}}" for n in range(20)
            ]
            assert (target.opened, client.reopened, client.revision) == (2, 1, row.name)
            assert author.runs == 21

    run(main())


@req("NEG-7")
@each_row
def test_the_era_is_not_asked_for_again(row: Revision) -> None:
    async def main() -> None:
        target = Flaky(server()[0])
        async with mcprev.connect(target, revisions=[row.name]) as client:
            await target.cut()
            await client.call_tool("echo")
            (evidence,) = (
                (line for line in client.plan.evidence if "known" in line) if row.handshake else ("",)
            )
            assert row.name == client.revision
            assert ("handshake" in evidence) is row.handshake

    run(main())


@req("STDIO-7")
@each_row
def test_attempts_are_bounded(row: Revision) -> None:
    async def main() -> None:
        target = Flaky(server()[0])
        async with connected(target, row) as client:
            target.away = 2
            await target.cut()
            await client.call_tool("echo")
            assert client.reopened == 1
            target.away = 9
            await target.cut()
            for _ in range(2):
                with pytest.raises(ConnectionLost, match="not opened again") as caught:
                    await client.call_tool("echo")
                assert caught.value.retry_safe
                assert not caught.value.in_flight
            assert target.away == 9  # three in a row are all there are

    run(main())


@req("STDIO-7")
@each_row
def test_a_connection_that_lasted_starts_the_count_anew(row: Revision) -> None:
    async def main() -> None:
        target = Flaky(server()[0])
        lasting = ReconnectPolicy(limit=1, backoff=0, stable=0)
        async with connected(target, row, restart=lasting) as client:
            for number in range(1, 5):
                await target.cut()
                await client.call_tool("echo")
                assert client.reopened == number

    run(main())


@req("STDIO-7")
@each_row
def test_only_where_it_is_wanted(row: Revision) -> None:
    async def main() -> None:
        made, _ = server()
        for target, restart in ((Flaky(made), False), (mcprev.memory(made), True)):
            async with mcprev.connect(target, mode=row.name, restart=restart) as client:
                await made_end(made).aclose()
                await client.connection.closed
                with pytest.raises(ConnectionLost):
                    await client.call_tool("echo")
                assert client.reopened == 0
            with pytest.raises(ConnectionLost):
                await client.call_tool("echo")

    run(main())


def made_end(made: mcprev.Server) -> Connection:
    (end,) = made._connections
    return end


@req("TIME-1", at=LATEST.name)
def test_waiting_for_a_connection_has_the_bound_of_the_call() -> None:
    async def main() -> None:
        target = Flaky(server()[0])
        async with connected(target, LATEST) as client:
            await target.cut()
            target.gate.clear()
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("echo", total_timeout=0.02)
            assert caught.value.kind == "total"
            target.gate.set()
            await client.call_tool("echo")

    run(main())


@req("STDIO-7")
@each_row
def test_closing_ends_the_attempt(row: Revision) -> None:
    async def main() -> None:
        target = Flaky(server()[0])
        async with connected(target, row) as client:
            await target.cut()
            target.gate.clear()
            call = asyncio.create_task(client.call_tool("echo"))
            await until(lambda: client.session._replacing is not None)
            await client.aclose()
            with pytest.raises(ConnectionLost):
                await call
            assert target.opened == 1

    run(main())


@req("SUB-5", "STDIO-7", "SUB-7")
@each_row
def test_subscriptions_outlive_the_connection(row: Revision) -> None:
    """And what may have changed in between counts as changed."""

    async def main() -> None:
        made, _ = server()
        target = Flaky(made)
        async with connected(target, row) as client:
            async with client.listen(tools=True, uris=["a:1"]) as changes:
                wanted = {
                    mcprev.Change(mcprev.Changed.TOOLS),
                    mcprev.Change(mcprev.Changed.RESOURCE, "a:1"),
                }
                await target.cut()
                assert {await anext(changes), await anext(changes)} == wanted
                assert client.reopened == 1
                made.changed("resource", "a:2")
                made.changed("resource", "a:1")
                assert await anext(changes) == mcprev.Change(mcprev.Changed.RESOURCE, "a:1")
                assert not changes._waiting
            with pytest.raises(StopAsyncIteration):
                await anext(changes)

    run(main())


TOOLS_CHANGED = mcprev.Change(mcprev.Changed.TOOLS)


@req("SUB-4", "SUB-5")
@each_row
def test_subscriptions_end_when_there_is_to_be_no_other_connection(row: Revision) -> None:
    async def main() -> None:
        target = Flaky(server()[0])
        async with connected(target, row, restart=False) as client, client.listen(tools=True) as changes:
            await target.cut()
            with pytest.raises(ConnectionLost):
                await anext(changes)

    run(main())


@req("SUB-4", "SUB-5")
@each_row
def test_subscriptions_outlive_an_outage_which_the_log_tells_once(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it is tried; everything counts as changed when the server is back."""

    async def main() -> None:
        made, _ = server()
        target, told = Flaky(made), list[mcprev.Change]()
        async with (
            connected(target, row, on_change=told.append) as client,
            client.listen(tools=True, uris=["a:1"]) as changes,
        ):
            target.away = 12
            await target.cut()
            await until(lambda: target.away == 0)
            assert {await anext(changes), await anext(changes)} == {
                TOOLS_CHANGED, mcprev.Change(mcprev.Changed.RESOURCE, "a:1"),
            }  # fmt: skip
            await until(lambda: TOOLS_CHANGED in told)
            told.clear()
            made.changed("tools")
            assert await anext(changes) == TOOLS_CHANGED
            await until(lambda: told == [TOOLS_CHANGED])

    run(main(), limit=4000)
    lost = [record for record in caplog.records if "are not heard of" in record.getMessage()]
    back = [record for record in caplog.records if "are heard of again" in record.getMessage()]
    assert len(lost) == len(back) == 2  # of two subscriptions
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) < 20


@req("SUB-5")
@each_row
def test_changes_are_reported_though_the_first_subscription_fails(row: Revision) -> None:
    """Where the server is only away for it; one that reports none is told once."""

    class Late(Flaky):
        async def open(self, side: ClientProtocol, desk: RequestHandler[Connection], /) -> Connection:
            connection = await super().open(side, desk)
            if self.opened == 1:
                asyncio.get_running_loop().call_soon(asyncio.ensure_future, self._lose(side))
            return connection

        async def _lose(self, side: ClientProtocol) -> None:
            await until(lambda: side.engine.negotiated is not None)
            self.away = 5
            await self.cut()

    async def main() -> None:
        made, _ = server()
        target, told = Late(made), list[mcprev.Change]()
        async with connected(target, row, on_change=told.append):
            await until(lambda: target.opened == 2)
            await asyncio.sleep(1)
            told.clear()
            made.changed("tools")
            await until(lambda: told == [TOOLS_CHANGED])

    run(main(), limit=4000)


@req("SUB-5")
@each_row
def test_closing_the_client_ends_who_listens(row: Revision) -> None:
    async def main() -> None:
        target = Flaky(server()[0])
        client = await connected(target, row)
        changes = client.listen(tools=True)
        await changes.__aenter__()
        reader = asyncio.create_task(changes.__anext__())
        await client.aclose()
        with pytest.raises((ConnectionLost, StopAsyncIteration)):
            await reader
        await changes.aclose()

    run(main())


@req("LOG-5")
@each_row
def test_the_log_level_is_told_again(row: Revision) -> None:
    handler = Helpful()

    async def main() -> None:
        target = Flaky(server()[0])
        async with connected(target, row, handler=handler) as client:
            await client.set_log_level("debug")
            await target.cut()
            await client.call_tool("log")
            await until(lambda: len(handler.logs) == 3)

    run(main())


def expire(connection: Connection, *, retry_safe: bool = True) -> int:
    """Fail what is in flight, as a transport does that learns that the session is gone."""
    link = connection.protocol.connection
    calls = list(link.calls.drain())
    link.events.extend(CallFailed(call, SessionExpired(retry_safe=retry_safe)) for call in calls)
    connection.process_events()
    return len(calls)


@req("HTTP-23", at=[row.name for row in DEFAULT if row.handshake])
@pytest.mark.parametrize("restart", [True, False])
def test_a_session_that_ran_out_is_opened_again_and_the_request_sent_once_more(restart: bool) -> None:
    async def main(row: Revision) -> None:
        made, author = server()
        target = Flaky(made)
        async with connected(target, row, restart=restart) as client:
            first, second = (asyncio.create_task(client.call_tool("wait")) for _ in range(2))
            raw = asyncio.create_task(client.raw("tools/call", {"name": "wait"}))
            await until(lambda: author.runs == 3)
            assert expire(client.connection) == 3
            await until(lambda: author.runs == 6)
            assert (client.reopened, target.opened) == (1, 2)
            assert expire(client.connection) == 3
            for call in (first, second, raw):
                with pytest.raises(SessionExpired):
                    await call
            assert author.runs == 6
            assert said(await client.call_tool("echo")) == "None"

    for row in DEFAULT:
        if row.handshake:
            run(main(row))


@req("HTTP-23", at=[row.name for row in DEFAULT if row.handshake])
def test_what_may_have_been_done_is_not_sent_again() -> None:
    async def main() -> None:
        made, author = server()
        async with connected(Flaky(made), ROW_D) as client:
            call = asyncio.create_task(client.call_tool("wait"))
            await author.started.wait()
            expire(client.connection, retry_safe=False)
            with pytest.raises(SessionExpired):
                await call
            assert (author.runs, client.reopened) == (1, 0)

    run(main())


@req("STDIO-7", everywhere=True)
def test_delays_grow_up_to_a_bound() -> None:
    policy = ReconnectPolicy(backoff=0.5, max_backoff=3)
    assert [policy.delay(tried) for tried in (0, 1, 2, 3, 4000)] == [0.5, 1, 2, 3, 3]
    with pytest.raises(ValueError, match="negative"):
        ReconnectPolicy(backoff=-1)
