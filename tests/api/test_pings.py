"""Pings, where they are wanted and where there are any: a peer that does not answer is gone (PING-2)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mcprev
from api.authors import Everything
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.core.connection import Connection
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import ConnectionLost
from mcprev.revisions import DEFAULT, LATEST, Revision

SOON = 0.01
"""Seconds between pings."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer may take no longer than this."""
    monkeypatch.setattr("mcprev.core.keepalive.PATIENCE", 0.2)


def pings(connection: Connection) -> list[bytes]:
    """The pings that a side sends from now on."""
    sent: list[bytes] = []
    transport: Any = connection
    write = transport._transport.write

    def spy(data: bytes) -> None:
        sent.extend(line for line in data.splitlines() if b'"ping"' in line)
        write(data)

    transport._transport.write = spy
    return sent


def deafen(connection: Connection) -> None:
    """The other side reads nothing any more, and so answers nothing."""
    transport: Any = connection
    transport._transport.pause_reading()


def the_connection(server: mcprev.Server) -> Connection:
    (connection,) = server._connections
    return connection


@req("PING-2")
@pytest.mark.parametrize("who", ["client", "server"])
def test_a_peer_that_answers_stays(row: Revision, who: str) -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1", ping_interval=SOON if who == "server" else None)
        options: Any = {"ping_interval": SOON} if who == "client" else {}
        async with mcprev.connect(mcprev.memory(server), mode=row.name, **options) as client:
            mine = client.connection if who == "client" else the_connection(server)
            sent = pings(mine)
            await until(lambda: len(sent) > 1)
            await client.call_tool("echo")
            assert mine.error is None

    run(main())


@req("PING-2")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("who", ["client", "server"])
def test_a_peer_that_does_not_answer_is_gone(row: Revision, who: str) -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1", ping_interval=SOON if who == "server" else None)
        options: Any = {"ping_interval": SOON} if who == "client" else {}
        async with mcprev.connect(mcprev.memory(server), mode=row.name, **options) as client:
            one, other = client.connection, the_connection(server)
            mine, theirs = (one, other) if who == "client" else (other, one)
            deafen(theirs)
            call = asyncio.create_task(client.call_tool("wait"))
            await mine.closed
            assert isinstance(mine.error, ConnectionLost)
            assert "ping" in str(mine.error)
            transport: Any = theirs
            transport._transport.resume_reading()
            with pytest.raises(ConnectionLost):
                await call
            await until(lambda: not server._connections)

    run(main())


@req("PING-2")
@pytest.mark.usefixtures("impatient")
def test_who_restarts_goes_on_after_a_lost_ping(row: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1")
        restart = ReconnectPolicy(backoff=0)
        async with mcprev.connect(
            mcprev.memory(server), mode=row.name, ping_interval=SOON, restart=restart
        ) as client:
            deafen(the_connection(server))
            await client.connection.closed
            monkeypatch.undo()
            await client.call_tool("echo")
            assert client.reopened == 1
            sent = pings(client.connection)
            await until(lambda: bool(sent))

    run(main())


@req("PING-2", "MOD-14", at=E)
def test_where_there_are_no_pings_none_are_sent() -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1", ping_interval=0.001)
        async with mcprev.connect(mcprev.memory(server), ping_interval=0.001) as client:
            assert client.spoken is LATEST
            sent = [pings(client.connection), pings(the_connection(server))]
            await asyncio.sleep(0.03)  # for as long as thirty of them would take
            await client.call_tool("echo")
            assert sent == [[], []]

    run(main())


@req("PING-2")
def test_none_are_sent_unless_they_are_wanted(row: Revision) -> None:
    async def main() -> None:
        server = mcprev.Server(Everything(), "s", "1")
        async with mcprev.connect(mcprev.memory(server), mode=row.name) as client:
            assert not client.connection._tasks
            assert not the_connection(server)._tasks

    run(main())


@req("PING-2", at=[row.name for row in DEFAULT if row.handshake])
def test_the_time_between_them_is_one() -> None:
    server = mcprev.Server(None, "s", "1")
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="pings"):
            mcprev.Server(None, "s", "1", ping_interval=wrong)
        with pytest.raises(ValueError, match="pings"):
            mcprev.connect(mcprev.memory(server), ping_interval=wrong)
