"""Workers of one server that share sessions in a store, and what their clients see when one ends or the store is away.

The failure table of sessions and streams, row by row. A worker is killed by dropping it without a goodbye; its lease ends
in virtual time.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import mcprev
from api.authors import text
from fuzz.fuzzing import each_once
from helpers.asgi_bridge import Client, Exchange, initialize, notification, request
from helpers.http_in_process import InProcess
from helpers.named import A, B, C, D, E
from helpers.requirements import req
from helpers.running import run, until
from helpers.served import QUICK, Served, who, work as served_work
from helpers.served_workers import served
from helpers.several_workers import Away, Front, at, kill, lapse, memory, sessions_of, work as work_within
from mcprev.errors import ConnectionLost, RpcError, StoreError, WorkerLost
from mcprev.revisions import Revision, revision_named
from mcprev.sharing.record import BLOCK, key_of
from mcprev.sharing.worker import LEASE, RENEW
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.local_sessions import MAX_GETS

Make = Callable[..., Front]
LATER = [revision_named(name) for name in (B, C, D)]
later = pytest.mark.parametrize("row", LATER, ids=lambda row: row.name)
NEWEST = revision_named(D)


work = partial(work_within, run=partial(run, limit=600.0))


def worker_of(front: Front, exchange: Exchange) -> int:
    """The number of the worker that serves a request which has a stream."""
    (found,) = [
        number
        for number, app in enumerate(front.apps)
        for session in app.dispatcher.sessions.all()
        if session.response_streams
    ]
    return found


def back(client: Client, place: str | None) -> Exchange:
    """A client that resumes a stream."""
    assert place is not None
    return client.send("GET", None, {"last-event-id": place})


# -- sessions ----------------------------------------------------------------------------------------------


@req("HTTP-22", "LOG-2", "SUB-1")
@later
def test_what_a_client_sets_holds_at_every_worker_when_it_is_answered(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row)
        for number in range(3):
            assert (await at(front, client, number).request("ping").done()).result == {}
        for number in range(3):
            level = "debug" if number % 2 == 0 else "error"
            answer = await at(front, client, number).request("logging/setLevel", {"level": level}).done()
            assert answer.result == {}
            uri = f"a:{number}"
            await at(front, client, number).request("resources/subscribe", {"uri": uri}).done()
            for app in front.apps:
                (session,) = app.dispatcher.sessions.all()
                engine = session.protocol.session
                assert (engine.level, uri in engine.subscribed) == (level, True)

    for modes in ({}, {"notification_delay": 0.03}, {"duplicate_notifications": 2}):
        work(test, partial(memory, **modes))


@req("HTTP-22", "HTTP-28", at=D)
def test_a_session_belongs_to_who_opened_it_at_every_worker() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(principal=who)
        client = Client(front)
        client.session["who"] = "me"
        await client.open(NEWEST)
        thief = Client(front)
        for name in ("you", "", "me "):
            thief.session = {**client.session, "who": name}
            for number in range(3):
                for answer in (
                    at(front, thief, number).post(request("ping")),
                    at(front, thief, number).send("GET"),
                    at(front, thief, number).send("DELETE"),
                ):
                    assert (await answer.done()).status == 404
        for number in range(3):
            assert (await at(front, client, number).request("ping").done()).result == {}

    work(test, memory)


@req("HTTP-22", at=D)
@pytest.mark.parametrize(
    ("member", "value"),
    [("format", 2), ("principal", "forged"), ("next", 10**9), ("session", {"revision": "1999-01-01"})],
    ids=str,
)
def test_a_record_that_this_version_cannot_restore_is_no_session(member: str, value: Any) -> None:
    """A record of another version, of a revision that is not served here, or with a principal: 404, not an error."""

    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(NEWEST)
        first = front.given[0]
        store = sessions_of(front.apps[0]).store
        key = f"session/{key_of(client.session['mcp-session-id'])}"
        record = await store.read(key)
        assert record is not None
        held = json.loads(record.value)
        if isinstance(value, dict):
            held[member] |= value
        else:
            held[member] = value
        await store.write(key, json.dumps(held).encode(), ttl=60)
        untouched = next(n for n in range(3) if n not in front.given)
        assert first != untouched
        answer = await at(front, client, untouched).post(request("ping")).done()
        assert (answer.status, answer.error["code"]) == (404, -32600)

    work(test, memory, number=4)


@req("HTTP-24", "CANC-2")
@later
def test_a_session_that_is_deleted_is_over_at_every_worker(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(defer=3600)
        client = await Client(front).open(row)
        for number in range(3):
            await at(front, client, number).request("ping").done()
        running = at(front, client, 0).call("quiet", id_=5)
        await until(lambda: handler.running == 1)
        assert (await at(front, client, 1).send("DELETE").done()).status == 204
        assert (await running.done()).error["code"] == -32800
        assert handler.running == 0
        for number in range(3):
            assert (await at(front, client, number).post(request("ping")).done()).status == 404

    work(test, partial(memory, notification_delay=0.03))


@req("CANC-2")
@later
def test_a_call_is_cancelled_wherever_it_runs(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(defer=3600)
        client = await Client(front).open(row)
        running = at(front, client, 0).call("quiet", id_=4)
        await until(lambda: handler.running == 1)
        cancel = notification("notifications/cancelled", {"requestId": 4})
        assert (await at(front, client, 2).post(cancel).done()).status == 202
        assert handler.running == 0
        assert (await running.done()).error["code"] == -32800

    work(test, partial(memory, notification_delay=0.03))


@req("HTTP-27", at=D)
def test_a_session_that_no_worker_uses_is_over() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(idle=60)
        used, unused = await Client(front).open(NEWEST), await Client(front).open(NEWEST)
        for _ in range(10):
            await asyncio.sleep(15)
            assert (await used.request("ping").done()).status == 200
        assert (await unused.request("ping").done()).status == 404

    work(test, memory)


@req("HTTP-27", "HTTP-24", at=D)
def test_a_worker_that_unloads_a_session_does_not_end_it() -> None:
    """Its state stays, too: only the end of a session removes it."""

    async def test(handler: Served, make: Make) -> None:
        async def counts(ctx: mcprev.Context, params: Any) -> Any:
            count = await ctx.session.update("count", lambda count: count + 1, default=0)
            return text(count)

        vars(handler)["do_counts"] = counts
        front = make()
        client = await Client(front).open(NEWEST)
        assert (await at(front, client, 0).call("counts").done()).text == "1"
        await front.apps[0].aclose()
        assert (await at(front, client, 1).call("counts").done()).text == "2"
        await client_ends(at(front, client, 1))
        assert (await at(front, client, 2).post(request("ping")).done()).status == 404

    work(test, memory)


async def client_ends(client: Client) -> None:
    assert (await client.send("DELETE").done()).status == 204


@req("HTTP-22")
@later
def test_a_copy_that_ends_is_loaded_again_at_once(row: Revision) -> None:
    """As when its client has not answered a ping: the next request is not refused while the old copy ends."""

    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = at(front, await Client(front).open(row), 0)
        await client.request("ping").done()
        for wait in (0, 1, 2, 3, 5):
            (session,) = front.apps[0].dispatcher.sessions.all()
            ending = asyncio.ensure_future(session.aclose(linger=0))
            for _ in range(wait):
                await asyncio.sleep(0)
            assert (await client.request("ping").done()).result == {}
            await ending
            assert (await client.request("ping").done()).result == {}
            assert len(front.apps[0].dispatcher.sessions) == 1

    work(test, memory)


@req("BASE-5", "HTTP-12")
@later
def test_questions_of_two_workers_have_different_ids_and_answers_find_theirs(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row, roots={})
        running = [at(front, client, number).call("tries", id_=number) for number in range(3)]
        asked = [(await each.heard(1))[0] for each in running]
        assert len({question["id"] for question in asked}) == 3
        assert all(0 < question["id"] < 2**31 for question in asked)
        for number, question in enumerate(asked):
            roots = {"roots": [{"uri": f"file:///{number}"}]}
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": roots}
            assert (await at(front, client, (number + 1) % 3).post(answer).done()).status == 202
        for number, each in enumerate(running):
            assert f"file:///{number}" in (await each.done()).text

    work(test, partial(memory, notification_delay=0.03))


# -- workers that end --------------------------------------------------------------------------------------


@req("HTTP-15", "HTTP-16")
@later
def test_killed_while_a_handler_runs(row: Revision) -> None:
    """The client resumes elsewhere: stored events, silence, then the error when the lease has ended; the session lives."""

    async def test(handler: Served, make: Make) -> None:
        front = make(defer=QUICK)
        client = await Client(front).open(row)
        running = at(front, client, 0).call("hold", id_="x")
        await running.heard(1)
        first = running.events[0]
        await asyncio.sleep(0.1)
        await kill(front.apps[0])
        again = back(at(front, client, 1), running.events[-1].id)
        await again.begun()
        assert again.messages == []
        await lapse()
        (answer,) = (await again.done()).answers
        assert answer["id"] == "x"
        error = RpcError.from_wire(answer["error"])
        assert isinstance(error, WorkerLost)
        assert error.may_have_run
        # Whoever comes later hears the same, and nothing is lost before it.
        place = f"{str(first.id).partition('-')[0]}-0"
        for number in (1, 2):
            whole = await back(at(front, client, number), place).done()
            assert whole.messages[-1] == answer
            assert whole.messages[0]["method"] == "notifications/message"
        assert (await at(front, client, 2).call("echo").done()).text == "{}"

    work(test, memory)


@req("HTTP-6", "HTTP-9")
@later
def test_killed_while_an_answer_would_be_json(row: Revision) -> None:
    """The client sees its connection break; the session goes on elsewhere, and forgets the worker that is dead."""

    async def test(handler: Served, make: Make) -> None:
        front = make(defer=3600)
        client = await Client(front).open(row)
        running = at(front, client, 0).call("quiet", id_=1)
        await until(lambda: handler.running == 1)
        await kill(front.apps[0])
        assert not running.complete
        assert (await at(front, client, 1).call("echo").done()).text == "{}"
        await lapse()
        changes = at(front, client, 1).request("logging/setLevel", {"level": "debug"})
        assert (
            await changes.done()
        ).result == {}  # after 250 ms, because the dead one does not acknowledge it
        await asyncio.sleep(1)
        (copy,) = sessions_of(front.apps[1])._by_key.values()
        dead = {1, 2, 3} - {sessions_of(app).worker.number for app in front.apps[1:]}
        assert not dead & {int(worker) for worker in copy.record.value["places"].values()}
        handler.gate.set()
        running.gone = True
        await running.task

    work(test, memory)


@req("HTTP-24")
@later
def test_a_deletion_does_not_wait_for_a_worker_that_is_dead(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row)
        for number in range(3):
            await at(front, client, number).request("ping").done()
        await kill(front.apps[0])
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert (await at(front, client, 1).send("DELETE").done()).status == 204
        assert loop.time() - begun < 1
        for number in (1, 2):
            assert (await at(front, client, number).post(request("ping")).done()).status == 404

    work(test, memory)


@req("HTTP-22", "BASE-5")
@later
def test_many_requests_restore_a_session_at_several_workers_at_once(row: Revision) -> None:
    """Each worker loads one copy, with ids of its own, and serves all of them."""

    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row, roots={})
        running = [at(front, client, number % 4).call("echo", {"n": number}, number) for number in range(40)]
        assert [(await each.done()).text for each in running] == [
            f"{{'n': {number}}}" for number in range(40)
        ]
        copies = [copy for app in front.apps for copy in sessions_of(app)._by_key.values()]
        assert len(copies) == 4
        assert await copies[0].record.refresh()
        assert len(copies[0].record.value["places"]) == 4

    work(test, partial(memory, notification_delay=0.03), number=4)


@req("HTTP-15")
@later
def test_killed_after_the_answer_was_stored(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(defer=QUICK)
        client = await Client(front).open(row)
        running = at(front, client, 0).call("hold", id_=7)
        await running.heard(1)
        running.disconnect()
        handler.gate.set()
        await running.done()
        await asyncio.sleep(0.1)
        await kill(front.apps[0])
        again = await back(at(front, client, 1), running.events[-1].id).done()
        assert again.answers[0]["id"] == 7
        assert "result" in again.answers[0]

    work(test, memory)


@req("HTTP-15", "HTTP-16")
@later
def test_killed_before_what_the_client_has_seen_was_stored(row: Revision) -> None:
    """The event that is not stored is not missed: the error comes after it."""

    async def test(handler: Served, make: Make) -> None:
        front = make(defer=QUICK)
        client = await Client(front).open(row)
        running = at(front, client, 0).call("hold", id_=7)
        await running.heard(1)
        await asyncio.sleep(0.1)
        stream, _, number = str(running.events[-1].id).partition("-")
        await kill(front.apps[0])
        await lapse()
        again = await back(at(front, client, 1), f"{stream}-{int(number) + 3}").done()
        assert [answer["id"] for answer in again.answers] == [7]
        assert (await back(at(front, client, 1), f"{stream}-{10**6}").done()).status == 400

    work(test, memory)


@req("HTTP-10", "HTTP-15")
@later
def test_killed_while_it_holds_the_get_stream(row: Revision) -> None:
    """Resumed from the log: nothing lost, nothing doubled. Another GET stream of the session takes over by itself."""

    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row)
        stream = await at(front, client, 0).send("GET").begun()
        await at(front, client, 1).call("changed").done()
        await stream.heard(1)
        await kill(front.apps[0])
        await at(front, client, 1).call("changed").done()
        await asyncio.sleep(1)
        again = back(at(front, client, 2), stream.events[-1].id)
        await again.heard(1)
        assert [message["method"] for message in again.messages] == ["notifications/tools/list_changed"]
        # The worker of the newest stream is killed; the older one goes on after the lease.
        newest = await at(front, client, 1).send("GET").begun()
        await kill(front.apps[1])
        await lapse()
        server = front.apps[2].server
        assert isinstance(server, mcprev.Server)
        server.changed("tools")
        await again.heard(2)
        assert newest.messages == []
        again.disconnect()
        await again.done()

    work(test, memory)


@req("HTTP-12")
@later
def test_killed_while_a_question_is_open(row: Revision) -> None:
    """A late answer is accepted and dropped; the call ends as that of a dead worker."""

    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row, roots={})
        running = at(front, client, 0).call("tries", id_=1)
        (asked,) = await running.heard(1)
        await asyncio.sleep(0.1)
        await kill(front.apps[0])
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}
        assert (await at(front, client, 1).post(answer).done()).status == 202
        await lapse()
        again = await back(at(front, client, 1), running.events[-1].id).done()
        assert again.answers[0]["error"]["data"] == {"reason": "worker_lost", "mayHaveRun": True}
        assert (await at(front, client, 2).post(answer).done()).status == 202

    work(test, memory)


@req("LIFE-16", "HTTP-15")
@later
def test_stopped_while_a_handler_runs(row: Revision) -> None:
    """SIGTERM: the answer to a question still arrives while the worker drains; then the call gets the typed error."""

    async def test(handler: Served, make: Make) -> None:
        front = make(defer=QUICK)
        client = await Client(front).open(row, roots={})
        asking = at(front, client, 0).call("tries", id_=1)
        (asked,) = await asking.heard(1)
        stuck = at(front, client, 0).call("hold", id_=2)
        await stuck.heard(1)
        stopping = asyncio.ensure_future(front.apps[0].aclose(linger=5))
        if row.sse_priming:  # the client is sent on
            await until(lambda: asking.complete and stuck.complete)
            assert [*asking.answers, *stuck.answers] == []
            places: list[Any] = [
                [event.id for event in each.events if event.id][-1] for each in (asking, stuck)
            ]
            asking, stuck = (back(at(front, client, 2), place) for place in places)
        answer: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": asked["id"],
            "result": {"roots": [{"uri": "file:///x"}]},
        }
        assert (await at(front, client, 1).post(answer).done()).status == 202
        assert "file:///x" in (await asking.done()).text
        await stopping
        error = RpcError.from_wire((await stuck.done()).answers[0]["error"])
        assert isinstance(error, WorkerLost)
        assert error.may_have_run
        assert (await at(front, client, 2).call("echo").done()).text == "{}"
        (copy,) = sessions_of(front.apps[2])._by_key.values()
        assert await copy.record.refresh()
        assert len(set(copy.record.value["places"].values())) == 2

    work(test, memory)


@req("HTTP-15", at=D)
def test_frozen_beyond_its_lease() -> None:
    """Its calls were ended for it: it cancels its handlers, and its answer reaches nobody."""

    async def test(handler: Served, make: Make) -> None:
        front = make(defer=QUICK)
        client = await Client(front).open(NEWEST)
        running = at(front, client, 0).call("hold", id_=3)
        await running.heard(1)
        await asyncio.sleep(0.1)
        place = running.events[-1].id
        frozen = sessions_of(front.apps[0])
        lease = frozen.worker._lease
        assert lease is not None
        await lease.end()  # as if it had ended while the worker was frozen
        await asyncio.sleep(0.5)
        again = await back(at(front, client, 1), place).done()
        assert isinstance(RpcError.from_wire(again.answers[0]["error"]), WorkerLost)
        number = frozen.worker.number
        await until(lambda: handler.running == 0)
        assert frozen.worker.number != number
        assert [message for message in (await running.done()).messages if "id" in message] == []
        assert (await at(front, client, 0).call("echo").done()).text == "{}"
        assert frozen.worker.number > number

    work(test, memory)


@req("SSE-6")
def test_killed_while_it_has_a_stream_of_the_oldest_transport() -> None:
    """The session is over with its stream; a message to another worker gets 404 or, before the lease ends, 503."""

    async def test(handler: Served, make: Make) -> None:
        front = make(sse=True)
        listening = Client(front.apps[0])
        stream = listening.send("GET", path="/sse")
        await until(lambda: len(stream.events) == 1)
        query = stream.events[0].data.decode().partition("?")[2]
        body = initialize(revision_named(A))
        elsewhere = Client(front.apps[1])
        assert (await elsewhere.send("POST", body, path="/messages", query=query).done()).status == 202
        await stream.heard(1)
        sessions_of(front.apps[0]).worker.abandon()
        answer = await elsewhere.send("POST", body, path="/messages", query=query).done()
        assert (answer.status, answer.headers.get("retry-after")) == (503, None)
        await lapse()
        assert (await elsewhere.send("POST", body, path="/messages", query=query).done()).status == 404
        stream.disconnect()
        await stream.done()

    work(test, memory)


# -- the store ---------------------------------------------------------------------------------------------


@req("HTTP-22", at=D)
@pytest.mark.parametrize("how", ["away", "slow"])
def test_store_away(how: str) -> None:
    """503 with `Retry-After` for what needs the store, never 404 and never a hang; loaded sessions go on for a lease."""

    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(NEWEST)
        loaded = at(front, client, front.given[0])
        number = next(n for n in range(3) if n not in front.given)
        setattr(stores[-1], how, True)
        assert (await loaded.call("echo").done()).text == "{}"
        for answer in (
            at(front, client, number).post(request("ping")),
            Client(front.apps[number]).post(initialize(NEWEST)),
            loaded.request("logging/setLevel", {"level": "debug"}),
            at(front, client, number).send("DELETE"),
            at(front, client, number).send("GET"),
        ):
            done = await answer.done()
            assert (done.status, done.headers.get("retry-after")) == (503, "1")
        await asyncio.sleep(2 * LEASE)
        assert (await loaded.post(request("ping")).done()).status == 503
        setattr(stores[-1], how, False)
        assert (await loaded.call("echo").done()).text == "{}"

    stores: list[Away] = []

    def store() -> Away:
        stores.append(Away())
        return stores[-1]

    work(test, store, number=4)


@req("HTTP-15", "HTTP-16")
@later
def test_store_away_for_a_moment_costs_a_stream_nothing(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make(defer=QUICK)
        client = await Client(front).open(row)
        running = at(front, client, 0).call("hold", id_=3)
        await running.heard(1)
        stores[-1].away = True
        handler.gate.set()
        await running.done()
        assert running.answers[0]["id"] == 3
        await asyncio.sleep(1)
        stores[-1].away = False
        await asyncio.sleep(1)
        place = f"{str(running.events[-1].id).partition('-')[0]}-0"
        again = await back(at(front, client, 1), place).done()
        assert again.messages == running.messages

    stores: list[Away] = []

    def store() -> Away:
        stores.append(Away())
        return stores[-1]

    work(test, store)


@req("HTTP-22", "HTTP-16", at=D)
def test_store_restarted_with_data_loss() -> None:
    """Sessions are over: 404, and the client initializes again. Running calls finish on their own connections."""

    async def test(handler: Served, make: Make) -> None:
        front = make(defer=3600)
        client = await Client(front).open(NEWEST)
        running = at(front, client, 0).call("quiet", id_=3)
        await until(lambda: handler.running == 1)
        stores[-1].forget()
        await asyncio.sleep(LEASE)
        for number in range(3):
            assert (await at(front, client, number).post(request("ping")).done()).status == 404
        handler.gate.set()
        assert (await running.done()).text == "quiet"
        client.session.clear()
        assert (await (await client.open(NEWEST)).call("echo").done()).text == "{}"

    stores: list[Away] = []

    def store() -> Away:
        stores.append(Away())
        return stores[-1]

    work(test, store)


# -- from outside of requests ------------------------------------------------------------------------------


@req("HTTP-12", at=D)
def test_a_session_is_notified_from_any_process() -> None:
    """A web request that completes an elicitation may reach a process that has not loaded the session."""

    async def test(handler: Served, make: Make) -> None:
        ids: list[str | None] = []

        async def identifies(ctx: mcprev.Context, params: Any) -> Any:
            ids.append(ctx.session_id)
            return text("")

        vars(handler)["do_identifies"] = identifies
        front = make()
        client = await Client(front).open(NEWEST)
        await client.call("identifies").done()
        (session_id,) = ids
        assert session_id is not None
        assert session_id == client.session["mcp-session-id"]
        stream = await at(front, client, 0).send("GET").begun()
        method, params = "notifications/elicitation/complete", {"elicitationId": "e"}
        for app in front.apps:
            server = app.server
            assert isinstance(server, mcprev.Server)
            assert await server.notify_session(session_id, method, params)
            assert not await server.notify_session(session_id, "notifications/no_such", params)
            assert not await server.notify_session("another", method, params)
        await stream.heard(3)
        assert stream.messages == [{"jsonrpc": "2.0", "method": method, "params": params}] * 3
        stream.disconnect()
        await stream.done()

    work(test, memory)


@req("HTTP-12", at=D)
def test_without_a_store_a_session_is_notified_in_its_process() -> None:
    async def test(handler: Served, make: Any) -> None:
        app = make()
        client = await Client(app).open(NEWEST)
        stream = await client.send("GET").begun()
        method, params = "notifications/elicitation/complete", {"elicitationId": "e"}
        server = app.server
        assert await server.notify_session(client.session["mcp-session-id"], method, params)
        assert not await server.notify_session("another", method, params)
        await stream.heard(1)
        assert stream.messages == [{"jsonrpc": "2.0", "method": method, "params": params}]
        stream.disconnect()
        await stream.done()

    served_work(test)


# -- bounds ------------------------------------------------------------------------------------------------


@req("STDIO-9", "SEC-6", "HTTP-12")
@later
def test_a_handler_waits_until_what_it_sends_on_the_own_stream_is_stored(row: Revision) -> None:
    """Its call gets JSON, and the client listens at another worker: nothing is dropped, however fast the handler is."""
    count = 1_000

    async def test(handler: Served, make: Make) -> None:
        async def produces(ctx: mcprev.Context, params: Any) -> Any:
            for number in range(count):
                await ctx.log("error", {"number": number})
            return text("the answer")

        vars(handler)["do_produces"] = produces
        front = make(json_response=True)
        client = await Client(front).open(row)
        stream = await at(front, client, 1).send("GET").begun()
        assert (await at(front, client, 0).call("produces").done()).text == "the answer"
        messages = await stream.heard(count)
        assert [message["params"]["data"]["number"] for message in messages] == list(range(count))
        stream.disconnect()
        await stream.done()

    work(test, memory)


@req("STDIO-9", "SEC-6")
@pytest.mark.parametrize("options", [{}, {"events": None}], ids=["in a log", "in no log"])
@later
def test_a_handler_waits_for_a_slow_reader_of_its_own_response(
    row: Revision, options: dict[str, Any]
) -> None:
    """Whether its stream is stored or not, and however fast the store is."""

    async def test(handler: Served, make: Make) -> None:
        front = make(**options)
        client = at(front, await Client(front).open(row), 0)
        running = client.call("flood")
        running.reading.clear()
        sent = -1
        while sent < len(handler.notes) or not sent:
            sent = len(handler.notes)
            for _ in range(50):
                await asyncio.sleep(0)
        assert 0 < sent < 200
        running.reading.set()
        assert len((await running.done()).messages) == 2001

    work(test, memory)


@pytest.mark.slow
@req("STDIO-9", "SEC-6", "HTTP-15")
@later
def test_a_handler_waits_for_a_reader_at_another_worker(row: Revision) -> None:
    """Nothing is pushed out of the log that the client reads elsewhere, however fast the handler is."""
    count = 1_500

    async def test(handler: Served, make: Make) -> None:
        async def produces(ctx: mcprev.Context, params: Any) -> Any:
            await ctx.log("error", "begin")
            await handler.gate.wait()
            for number in range(count):
                await ctx.log("error", {"number": number})
            return text("the answer")

        vars(handler)["do_produces"] = produces
        front = make(defer=QUICK)
        client = await Client(front).open(row)
        running = at(front, client, 0).call("produces")
        await running.heard(1)
        running.disconnect()
        again = await back(at(front, client, 1), running.events[-1].id).begun()
        await asyncio.sleep(0.5)
        handler.gate.set()
        await again.done()
        numbers = [message["params"]["data"]["number"] for message in again.messages[:-1]]
        assert numbers == list(range(count))
        assert again.text == "the answer" if len(again.answers) == 1 else False
        await running.done()

    for modes in ({}, {"notification_delay": 0.03}):
        work(test, partial(memory, **modes))


@req("BASE-5", at=D)
def test_ids_go_on_in_another_place_when_one_is_used_up() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(NEWEST)
        await at(front, client, 0).request("ping").done()
        (copy,) = sessions_of(front.apps[0])._by_key.values()
        place = int(next(p for p, w in copy.record.value["places"].items() if w == copy._worker.number))
        ids = copy.question_ids
        found = [next(ids) for _ in range(BLOCK // 2)]
        await asyncio.sleep(0.1)
        found += [next(ids) for _ in range(BLOCK)]
        assert len(set(found)) == len(found)
        assert found[0] == place * BLOCK + 1
        assert await copy.record.refresh()
        mine = [int(p) for p, w in copy.record.value["places"].items() if w == copy._worker.number]
        assert {id_ // BLOCK for id_ in found} < set(mine)
        with pytest.raises(StoreError, match="no request ids are left"):
            deque(ids, maxlen=0)  # the event loop has no time to ask the store

    work(test, memory)


@req("PING-2", at=D)
def test_only_the_worker_with_the_get_stream_pings_and_no_answer_ends_nothing() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(NEWEST)
        for number in range(3):
            await at(front, client, number).request("ping").done()
        stream = await at(front, client, 0).send("GET").begun()
        await stream.heard(1)
        await asyncio.sleep(1)
        assert [message["method"] for message in stream.messages] == ["ping"]
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": stream.messages[0]["id"], "result": {}}
        assert (await at(front, client, 1).post(answer).done()).status == 202
        await stream.heard(2)
        await asyncio.sleep(30)
        assert stream.complete
        for number in range(3):
            assert (await at(front, client, number).request("ping").done()).result == {}

    work(test, memory, ping_interval=5.0)


@req("HTTP-28", "AUTH-1", "SSE-4", at=A)
def test_what_is_posted_to_another_worker_keeps_its_sender_and_leaves_its_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Principal, scopes and headers arrive; the token and cookies are not in the store."""
    found: list[Any] = []

    async def test(handler: Served, make: Make) -> None:
        async def looks(ctx: mcprev.Context, params: Any) -> Any:
            assert ctx.access is not None
            found.append((ctx.principal, sorted(ctx.access.scopes), dict(ctx.headers)))
            return text("")

        vars(handler)["do_looks"] = looks
        auth = mcprev.StaticTokens({"secret-token": {"subject": "ann", "scopes": ["read"]}})
        front = make(sse=True, auth=auth)
        secrets = dict.fromkeys(("cookie", "x-api-key", "x-amz-security-token"), "secret")
        headers = {**secrets, "authorization": "Bearer secret-token", "x-place": "here"}
        stream = Client(front.apps[0]).send("GET", None, headers, path="/sse")
        await until(lambda: len(stream.events) == 1)
        query = stream.events[0].data.decode().partition("?")[2]
        elsewhere = Client(front.apps[1])
        for body in (
            initialize(revision_named(A)),
            notification("notifications/initialized"),
            request("tools/call", {"name": "looks"}, 7),
        ):
            done = await elsewhere.send("POST", body, headers, path="/messages", query=query).done()
            assert done.status == 202
        await stream.heard(2)
        assert stream.messages[1]["id"] == 7
        malformed = {"jsonrpc": "2.0", "id": 5}
        done = await elsewhere.send("POST", malformed, headers, path="/messages", query=query).done()
        assert (done.status, done.error["code"]) == (400, -32600)
        held = [record.record.value for record in stores[-1]._held.values()]
        held += [value for log in stores[-1]._logs.values() for _, value in (*log.needed, *log.droppable)]
        assert held
        assert not any(b"secret" in value for value in held)
        stream.disconnect()
        await stream.done()

    stores: list[mcprev.MemoryStore] = []

    def store() -> mcprev.MemoryStore:
        stores.append(memory())
        return stores[-1]

    work(test, store)
    ((principal, scopes, headers),) = found
    assert (principal, scopes, headers["x-place"]) == ("ann", ["read"], "here")
    assert not {"authorization", "cookie", "x-api-key", "x-amz-security-token"} & headers.keys()


@req("SUB-8", "TOOL-11")
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("row", [NEWEST, revision_named(E)], ids=lambda row: row.name)
def test_what_changes_in_an_app_is_told_to_its_clients_whichever_worker_they_listen_at(
    row: Revision, number: int
) -> None:
    """Each worker has functions of its own, which it takes out of service while clients are connected."""

    async def main() -> None:
        store = memory()
        apps = [mcprev.App("a", "1", store=store) for _ in range(number)]
        for app in apps:
            app.tool(buy)
        asgi = [app.asgi() for app in apps]
        async with aiohttp.ClientSession(connector=InProcess(Front(asgi) if number > 1 else asgi[0])) as http:
            target = mcprev.http("http://127.0.0.1/mcp", session=http)
            async with mcprev.connect(target, mode=row.name) as client, client.listen(tools=True) as changes:
                for app in apps:
                    app.disable("buy")
                    assert (await anext(changes)).what == "tools"
                assert [tool.name async for tool in client.tools()] == []
        for each in asgi:
            await each.aclose()
        await store.aclose()

    run(main())


@req("SUB-8", "TOOL-11")
@later
@pytest.mark.parametrize("seconds", [0.1, 3.0])
def test_what_changes_while_the_store_is_away_is_told_here_at_once_and_elsewhere_when_it_is_back(
    row: Revision, seconds: float
) -> None:
    """Each change once: those of this process before they are stored, those of others when they are read."""

    async def test(handler: Served, make: Make) -> None:
        front = make()
        servers = [app.server for app in front.apps if isinstance(app.server, mcprev.Server)]
        streams: list[Exchange] = []
        for number in range(2):
            client = await Client(front).open(row)
            streams.append(await at(front, client, number).send("GET").begun())
        await asyncio.sleep(1)

        def told(number: int) -> list[str]:
            return [message["method"].split("/")[1] for message in streams[number].messages]

        store = stores[-1]
        store.away = True
        await asyncio.sleep(seconds)
        servers[0].changed("tools")
        await streams[0].heard(1)
        servers[1].changed("prompts")
        await streams[1].heard(1)
        servers[0].changed("tools")
        await streams[0].heard(2)
        await asyncio.sleep(1)
        assert (told(0), told(1)) == (["tools", "tools"], ["prompts"])
        store.away = False
        await streams[0].heard(3)
        await streams[1].heard(2)
        await asyncio.sleep(5)
        assert (told(0), told(1)) == (["tools", "tools", "prompts"], ["prompts", "tools"])
        servers[1].changed("tools")
        await streams[0].heard(4)
        await streams[1].heard(3)
        await asyncio.sleep(5)
        assert (told(0)[3:], told(1)[2:]) == (["tools"], ["tools"])
        for stream in streams:
            stream.disconnect()
            await stream.done()

    work(test, partial(away, stores := list[Away]()))


def away(stores: list[Away]) -> Away:
    """Make a store that a test can reach."""
    stores.append(Away())
    return stores[-1]


@req("HTTP-12")
@later
def test_what_cannot_be_stored_for_sure_comes_once(row: Revision) -> None:
    """The store has carried out what it gave no answer to; a question and a change are not told twice."""

    class Deaf(Away):
        deaf = False

        async def append(self, log: str, items: Any, /, **options: Any) -> Any:
            done = await super().append(log, items, **options)
            if self.deaf and "own/" in log:
                self.deaf = False
                raise StoreError("no answer within 2 s")
            return done

    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row, roots={})
        stream = await at(front, client, 0).send("GET").begun()
        await asyncio.sleep(1)
        stores[-1].deaf = True
        await at(front, client, 1).call("changed").done()
        await stream.heard(1)
        await asyncio.sleep(3)
        assert [message["method"] for message in stream.messages] == ["notifications/tools/list_changed"]
        assert not stores[-1].deaf
        stream.disconnect()
        await stream.done()

    stores: list[Deaf] = []

    def make_store() -> Deaf:
        stores.append(Deaf())
        return stores[-1]

    work(test, make_store)


@req("HTTP-10", "SUB-8")
@later
def test_a_change_is_told_once_whenever_the_worker_that_told_it_is_killed(row: Revision) -> None:
    """What was told is in the log with the notification itself, so the next worker knows of it at once."""

    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row)
        stream = await at(front, client, 0).send("GET").begun()
        for number in (1, 2):
            await at(front, client, number).call("changed").done()
            await stream.heard(number)
        await kill(front.apps[0])
        again = back(at(front, client, 2), stream.events[-1].id)
        await at(front, client, 1).call("changed").done()
        await again.heard(1)
        await asyncio.sleep(3)
        assert [message["method"] for message in again.messages] == ["notifications/tools/list_changed"]
        again.disconnect()
        await again.done()

    work(test, memory)


@req("HTTP-10", "SEC-6")
@later
def test_the_get_streams_of_a_killed_worker_are_not_those_that_a_client_has_too_many_of(
    row: Revision,
) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = make()
        client = await Client(front).open(row)
        for _ in range(MAX_GETS):
            await at(front, client, 0).send("GET").begun()
        assert (await at(front, client, 1).send("GET").done()).status == 429
        await kill(front.apps[0])
        await lapse()
        stream = await at(front, client, 1).send("GET").begun()
        front.servers[2].changed("tools")
        await stream.heard(1)
        stream.disconnect()
        await stream.done()

    work(test, memory)


@req("HTTP-10", "SUB-3", "SUB-8")
@later
@pytest.mark.parametrize("others", [0, 1, 2])
@each_once
def test_a_change_is_told_whose_worker_is_killed_before_it_knows_whether_the_client_sees_it(
    row: Revision, others: int
) -> None:
    """Changes that were told meanwhile do not stand for it; after the check, it is not told again."""
    uri = "note://1"

    async def test(handler: Served, make: Make) -> None:
        front = make()
        gate, asked = asyncio.Event(), 0

        async def sees(ctx: mcprev.Context) -> bool:
            nonlocal asked
            asked += 1
            await gate.wait()
            return True

        for server in front.servers:
            server.guard = lambda name: sees if name == uri else None
        client = await Client(front).open(row)
        await at(front, client, 1).request("resources/subscribe", {"uri": uri}).done()
        stream = await at(front, client, 0).send("GET").begun()
        front.servers[1].changed("resource", uri)
        await until(lambda: asked == 1)
        for number in range(others):
            front.servers[1].changed("tools")
            await stream.heard(number + 1)
            await asyncio.sleep(3)
        await kill(front.apps[0])
        gate.set()
        again = (
            back(at(front, client, 2), stream.events[-1].id) if others else at(front, client, 2).send("GET")
        )
        await until(lambda: any("uri" in message.get("params", {}) for message in again.messages))
        await asyncio.sleep(3)
        (told,) = [message for message in again.messages if message["method"].endswith("/updated")]
        assert told["params"]["uri"] == uri
        await kill(front.apps[2])
        last = back(at(front, client, 1), again.events[-1].id)
        front.servers[1].changed("prompts")
        await until(lambda: any("prompts" in message["method"] for message in last.messages))
        await asyncio.sleep(3)
        assert [message["method"] for message in last.messages] == ["notifications/prompts/list_changed"]
        last.disconnect()
        await last.done()

    work(test, memory)


@req("LIFE-16", at=(D, E))
@pytest.mark.parametrize("row", [NEWEST, revision_named(E)], ids=lambda row: row.name)
def test_each_worker_enters_its_lifespan_once_and_leaves_it_after_its_last_request(row: Revision) -> None:
    """With an app mounted in each; whichever worker serves a request has its own values."""

    async def main() -> None:
        store, events = memory(), {number: list[str]() for number in range(3)}

        def worker(number: int) -> AsgiApp:
            noted = events[number]

            @asynccontextmanager
            async def lifespan(server: mcprev.Server) -> AsyncGenerator[list[str], None]:
                noted.append("open")
                yield noted
                noted.append("closed")

            @asynccontextmanager
            async def inner(server: mcprev.Server) -> AsyncGenerator[int, None]:
                noted.append("open inner")
                yield number
                noted.append("closed inner")

            app, mounted = mcprev.App("a", "1", store=store, lifespan=lifespan), mcprev.App(
                "b", "1", lifespan=inner
            )

            @app.tool
            async def use(ctx: mcprev.Context) -> int:
                assert ctx.lifespan(list) is noted  # pyright: ignore[reportUnknownMemberType]
                noted.append("used")
                return number

            app.mount(mounted, "b")
            return app.asgi()

        workers = [worker(number) for number in range(3)]
        async with aiohttp.ClientSession(connector=InProcess(Front(workers))) as http:
            target = mcprev.http("http://127.0.0.1/mcp", session=http)
            async with mcprev.connect(target, mode=row.name) as client:
                used = Counter([(await client.call_tool("use")).data for _ in range(12)])
        for each in workers:
            await each.aclose()
        assert sorted(used) == [0, 1, 2]
        for number, noted in events.items():
            assert noted == ["open", "open inner", *["used"] * used[number], "closed inner", "closed"]
        await store.aclose()

    run(main())


@req("HTTP-22", at=D)
@pytest.mark.parametrize("other", [{}, {"idle": 60.0, "max_sessions": 5}, {"get_stream": False}])
def test_options_that_differ_between_workers_are_said(other: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def test(handler: Served, make: Make) -> None:
        front, different = make(), make(**other)
        for at_once in (front, front, different):
            await Client(at_once.apps[0 if at_once is different else 1]).open(NEWEST)
        await Client(front.apps[0]).open(NEWEST)
        said = [record.getMessage() for record in caplog.records if "other options" in record.getMessage()]
        assert len(said) == (2 if other else 0), said
        for name, value in other.items():
            assert f"`{name}`: {value!r}, not " in said[0]
        assert said[0].count("not ") == len(other) if other else True

    work(test, memory)


async def buy(thing: str) -> str:
    """Buy something."""
    return thing


@pytest.mark.slow
@req("HTTP-22", "HTTP-9", at=D)
def test_a_session_outlives_the_processes_that_serve_it(tmp_path: Path) -> None:
    """Real processes on one port: each time the one that answers is killed, and the session goes on with its state."""
    shutil.copy(Path(__file__).with_name("workers_app.py"), tmp_path / "app.py")

    async def main() -> None:
        async with (
            served("app.py:with_sessions", 3, "--store", "sqlite:///app.db", cwd=tmp_path) as server,
            mcprev.connect(server.url, mode=D) as client,
        ):

            async def call(tool: str, arguments: dict[str, object]) -> Any:
                """Call a tool again until its process is not one that was killed."""
                while True:
                    try:
                        return (await client.call_tool(tool, arguments)).data
                    except ConnectionLost as error:
                        lost.append(error.in_flight)

            lost: list[bool] = []
            await call("remember", {"text": "kept"})
            killed: set[object] = set()
            for _ in range(3):
                pid = await call("pid", {})
                assert pid not in killed
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            assert (await call("remember", {}))[0] == "kept"
            assert lost
            assert client.reopened == 0

    run(main(), limit=60)


@pytest.mark.slow
@req("HTTP-12", at=D)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells at once that a process has ended")
def test_a_call_whose_process_is_killed_ends_long_before_the_lease_does(tmp_path: Path) -> None:
    """The processes of one machine see that another one has ended."""
    shutil.copy(Path(__file__).with_name("workers_app.py"), tmp_path / "app.py")
    begun = tmp_path / "file.begun"

    async def main() -> None:
        async with (
            served("app.py:with_sessions", 3, "--store", "sqlite:///app.db", cwd=tmp_path) as server,
            mcprev.connect(server.url, mode=D) as client,
        ):
            calling = asyncio.create_task(client.call_tool("wait_for", {"file": str(tmp_path / "file")}))
            await until(begun.exists)
            await asyncio.sleep(0.5)  # the response is a stream by now
            os.kill(int(begun.read_text()), signal.SIGKILL)
            killed = asyncio.get_running_loop().time()
            with pytest.raises(WorkerLost):
                await calling
            assert asyncio.get_running_loop().time() - killed < LEASE - RENEW - 1
            assert client.reopened == 0

    run(main(), limit=60)
