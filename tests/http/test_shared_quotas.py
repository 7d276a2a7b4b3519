"""How many sessions there may be at all workers together, whatever ends their sessions (HTTP-27, SEC-6).

What a worker had counted when it was killed keeps nobody out for long, and no client ends another's session without need.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

import mcprev
from helpers.asgi_bridge import Client, Exchange, initialize, notification, request
from helpers.named import A, B, C, D
from helpers.requirements import req
from helpers.running import run, until
from helpers.served import Served
from helpers.several_workers import Away, Front, at, kill, lapse, memory, sessions_of, work as work_within
from mcprev.revisions import Revision, revision_named
from mcprev.sharing.legacy_sse import AGAIN
from mcprev.sharing.quotas import CANDIDATES, RECOUNT
from mcprev.sharing.record import key_of
from mcprev.sharing.worker import LEASE

Make = Callable[..., Front]
NEWEST: Final = revision_named(D)
later = pytest.mark.parametrize("row", [revision_named(name) for name in (B, C, D)], ids=lambda row: row.name)
work = partial(work_within, run=partial(run, limit=600.0))


def kept(stores: list[mcprev.MemoryStore]) -> Callable[[], mcprev.MemoryStore]:
    """Return what makes a store that the test can reach."""

    def make() -> mcprev.MemoryStore:
        stores.append(memory())
        return stores[-1]

    return make


def failing(stores: list[Away]) -> Callable[[], Away]:
    """Return what makes a store that the test can take away."""

    def make() -> Away:
        stores.append(Away())
        return stores[-1]

    return make


def someone(app: Any, address: str | None = "203.0.113.1") -> Client:
    return Client(app, client=None if address is None else (address, 1))


async def status(client: Client, row: Revision = NEWEST) -> int:
    """The status of the response to `initialize`."""
    return (await client.post(initialize(row)).done()).status


async def is_open(front: Front, client: Client) -> bool:
    return (await at(front, client, 1).request("ping").done()).status == 200


# -- HTTP+SSE ----------------------------------------------------------------------------------------------


@req("HTTP-27", "SEC-6", at=A)
@pytest.mark.parametrize("limit", ["max_sessions", "max_sessions_per_client"])
def test_streams_of_the_oldest_transport_that_ended_with_their_worker_are_not_counted(limit: str) -> None:
    """Their worker could not say so; the others find out when the room is needed."""

    async def test(handler: Served, make: Make) -> None:
        front = make(sse=True, **{limit: 3})

        async def opened(number: int) -> Exchange:
            return await someone(front.apps[number]).send("GET", path="/sse").begun()

        streams = [await opened(0) for _ in range(2)]
        streams.append(await opened(2))
        refused = await someone(front.apps[1]).send("GET", path="/sse").done()
        assert (refused.status, refused.headers["retry-after"]) == (
            503 if limit == "max_sessions" else 429,
            "10",
        )
        sessions_of(front.apps[0]).worker.abandon()
        await lapse()
        streams += [await opened(1) for _ in range(2)]
        assert [stream.status for stream in streams] == [200] * 5
        assert (await someone(front.apps[1]).send("GET", path="/sse").done()).status in {429, 503}
        for stream in streams:
            stream.disconnect()
            await stream.done()

    work(test, memory)


@req("SSE-4", at=A)
def test_who_posts_to_a_stream_whose_worker_is_dead_gives_its_room_back() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(sse=True, max_sessions_per_client=1)
        stream = await someone(front.apps[0]).send("GET", path="/sse").begun()
        await until(lambda: len(stream.events) == 1)
        query = stream.events[0].data.decode().partition("?")[2]
        sessions_of(front.apps[0]).worker.abandon()
        await lapse()
        posted = (
            await someone(front.apps[1])
            .send("POST", initialize(revision_named(A)), path="/messages", query=query)
            .done()
        )
        assert posted.status == 404
        assert not [key for key in stores[-1]._held if "sse" in key and "count/" not in key]
        again = await someone(front.apps[2]).send("GET", path="/sse").begun()
        assert again.status == 200
        for each in (stream, again):
            each.disconnect()
            await each.done()

    work(test, kept(stores := list[mcprev.MemoryStore]()))


@req("SSE-4", "ERR-8", at=A)
def test_a_message_of_which_nobody_knows_whether_it_arrived_is_not_called_refused() -> None:
    """The client may not repeat a request then; what does no harm twice it may."""

    async def test(handler: Served, make: Make) -> None:
        front = make(sse=True)
        stream = await someone(front.apps[0]).send("GET", path="/sse").begun()
        await until(lambda: len(stream.events) == 1)
        query = stream.events[0].data.decode().partition("?")[2]

        async def posted(message: Any) -> Exchange:
            return await someone(front.apps[1]).send("POST", message, path="/messages", query=query).done()

        sessions_of(front.apps[0]).worker.abandon()
        found = await posted(request("tools/call", {"name": "echo"}))
        assert (found.status, "retry-after" in found.headers) == (503, False)
        assert found.json["error"]["data"] == {"reason": "store_unavailable", "mayHaveRun": True}
        found = await posted(notification("notifications/initialized"))
        assert (found.status, found.headers["retry-after"]) == (503, "1")
        await lapse()
        found = await posted(request("tools/call", {"name": "echo"}))
        assert (found.status, found.json["error"]["data"]) == (
            404,
            {"reason": "worker_lost", "mayHaveRun": True},
        )
        stream.disconnect()
        await stream.done()

    work(test, memory)


@req("HTTP-27", "SEC-6", "SSE-6", at=A)
def test_a_stream_that_ended_while_the_store_was_away_is_not_counted_when_it_is_back() -> None:
    """Its worker goes on, so nobody else finds out that the session has ended."""

    async def test(handler: Served, make: Make) -> None:
        front = make(sse=True, max_sessions_per_client=1)
        stream = await someone(front.apps[0]).send("GET", path="/sse").begun()
        (store,) = stores
        store.away = True
        stream.disconnect()
        await stream.done()
        await asyncio.sleep(LEASE / 4)
        store.away = False
        await asyncio.sleep(2 * AGAIN)
        again = await someone(front.apps[1]).send("GET", path="/sse").begun()
        assert again.status == 200
        again.disconnect()
        await again.done()

    work(test, failing(stores := list[Away]()))


@req("HTTP-27", "SSE-4", "SSE-6", at=A)
@pytest.mark.parametrize("lost", ["the lease", "all that was stored"])
def test_a_stream_whose_worker_takes_another_number_is_found_and_counted_still(lost: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(sse=True, max_sessions_per_client=1)
        stream = await someone(front.apps[0]).send("GET", path="/sse").begun()
        await until(lambda: len(stream.events) == 1)
        query = stream.events[0].data.decode().partition("?")[2]
        worker, (store,) = sessions_of(front.apps[0]).worker, stores
        number = worker.number
        if lost == "the lease":
            await sessions_of(front.apps[1]).store.remove(f"workers/{number}")
        else:
            store.forget()
        await lapse()
        assert (worker.number != number) is (lost == "the lease")  # numbers begin anew in an empty store
        message = initialize(revision_named(A))
        posted = await someone(front.apps[1]).send("POST", message, path="/messages", query=query).done()
        assert posted.status == 202
        await until(lambda: len(stream.events) == 2)
        assert (await someone(front.apps[1]).send("GET", path="/sse").done()).status == 429
        stream.disconnect()
        await stream.done()

    work(test, failing(stores := list[Away]()))


# -- sessions ----------------------------------------------------------------------------------------------


@req("HTTP-27", "SEC-6")
@later
@pytest.mark.parametrize("number", [1, 2, CANDIDATES + 1])
def test_what_a_killed_worker_has_left_of_a_session_keeps_its_client_not_out(
    row: Revision, number: int
) -> None:
    """It was killed after it had ended the sessions, and before it had counted them down."""

    async def test(handler: Served, make: Make) -> None:
        front = make(max_sessions_per_client=number)
        clients = [await someone(front.apps[0]).open(row) for _ in range(number)]
        for client in clients:
            assert await sessions_of(front.apps[1]).store.remove(
                f"session/{key_of(client.session['mcp-session-id'])}"
            )
        await kill(front.apps[0])
        await lapse()
        assert [await status(someone(front.apps[1]), row) for _ in range(number)] == [200] * number

    work(test, memory)


@req("HTTP-19", "HTTP-27", "SEC-6")
@later
@pytest.mark.parametrize("address", ["203.0.113.1", None])
def test_an_initialize_that_fails_takes_nobody_s_room(row: Revision, address: str | None) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(max_sessions=3, max_sessions_per_client=3)
        others = [await someone(front.apps[0], f"198.51.100.{number}").open(row) for number in range(2)]
        for _ in range(20):
            await someone(front.apps[1], address).post(request("initialize", {"protocolVersion": 7})).done()
        mine = await someone(front.apps[1], address).open(row)
        assert [await is_open(front, each) for each in (*others, mine)] == [True] * 3

    work(test, memory)


@req("HTTP-27", "SEC-6", at=D)
def test_a_session_makes_room_although_many_that_are_in_use_were_opened_before_it() -> None:
    async def test(handler: Served, make: Make) -> None:
        most = CANDIDATES + 4
        front = make(max_sessions=most)
        streams: list[Exchange] = []
        for _ in range(most - 1):
            client = await someone(front.apps[0], None).open(NEWEST)
            streams.append(await client.send("GET").begun())
        idle = await someone(front.apps[0], None).open(NEWEST)
        newcomer = await someone(front.apps[1], None).open(NEWEST)
        assert not await is_open(front, idle)
        assert await is_open(front, newcomer)
        for stream in streams:
            stream.disconnect()
            await stream.done()

    work(test, memory)


@req("HTTP-27", "SEC-6", at=D)
def test_while_all_sessions_are_in_use_it_is_cheap_to_say_so() -> None:
    """A flood of newcomers does not make the workers ask each other for each."""

    async def test(handler: Served, make: Make) -> None:
        front = make(max_sessions=3)
        streams: list[Exchange] = []
        for number in range(3):
            client = await someone(front.apps[number], None).open(NEWEST)
            streams.append(await client.send("GET").begun())
        await asyncio.sleep(RECOUNT)
        asked = 0
        ask = sessions_of(front.apps[1]).worker.ask

        async def counted(*args: Any, **options: Any) -> Any:
            nonlocal asked
            asked += 1
            return await ask(*args, **options)

        sessions_of(front.apps[1]).worker.ask = counted  # type: ignore[method-assign]
        found = await asyncio.gather(*(status(someone(front.apps[1], None)) for _ in range(50)))
        assert (found, asked) == ([503] * 50, 1)
        streams[0].disconnect()
        await streams[0].done()
        await asyncio.sleep(RECOUNT)
        assert await status(someone(front.apps[1], None)) == 200
        for stream in streams[1:]:
            stream.disconnect()
            await stream.done()

    work(test, memory)


@req("HTTP-27", at=D)
@pytest.mark.parametrize("value", [b"", b"[]", b'"x"', b"{}", b"null", b"\xff"])
def test_a_count_that_is_none_is_an_error_of_the_store(value: bytes) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make()
        await sessions_of(front.apps[1]).store.write("count/sessions", value)
        found = await someone(front.apps[1], None).post(initialize(NEWEST)).done()
        assert (found.status, found.headers["retry-after"]) == (503, "1")

    work(test, memory)
