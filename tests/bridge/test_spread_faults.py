"""A bridge in several processes while one of them is lost, or the store: nothing hangs, crosses or ends without a word."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from typing_extensions import override

import mcprev
from api.wire import Message
from bridge.hands import ELICIT, Downstream, Servers, Upstream, question, said, text
from bridge.spread import GET, Processes, Spread, spread
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.core.store import LogItem
from mcprev.errors import INTERNAL_ERROR, INVALID_PARAMS, StoreError
from mcprev.revisions import DEFAULT, Revision

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
LIMIT: Final = 25.0
LOST: Final = {"reason": "worker_lost", "mayHaveRun": True}
UPDATED: Final = "notifications/resources/updated"
CHANGED: Final = "notifications/tools/list_changed"
CANCELLED: Final = "notifications/cancelled"
URI: Final = "a:x"
LARGE: Final = "x" * 100_000
"""More than the inbox of a process takes itself."""
each_server = pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: f"to {row.name}")


class Store(mcprev.MemoryStore):
    """A store that can be away, that says late what it has written, and that loses answers."""

    def __init__(self) -> None:
        super().__init__(clock=asyncio.get_running_loop().time)
        self.away = False
        self.late = False
        self.loses: bytes = b"never"
        """What a message has that does not arrive."""
        self.lost: list[bytes] = []

    def _check(self) -> None:
        if self.away:
            raise StoreError("away")

    @override
    async def read(self, *args: Any) -> Any:
        self._check()
        return await super().read(*args)

    @override
    async def write(self, key: str, *args: Any, **options: Any) -> Any:
        self._check()
        found = await super().write(key, *args, **options)
        if self.late and ("bridged/" in key or "mail/" in key):
            await asyncio.sleep(0.2)
        return found

    @override
    async def append(self, log: str, items: Any, **options: Any) -> Any:
        self._check()
        lost = [item.value for item in items if self.loses in item.value]
        self.lost += lost
        kept = [item for item in items if not isinstance(item, LogItem) or item.value not in lost]
        return await super().append(log, kept, **options)

    @override
    async def tail(self, *args: Any, **options: Any) -> Any:
        self._check()
        return await super().tail(*args, **options)


class Counting(Upstream):
    """A server by hand that counts on each of its connections."""

    counted = 0


async def count(up: Upstream, _request: Message) -> Message:
    """How often this connection to the server was asked to count."""
    assert isinstance(up, Counting)
    up.counted += 1
    return text({"n": up.counted})


async def wait(up: Upstream, request: Message) -> None:
    up.progresses(request, 1)
    await asyncio.Event().wait()


async def soon(up: Upstream, request: Message) -> Message:
    """Ends some time after it has reported."""
    up.progresses(request, 1)
    await asyncio.sleep(request["params"]["arguments"]["seconds"])
    return text("done")


async def ask(up: Upstream, request: Message) -> Message:
    return await up.asking(request, question(up.revision, "form"))


async def flood(up: Upstream, request: Message) -> Message:
    for number in range(400):
        up.logs(request, "error", f"{number} {LARGE[:20_000]}")
    return text("done")


TOOLS: Final = {function.__name__: function for function in (count, wait, soon, ask, flood)}


def servers_of(there: Revision) -> Servers:
    listed = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    replies: Any = {"tools/list": listed, "resources/subscribe": {}, "resources/unsubscribe": {}}
    return Servers(lambda: Counting(there, TOOLS, replies))


def upstreams(servers: Servers) -> list[Upstream]:
    """The connections to the server that are open."""
    return [up for up in servers.upstreams if not up.lost]


def others(processes: Processes) -> list[int]:
    """The processes that do not hold the session."""
    (holder,) = processes.holders()
    return [number for number in processes.alive if number != holder]


def begin(client: Downstream, name: str, arguments: Any = None) -> asyncio.Task[Any]:
    """Make a call that reports progress when it has begun."""
    params: Message = {"name": name, "_meta": {"progressToken": name}, "arguments": arguments or {}}
    return asyncio.ensure_future(client.ask("tools/call", params, id_=f"the {name}"))


async def found_again(client: Downstream) -> None:
    """Let the session be found; a list is asked for again if a process has not answered that has ended."""
    assert "result" in (await client.ask("tools/list")).message


async def counted(client: Downstream) -> int:
    return int(said(await client.call("count"))["n"])


# -- a process is lost ---------------------------------------------------------------------------------------


@req("SEAM-10", "LIFE-16", at=SESSION.name)
@each_server
@pytest.mark.parametrize("late", [False, True], ids=["", "the store says late what is written"])
def test_one_process_takes_a_session_over(there: Revision, *, late: bool) -> None:
    """However many requests of the session come at once, to all that are left: it has one connection to the server."""

    async def main() -> None:
        store, servers, client = Store(), servers_of(there), Downstream(SESSION)
        processes = Processes(servers, there, 4, store=store)
        async with spread(processes, client):
            assert await counted(client) == 1
            (holder,) = processes.holders()
            store.late = late
            await processes.kill(holder)
            await asyncio.sleep(1.5)  # until then, others may still take it for alive
            found = await asyncio.gather(*(counted(client) for _ in range(9)))
            assert sorted(found) == list(range(1, 10))
            assert len(processes.holders()) == 1
            assert len(upstreams(servers)) == 1
            assert await counted(client) == 10
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "LIFE-16", at=SESSION.name)
@each_server
def test_a_call_whose_holder_is_killed_may_have_run(there: Revision) -> None:
    async def main() -> None:
        servers, client = servers_of(there), Downstream(SESSION)
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            way.to = others(processes)[:1]
            call = begin(client, "wait")
            await client.heard("notifications/progress")
            await processes.kill(*processes.holders())
            error = (await call).error
            assert (error["code"], error["data"]) == (INTERNAL_ERROR, LOST)
            assert await counted(client) == 1
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "CANC-7", at=SESSION.name)
@each_server
def test_an_open_question_is_withdrawn_when_its_call_is_lost(there: Revision) -> None:
    """The user does not answer what nobody waits for."""

    async def main() -> None:
        servers, client = servers_of(there), Downstream(SESSION)
        client.replies[ELICIT] = lambda _: None
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            way.to = others(processes)[:1]
            call = begin(client, "ask")
            asked = await client.get(lambda found: found.get("method") == ELICIT)
            await processes.kill(*processes.holders())
            answer = await call
            assert answer.error["data"] == LOST
            assert [found["requestId"] for found in answer.notified(CANCELLED)] == [asked["id"]]
            del client.replies[ELICIT]
            assert said(await client.call("ask"))[1][0]["action"] == "accept"
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "CANC-7", at=SESSION.name)
@each_server
@pytest.mark.parametrize("name", ["wait", "ask"])
def test_a_call_of_a_process_that_is_killed_is_cancelled_at_the_server(there: Revision, name: str) -> None:
    """Nobody gets its answer: it does not keep the server busy, and no question of it stays open."""

    async def main() -> None:
        servers, client = servers_of(there), Downstream(SESSION)
        client.replies[ELICIT] = lambda _: None
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            way.to = others(processes)[:1]
            call = begin(client, name)
            await client.heard("notifications/progress" if name == "wait" else ELICIT)
            (up,) = upstreams(servers)
            await processes.kill(way.given[-1])
            if name == "wait" or there.handshake:
                await until(lambda: len(up.cancelled) == 1)
            call.cancel()
            assert await counted(client) == 1
            (holder,) = processes.holders()
            await until(lambda: not processes.peers(holder)._serving)
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "SUB-5", "LIFE-16", at=SESSION.name)
@each_server
def test_subscriptions_go_on_at_the_process_that_takes_a_session_over(there: Revision) -> None:
    async def main() -> None:
        servers, client = servers_of(there), Downstream(SESSION)
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            way.to = others(processes)[:1]
            await client.ask("resources/subscribe", {"uri": URI})
            await processes.kill(*processes.holders())
            await found_again(client)
            assert await client.heard(UPDATED) == {"uri": URI}  # all may have changed
            (up,) = upstreams(servers)
            if there.handshake:
                up.tell(UPDATED, {"uri": URI})
            else:
                await until(lambda: bool(up.listens))
                id_, wanted = up.listens[-1]
                assert wanted["resourceSubscriptions"] == [URI]
                up.tell(UPDATED, {"uri": URI, "_meta": {"io.modelcontextprotocol/subscriptionId": id_}})
            assert await client.heard(UPDATED) == {"uri": URI}
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "MRTR-4", at=E)
def test_a_held_call_whose_process_is_killed_may_have_run() -> None:
    async def main() -> None:
        servers, client = servers_of(SESSION), Downstream(MODERN)
        processes = Processes(servers, SESSION)
        async with spread(processes, client) as (way,):
            result = (await client.ask("tools/call", {"name": "ask"})).result
            await processes.kill(way.given[-1])
            answers = {key: {"action": "decline"} for key in result["inputRequests"]}
            params = {"name": "ask", "inputResponses": answers, "requestState": result["requestState"]}
            error = (await client.ask("tools/call", params)).error
            assert (error["code"], error["data"]) == (INVALID_PARAMS, LOST)
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "LIFE-16", at=SESSION.name)
@each_server
def test_a_holder_that_others_take_for_dead_lets_go(there: Revision) -> None:
    """Its lease is lost while it lives: what it serves ends with an error, and the session goes on."""

    async def main() -> None:
        servers, client = servers_of(there), Downstream(SESSION)
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            way.to = others(processes)[:1]
            call = begin(client, "wait")
            await client.heard("notifications/progress")
            (holder,) = processes.holders()
            worker = processes.peers(holder)._worker
            await worker._lease.end()
            error = (await call).error
            assert (error["code"], error["data"]) == (INTERNAL_ERROR, LOST)
            await until(lambda: worker.number == 0)
            assert [await counted(client) for _ in range(4)] == [1, 2, 3, 4]
            assert len(processes.holders()) == len(upstreams(servers)) == 1
        servers.check()

    run(main(), limit=LIMIT)


# -- the end of a session ------------------------------------------------------------------------------------


@req("SEAM-10", "HTTP-24", at=SESSION.name)
@each_server
def test_a_session_that_is_closed_at_another_process_ends_everywhere(there: Revision) -> None:
    async def main() -> None:
        servers, client = servers_of(there), Downstream(SESSION)
        processes = Processes(servers, there)
        async with spread(processes, client) as (way,):
            away = others(processes)
            way.to = away[:1]
            call = begin(client, "wait")
            await client.heard("notifications/progress")
            way.hang_up(GET)
            way.to = away[1:]
            await way.delete()
            await until(lambda: not upstreams(servers))
            assert not processes.holders()
            call.cancel()
            way.forget()
        servers.check()

    run(main(), limit=LIMIT)


# -- the store -----------------------------------------------------------------------------------------------


async def passed_on(processes: Processes, way: Spread, client: Downstream, seconds: float) -> Any:
    """A call that is served by another process than the one it came to, and ends after some seconds."""
    way.to = others(processes)[:1]
    call = begin(client, "soon", {"seconds": seconds})
    await client.heard("notifications/progress")
    return call


@req("SEAM-10", "SEC-6", at=SESSION.name)
def test_a_call_outlives_a_store_that_is_away_for_a_moment() -> None:
    async def main() -> None:
        store, servers, client = Store(), servers_of(SESSION), Downstream(SESSION)
        processes = Processes(servers, SESSION, store=store)
        async with spread(processes, client) as (way,):
            call = await passed_on(processes, way, client, 4)
            store.away = True
            await asyncio.sleep(2)
            store.away = False
            assert said((await call).result) == "done"
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "SEC-6", at=SESSION.name)
@pytest.mark.parametrize(
    ("method", "may_have_run"), [("tools/call", True), ("tools/list", False)], ids=["a call", "a list"]
)
def test_a_request_fails_with_its_type_while_the_store_is_away(method: str, *, may_have_run: bool) -> None:
    async def main() -> None:
        store, servers, client = Store(), servers_of(SESSION), Downstream(SESSION)
        processes = Processes(servers, SESSION, store=store)
        async with spread(processes, client) as (way,):
            for number in others(processes):
                way.to = [number]
                assert await counted(client)
            store.away = True
            way.to = others(processes)[:1]
            error = (await client.ask(method, {"name": "count"} if may_have_run else None)).error
            assert (error["code"], error["data"]["reason"]) == (INTERNAL_ERROR, "store_unavailable")
            assert error["data"]["mayHaveRun"] in (may_have_run, True)
            store.away = False
            assert await counted(client)
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "SEC-6", at=SESSION.name)
@pytest.mark.parametrize("lost", [b'"answers"', b'"kind":"session"'], ids=["the answer", "the request"])
def test_a_message_between_processes_that_is_lost_is_an_error(lost: bytes) -> None:
    """What a full inbox or a store that was away has swallowed is noticed, long before the time of a call."""

    async def main() -> None:
        store, servers, client = Store(), servers_of(SESSION), Downstream(SESSION)
        processes = Processes(servers, SESSION, store=store)
        async with spread(processes, client) as (way,):
            store.loses = lost
            way.to = others(processes)[:1]
            call = asyncio.ensure_future(client.ask("tools/call", {"name": "count"}))
            await until(lambda: bool(store.lost))
            store.loses = b"never"
            assert (await call).error["data"] == LOST
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "CANC-2", at=SESSION.name)
def test_a_cancellation_that_overtakes_its_request_ends_it() -> None:
    async def main() -> None:
        store, servers, client = Store(), servers_of(SESSION), Downstream(SESSION)
        processes = Processes(servers, SESSION, store=store)
        async with spread(processes, client) as (way,):
            assert await counted(client) == 1
            store.late = True
            away = others(processes)
            way.to = away[:1]
            call = begin(client, "wait", {"large": LARGE})
            await until(lambda: processes.peers(away[0])._forwarded)
            way.to = away[:1]
            client.tell(CANCELLED, {"requestId": "the wait", "reason": "enough"})
            (holder,) = processes.holders()
            (up,) = upstreams(servers)
            await asyncio.sleep(1)
            await until(lambda: not processes.peers(holder)._serving)
            assert (
                not [found for found in up.got if found.get("params", {}).get("name") == "wait"]
                or up.cancelled
            )
            call.cancel()
            assert await counted(client) == 2
        servers.check()

    run(main(), limit=LIMIT)


# -- what belongs to no request --------------------------------------------------------------------------------


@req("SEAM-10", "LIFE-7", at=SESSION.name)
def test_a_question_outside_of_calls_reaches_the_client_wherever_it_listens() -> None:
    async def main() -> None:
        servers, client = servers_of(SESSION), Downstream(SESSION)
        processes = Processes(servers, SESSION)
        async with spread(processes, client) as (way,):
            (up,) = upstreams(servers)
            for number in [*others(processes), *processes.holders()]:
                way.to = [number]
                way.listen()
                await until(lambda: not way.to)
                assert await counted(client)
                answer = await up.ask(*question(SESSION, "form"))
                assert answer.result["action"] == "accept", number
        servers.check()

    run(main(), limit=LIMIT)


@req("SEAM-10", "PROG-2", at=SESSION.name)
def test_progress_of_the_client_on_a_question_reaches_the_server() -> None:
    async def main() -> None:
        client = Downstream(SESSION)

        def report(asked: Message) -> Message:
            token = asked["params"]["_meta"]["progressToken"]
            client.tell("notifications/progress", {"progressToken": token, "progress": 1})
            return {"action": "decline"}

        async def asking(up: Upstream, request: Message) -> Message:
            method, params = question(SESSION, "form")
            answer = await up.ask(method, {**(params or {}), "_meta": {"progressToken": "theirs"}})
            return text([answer.result, answer.notified("notifications/progress")])

        client.replies[ELICIT] = report
        servers = Servers(lambda: Upstream(SESSION, {"asking": asking}, {"tools/list": {"tools": []}}))
        processes = Processes(servers, SESSION)
        async with spread(processes, client) as (way,):
            for number in processes.alive:
                way.to = [number]
                _, told = said(await client.call("asking"))
                assert told == [{"progressToken": "theirs", "progress": 1}], number
        servers.check()

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "SEC-6", "STDIO-9", at=SESSION.name)
def test_many_messages_of_a_call_are_bounded_and_its_answer_comes() -> None:
    async def main() -> None:
        servers, client = servers_of(SESSION), Downstream(SESSION)
        processes = Processes(servers, SESSION)
        async with spread(processes, client) as (way,):
            for number in others(processes):
                way.to = [number]
                assert said(await client.call("flood")) == "done"
                (holder,) = processes.holders()
                assert not processes.peers(holder)._serving
        servers.check()

    run(main(), limit=LIMIT)
