"""The streams of sessions: what goes where, and how it is taken up again (HTTP-8 to 18, HTTP-32; AMB-3, AMB-11; SUB-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

import mcprev
from api.authors import text
from helpers.asgi_bridge import Client, Exchange, initialize, request
from helpers.requirements import B, C, D, E, req
from helpers.running import run, timers_of, until
from helpers.served import QUICK, Served, announced, server_of, work
from mcprev.errors import INVALID_REQUEST
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.event_store import MAX_EVENTS, MAX_SESSION, MemoryEvents
from mcprev.transports.http.server.local_sessions import MAX_NEEDED, LocalSessions, SessionStream
from mcprev.transports.http.server.response_stream import ResponseStream

Make = Callable[..., AsgiApp]
LATER = [revision_named(name) for name in (B, C, D)]


def later(test: Any) -> Any:
    """Run a test at the revisions that have sessions over one endpoint."""
    return pytest.mark.parametrize("row", LATER, ids=[row.name for row in LATER])(test)


def back(client: Client, event_id: str | None) -> Exchange:
    """Come back for what follows an event."""
    return client.send("GET", None, {"last-event-id": event_id})


@req("HTTP-14", "HTTP-17", "HTTP-18", "HTTP-8", "HTTP-12")
@later
def test_a_stream_has_ids_and_begins_as_its_revision_says(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        streams = [await client.call("log").done(), await client.call("log", id_=2).done()]
        ids = [event.id for stream in streams for event in stream.events]
        assert None not in ids
        assert len(set(ids)) == len(ids)
        for stream in streams:
            first = stream.events[0]
            assert (first.data == b"") is row.sse_priming
            assert [message.get("method", "answer") for message in stream.messages] == [
                "notifications/message", "answer",
            ]  # fmt: skip
            if not row.sse_priming:  # older clients read every event as JSON
                assert all(event.data for event in stream.events)

    work(test)


@req("HTTP-10", "HTTP-11", "HTTP-12", "HTTP-13", "SUB-1", "SUB-8", "HTTP-17")
@later
def test_changes_go_on_one_get_stream_and_answers_on_none(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client, other = await Client(app).open(row), await Client(app).open(row)
        first = await client.send("GET").begun()
        second = await client.send("GET").begun()
        theirs = await other.send("GET").begun()
        assert second.headers["content-type"] == "text/event-stream"
        await client.request("resources/subscribe", {"uri": "a:1"}).done()
        assert (await client.call("changed").done()).text == "done"
        assert [message["method"] for message in await second.heard(2)] == [
            "notifications/tools/list_changed",
            "notifications/resources/updated",
        ]
        assert (await theirs.heard(1))[0]["method"] == "notifications/tools/list_changed"
        assert first.messages == []
        second.disconnect()
        await second.done()
        await client.call("changed").done()
        assert len(await first.heard(2)) == 2
        assert len(second.messages) == 2
        for stream in (first, theirs):
            stream.disconnect()
            await stream.done()

    work(test)


@req("HTTP-10", "HTTP-12", "SEC-6")
@later
def test_changes_wait_for_a_get_stream_and_say_nothing_twice(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        for _ in range(300):
            await client.call("changed").done()
        await announced(client.app)
        stream = await client.send("GET").begun()
        assert [m["method"] for m in await stream.heard(1)] == ["notifications/tools/list_changed"]
        stream.disconnect()
        await stream.done()

    work(test)


@req("AMB-3", "HTTP-10", "HTTP-1")
@later
def test_a_server_may_have_no_get_stream(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(get_stream=False)).open(row)
        answer = await client.send("GET").done()
        assert (answer.status, answer.headers["allow"]) == (405, "POST, DELETE")
        assert (await client.call("changed").done()).status == 200

    work(test)


@req("HTTP-10")
@later
@pytest.mark.parametrize("accept", ["application/json", None, "text/html"])
def test_a_get_has_to_accept_streams(accept: str | None, row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        assert (await client.send("GET", None, {"accept": accept}).done()).status == 406

    work(test)


@req("SEC-6", "HTTP-13")
@later
def test_a_session_has_no_more_get_streams_than_allowed(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        streams = [await client.send("GET").begun() for _ in range(17)]
        assert [stream.status for stream in streams] == [200] * 16 + [429]
        assert streams[-1].headers["retry-after"] == "10"
        for stream in streams[:16]:
            stream.disconnect()
            await stream.done()
        again = await client.send("GET").begun()
        assert again.status == 200
        again.disconnect()
        await again.done()

    work(test)


# -- taking a stream up again ----------------------------------------------------------------------------


@req("HTTP-15", "HTTP-16", "HTTP-11", "HTTP-9", "HTTP-14")
@later
def test_a_broken_stream_is_taken_up_where_it_broke(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK)).open(row)
        one, two = client.call("hold", {"n": 1}, 1), client.call("hold", {"n": 2}, 2)
        await one.heard(1)
        await two.heard(1)
        place = one.events[-1].id
        one.disconnect()
        again = await back(client, place).begun()
        assert again.status == 200
        handler.gate.set()
        await again.done()
        await two.done()
        await one.done()
        # What follows the event, of its own stream and no other, and then the end.
        assert [message["id"] for message in again.messages] == [1]
        assert [message.get("id") for message in two.messages] == [None, 2]
        whole = await back(client, f"{place.split('-')[0]}-0" if place else "").done()
        assert [message.get("id") for message in whole.messages] == [None, 1]
        assert [event.id for event in whole.events] == [place, again.events[-1].id]

    work(test)


@req("HTTP-15", "HTTP-16", "HTTP-12")
@later
def test_a_get_stream_is_taken_up_too(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK)).open(row)
        stream = await client.send("GET").begun()
        await client.call("changed").done()
        await stream.heard(1)
        place = stream.events[-1].id
        stream.disconnect()
        await stream.done()
        await client.call("changed").done()
        await client.request("resources/subscribe", {"uri": "a:2"}).done()
        await client.call("changed").done()
        again = back(client, place)
        assert [m["method"] for m in await again.heard(2)] == [
            "notifications/tools/list_changed",
            "notifications/resources/updated",
        ]
        # It goes on where it is read.
        await client.call("changed").done()
        await again.heard(4)
        third = back(client, again.events[1].id)
        await third.heard(2)
        assert third.messages == again.messages[2:]
        await again.begun()
        await until(again.task.done)
        third.disconnect()
        await third.done()
        again.gone = True

    work(test)


@req("HTTP-12", "HTTP-15")
@later
def test_a_stream_has_one_reader(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK)).open(row)
        first = client.call("hold")
        await first.heard(1)
        second = await back(client, first.events[-1].id).begun()
        handler.gate.set()
        await second.done()
        first.gone = True
        await first.done()
        assert [message.get("id") for message in first.messages] == [None]
        assert second.answers[0]["id"] == 1

    work(test)


@req("AMB-11", "HTTP-16", "HTTP-22")
@later
@pytest.mark.parametrize("event_id", ["", "x", "1", "99-1", "1-99", "-1-1", "1-1-1", "1-" + "9" * 50])
def test_an_unknown_event_is_refused_and_the_session_lives(event_id: str, row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        await client.call("log").done()
        answer = await back(client, event_id).done()
        assert (answer.status, answer.json["error"]["code"]) == (400, INVALID_REQUEST)
        assert (await client.request("ping").done()).result == {}

    work(test)


@req("AMB-11", "HTTP-16", "HTTP-28")
@later
def test_nobody_gets_the_events_of_another_session(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        mine, yours = await Client(app).open(row), await Client(app).open(row)
        stream = await mine.call("log", {"secret": 1}).done()
        assert (await back(yours, stream.events[0].id).done()).status == 400
        own = (await yours.call("log").done()).events[0].id
        assert own is not None
        found = await back(yours, f"{own.partition('-')[0]}-0").done()
        assert found.messages[-1]["id"] == 1
        assert b"secret" not in found.body

    work(test)


@req("AMB-11", "HTTP-16")
@later
def test_a_gap_is_refused_instead_of_being_passed_over(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(events=MemoryEvents(events=2))).open(row)
        first = await client.call("log", id_=1).done()
        second = await client.call("log", id_=2).done()
        third = await client.call("log", id_=3).done()
        assert (await back(client, f"{1}-0").done()).status == 400
        assert (await back(client, first.events[-2].id).done()).status == 400
        # Who has everything misses nothing.
        assert (await back(client, first.events[-1].id).done()).messages == []
        # What was said on the way to an answer is gone, the answer is not.
        for stream in (second, third):
            assert len(stream.messages) > 1
            assert stream.events[0].id is not None
            found = await back(client, stream.events[0].id.partition("-")[0] + "-0").done()
            assert found.messages == stream.messages[-1:]

    work(test)


@req("AMB-11", "HTTP-14")
@later
def test_a_server_that_keeps_nothing_gives_no_ids(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(events=None)).open(row)
        stream = await client.call("log").done()
        assert all(event.id is None and event.data for event in stream.events)
        assert (await back(client, "1-0").done()).status == 400
        running = client.call("hang_up")
        await running.heard(1)
        assert handler.notes == [False, False]
        handler.gate.set()
        assert (await running.done()).text == "come back"

    work(test)


class SlowEvents(MemoryEvents):
    """A store that takes its time to find what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def after(
        self, session: str, stream: int, number: int, last: int, /
    ) -> Sequence[tuple[int, bytes]]:
        self.asked.set()
        await self.go.wait()
        return await super().after(session, stream, number, last)


async def looked_for(make: Make) -> tuple[Client, SlowEvents, Exchange]:
    """A client that resumes a stream, while the store looks for its events."""
    store = SlowEvents()
    client = await Client(make(defer=QUICK, events=store)).open(revision_named(D))
    await client.call("log").done()
    again = back(client, "1-0")
    await store.asked.wait()
    return client, store, again


@req("HTTP-15", "HTTP-12")
@later
def test_what_is_sent_while_a_store_looks_is_not_lost(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        store = SlowEvents()
        client = await Client(make(defer=QUICK, events=store)).open(row)
        first = client.call("hold")
        await first.heard(1)
        first.disconnect()
        again = back(client, f"{first.events[-1].id}".replace("-1", "-0"))
        await store.asked.wait()
        handler.gate.set()
        await until(lambda: handler.running == 0)
        await first.done()
        store.go.set()
        await again.done()
        assert [message.get("id") for message in again.messages] == [None, 1]

    work(test)


@req("HTTP-15", "HTTP-16", at=D)
def test_a_store_that_looks_for_long_can_still_find_nothing() -> None:
    async def test(handler: Served, make: Make) -> None:
        client, store, again = await looked_for(make)
        await asyncio.sleep(2 * QUICK)
        store.discard(client.session["mcp-session-id"])
        store.go.set()
        assert (await again.done()).status == 400

    work(test)


@req("HTTP-15", "SEC-6", at=D)
def test_a_resume_that_is_cancelled_leaves_no_timer() -> None:
    async def test(handler: Served, make: Make) -> None:
        _, _, again = await looked_for(make)
        again.task.cancel()
        await asyncio.wait({again.task})
        assert timers_of(ResponseStream) == []

    work(test)


@req("HTTP-14", "SEC-6", everywhere=True)
def test_memory_keeps_the_latest_within_its_bounds() -> None:
    async def test() -> None:
        store = MemoryEvents(events=10, session_bytes=100, total_bytes=150)
        for number in range(1, 31):
            store.append("a", 1, number, b"x", droppable=False)
        assert store.size == 10
        assert await store.after("a", 1, 0, 30) == [(at, b"x") for at in range(21, 31)]
        assert await store.after("a", 1, 25, 27) == [(26, b"x"), (27, b"x")]
        store.append("a", 1, 31, b"y" * 99, droppable=False)
        assert store.size == 100
        store.append("a", 1, 32, b"z" * 120, droppable=False)  # the latest may be larger than what is kept
        assert (store.size, await store.after("a", 1, 31, 32)) == (120, [(32, b"z" * 120)])
        store.append("b", 1, 1, b"b" * 60, droppable=False)  # what is older of all has to go
        assert (store.size, await store.after("a", 1, 31, 32)) == (60, [])
        store.discard("b")
        store.discard("unknown")
        assert store.size == 0

    run(test())


@req("HTTP-14", "SEC-6", everywhere=True)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60), st.booleans()), max_size=60))
def test_memory_forgets_what_can_be_done_without_before_anything_else(
    sent: list[tuple[str, int, bool]],
) -> None:
    """Against a list that is searched: of a session first, then of all of them."""

    async def test() -> None:
        store = MemoryEvents(events=5, session_bytes=100, total_bytes=150)
        model: list[tuple[str, int, int, bool]] = []

        def forget(of: list[tuple[str, int, int, bool]]) -> None:
            model.remove(next((event for event in of if event[3]), of[0]))

        for number, (session, size, droppable) in enumerate(sent, 1):
            store.append(session, 1, number, b"x" * size, droppable=droppable)
            model.append((session, number, size, droppable))
            while (own := [event for event in model if event[0] == session]) and (
                len(own) > 5 or (len(own) > 1 and sum(event[2] for event in own) > 100)
            ):
                forget(own)
            while sum(event[2] for event in model) > 150:
                # The session that had no event for the longest time, one with something to spare before others.
                latest = {event[0]: at for at, event in enumerate(sent[:number])}
                spare = {event[0] for event in model if event[3]}
                drop = {s: at for at, (s, _, d) in enumerate(sent[:number]) if d} if spare else latest
                of = min(spare or {event[0] for event in model}, key=lambda s: drop[s])
                forget([event for event in model if event[0] == of])
            assert store.size == sum(event[2] for event in model) <= 150
            for name in "abc":
                found = [at for at, _ in await store.after(name, 1, 0, number)]
                assert found == [event[1] for event in model if event[0] == name]

    run(test())


@pytest.mark.slow
@req("HTTP-15", "HTTP-16", "AMB-11", "SEC-6")
@later
def test_a_producer_at_full_speed_does_not_push_its_answer_out(row: Revision) -> None:
    """The connection is cut, 100,000 notifications follow (or fewer, where that is tested already), then the answer."""
    count = 100_000 if row.name == D else 2_000

    async def test(handler: Served, make: Make) -> None:
        async def produces(ctx: mcprev.Context, params: Any) -> Any:
            await ctx.log("error", "begin")
            await handler.gate.wait()
            for number in range(count):
                await ctx.log("error", {"number": number})
            return text("the answer")

        vars(handler)["do_produces"] = produces
        kept = MemoryEvents()
        client = await Client(make(defer=QUICK, events=kept)).open(row)
        running = client.call("produces")
        await running.heard(1)
        place = running.events[-1].id
        running.disconnect()
        session = client.app.dispatcher.sessions.find(client.session["mcp-session-id"].encode(), None)
        assert session is not None
        await until(lambda: not session.response_streams)
        handler.gate.set()
        await running.done()
        again = await back(client, place).done()
        assert again.status == 200
        assert again.messages[-1]["result"]["content"][0]["text"] == "the answer"
        numbers = [message["params"]["data"]["number"] for message in again.messages[:-1]]
        assert numbers == list(range(count - len(numbers), count))
        assert len(numbers) == MAX_EVENTS - 1
        assert kept.size <= MAX_SESSION

    work(test)


@req("HTTP-15", "AMB-11", "SUB-1")
@later
def test_a_stream_of_its_own_is_taken_up_with_everything_or_not_at_all(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(events=MemoryEvents(events=3))).open(row)
        stream = await client.send("GET").begun()
        for _ in range(4):
            server_of(client.app).changed("tools")
        await stream.heard(4)
        stream.disconnect()
        await stream.done()
        places = [event.id for event in stream.events if event.is_message]
        assert (await back(client, f"{places[0]}".partition("-")[0] + "-0").done()).status == 400
        again = await back(client, places[0]).begun()
        await again.heard(3)
        assert len(again.messages) == 3
        again.disconnect()
        await again.done()

    work(test)


# -- asking a client to come back ------------------------------------------------------------------------


@req("HTTP-17", "HTTP-18", "HTTP-15", at=D)
@pytest.mark.parametrize("option", [None, False])
def test_a_handler_can_have_its_client_hang_up_and_come_back(option: bool | None) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=option)).open(revision_named(D))
        polled = client.call("hang_up", {"retry": 0.5})
        await until(lambda: polled.complete)
        assert [(event.id is None, event.data, event.retry) for event in polled.events] == [
            (False, b"", None),
            (True, b"", 500),
        ]
        again = back(client, polled.events[0].id)
        assert (await again.heard(1))[0]["params"]["data"] == "afterwards"
        assert handler.notes == [True, False]
        handler.gate.set()
        assert (await again.done()).answers[0]["result"]["content"][0]["text"] == "come back"
        await polled.done()

    work(test)


@req("HTTP-17")
@pytest.mark.parametrize("row", [revision_named(B), revision_named(C)], ids=[B, C])
def test_clients_that_do_not_know_how_to_come_back_are_not_sent_away(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        running = client.call("hang_up", {"retry": 0.5})
        await running.heard(1)
        assert handler.notes == [False, False]
        handler.gate.set()
        assert (await running.done()).text == "come back"
        assert all(event.retry is None for event in running.events)

    work(test)


@req("HTTP-17", at=D)
def test_nothing_is_closed_where_answers_are_json() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=True)).open(revision_named(D))
        running = client.call("hang_up")
        await until(lambda: len(handler.notes) == 2)
        handler.gate.set()
        assert ((await running.done()).text, handler.notes) == ("come back", [False, False])

    work(test)


# -- asking a client -------------------------------------------------------------------------------------


def answer_roots(client: Client, asked: Any) -> Exchange:
    return client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [{"uri": "file:///x"}]}})


@req("HTTP-12", "HTTP-8", "MRTR-11")
@later
def test_a_client_is_asked_on_the_stream_of_its_request(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row, roots={})
        listening = await client.send("GET").begun()
        running = client.call("tries")
        (asked,) = await running.heard(1)
        assert asked["method"] == "roots/list"
        assert (await answer_roots(client, asked).done()).status == 202
        assert (await running.done()).text == "['file:///x']"
        assert listening.messages == []
        listening.disconnect()
        await listening.done()

    work(test)


@req("HTTP-32", "HTTP-12")
@later
def test_where_answers_are_json_a_client_is_asked_on_its_get_stream_or_not_at_all(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=True)).open(row, roots={})
        assert (await client.call("tries").done()).text == "LocalProtocolError"
        listening = await client.send("GET").begun()
        running = client.call("tries")
        (asked,) = await listening.heard(1)
        assert asked["method"] == "roots/list"
        await answer_roots(client, asked).done()
        assert (await running.done()).json["result"]["content"][0]["text"] == "['file:///x']"
        listening.disconnect()
        await listening.done()

    work(test)


@req("HTTP-32", "HTTP-12")
@later
def test_what_is_said_on_the_way_to_json_is_told_who_listens_and_kept_for_nobody(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=True)).open(row)
        await client.call("log").done()
        listening = await client.send("GET").begun()
        await client.call("log", id_=2).done()
        await client.call("changed", id_=3).done()
        methods = [message["method"] for message in await listening.heard(2)]
        assert methods == ["notifications/message", "notifications/tools/list_changed"]
        listening.disconnect()
        await listening.done()

    work(test)


@req("HTTP-9", "HTTP-15", "HTTP-12")
@later
def test_a_client_that_comes_back_finds_what_it_was_asked(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK)).open(row, roots={})
        running = client.call("tries")
        (asked,) = await running.heard(1)
        running.disconnect()
        again = back(client, f"{running.events[-1].id}".split("-")[0] + "-0")
        assert await again.heard(1) == [asked]
        await answer_roots(client, asked).done()
        assert (await again.done()).answers[0]["id"] == 1
        await running.done()

    work(test)


@req("HTTP-24", "HTTP-12")
@later
def test_the_end_of_a_session_ends_the_waiting_for_its_client(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row, roots={})
        running = client.call("tries")
        await running.heard(1)
        await client.send("DELETE").done()
        await running.done()
        assert running.complete
        assert running.answers == [] or "result" not in running.answers[0]

    work(test)


@req("HTTP-12", "BASE-6")
@later
@pytest.mark.parametrize("broken", [{}, {"method": None}, {"error": {"code": "x", "message": "y"}}], ids=str)
def test_a_broken_answer_ends_the_waiting_for_a_good_one(row: Revision, broken: dict[str, Any]) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row, roots={})
        running = client.call("tries")
        (asked,) = await running.heard(1)
        refused = await client.post({"jsonrpc": "2.0", "id": asked["id"], **broken}).done()
        assert refused.status == 400
        assert (await running.done()).text == "RemoteProtocolError"

    work(test)


# -- slow readers ----------------------------------------------------------------------------------------


@pytest.mark.slow
@req("SEC-6", "STDIO-9", everywhere=True)
def test_a_handler_waits_for_a_slow_reader() -> None:
    async def test(handler: Served, make: Make) -> None:
        for row in (*LATER, revision_named(E)):
            handler.notes.clear()
            client = await Client(make(events=None)).open(row)
            running = client.call("flood", **({} if row.handshake else {"logLevel": "debug"}))
            running.reading.clear()
            for _ in range(50):
                await asyncio.sleep(0)
            sent = len(handler.notes)
            assert 0 < sent < 200
            running.reading.set()
            assert len((await running.done()).messages) == 2001

    work(test)


@pytest.mark.slow
@req("SEC-6", "STDIO-9", "HTTP-12", "HTTP-15")
@later
@pytest.mark.parametrize("json", [False, True])
def test_a_handler_waits_for_whoever_reads_its_messages_now(json: bool, row: Revision) -> None:
    """The client has taken the stream of the request up elsewhere, or gets the answer as JSON and listens with GET."""

    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(defer=QUICK, json_response=json or None)).open(row)
        reader = await client.send("GET").begun() if json else None
        call = client.call("more")
        if reader is None:
            await call.heard(1)
            reader = await back(client, call.events[-1].id).begun()
        reader.reading.clear()
        handler.gate.set()
        await until(lambda: len(handler.notes) > 0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert 0 < len(handler.notes) < 200
        reader.reading.set()
        await until(lambda: sum(event.is_message for event in reader.events) == 8_001)
        said = [message["params"]["data"] for message in reader.messages if "method" in message]
        assert said[-8_000:] == [f"{number} " + "x" * 1000 for number in range(8_000)]
        for stream in (reader, call):
            stream.disconnect()
            await stream.done()

    work(test)


@req("CANC-2", "HTTPM-6", "SEC-6", at=E)
def test_a_handler_that_only_sends_ends_with_its_client() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(events=None)).open(revision_named(E))
        call = client.call("endless", logLevel="debug")
        await call.heard(1)
        call.disconnect()
        await call.done()
        assert handler.running == 0
        assert (await client.call("echo").done()).status == 200

    work(test)


@pytest.mark.slow
@req("SEC-6", "HTTP-15")
@later
def test_a_get_stream_that_is_not_read_is_let_go_and_can_be_taken_up(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        kept = MemoryEvents()
        client = await Client(make(defer=QUICK, events=kept)).open(row)
        uri = "a:" + "x" * 4_000
        await client.request("resources/subscribe", {"uri": uri}).done()
        stream = await client.send("GET").begun()
        stream.reading.clear()
        stream.gone = True
        told = 0
        while not stream.task.done() and told < 3000:
            told += 1
            server_of(client.app).changed("resource", uri)
            await asyncio.sleep(0)
        await stream.done()
        assert told < 3000
        assert kept.size <= 1024 * 1024
        assert (await client.request("ping").done()).result == {}

    work(test)


@req("HTTP-8", "ERR-8", "HTTP-6")
@later
def test_a_task_of_the_http_server_that_is_cancelled_leaves_nothing_behind(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        running = client.call("hold")
        await running.heard(1)
        running.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running.task
        session = client.app.dispatcher.sessions.find(client.session["mcp-session-id"].encode(), None)
        assert session is not None
        assert session.protocol.connection.incoming == {}
        assert (session.response_streams, handler.running) == (set(), 0)
        assert (await client.call("echo").done()).status == 200

    work(test)


@req("LIFE-16")
@later
def test_a_server_that_stops_lets_handlers_finish_and_then_ends_everything(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(defer=QUICK)
        client = await Client(app).open(row)
        listening = await client.send("GET").begun()
        good, stuck = client.call("hold", {}, 1), client.call("quiet", {}, 2)
        await until(lambda: handler.running == 2)
        closing = asyncio.ensure_future(app.aclose())
        await asyncio.sleep(0)
        assert (await client.post(request("ping")).done()).status == 503
        handler.gate.set()
        await closing
        assert (await good.done()).answers[0]["id"] == 1
        assert (await stuck.done()).text == "quiet"
        await listening.done()
        assert listening.complete

    work(test)


@req("HTTP-15", "AMB-11", "SEC-6", at=E)
def test_what_is_remembered_of_a_stream_is_bounded_and_a_gap_in_it_is_noticed() -> None:
    """A client that has missed an event that is not remembered any more cannot resume."""

    class Kept:
        def keep(self, *_: object, **__: object) -> None:
            """Keep an event."""

    stream = SessionStream(cast("Any", Kept()), 1, whole=True)
    for _ in range(MAX_NEEDED + 2):
        stream.push(b"{}")
    there = range(3, stream.last + 1)
    assert [stream.lacks(place, there) for place in (0, 1, 2, 3)] == [True, True, False, False]
    assert stream.lacks(2, range(4, stream.last + 1))


@req("HTTP-17", "HTTP-3", at=D)
def test_a_server_that_leaves_sends_clients_on_that_can_resume_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the streams with ids of sessions that other processes know; calls go on, and what lasts is not begun."""

    async def test(handler: Served, make: Make) -> None:
        app = make()
        client, older = await Client(app).open(revision_named(D)), await Client(app).open(revision_named(C))
        gets = [await each.send("GET").begun() for each in (client, older)]
        polled = client.call("hang_up", {"retry": 0.5}, id_=3)
        await until(lambda: polled.complete)
        streamed, quick = client.call("log", id_=4), client.call("hang_up", id_=5)
        await streamed.done()
        assert app.leave() is False
        assert not gets[0].complete
        assert app.dispatcher.is_replaceable is False
        monkeypatch.setattr(LocalSessions, "shared", True)
        assert app.leave() is True
        await until(lambda: gets[0].complete)
        assert [event.retry for event in gets[0].events][-1] in range(100, 2100)
        assert not gets[1].complete  # of a revision whose clients do not know how to come back
        for refused in (client.send("GET"), older.send("GET", None, {"last-event-id": "1-1"})):
            await refused.done()
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        opening = await Client(app).post(initialize(revision_named(D), 7)).done()
        assert opening.status == 200  # it can be used elsewhere
        monkeypatch.setattr(LocalSessions, "shared", False)
        opening = await Client(app).post(initialize(revision_named(D), 8)).done()
        assert (opening.status, opening.json["id"], opening.headers["retry-after"]) == (503, 8, "1")
        handler.gate.set()
        assert (await client.call("log", id_=9).done()).status == 200
        await quick.done()
        await polled.done()

    work(test)
