"""How many sessions one client may have, and whose session makes room for a newcomer (HTTP-27, SEC-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from helpers.asgi_bridge import Client, initialize
from helpers.requirements import A, B, C, D, req
from helpers.running import until
from helpers.served import QUICK, Served, who, work
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.request import AsgiRequest
from mcprev.wire.headers import Headers

Make = Callable[..., AsgiApp]
LATER = [revision_named(name) for name in (B, C, D)]
later = pytest.mark.parametrize("row", LATER, ids=[row.name for row in LATER])
ROOM = 20
QUOTA = 5


async def opened(app: AsgiApp, row: Revision, address: str | None = None, **session: str) -> Client:
    """A client whose session was used once."""
    client = Client(app, client=None if address is None else (address, 1))
    client.session.update(session)
    await client.open(row)
    assert (await client.call("echo").done()).text == "{}"
    return client


async def is_open(client: Client) -> bool:
    """Whether the session of a client is still known."""
    return (await client.request("ping").done()).status == 200


@req("HTTP-27", "SEC-6")
@later
def test_who_opens_many_sessions_and_uses_each_keeps_no_newcomer_out(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(max_sessions=ROOM, max_sessions_per_client=QUOTA)
        for _ in range(2 * ROOM):
            await opened(app, row, "203.0.113.1")
        assert len(app.dispatcher.sessions) == QUOTA
        newcomers = [await opened(app, row, f"198.51.100.{n}") for n in range(10)]
        for _ in range(2 * ROOM):
            await opened(app, row, "203.0.113.1")
        for client in newcomers:
            assert await is_open(client)

    work(test)


@req("HTTP-27", "SEC-6")
@later
def test_without_addresses_the_idlest_session_makes_room(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(max_sessions=ROOM, max_sessions_per_client=QUOTA)
        clients = [await opened(app, row) for _ in range(ROOM)]
        assert await is_open(clients[0])
        newcomer = await opened(app, row)
        assert [await is_open(client) for client in (*clients, newcomer)] == [n != 1 for n in range(ROOM + 1)]

    work(test)


@req("HTTP-27", "SEC-6", "HTTP-28")
@later
def test_a_principal_has_one_quota_at_whatever_addresses(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(principal=who, max_sessions=ROOM, max_sessions_per_client=2)
        other = await opened(app, row, "198.51.100.9", who="other")
        anonymous = await opened(app, row, "198.51.100.9")
        mine = [await opened(app, row, f"198.51.100.{n}", who="me") for n in range(4)]
        assert [await is_open(client) for client in mine] == [False, False, True, True]
        assert await is_open(other)
        assert await is_open(anonymous)

    work(test)


@req("HTTP-27", "SEC-6", "HTTP-9")
@later
def test_a_session_in_use_is_not_ended_for_another_one(row: Revision) -> None:
    """In use: a call whose client waits, one whose client is gone, and a stream."""

    async def test(handler: Served, make: Make) -> None:
        app = make(max_sessions=ROOM, max_sessions_per_client=4, defer=QUICK)
        waiting, gone, listening, idle = [await opened(app, row, "203.0.113.1") for _ in range(4)]
        calls = [client.call("hold", id_=7) for client in (waiting, gone)]
        stream = await listening.send("GET").begun()
        for call in calls:
            await call.heard(1)
        calls[1].disconnect()
        session = app.dispatcher.sessions.find(gone.session["mcp-session-id"].encode(), None)
        await until(lambda: session is not None and not session.response_streams)
        for _ in range(3):
            idle = await opened(app, row, "203.0.113.1")
        assert len(app.dispatcher.sessions) == 4
        busy = await idle.send("GET").begun()
        refused = await Client(app, client=("203.0.113.1", 1)).post(initialize(row, "i")).done()
        assert (refused.status, refused.json["id"], refused.headers["retry-after"]) == (429, "i", "10")
        assert (await Client(app, client=("203.0.113.2", 1)).post(initialize(row)).done()).status == 200
        handler.gate.set()
        assert (await calls[0].done()).text == "{}"
        for response_stream in (stream, busy):
            response_stream.disconnect()
            await response_stream.done()
        assert await is_open(await opened(app, row, "203.0.113.1"))

    work(test)


@req("SSE-1", "SEC-6", at=A)
def test_streams_of_the_oldest_transport_have_the_same_quota() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True, max_sessions=4, max_sessions_per_client=2)

        async def stream(address: str) -> Any:
            return await Client(app, client=(address, 1)).send("GET", path="/sse").begun()

        mine = [await stream("203.0.113.1") for _ in range(3)]
        assert [response_stream.status for response_stream in mine] == [200, 200, 429]
        others = [await stream("203.0.113.2") for _ in range(2)]
        full = await stream("203.0.113.3")
        assert (full.status, full.headers["retry-after"]) == (503, "10")
        mine[0].disconnect()
        await mine[0].done()
        await until(lambda: len(app.dispatcher.sse) == 3)
        again = await stream("203.0.113.1")
        assert again.status == 200
        for response_stream in (mine[1], *others, again):
            response_stream.disconnect()
            await response_stream.done()

    work(test)


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    ("scope", "principal", "client"),
    [
        ({"client": ("203.0.113.1", 5)}, None, "address 203.0.113.1"),
        ({"client": ("203.0.113.1", 5)}, "me", "principal me"),
        ({"client": ("203.0.113.1", 5)}, "", "principal "),
        ({"client": ("::ffff:203.0.113.1", 5)}, None, "address 203.0.113.1"),
        ({"client": ("2001:db8:1:2:3:4:5:6", 5)}, None, "address 2001:db8:1:2::"),
        ({"client": ("fe80::1%eth0", 5)}, None, "address fe80::"),
        ({"client": ("testclient", 5)}, None, "address testclient"),
        ({"client": ("", 0)}, None, None),
        ({"client": None}, None, None),
        ({}, None, None),
    ],
)
def test_a_client_is_a_principal_or_an_address(
    scope: Mapping[str, Any], principal: str | None, client: str | None
) -> None:
    async def never(*message: Any) -> Any:
        raise AssertionError(message)

    http_request = AsgiRequest({"method": "POST", "path": "/mcp", **scope}, never, never, Headers({}))
    http_request.principal = principal
    assert http_request.client == client
