"""Connections of our own: which bytes get which answers, in which order, and how much of a body is held."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from helpers.requirements import E, req
from helpers.running import until
from helpers.served import QUICK, Served, work
from helpers.wired import PIECE, Wire, head
from helpers.wired_calls import (
    MAX_BODY,
    MAX_HEADERS,
    SMALL,
    broken,
    call,
    fields,
    gone,
    ids,
    in_chunks,
    said,
)
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.http11_server import LINGER, WAITING, Http11Server

Make = Callable[..., AsgiApp]

# -- one piece of bytes, and what is answered ----------------------------------------------------------------

OPEN, CLOSED = True, False
LONG: Final = "x" * MAX_HEADERS
H2C: Final = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
CASES: Final[dict[str, tuple[bytes, str, list[int], bool]]] = {
    "one": (call(), "", [200], OPEN),
    "three": (call() * 3, "", [200] * 3, OPEN),
    "an empty line between": (call() + b"\r\n\r\n" + call(), "", [200, 200], OPEN),
    "in chunks": (in_chunks(said("echo")[:9], said("echo")[9:]) + call(), "", [200, 200], OPEN),
    "chunks with extensions": (in_chunks().replace(b"\r\n\r\n", b"\r\n\r\n0", 1) + call(), "", [200, 200], OPEN),
    "a trailer": (in_chunks(trailer=b"mcp-method: x\r\n") + call(), "", [200, 200], OPEN),
    "a session": (head("DELETE", "/mcp", {"mcp-session-id": "x"}), "", [404], OPEN),
    "a path that is nowhere": (call(target="/x") + call(), "", [404, 200], OPEN),
    "a query": (call(target="/mcp?a=b"), "", [200], OPEN),
    "a path with percents": (call(target="/m%63p"), "", [200], OPEN),
    "a slash too many": (call(target="/mcp/") + call(target="//mcp"), "", [200, 404], OPEN),
    "a whole url": (call(target="http://localhost:8000/mcp?x"), "", [200], OPEN),
    "a whole url of another host": (call(target="http://other.example:1/mcp?x"), "", [403], OPEN),
    "no path at all": (call(target="http://localhost"), "", [404], OPEN),
    "no target": (call(target="mcp") + call(), "", [400], CLOSED),
    "a target that cannot be": (call(target="http://h:99999/mcp") + call(), "", [400, 200], OPEN),
    "every path": (head("OPTIONS", "*") + call(), "", [404, 200], OPEN),
    "HEAD": (head("HEAD", "/mcp") + call(), "HEAD", [405, 200], OPEN),
    "GET": (head("GET", "/mcp", {"accept": "text/event-stream"}) + call(), "GET", [400, 200], OPEN),
    "PUT": (head("PUT", "/mcp"), "", [405], OPEN),
    "a method that is none": (head("BREW", "/mcp") + call(), "", [400], CLOSED),
    "a method in lower case": (head("post", "/mcp"), "", [400], CLOSED),
    "CONNECT": (head("CONNECT", "localhost:1") + call(), "", [400], CLOSED),
    "old": (call(version="1.0") + call(), "", [200], CLOSED),
    "old and long": (call(version="1.0", connection="keep-alive"), "", [200], CLOSED),
    "closed behind": (call(connection="close"), "", [200], CLOSED),
    "closed behind, and more": (call(connection="close") + call(), "", [200], CLOSED),
    "an offer of a newer HTTP": (call(**H2C) + call(), "", [200, 200], OPEN),
    "such an offer in chunks": (in_chunks(offers=H2C) + call(), "", [200, 200], OPEN),
    "such an offer, and closed": (
        call(connection="close, upgrade", upgrade="h2c") + call(), "", [200], CLOSED,
    ),
    "such an offer of an old client": (
        call(version="1.0", connection="upgrade", upgrade="h2c") + call(), "", [200], CLOSED,
    ),
    "an offer of a websocket": (
        head("GET", "/mcp", {"Connection": "Upgrade", "Upgrade": "websocket"}) + call(), "GET", [406, 200], OPEN,
    ),
    "an offer with a bad length": (
        broken(b"transfer-encoding: x\r\nconnection: upgrade\r\nupgrade: h2c").replace(b"Content-Length", b"x"),
        "", [501], CLOSED,
    ),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00", "", [400], CLOSED),
    "noise behind": (call() + b"\0\1\2", "", [200, 400], CLOSED),
    "noise between": (call() + b"noise\r\n\r\n" + call(), "", [200, 400], CLOSED),
    "two lengths": (broken(b"content-length: 3"), "", [400], CLOSED),
    "a length of two": (broken(b"x: y").replace(b"Content-Length: ", b"Content-Length: 1,"), "", [400], CLOSED),
    "a length and chunks": (broken(b"transfer-encoding: chunked"), "", [400], CLOSED),
    "chunks and a length": (
        broken(b"x: y").replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n"), "", [400], CLOSED,
    ),
    "a coding that is none": (
        broken(b"transfer-encoding: x").replace(b"Content-Length", b"x"), "", [501], CLOSED,
    ),
    "a coding before the chunks": (in_chunks().replace(b"chunked", b"gzip, chunked"), "", [501], CLOSED),
    "another version": (call(version="1.2"), "", [400], CLOSED),
    "no version": (call().replace(b" HTTP/1.1", b""), "", [400], CLOSED),
    "a bad chunk": (in_chunks().replace(b"\r\n0\r\n", b"x\r\n0\r\n"), "", [400], CLOSED),
    "a folded line": (broken(b"x: y\r\n z"), "", [400], CLOSED),
    "a NUL": (broken(b"x: \0"), "", [400], CLOSED),
    "a lone CR": (broken(b"x: a\rb: c"), "", [400], CLOSED),
    "a lone LF": (broken(b"x: a\nb: c"), "", [400], CLOSED),
    "a space before the colon": (broken(b"x : y"), "", [400], CLOSED),
    "a header without a name": (broken(b": y"), "", [400], CLOSED),
    "a header without a value": (broken(b"x:") + call(), "", [200, 200], OPEN),
    "a value that is no text": (broken(b"x: \xff\xfe"), "", [200], OPEN),
    "a header that is there twice": (broken(b"mcp-method: tools/call"), "", [400], OPEN),
    "headers that are too long": (broken(b"x: " + LONG.encode()) + call(), "", [431, 200], OPEN),
    "too many headers": (broken(b"\r\n".join([b"x: y"] * MAX_HEADERS)) + call(), "", [431, 200], OPEN),
    "a target that is too long": (call(target="/" + LONG) + call(), "", [431, 200], OPEN),
    "a body that is too large": (call(arguments={"x": LONG * 2}), "", [413], OPEN),
    "chunks that are too large": (in_chunks(*[b"x" * 1000] * 4), "", [413], OPEN),
    "a body without end": (
        head("POST", "/mcp", [*fields(), ("Content-Length", "99999999999999999999")]), "", [400], CLOSED,
    ),
    "a body that is not sent": (
        head("POST", "/mcp", [*fields(), ("Content-Length", "999999999999999999")]), "", [413], CLOSED,
    ),
    "a head without end": (b"POST /mcp HTTP/1.1\r\n" + b"x: y\r\n" * MAX_HEADERS * 50, "", [431], CLOSED),
    "a line without end": (b"POST /" + b"x" * 4 * PIECE, "", [431], CLOSED),
    "a name without end": (b"POST / HTTP/1.1\r\n" + b"x" * 4 * PIECE, "", [431], CLOSED),
    "a value without end": (b"POST / HTTP/1.1\r\nx:" + b"x" * 4 * PIECE, "", [431], CLOSED),
    "trailers without end": (
        in_chunks()[:-2] + b"x: y\r\n" * PIECE, "", [431], CLOSED,
    ),
    "an extension without end": (in_chunks()[:-5] + b"0;" + b"x" * 4 * PIECE, "", [431], CLOSED),
}  # fmt: skip
"""What is sent, the method that matters for what is read, the statuses, and whether the connection stays open."""


@req("HTTP-31", "SEC-6", "HTTP-7", "ERR-6", at=E)
@pytest.mark.parametrize("case", CASES)
def test_bytes_and_their_answers(case: str) -> None:
    data, verb, statuses, stays = CASES[case]

    async def test(handler: Served, make: Make) -> None:
        app = make(**SMALL)
        wire = Wire(Http11Server(app))
        wire.send(data)
        await wire.settled()
        answers = wire.answers(verb)
        assert [answer.status for answer in answers] == statuses
        assert all(answer.complete for answer in answers)
        assert all(answer.get("date") == "today" for answer in answers)
        assert wire.closing or wire.eof or stays
        closes = [answer.get("connection") for answer in answers]
        assert closes == [None] * (len(answers) - 1) + [None if stays else "close"]
        for answer in answers:
            if answer.status >= 400 and answer.body:
                assert json.loads(answer.body)["error"]["message"]
        wire.hang_up()
        await gone(wire)

    work(test)


@req("HTTP-31", "SEC-6", at=E)
@pytest.mark.parametrize("case", [case for case, what in CASES.items() if len(what[0]) < 5 * MAX_HEADERS])
def test_bytes_that_come_one_by_one_get_the_same_answers(case: str) -> None:
    data, verb, statuses, stays = CASES[case]
    # What is refused before it is read is not waited for.
    early = {"a body that is too large", "chunks that are too large"}
    long = {"headers that are too long", "a target that is too long"}

    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(**SMALL)))
        for byte in data:
            wire.send(bytes([byte]))
        await wire.settled()
        answers = wire.answers(verb)
        found = [answer.status for answer in answers]
        assert found == (statuses[:1] if case in long else statuses)
        if not (stays and case not in early | long):
            await wire.settled()
            assert wire.eof or wire.closing or case in early
        wire.hang_up()
        await gone(wire)

    work(test)


TRAFFIC: Final = [
    call(id_=0),
    in_chunks(
        said("echo", {"x": "é" * 40}, 1)[:50], said("echo", {"x": "é" * 40}, 1)[50:], trailer=b"a: b\r\n"
    ),
    call("log", id_=2),
    head("GET", "/x"),
    call(id_=4, **H2C),
    head("OPTIONS", "*"),
    b"\r\n" + call("region", id_=5),
]


@pytest.mark.slow
@req("HTTP-7", "HTTP-31", "SEC-6", at=E)
@settings(max_examples=60)
@given(
    order=st.permutations(range(len(TRAFFIC))),
    cuts=st.lists(st.integers(0, sum(map(len, TRAFFIC))), max_size=30),
    turns=st.lists(st.integers(0, 3), min_size=1),
)
def test_however_bytes_are_cut_the_answers_are_the_same(
    order: list[int], cuts: list[int], turns: list[int]
) -> None:
    data = b"".join(TRAFFIC[number] for number in order)

    async def test(handler: Served, make: Make) -> None:
        app = make(json_response=True)
        found: list[list[tuple[int, bytes, str | None]]] = []
        for places in ((), sorted(cuts)):
            wire = Wire(Http11Server(app))
            ends = [0, *places, len(data)]
            for number, (start, end) in enumerate(pairwise(ends)):
                if start < end:
                    wire.send(data[start:end])
                for _ in range(turns[number % len(turns)]):
                    await asyncio.sleep(0)
            await wire.settled()
            await until(lambda wire=wire: len(wire.answers()) == len(TRAFFIC))  # type: ignore[misc]
            found.append(
                [(answer.status, answer.body, answer.get("connection")) for answer in wire.answers()]
            )
            wire.hang_up()
            await gone(wire)
        assert found[0] == found[1]
        expected = {3: 404, 5: 404}
        assert [status for status, _, _ in found[0]] == [expected.get(number, 200) for number in order]
        for number, (status, body, _) in zip(order, found[0], strict=True):
            assert status != 200 or json.loads(body)["id"] == (5 if number == 6 else number)

    work(test)


WORDS: Final = st.sampled_from(
    [
        b"POST ", b"GET ", b"HEAD ", b"OPTIONS ", b"CONNECT ", b"/mcp", b"*", b"http://h/mcp", b" HTTP/1.1\r\n",
        b" HTTP/1.0\r\n", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\0", b" ", b":", b"content-length: 5\r\n",
        b"content-length: 0\r\n", b"content-length: 999999\r\n", b"transfer-encoding: chunked\r\n", b"5\r\n", b"0\r\n",
        b"connection: close\r\n", b"connection: upgrade\r\nupgrade: h2c\r\n", b"expect: 100-continue\r\n", b"x: y\r\n",
        b"content-type: application/json\r\n", b"12345", b"{}", b"POST /mcp HTTP/1.1\r\n", call(), call(**H2C),
        in_chunks(), call()[:-3], in_chunks()[:-3], b"x" * MAX_HEADERS,
    ]
)  # fmt: skip


@pytest.mark.slow
@req("SEC-6", "HTTP-31", at=E)
@settings(max_examples=300)
@given(
    pieces=st.lists(st.one_of(WORDS, WORDS, WORDS, st.binary(max_size=30)), max_size=25), apart=st.booleans()
)
def test_arbitrary_bytes_do_no_harm(pieces: list[bytes], apart: bool) -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(**SMALL, body_timeout=QUICK)
        wire = Wire(Http11Server(app))
        for piece in pieces if apart else [b"".join(pieces)]:
            wire.send(piece)
            await asyncio.sleep(0)
        await wire.settled()
        # What a HEAD is answered has no body, so that only what is sure to be a first line is looked at.
        statuses = {int(line[9:12]) for line in wire.received.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")}
        assert statuses <= {100, 200, 202, 204, 400, 404, 405, 406, 408, 413, 415, 431}
        wire.hang_up()
        await gone(wire)

    work(test)


# -- bodies --------------------------------------------------------------------------------------------------


@req("HTTP-31", at=E)
@pytest.mark.parametrize(
    ("target", "expect", "length", "statuses"),
    [
        ("/mcp", "100-continue", 0, [100, 200]),
        ("/mcp", "100-Continue \t", 0, [100, 200]),
        ("/mcp", "something", 0, [200]),
        ("/x", "100-continue", 0, [404]),
        ("/mcp", "100-continue", 10 * MAX_BODY, [413]),
    ],
)
def test_who_waits_for_leave_to_send_a_body_gets_it_or_a_refusal(
    target: str, expect: str, length: int, statuses: list[int]
) -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(**SMALL)))
        body = said("echo")
        wire.send(
            head(
                "POST", target, [*fields(), ("Expect", expect), ("Content-Length", str(length or len(body)))]
            )
        )
        await until(lambda: wire.lost or len(handler.notes) == 0)
        for _ in range(5):
            await asyncio.sleep(0)
        before = [answer.status for answer in wire.answers()]
        assert before == statuses[: len(statuses) - (200 in statuses)]
        if 200 in statuses:
            wire.send(body + call())
            await wire.settled()
            assert [answer.status for answer in wire.answers()] == [*statuses, 200]
        else:
            assert wire.answers()[0].get("connection") == "close"
            assert wire.eof  # there is time to read that, and no more
            wire.send(body)
            await wire.settled()
            assert [answer.status for answer in wire.answers()] == statuses
            for _ in range(LINGER + 1):
                wire.http.tick()
        wire.hang_up()
        await gone(wire)

    work(test)


@req("HTTP-31", "SEC-6", at=E)
@pytest.mark.parametrize("part", [0, 5])
def test_a_client_that_does_not_send_its_body_is_told_so(part: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(body_timeout=QUICK)))
        wire.send(head("POST", "/mcp", [*fields(), ("Content-Length", "100")]) + b"x" * part)
        wire.send(b"x" * part)
        await wire.settled()
        (answer,) = wire.answers()
        assert (answer.status, answer.get("connection"), wire.eof) == (408, "close", True)
        wire.send(call())  # is not heard any more
        wire.hang_up()
        await gone(wire)
        assert len(wire.answers()) == 1

    work(test)


@req("HTTP-31", "SEC-6", at=E)
def test_bodies_of_all_connections_together_have_a_bound() -> None:
    async def test(handler: Served, make: Make) -> None:
        app = make(max_bodies=1142)  # of which an eighth is kept for other addresses
        front = Http11Server(app)
        begun = head("POST", "/mcp", [*fields(), ("Content-Length", "2000")]) + b"x"
        wires = [Wire(front) for _ in range(3)]
        for wire in wires:
            wire.send(begun)
            wire.send(b"x" * 400)
        await until(lambda: wires[2].eof)
        assert (wires[2].answers()[0].status, app.budget.held) == (503, 802)
        wires[0].hang_up()
        await gone(wires[0], 401)
        wires[1].send(b"x" * 599)
        assert app.budget.held == 1000
        wires[1].send(b"x" * 999)
        await wires[1].settled()
        assert (wires[1].answers()[0].status, app.budget.held) == (503, 0)
        for wire in wires[1:]:
            wire.hang_up()
            await gone(wire)

    work(test)


@req("HTTP-31", at=E)
def test_small_chunks_in_packets_of_their_own_are_no_overhead_without_end() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(max_headers=MAX_HEADERS)))
        body = said("echo", {"x": "y" * 2 * MAX_HEADERS})
        wire.send(head("POST", "/mcp", [*fields(), ("Transfer-Encoding", "chunked")]))
        for place in range(0, len(body), 2):
            wire.send(b"2\r\n")
            wire.send(body[place : place + 2] if place + 2 <= len(body) else body[place:] + b" ")
            wire.send(b"\r\n")
        wire.send(b"0\r\n\r\n")
        await wire.settled()
        assert [answer.status for answer in wire.answers()] == [200]
        wire.hang_up()
        await gone(wire)

    work(test)


@req("HTTP-31", at=E)
def test_what_comes_before_a_head_in_one_piece_is_none_of_its_bytes() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(max_headers=MAX_HEADERS)))
        large, small = call(arguments={"x": "y" * 5 * MAX_HEADERS}), call()
        wire.send(large + small[:20])
        wire.send(small[20:])
        await wire.settled()
        await until(lambda: len(wire.answers()) == 2)
        assert [answer.status for answer in wire.answers()] == [200, 200]
        wire.hang_up()
        await gone(wire)

    work(test)


# -- the order of requests -----------------------------------------------------------------------------------


@req("HTTP-7", "HTTP-12", at=E)
def test_answers_come_in_the_order_of_requests_whichever_is_done_first() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make()))
        wire.send(
            call("quiet", id_="slow") + call(id_="quick") + call("log", id_="stream") + call(id_="last")
        )
        await until(lambda: handler.running == 1)
        assert wire.received == b""
        assert handler.runs == 1  # the others are not even begun
        handler.gate.set()
        await until(lambda: len(wire.answers()) == 4 and wire.http._serving is None)
        answers = wire.answers()
        assert [ids([answer])[0] for answer in (answers[0], answers[1], answers[3])] == [
            "slow",
            "quick",
            "last",
        ]
        assert answers[2].get("content-type") == "text/event-stream"
        assert answers[2].body.rstrip().split(b"data: ")[-1].find(b'"id":"stream"') > 0
        wire.hang_up()
        await gone(wire)

    work(test)


@req("HTTP-7", "HTTP-31", at=E)
@pytest.mark.parametrize("cut", [1, 30, len(call()) - 60, len(call()) - 1])
def test_half_a_request_behind_one_that_is_slow_is_read_to_its_end(cut: int) -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make(body_timeout=60)))
        wire.send(call("quiet", id_=1) + call(id_=2)[:cut])
        await until(lambda: handler.running == 1)
        wire.send(call(id_=2)[cut:] + call(id_=3))
        handler.gate.set()
        await until(lambda: len(wire.answers()) == 3)
        assert ids(wire.answers()) == [1, 2, 3]
        wire.hang_up()
        await gone(wire)

    work(test)


@req("SEC-6", "HTTP-31", at=E)
def test_not_too_many_requests_wait_on_a_connection() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make()))
        wire.send(call("quiet") + call() * 3 * WAITING)
        wire.send(call() * 9)
        await until(lambda: handler.running == 1)
        assert len(wire.http.queue) == WAITING + 1
        handler.gate.set()
        await until(lambda: wire.eof)
        statuses = [answer.status for answer in wire.answers()]
        assert statuses == [200] * (1 + WAITING) + [503]
        assert wire.answers()[-1].get("connection") == "close"
        wire.hang_up()
        await gone(wire)

    work(test)


@req("SEC-6", "HTTP-31", at=E)
def test_any_number_of_offers_to_upgrade_is_declined_without_getting_deeper() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Http11Server(make()))
        offer = head("GET", "/x", {"Connection": "upgrade", "Upgrade": "x"})
        wire.send(offer * 4000 + call())
        await until(lambda: wire.eof)
        assert {answer.status for answer in wire.answers()} == {404, 503}
        wire.hang_up()
        await gone(wire)
        wire = Wire(Http11Server(make()))
        for _ in range(40):
            wire.send(offer * 40)
            await until(lambda: not wire.http.queue and wire.http._serving is None)
        wire.send(call())
        await wire.settled()
        assert len(wire.answers()) == 1601
        assert wire.answers()[-1].status == 200
        wire.hang_up()
        await gone(wire)

    work(test)
