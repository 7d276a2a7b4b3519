"""The server over HTTP against what nobody should send, and against what its own author gets wrong."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from helpers.asgi_bridge import PREFIX, Client, Exchange, initialize, modern, notification, request
from helpers.requirements import A, B, C, D, E, req
from helpers.running import timers_of, until
from helpers.served import QUICK, Served, server_of, who, work
from mcprev.core.tool_schemas import MAX_NAME
from mcprev.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.event_store import MemoryEvents
from mcprev.transports.http.server.local_sessions import MAX_GETS
from mcprev.transports.http.server.response_stream import ResponseStream

Make = Callable[..., AsgiApp]
LATER = [revision_named(name) for name in (B, C, D)]
ALL = [*LATER, revision_named(E)]


def later(test: Any) -> Any:
    """Run a test at the revisions that have sessions over one endpoint."""
    return pytest.mark.parametrize("row", LATER, ids=[row.name for row in LATER])(test)


def everyone(test: Any) -> Any:
    """Run a test at all revisions that have one endpoint."""
    return pytest.mark.parametrize("row", ALL, ids=[row.name for row in ALL])(test)


async def listener(app: AsgiApp, headers: Mapping[str, str | None] | None = None) -> tuple[Exchange, str]:
    """A stream of the oldest transport, and the query to post with."""
    stream = await Client(app).send("GET", None, headers, path="/sse").begun()
    await until(lambda: len(stream.events) == 1)
    return stream, stream.events[0].data.decode().partition("?")[2]


# -- what the author gets wrong --------------------------------------------------------------------------


@req("HTTP-28", "SEC-4")
@later
@pytest.mark.parametrize("found", [RuntimeError("the directory is down"), 7, b"bytes"], ids=repr)
def test_who_cannot_be_told_is_let_in_nowhere(
    found: object, row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(handler: Served, make: Make) -> None:
        answers: list[object] = ["me"]

        def principal(scope: Mapping[str, Any]) -> Any:
            if isinstance(answers[0], Exception):
                raise answers[0]
            return answers[0]

        app = make(principal=principal, sse=True)
        client = await Client(app).open(row)
        stream, query = await listener(app)
        answers[0] = found
        caplog.clear()
        for response_stream in (
            client.post(initialize(row)),
            client.call("echo"),
            client.send("GET"),
            client.send("DELETE"),
            client.send("GET", path="/sse"),
            client.send("POST", request("ping"), path="/messages", query=query),
            modern(client, revision_named(E), "tools/call", {"name": "echo"}),
        ):
            await response_stream.done()
            assert (response_stream.status, response_stream.error["code"]) == (403, INVALID_REQUEST)
            assert "directory" not in response_stream.error["message"]
            assert "id" not in response_stream.json
        logged = [found for found in caplog.records if found.levelno >= logging.ERROR]
        assert len(logged) == 7
        assert all(found.exc_info is not None for found in logged)
        assert (len(app.dispatcher.sessions), len(app.dispatcher.sse)) == (1, 1)
        answers[0] = "me"
        assert (await client.call("echo").done()).text == "{}"
        stream.disconnect()
        await stream.done()

    work(test)


@req("HTTP-28")
@later
def test_a_principal_may_be_awaited(row: Revision) -> None:
    async def principal(scope: Mapping[str, Any]) -> str | None:
        return who(scope)

    async def test(handler: Served, make: Make) -> None:
        app = make(principal=principal)
        mine = await Client(app).open(row)
        thief = Client(app)
        thief.revision = row
        thief.session = {**mine.session, "who": "thief"}
        assert (await thief.call("echo").done()).status == 404
        assert (await mine.call("echo").done()).text == "{}"

    work(test)


@req("ERR-1", "ERR-6")
@everyone
def test_an_error_that_cannot_be_written_is_an_internal_one(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(handler: Served, make: Make) -> None:
        async def raises(ctx: object, params: object) -> None:
            raise RpcError("no", code=1, data=object())

        vars(handler)["do_raises"] = raises
        client = await Client(make()).open(row)
        for _ in range(2):  # its id is free again
            answer = await client.call("raises").done()
            assert (answer.status, answer.error["code"]) == (200, INTERNAL_ERROR)
        assert "cannot be written" in caplog.text

    work(test)


@req("ERR-1", "CANC-2")
@everyone
def test_a_handler_that_runs_into_a_cancellation_of_its_own_is_answered(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(handler: Served, make: Make) -> None:
        async def waits(ctx: object, params: object) -> None:
            inner = asyncio.get_running_loop().create_future()
            inner.cancel()
            await inner

        vars(handler)["do_waits"] = waits
        client = await Client(make()).open(row)
        for _ in range(2):
            answer = await client.call("waits").done()
            assert (answer.status, answer.result["isError"]) == (200, True)
            assert answer.text == "the tool 'waits' failed"
        assert (await client.call("echo").done()).text == "{}"

    work(test)


@req("HDR-8", "ERR-1", at=E)
def test_a_list_that_runs_into_a_cancellation_of_its_own_keeps_no_call_away() -> None:
    async def test(handler: Served, make: Make) -> None:
        async def lists(ctx: object, params: object) -> None:
            raise asyncio.CancelledError

        vars(handler)["list_tools"] = lists
        client = await Client(make()).open(revision_named(E))
        assert (await client.call("echo").done()).text == "{}"

    work(test, validate=False)


@req("SEC-6", everywhere=True)
def test_a_handler_that_ends_the_task_of_its_request_leaves_nothing_behind() -> None:
    async def test(handler: Served, make: Make) -> None:
        async def ends(ctx: object, params: object) -> object:
            raise GeneratorExit

        vars(handler)["call_tool"] = ends
        app = make()
        for row in (revision_named(D), revision_named(E)):
            call = (await Client(app).open(row)).call("echo")
            answer = await call.done()
            assert answer.result["isError"] is True
        assert timers_of(ResponseStream) == []
        assert not app.dispatcher.shared.protocol.connection.incoming

    work(test, validate=False)


class Broken(MemoryEvents):
    """A store whose database is down now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False

    def append(self, session: str, stream: int, number: int, message: bytes, /, *, droppable: bool) -> None:
        self._check()
        super().append(session, stream, number, message, droppable=droppable)

    async def after(
        self, session: str, stream: int, number: int, last: int, /
    ) -> Sequence[tuple[int, bytes]]:
        self._check()
        return await super().after(session, stream, number, last)

    def discard(self, session: str, /) -> None:
        self._check()
        super().discard(session)

    def _check(self) -> None:
        if self.down:
            raise OSError("the database is down")


@req("HTTP-14", "HTTP-16", "AMB-11")
@later
def test_a_store_that_fails_costs_the_way_back_and_nothing_else(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(handler: Served, make: Make) -> None:
        store = Broken()
        app = make(events=store)
        client = await Client(app).open(row)
        await client.call("log").done()
        store.down = True
        answer = await client.call("log").done()
        assert answer.text == "done"
        for place in (answer.events[0].id, "1-0"):
            again = await client.send("GET", None, {"last-event-id": place}).done()
            assert again.status == 400
        store.down = False
        again = await client.send("GET", None, {"last-event-id": answer.events[0].id}).done()
        assert again.status == 400  # what was not kept is a gap
        store.down = True
        assert (await client.send("DELETE").done()).status == 204
        assert len(app.dispatcher.sessions) == 0
        assert "the database is down" in caplog.text

    work(test)


@req("HTTP-17", "HTTP-15", "AMB-3", at=D)
def test_without_get_streams_nobody_is_sent_away_to_come_back() -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(get_stream=False)).open(revision_named(D))
        response_stream = client.call("hang_up")
        await until(lambda: len(handler.notes) == 2)
        handler.gate.set()
        assert (await response_stream.done()).text == "come back"
        assert handler.notes == [False, False]
        assert all(event.id is None for event in response_stream.events)

    work(test)


# -- what nobody should send -----------------------------------------------------------------------------


@req("BASE-8", "ERR-6", "MOD-3", at=E)
@pytest.mark.parametrize("bad", ["id", "method", "version"])
def test_what_no_utf_8_can_say_is_refused_like_anything_else(bad: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = Client(make())
        message = request("tools/list", {"_meta": {PREFIX + "protocolVersion": 5}}, "x")
        if bad == "version":
            message["params"]["_meta"][PREFIX + "protocolVersion"] = "\ud800"
        else:
            message[bad] = "\ud800"
        answer = await client.post(message).done()
        assert (answer.status, answer.error["code"]) == (400, INVALID_PARAMS)
        assert answer.json["id"] == message["id"]

    work(test)


@req("SEC-6", "HDR-8", at=E)
def test_names_of_no_tool_are_not_remembered_whatever_their_length() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client = await Client(app).open(revision_named(E))
        for length in (MAX_NAME, MAX_NAME + 1, 100_000):
            await client.call("x" * length).done()
        tools = cast("Any", server_of(app).request_handler).tools
        [known] = cast("dict[Any, dict[str, Any]]", tools.lists).values()
        assert [len(name) for name in known if name != "region"] == [MAX_NAME]

    for validate in (True, False):
        work(test, validate=validate)


@req("HTTP-28", "SEC-4", "SSE-6", at=A)
def test_the_members_of_an_array_come_from_who_posts_it() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True, principal=who)
        mine = {"who": "me"}
        stream, query = await listener(app, mine)

        async def tell(body: object) -> None:
            answer = Client(app).send("POST", body, mine, path="/messages", query=query)
            assert (await answer.done()).status == 202

        await tell(initialize(revision_named(B)))
        await tell(notification("notifications/initialized"))
        await tell([request("tools/call", {"name": "whose"}, 7)])
        await until(lambda: len(stream.events) == 3)
        (answer,) = json.loads(stream.events[2].data)
        assert answer["result"]["content"][0]["text"] == "me"
        stream.disconnect()
        await stream.done()

    work(test)


@req("SSE-4", "SSE-6", at=A)
def test_a_body_that_comes_after_the_end_of_its_session_finds_none() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(sse=True)
        stream, query = await listener(app)
        late = Client(app).send("POST", path="/messages", query=query, open_body=True)
        await until(lambda: late.awaited)
        stream.disconnect()
        # The stream is looked after from now on, and not after a while.
        await until(lambda: len(app.dispatcher.sse) == 0)
        late.give(json.dumps(initialize(revision_named(A))).encode())
        assert (await late.done()).status == 404
        await stream.done()

    work(test)


@req("LIFE-16", "HTTP-31", "SEC-6")
@everyone
def test_a_body_that_comes_after_the_end_of_the_server_is_refused(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client = await Client(app).open(row)
        said = {"mcp-protocol-version": row.version, "mcp-method": "tools/call", "mcp-name": "echo"}
        late = client.send("POST", None, {} if row.handshake else said, open_body=True)
        await until(lambda: late.awaited)
        await app.aclose()
        meta: dict[str, Any] = {
            PREFIX + "protocolVersion": row.version,
            PREFIX + "clientCapabilities": {},
        }
        params: dict[str, Any] = {"name": "echo", **({} if row.handshake else {"_meta": meta})}
        late.give(json.dumps(request("tools/call", params)).encode())
        assert (await late.done()).status == 503

    work(test)


@req("LIFE-16", "HTTP-22")
@everyone
def test_an_app_whose_server_ended_everything_begins_again(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client = await Client(app).open(row)
        assert (await client.call("echo").done()).text == "{}"
        await server_of(app).aclose()
        answer = await client.call("echo").done()
        assert answer.status == (404 if row.handshake else 200)
        client.session.clear()
        assert (await (await client.open(row)).call("echo").done()).text == "{}"

    work(test)


@req("HTTP-12", "HTTP-13", "HTTP-22", "BASE-5")
@later
def test_two_clients_of_one_session_share_it_and_get_nothing_twice(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        one = await Client(app).open(row)
        two = Client(app)
        two.session, two.revision = dict(one.session), row
        streams = [await client.send("GET").begun() for client in (one, two)]
        holding = one.call("hold", {"by": "one"}, 5)
        await until(lambda: handler.running == 1)
        refused = await two.call("hold", {"by": "two"}, 5).done()
        assert refused.error["code"] == INVALID_REQUEST
        assert refused.answers[0]["id"] == 5
        server_of(app).changed("tools")
        await until(lambda: sum(len(stream.messages) for stream in streams) == 1)
        handler.gate.set()
        assert (await holding.done()).text == "{'by': 'one'}"
        assert sum(len(stream.messages) for stream in streams) == 1
        assert (await two.send("DELETE").done()).status == 204
        for stream in streams:
            await stream.done()
        assert (await one.call("echo").done()).status == 404

    work(test)


@req("HTTP-15", "HTTP-12", at=(B, C, D))
@later
def test_who_loses_a_stream_to_somebody_else_sees_its_proper_end(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        place = {"last-event-id": "1-0"}
        # The second comes before the first has been sent anything, the third after that.
        first, second = client.send("GET"), client.send("GET", None, place)
        await first.done()
        assert (first.status, first.complete) == (200, True)
        await second.begun()
        third = await client.send("GET", None, place).begun()
        await second.done()
        assert (second.status, second.complete) == (200, True)
        third.disconnect()
        await third.done()

    work(test)


@req("SEC-6", "HTTP-10", at=(B, C, D))
@later
def test_a_stream_that_has_too_much_to_say_from_the_beginning_is_begun_all_the_same(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client = await Client(app).open(row)
        session = app.dispatcher.sessions.find(client.session["mcp-session-id"].encode(), None)
        assert session is not None
        for number in range(3):
            session.protocol.notify(
                "notifications/message", {"level": "error", "data": str(number) * 3_000_000}
            )
        session.process_events()
        stream = client.send("GET")
        await stream.task
        assert (stream.status, stream.complete) == (200, True)

    work(test)


SMUGGLED = (
    "a\r\nmcp-session-id: b", "\x00", "\xff\xfe", " ", "=?base64?YQ==?=", "a, b", "-1", "x" * 20_000, "1-0\n1-1",
)  # fmt: skip


@req("HTTP-22", "HTTP-16", "AMB-5", "AMB-11", "SEC-6")
@later
@pytest.mark.parametrize("value", SMUGGLED, ids=range(len(SMUGGLED)))
def test_headers_that_say_more_than_they_may_say_nothing(value: str, row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(row)
        found = {
            name: await client.send("GET", None, {name: value}).done()
            for name in ("mcp-session-id", "last-event-id", "mcp-protocol-version")
        }
        assert {name: answer.status for name, answer in found.items()} == {
            "mcp-session-id": 404, "last-event-id": 400, "mcp-protocol-version": 400,
        }  # fmt: skip
        for answer in found.values():
            assert answer.error["code"] == INVALID_REQUEST
            assert not any("\r" in text or "\n" in text for text in answer.headers.values())
        assert (await client.call("echo").done()).text == "{}"

    work(test)


SENTINELS = (
    "=?base64?", "=?base64??=", "=?base64?ZWNobw?=", "=?base64?ZWNobw==\n?=", "=?BASE64?ZWNobw==?=",
    "=?base64?ZWNobw==?= ,x", "=?base64?" + "ZWNobw==" * 100 + "?=", "=?base64?//79?=", "\xe9cho", "ec ho", "Echo",
)  # fmt: skip


@req("HDR-3", "HDR-4", "HDR-5", at=E)
@pytest.mark.parametrize("value", SENTINELS)
def test_a_name_that_is_written_oddly_is_no_way_around_its_check(value: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make()).open(revision_named(E))
        answer = await client.call("echo", headers={"mcp-name": value}).done()
        assert (answer.status, answer.error["code"]) == (400, -32020)
        good = await client.call("echo", headers={"mcp-name": "=?base64?ZWNobw==?="}).done()
        assert good.text == "{}"
        assert handler.runs == 1

    work(test)


@req("HTTP-24", "HTTP-9", "CANC-2", "AMB-10")
@later
def test_delete_while_much_is_running_ends_all_of_it(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make()
        client = await Client(app).open(row)
        other = await Client(app).open(row)
        running = [client.call("hold" if n % 2 else "quiet", id_=n) for n in range(20)]
        running.append(other.call("quiet", id_=0))
        gone = running[:4]
        await until(lambda: handler.running == 21)
        for response_stream in gone:
            response_stream.disconnect()
        streams = [await client.send("GET").begun() for _ in range(MAX_GETS)]
        assert (await client.send("DELETE").done()).status == 204
        for response_stream in [*running[4:20], *streams]:
            await response_stream.done()
            assert b'"result"' not in response_stream.body
        await until(lambda: handler.running == 1)
        handler.gate.set()
        assert (await running[20].done()).text == "quiet"
        for response_stream in gone:
            await response_stream.done()
        assert len(app.dispatcher.sessions) == 1

    work(test)


@req("SEC-6", "BATCH-4", "BATCH-7", at=B)
@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join(b"1" for _ in range(10_000)) + b"]",
        b"[" + b",".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % n for n in range(10_000)) + b"]",
        b"[" + b",".join(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call"}' % n for n in range(5_000)) + b"]",
    ],
    ids=["noise", "pings", "broken calls"],
)
def test_an_array_of_very_many_is_answered_completely(body: bytes) -> None:
    async def test(handler: Served, make: Make) -> None:
        client = await Client(make(json_response=True)).open(revision_named(B))
        answer = await client.post(body).done()
        assert answer.status == 200
        assert len(answer.answers) == body.count(b",{") + body.count(b",1") + 1
        assert (await client.call("echo").done()).text == "{}"

    work(test)


@req("SEC-6", "HTTP-31")
@everyone
def test_very_many_bodies_that_never_come_are_given_up(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(body_timeout=5 * QUICK)
        client = await Client(app).open(row)
        waiting = [client.send("POST", open_body=True) for _ in range(2_000)]
        for response_stream in waiting[::2]:
            response_stream.give(b'{"jsonrpc":', more=True)
        await until(lambda: all(response_stream.awaited for response_stream in waiting))
        assert (await client.call("echo").done()).text == "{}"
        for response_stream in waiting[:100]:
            response_stream.disconnect()
        for response_stream in waiting:
            await response_stream.done()
            assert response_stream.gone or response_stream.status == 408

    work(test)


@req("HTTP-27", "SEC-6")
@later
def test_a_flood_of_sessions_leaves_those_that_are_there_alone(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(max_sessions=20)
        client = await Client(app).open(row)
        statuses = [(await Client(app).post(initialize(row)).done()).status for _ in range(50)]
        assert statuses == [200] * 50  # each takes the place of one before it that nobody came back to
        assert len(app.dispatcher.sessions) == 20
        assert (await client.call("echo").done()).text == "{}"
        for _ in range(50):
            other = await Client(app).open(row)  # `open` also confirms, so that it is used
            assert (await other.call("echo").done()).text == "{}"
            assert (await client.call("echo").done()).text == "{}"
        assert len(app.dispatcher.sessions) == 20

    work(test)


@req("HTTP-16", "HTTP-14", "HTTP-28")
@later
def test_an_event_of_one_session_means_nothing_in_another(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(principal=who)
        mine = await Client(app).open(row)
        secret = await mine.call("echo", {"is": "secret"}).done()
        talk = await mine.call("log", id_=2).done()
        assert secret.text == "{'is': 'secret'}"
        places = [event.id for event in talk.events if event.id is not None]
        assert places
        other = await Client(app).open(row)
        thief = Client(app)
        thief.session = {**mine.session, "who": "thief"}
        for place in (*places, "1-0", "99-0"):
            assert (await other.send("GET", None, {"last-event-id": place}).done()).status == 400
            assert (await thief.send("GET", None, {"last-event-id": place}).done()).status == 404
        assert (await mine.send("GET", None, {"last-event-id": places[0]}).done()).status == 200

    work(test)
