"""Connections of our own whose clients are slow, read nothing, or are gone; and how they are told what they asked for."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from helpers.asgi_bridge import TYPES, initialize, notification
from helpers.requirements import B, C, D, E, req
from helpers.running import until
from helpers.served import QUICK, Served, who, work
from helpers.wired import State, Wire, head
from helpers.wired_calls import (
    SESSIONS,
    call,
    gone,
    in_chunks,
    in_session,
    opened,
    said,
    texts,
)
from mcprev.revisions import Revision, revision_named
from mcprev.serving.running import _server
from mcprev.transports.http.server import http11_server
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.http11_server import (
    GRACE,
    LINGER,
    STALLED,
    Http11Connection,
    Http11Server,
)
from mcprev.transports.http.server.http_app import HttpApp
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.request import Receive, Scope, Send

Make = Callable[..., AsgiApp]

# -- clients that are slow, or gone --------------------------------------------------------------------------


@req("HTTPM-6", at=E)
def test_who_hangs_up_cancels_a_request_that_describes_itself() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = Http11Server(make(defer=QUICK))
        for tool in ("hold", "quiet"):
            for early in (True, False):
                wire = Wire(front)
                wire.send(call(tool))
                await until(lambda: handler.running == 1)
                if not early:
                    await until(lambda wire=wire: bool(wire.received))  # type: ignore[misc]
                wire.hang_up()
                await gone(wire)
                assert handler.running == 0

    work(test)


def back_at(session: Mapping[str, str], event: str) -> bytes:
    """The request that resumes a stream."""
    return head("GET", "/mcp", {**TYPES, **session, "last-event-id": event})


@req("HTTP-17", "HTTP-15", "HTTP-31", at=D)
@pytest.mark.parametrize("early", [False, True])
def test_who_comes_back_on_the_connection_of_a_closed_stream_hears_the_handler_that_goes_on(
    early: bool,
) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = Http11Server(make(defer=QUICK))
        wire = Wire(front)
        session = await opened(wire, revision_named(D))
        wire.send(in_session(session, "hang_up"))
        if early:  # the next request waits already when the stream is closed
            wire.send(in_session(session, "echo", 2) + back_at(session, "1-0"))
        else:
            await until(lambda: wire.answers()[:1] != [] and wire.answers()[0].complete)
            wire.send(back_at(session, "1-0"))
        await until(lambda: b"afterwards" in wire.received)
        assert len(front.lasting) == 1
        handler.gate.set()
        await until(lambda: b"come back" in wire.received)
        await until(lambda: not front.lasting)
        assert wire.answers("POST", *["POST"] * early, "GET")[-1].complete
        wire.hang_up()
        await gone(wire)

    work(test)


@req("HTTP-17", "SEC-6", at=D)
def test_handlers_that_go_on_after_their_responses_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http11_server, "WAITING", 2)

    async def test(handler: Served, make: Make) -> None:
        front = Http11Server(make(defer=QUICK))
        wire = Wire(front)
        session = await opened(wire, revision_named(D))
        for number in (1, 2, 3):
            wire.send(in_session(session, "hang_up", number))
            await until(lambda number=number: len(handler.notes) == 2 * number)  # type: ignore[misc]
        wire.send(in_session(session, "echo", 4))
        assert (len(front.lasting), len(wire.http.queue)) == (2, 1)
        handler.gate.set()
        await until(lambda: len(wire.answers()) == 4 and wire.answers()[3].complete)
        assert not wire.http.queue
        wire.hang_up()
        await gone(wire)
        assert not front.lasting

    work(test)


@req("HTTP-31", at=E)
@pytest.mark.parametrize("parts", [1, 2])
def test_work_that_a_route_does_after_its_response_holds_up_no_request(parts: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        async def later(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for left in reversed(range(parts)):
                await send({"type": "http.response.body", "body": b"x", "more_body": left > 0})
            await handler.gate.wait()

        front = Http11Server(make(routes={"/later": later}))
        wires = [Wire(front), Wire(front)]
        wires[0].send(head("GET", "/later") + call())
        wires[1].send(head("GET", "/later"))
        await until(lambda: wires[1].answers("GET")[:1] != [] and wires[1].answers("GET")[0].complete)
        wires[1].send(call())
        for wire in wires:
            await until(lambda wire=wire: len(wire.answers("GET")) == 2)  # type: ignore[misc]
            wire.hang_up()
            await gone(wire)
        assert len(front.lasting) == 2
        front.abort()
        await until(lambda: not front.lasting)

    work(test)


@req("HTTP-9", at=(B, C, D))
@pytest.mark.parametrize("row", SESSIONS, ids=[row.name for row in SESSIONS])
def test_who_hangs_up_cancels_nothing_in_a_session(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = Http11Server(make(defer=QUICK))
        wire = Wire(front)
        session = await opened(wire, row)
        wire.hang_up()
        await gone(wire)
        for number, tool in enumerate(("hold", "quiet")):
            for early in (True, False):
                wire = Wire(front)
                wire.send(in_session(session, tool, f"{number} {early}"))
                await until(lambda: handler.running == 1)
                if not early:
                    await until(lambda wire=wire: bool(wire.received))  # type: ignore[misc]
                wire.hang_up()
                await until(lambda wire=wire: wire.lost)  # type: ignore[misc]
                await asyncio.sleep(2 * QUICK)
                assert handler.running == 1
                handler.gate.set()
                await gone(wire)
                handler.gate.clear()

    work(test)


@req("HTTP-31", "SEC-6", at=E)
@pytest.mark.parametrize("sent", ["half a head", "a head", "half a body", "all", "all and more"])
@pytest.mark.parametrize("later", [False, True])
def test_who_hangs_up_at_any_time_leaves_nothing(sent: str, later: bool) -> None:
    body_at = call().index(b"\r\n\r\n") + 4
    data = {
        "half a head": call()[:30],
        "a head": call()[:body_at],
        "half a body": call()[: body_at + 9],
        "all": call(),
        "all and more": call() + call("quiet") + call()[: body_at + 9],
    }[sent]

    async def test(handler: Served, make: Make) -> None:
        app = make(body_timeout=60, defer=QUICK)
        wire = Wire(Http11Server(app))
        wire.send(data[:-4])
        wire.send(data[-4:])
        if later:
            for _ in range(9):
                await asyncio.sleep(0)
        wire.hang_up()
        await gone(wire)
        assert app.budget.held == 0

    work(test)


@req("HTTP-31", "HTTP-3", at=E)
def test_a_connection_that_is_quiet_is_closed_after_a_while() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = Http11Server(make(body_timeout=600, keep_alive=STALLED + 15))
        front._sweeping = True  # no second passes but those of the test
        idle, half, busy = Wire(front), Wire(front), Wire(front)
        busy.send(call("quiet"))
        await until(lambda: handler.running == 1)
        for second in range(STALLED):
            for wire in (idle, half, busy):
                wire.http.tick()
            half.send(call()[second : second + 1])
        assert (idle.closing, half.closing) == (False, False)
        for _ in range(2):  # its head began after the first second
            half.http.tick()
        await gone(half, held=None)
        for _ in range(15):
            idle.http.tick()
        assert not idle.closing
        idle.http.tick()
        await gone(idle, held=None)
        handler.gate.set()
        await busy.settled()
        for _ in range(STALLED + 15):
            busy.http.tick()
        busy.send(call())
        await busy.settled()
        assert [answer.status for answer in busy.answers()] == [200, 200]
        for _ in range(STALLED + 16):
            busy.http.tick()
        await gone(busy)

    work(test)


@req("HTTP-31", "HTTP-3", at=E)
def test_connections_last_longer_than_those_of_balancers_do() -> None:
    assert HttpSettings().keep_alive > 75
    config = _server(HttpApp(HttpSettings(keep_alive=99.5))).config
    assert config.timeout_keep_alive == 99.5  # of the connections of uvicorn, where ours are not installed


@req("HTTP-31", "HTTP-3", at=E)
@pytest.mark.parametrize("closes", ["no request for too long", "room for others", "the server stops"])
@pytest.mark.parametrize("arrived", ["all", "half a head"])
def test_a_request_that_has_arrived_is_served_although_the_connection_is_being_closed(
    closes: str, arrived: str
) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = Http11Server(make(keep_alive=30))
        front._sweeping = True
        here, there = socket.socketpair()
        made: list[Http11Connection] = []

        def connection() -> Http11Connection:
            made.append(Http11Connection(front, cast("Any", None), cast("Any", State()), {}))
            return made[0]

        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(connection, here)
        reader, writer = await asyncio.open_connection(sock=there)
        data = call()
        half = len(data) if arrived == "all" else 20
        there.send(data[:half])  # the event loop has no time to read it
        if arrived != "all":
            await until(lambda: made[0]._in_head)
        if closes == "room for others":
            made[0]._made = -GRACE
            assert front.make_room()
        elif closes == "the server stops":
            front.leave()
            front.close_idle()
        else:
            for _ in range(31):
                made[0].tick()
            made[0].shutdown()
        assert not transport.is_closing()
        assert not front.make_room()  # it counts as closed already
        there.send(data[half:])
        answer = await asyncio.wait_for(reader.read(), 5)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close\r\n" in answer
        writer.close()
        await until(lambda: not front._open)

    work(test)


@req("HTTP-31", "SEC-6", at=E)
def test_half_a_head_does_not_keep_a_connection_that_is_being_closed() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make()))
        wire.send(call()[:20])
        wire.http.shutdown()
        for _ in range(LINGER):
            wire.http.tick()
            wire.send(b"x")
        assert not wire.closing
        wire.http.tick()
        await gone(wire, held=None)

    work(test)


@req("SEC-6", "HTTPM-6", at=E)
def test_a_client_that_reads_no_stream_is_let_go() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(defer=QUICK, send_timeout=5 * QUICK)))
        wire.read(more=False)
        wire.send(call("flood"))
        await gone(wire)
        assert len(handler.notes) < 500

    work(test)


@req("SEC-6", "HTTP-31", at=E)
@pytest.mark.parametrize("what", ["answers", "refusals", "openings"])
def test_a_client_that_reads_no_answers_is_let_go(what: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make()))
        wire.read(more=False)
        body = json.dumps(initialize(SESSIONS[0])).encode()
        opens = head("POST", "/mcp", {**TYPES, "content-length": str(len(body))}) + body
        data = {
            "answers": call(arguments={"x": "y" * 2000}),
            "refusals": head("GET", "/x"),
            "openings": opens,
        }[what]
        while not (wire.http.paused and wire.http._serving is not None):
            wire.send(data)
            for _ in range(9):
                await asyncio.sleep(0)
        for _ in range(STALLED):
            wire.http.tick()
        assert not wire.closing
        wire.http.tick()
        await gone(wire)

    work(test)


@req("SEC-6", "HTTP-9", at=D)
def test_a_client_that_reads_nothing_loses_its_connection_and_not_its_request() -> None:
    async def test(handler: Served, make: Make) -> None:
        front = Http11Server(make())
        wire = Wire(front)
        session = await opened(wire, revision_named(D))
        wire.http.pause_writing()
        wire.send(in_session(session, "quiet"))
        await until(lambda: handler.running == 1)
        for _ in range(STALLED + 1):
            wire.http.tick()
        await until(lambda: wire.lost)
        assert handler.running == 1
        handler.gate.set()
        await gone(wire)

    work(test)


@req("SEC-6", at=E)
def test_a_client_that_reads_slowly_has_the_time_it_takes() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make()))
        wire.read(more=False)
        wire.send(call(arguments={"x": "y" * 300_000}))
        await until(lambda: len(wire._unread) > 300_000 and wire.http._serving is None)
        for second in range(20 * STALLED):
            wire.http.tick()
            if second % 10 == 0:
                wire.take(100)
        assert not wire.closing
        wire.read()
        assert wire.answers()[0].complete
        wire.hang_up()
        await gone(wire)

    work(test)


@req("HTTPM-5", "HTTP-8", at=E)
def test_a_stream_goes_on_when_its_client_reads_again() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(send_timeout=600)))
        wire.send(call("flood") + call(id_=2))
        await until(lambda: len(handler.notes) > 0)
        wire.read(more=False)
        await until(lambda: wire.http.paused)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(handler.notes) < 1000  # the handler waits too
        wire.read()
        await until(lambda: len(wire.answers()) == 2 and wire.answers()[1].complete)
        assert wire.answers()[0].body.count(b"notifications/message") == 2000
        wire.hang_up()
        await gone(wire)

    work(test)


@req("SEC-6", "ERR-1", at=E)
def test_a_handler_that_fails_in_an_odd_way_is_no_end_of_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(handler: Served, make: Make) -> None:
        async def cancelled(ctx: object, params: object) -> None:
            raise asyncio.CancelledError

        async def fails(ctx: object, params: object) -> None:
            raise ExceptionGroup("no", [ValueError("no")])

        async def ends(ctx: object, params: object) -> None:
            raise GeneratorExit

        vars(handler).update(do_cancelled=cancelled, do_fails=fails, do_ends=ends)
        wire = Wire(Http11Server(make()))
        for tool in ("cancelled", "fails"):
            wire.send(call(tool))
            await wire.settled()
        wire.send(call())
        await wire.settled()
        assert [answer.status for answer in wire.answers()] == [200] * 3
        wire.hang_up()
        await gone(wire)

    work(test)


# -- how things are said -------------------------------------------------------------------------------------


@req("HTTP-28", "SEC-4", at=E)
def test_who_asks_is_found_in_the_same_as_an_asgi_scope() -> None:
    async def test(handler: Served, make: Make) -> None:
        scopes: list[dict[str, Any]] = []

        def principal(scope: Mapping[str, Any]) -> str | None:
            scopes.append(dict(scope))
            return who(scope)

        wire = Wire(
            Http11Server(make(principal=principal)), peername=("::1", 5000, 0, 0), sockname=("::1", 80, 0, 0)
        )
        wire.send(in_chunks(said("whose"), trailer=b"who: admin\r\n", tool="whose"))
        wire.send(call("whose", target="/m%63p?a=%20b&c", Who="me", X="1").replace(b"X: 1", b"X: 1\r\nx:2"))
        wire.send(call("whose", version="1.0"))
        await until(lambda: wire.lost)
        assert [said for answer in wire.answers() for said in texts([answer])] == ["None", "me", "None"]
        scope = scopes[1]
        pairs: list[tuple[bytes, bytes]] = scope.pop("headers")
        assert scope == {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "root_path": "",
            "path": "/mcp",
            "raw_path": b"/m%63p",
            "query_string": b"a=%20b&c",
            "server": ("::1", 80),
            "client": ("::1", 5000),
        }
        assert pairs[0] == (b"host", b"localhost:8000")
        assert [pair for pair in pairs if pair[0] in (b"x", b"who")] == [
            (b"who", b"me"),
            (b"x", b"1"),
            (b"x", b"2"),
        ]
        assert scopes[2]["http_version"] == "1.0"
        await gone(wire)
        wire = Wire(Http11Server(make(principal=principal)), peername=None, sockname="/a/socket")
        wire.send(call("whose"))
        await wire.settled()
        assert (scopes[3]["server"], scopes[3]["client"]) == (None, None)
        wire.hang_up()
        await gone(wire)

    work(test)


@req("HTTP-7", "HTTP-8", "HTTPM-5", at=E)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_stream_is_sent_in_a_way_that_the_client_knows(version: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make()))
        wire.send(call("log", version=version))
        await wire.settled()
        await until(lambda: wire.lost or version == "1.1")
        (answer,) = wire.answers()
        assert answer.complete
        assert dict(answer.headers) == {
            "content-type": "text/event-stream",
            "cache-control": "no-cache, no-transform",
            "x-accel-buffering": "no",
            "date": "today",
            **({"connection": "close"} if version == "1.0" else {"transfer-encoding": "chunked"}),
        }
        assert answer.body.rstrip().rpartition(b"data: ")[2].startswith(b'{"jsonrpc":"2.0","id":1,"result"')
        wire.hang_up()
        await gone(wire)

    work(test)


@req("HTTP-6", "HTTPM-3", "HTTP-24")
@pytest.mark.parametrize("row", SESSIONS, ids=[row.name for row in SESSIONS])
def test_what_has_no_content_says_so(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make()))
        session = await opened(wire, row)
        body = json.dumps(notification("notifications/x")).encode()
        wire.send(head("POST", "/mcp", {**TYPES, **session, "content-length": str(len(body))}) + body)
        wire.send(head("DELETE", "/mcp", session) + call())
        await until(lambda: len(wire.answers()) == 3)
        accepted, deleted, answered = wire.answers()
        assert (accepted.status, accepted.get("content-length"), accepted.get("content-type")) == (
            202,
            "0",
            None,
        )
        assert (deleted.status, deleted.get("content-length"), deleted.get("content-type")) == (
            204,
            None,
            None,
        )
        assert answered.status == 200
        wire.hang_up()
        await gone(wire)

    work(test)


# -- where they say they ask ---------------------------------------------------------------------------------

LOCAL, FOREIGN = "localhost:8000", "evil.example"


@req("SEC-3", "HTTP-31", at=E)
@pytest.mark.parametrize(
    ("target", "hosts", "status"),
    [
        (f"http://{LOCAL}/mcp", [LOCAL], 200),
        (f"HTTPS://{LOCAL}/mcp?x=1", [LOCAL], 200),
        (f"http://{LOCAL}/mcp", [FOREIGN], 200),
        (f"http://{FOREIGN}/mcp", [LOCAL], 403),
        (f"http://{FOREIGN}:8000/mcp", [LOCAL], 403),
        (f"http://{LOCAL}@{FOREIGN}/mcp", [LOCAL], 403),
        (f"http://{FOREIGN}@{LOCAL}/mcp", [LOCAL], 403),
        (f"http://{FOREIGN}/mcp", [LOCAL, LOCAL], 403),
        (f"http://{LOCAL}/mcp", [LOCAL, FOREIGN], 403),
        (f"http://{FOREIGN}?/mcp", [LOCAL], 404),
        ("http:///mcp", [LOCAL], 400),
        (f"ftp://{LOCAL}/mcp", [LOCAL], 400),
    ],
)
def test_the_host_of_a_target_that_is_a_url_counts_in_place_of_the_header(
    target: str, hosts: list[str], status: int
) -> None:
    """RFC 9112, section 3.2.2: as a request to a proxy says it."""

    async def test(handler: Served, make: Make) -> None:
        scopes: list[Mapping[str, Any]] = []

        def principal(scope: Mapping[str, Any]) -> str | None:
            scopes.append(dict(scope))
            return who(scope)

        wire = Wire(Http11Server(make(principal=principal)), sockname=("127.0.0.1", 8000))
        lines = "".join(f"Host: {host}\r\n" for host in hosts).encode()
        sent = call(target=target).replace(f"Host: {LOCAL}\r\n".encode(), lines)
        assert sent.count(b"Host: ") == len(hosts)
        wire.send(sent)
        await until(lambda: wire.lost or (wire.answers() != [] and wire.answers()[0].complete))
        assert wire.answers()[0].status == status
        assert [value for scope in scopes for name, value in scope["headers"] if name == b"host"] == (
            [LOCAL.encode()] if status == 200 else []
        )
        wire.hang_up()
        await gone(wire)

    work(test)
