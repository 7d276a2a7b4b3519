"""What a client's connections make of the bytes of an answer, however they are cut, and of bytes that are none."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Final, cast

import aiohttp
import pytest
from hypothesis import given, settings, strategies as st

import mcprev
from fuzz.fuzzing import each_once
from helpers.lanes import (
    Sent,
    body_to,
    call,
    each_loop,
    ended,
    event,
    head,
    hurry,
    laid,
    lanes,
    requesting,
    turns,
    whole,
)
from helpers.raw_server import Exchange
from helpers.requirements import E, req
from helpers.running import run, until
from helpers.wired import chunked
from mcprev.errors import ConnectionLost, HttpStatusError, McpError, RemoteProtocolError, RequestTimeout

Form = Callable[[bytes], bytes]

SSE: Final = "text/event-stream"
CHUNKED: Final = "Transfer-Encoding: chunked"


def bits(data: bytes, size: int) -> Iterator[bytes]:
    """The same in parts."""
    return (data[start : start + size] for start in range(0, len(data), size))


# -- what is an answer ---------------------------------------------------------------------------------------

KEPT: Final[dict[str, Form]] = {
    "a length": whole,
    "many headers": lambda body: whole(body, *(f"X-{number}: y" for number in range(50))),
    "a long header": lambda body: whole(body, "X: " + "y" * 4000),
    "chunks": lambda body: head(CHUNKED) + chunked(body),
    "trailers": lambda body: head(CHUNKED, "Trailer: X") + chunked(body, trailer=b"X: y\r\nZ: \r\n"),
    "100 before": lambda body: b"HTTP/1.1 100 Continue\r\n\r\n" + whole(body),
    "status 201": lambda body: whole(body, first="HTTP/1.1 201 Created"),
    "events in chunks": lambda body: head(CHUNKED, media=SSE) + chunked(b": hello\n\n", event(body)),
    "events with a length": lambda body: whole(event(body), media=SSE),
    "identity": lambda body: whole(body, "Content-Encoding: identity"),
}  # fmt: skip
"""Answers after which the connection is as good as before."""
LAST: Final[dict[str, Form]] = {
    "until the end": lambda body: head() + body,
    "events until the end": lambda body: head(media=SSE) + event(body),
    "old, until the end": lambda body: head(first="HTTP/1.0 200 OK") + body,
}
"""Answers that end with their connection."""
CLOSED: Final[dict[str, Form]] = {
    "closed": lambda body: whole(body, "Connection: close"),
    "closed in capitals, among others": lambda body: whole(body, "CONNECTION: x, CLOSE"),
    "closed behind chunks": lambda body: head(CHUNKED, "Connection: close") + chunked(body),
    "old": lambda body: whole(body, first="HTTP/1.0 200 OK"),
    "an answer to nothing behind": lambda body: whole(body) + whole(b"{}"),
    "a late interim answer": lambda body: whole(body) + b"HTTP/1.1 100 Continue\r\n\r\n",
}
"""Answers after which the client must not use the connection again."""
BEHIND: Final[dict[str, Form]] = {
    "something behind": lambda body: whole(body) + b"\0",
    "a line of garbage behind": lambda body: whole(body) + b"garbage\r\n\r\n",
    "more behind the chunks": lambda body: head(CHUNKED) + chunked(body) + b"5\r\n",
}
"""The same. With these aiohttp loses the answer, too, if what is no HTTP comes in the same segment."""
FORMS: Final = {**KEPT, **LAST, **CLOSED}


async def answered(sent: Sent, form: str, *cuts: int) -> None:
    """Answer a call in a form, cut at some places."""
    data = FORMS[form](body_to(sent))
    ends = [0, *sorted(cuts), len(data)]
    await sent.pieces(*(data[start:end] for start, end in itertools.pairwise(ends) if start < end))
    if form in LAST:
        sent.lane.writer.close()


@each_once
@req("HTTP-7", "HTTPM-4", at=E)
@each_loop
@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_read_and_its_connection_used_again_or_not(form: str) -> None:
    async def main() -> None:
        async with laid(lambda sent: answered(sent, form)) as (client, server):
            for word in ("a", "b", "c"):
                await call(client, word)
            assert [sent.message["params"]["name"] for sent in server.calls] == ["a", "b", "c"]
            used = [sent.lane.number for sent in server.calls]
            assert used == ([1, 1, 1] if form in KEPT else [1, 2, 3])
            if form in CLOSED:
                for sent in server.calls:
                    await sent.gone.wait()  # the client hangs up by itself

    run(main())


@req("HTTP-7", "HTTPM-4", "SEC-6", at=E)
@pytest.mark.parametrize(
    "form",
    BEHIND,
)
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_what_comes_behind_an_answer_belongs_to_no_call(apart: bool, form: str) -> None:
    async def main() -> None:
        async def called(sent: Sent) -> None:
            body = body_to(sent)
            data = BEHIND[form](body)
            end = data.index(body) + len(body) + 7 * form.endswith("chunks") if apart else len(data)
            await sent.pieces(data[:end], data[end:])
            await sent.gone.wait()  # the client hangs up by itself

        async with laid(called) as (client, server):
            for word in ("a", "b", "c"):
                with nullcontext() if apart else suppress(ConnectionLost):
                    await call(client, word)
                await turns()
            assert [sent.message["params"]["name"] for sent in server.calls] == ["a", "b", "c"]
            assert [sent.lane.number for sent in server.calls] == [1, 2, 3]

    run(main())


# -- what is none --------------------------------------------------------------------------------------------

LOST, BAD, STATUS = ConnectionLost, RemoteProtocolError, HttpStatusError
ODD: Final = (ConnectionLost, RemoteProtocolError)
"""What is no HTTP is one of these: the connection is of no use, whoever is to blame."""
WRONG: Final[dict[str, tuple[Form, type[McpError] | tuple[type[McpError], ...]]]] = {
    "nothing": (lambda _: b"", LOST),
    "an empty line": (lambda _: b"\r\n\r\n", ODD),
    "garbage": (lambda _: b"\x00\x01garbage\r\n\r\n", ODD),
    "TLS": (lambda _: b"\x15\x03\x01\x00\x02\x02\x46", ODD),
    "HTTP/2": (lambda _: b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", ODD),
    "a request": (lambda body: b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + whole(body), ODD),
    "another protocol": (lambda body: whole(body, first="ICY 200 OK"), ODD),
    "a version that is none": (lambda body: whole(body, first="HTTP/x.1 200 OK"), ODD),
    "a status that is none": (lambda body: whole(body, first="HTTP/1.1 abc OK"), ODD),
    "no status": (lambda body: whole(body, first="HTTP/1.1 000 OK"), (*ODD, STATUS)),
    "a short status": (lambda body: whole(body, first="HTTP/1.1 20 OK"), ODD),
    "half a head": (lambda body: whole(body)[:30], LOST),
    "a head alone": (lambda body: whole(body)[: -len(body)], LOST),
    "a length that is too long": (lambda body: head(f"Content-Length: {len(body) + 1}") + body, LOST),
    "a length that is too short": (lambda body: head(f"Content-Length: {len(body) - 1}") + body, ODD),
    "a negative length": (lambda body: head("Content-Length: -5") + body, ODD),
    "a length with a sign": (lambda body: head(f"Content-Length: +{len(body)}") + body, ODD),
    "a length that is none": (lambda body: head(f"Content-Length: {len(body)}x") + body, ODD),
    "no length": (lambda body: head("Content-Length: ") + body, ODD),
    "cut chunks of two codings": (
        lambda body: head("Transfer-Encoding: identity", "Transfer-Encoding: chunked") + b"%x\r\n%b\r\n" % (len(body), body), LOST,
    ),
    "two lengths": (lambda body: head(f"Content-Length: {len(body)}", "Content-Length: 5") + body, ODD),
    "two lengths in one": (lambda body: head(f"Content-Length: {len(body)}, 5") + body, ODD),
    "a length beyond all numbers": (lambda body: head(f"Content-Length: {10**30}") + body, ODD),
    "a length and chunks": (lambda body: head("Content-Length: 5", CHUNKED) + chunked(body), ODD),
    "chunks and a length": (lambda body: head(CHUNKED, "Content-Length: 5") + chunked(body), ODD),
    "chunks that are cut": (lambda body: head(CHUNKED) + chunked(body)[:-9], LOST),
    "chunks without the last": (lambda body: head(CHUNKED) + chunked(body)[:-5], LOST),
    "chunks without an end": (lambda body: head(CHUNKED) + chunked(body)[:-2], LOST),
    "a chunk that is none": (lambda _: head(CHUNKED) + b"xyz\r\n", ODD),
    "a negative chunk": (lambda body: head(CHUNKED) + b"-5\r\n" + body, ODD),
    "a chunk in C": (lambda body: head(CHUNKED) + b"0x" + chunked(body), ODD),
    "a chunk beyond all numbers": (lambda body: head(CHUNKED) + b"f" * 20 + b"\r\n" + body, ODD),
    "a chunk that is longer than it says": (
        lambda body: head(CHUNKED) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) - 1, body), ODD,
    ),
    "a NUL": (lambda body: whole(body, "X: a\0b"), ODD),
    "a header without a colon": (lambda body: whole(body, "garbage"), ODD),
    "a header without a name": (lambda body: whole(body, ": x"), ODD),
    "101": (lambda body: whole(body, "Upgrade: h2c", "Connection: upgrade", first="HTTP/1.1 101 Switching"), (*ODD, STATUS)),
    "only 100": (lambda _: b"HTTP/1.1 100 Continue\r\n\r\n" * 2, LOST),
    "204": (lambda _: head(first="HTTP/1.1 204 No Content"), BAD),
    "202": (lambda _: whole(b"", first="HTTP/1.1 202 Accepted"), BAD),
    "nothing in it": (lambda _: whole(b""), BAD),
    "304": (lambda _: head(first="HTTP/1.1 304 Not Modified"), STATUS),
    "404": (lambda _: whole(b"none", first="HTTP/1.1 404 Not Found"), STATUS),
    "an unknown status": (lambda _: whole(b"none", first="HTTP/1.1 999 Well"), STATUS),
    "gzip": (lambda body: whole(gzip.compress(body), "Content-Encoding: gzip"), BAD),
    "gzip of events": (
        lambda body: head("Content-Encoding: gzip", CHUNKED, media=SSE) + chunked(gzip.compress(event(body))), BAD,
    ),
    "a coding that nobody has": (lambda body: whole(b"\x01\x02" + body, "Content-Encoding: x-own"), BAD),
}  # fmt: skip
"""What is answered, and how that is told. The connection ends behind it."""
FORGIVEN: Final = {
    "a header without a name",
    "chunks without an end",
}
"""What aiohttp takes for an answer all the same."""


async def failing(client: mcprev.Client, case: str) -> None:
    """Make a call that is answered so, which may have arrived and so is not to be sent again."""
    if case in FORGIVEN:
        with suppress(*ODD):
            await call(client)
        return
    with pytest.raises(WRONG[case][1]) as caught:
        await call(client)
    if isinstance(caught.value, ConnectionLost):
        assert (caught.value.in_flight, caught.value.retry_safe) == (True, False)


@each_once
@req("HTTP-29", "HTTPM-7", "ERR-5", "SEC-6", at=E)
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("end", ["close", "abort"])
def test_what_is_no_answer_is_told_and_taken_for_no_other(case: str, end: str) -> None:
    form, _ = WRONG[case]

    async def main() -> None:
        async def called(sent: Sent) -> None:
            if len(server.calls) == 1:
                await sent.pieces(form(body_to(sent)))
                (sent.lane.writer.close if end == "close" else sent.cut)()
            else:
                await sent.raw(whole(body_to(sent)))

        async with laid(called) as (client, server):
            await failing(client, case)
            await turns(10)  # the end of the connection is seen
            for word in ("a", "b"):
                await call(client, word)
            assert len(server.calls) == 3

    run(main())


# -- too much ------------------------------------------------------------------------------------------------

ENDLESS: Final[dict[str, tuple[bytes, bytes]]] = {
    "a head": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 2000),
    "a first line": (b"HTTP/1.1 200 ", b"x" * 10_000),
    "the name of a header": (b"HTTP/1.1 200 OK\r\n", b"x" * 10_000),
    "the value of a header": (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 10_000),
    "headers of some length": (b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 3000 + b"\r\n"),
    "an extension of a chunk": (head(CHUNKED) + b"5;x=", b"y" * 10_000),
    "an extension of the last chunk": (head(CHUNKED) + b"0;x=", b"y" * 10_000),
    "a size of a chunk": (head(CHUNKED), b"0" * 10_000),
    "trailers": (head(CHUNKED) + b"0\r\n", b"X: y\r\n" * 2000),
    "a trailer": (head(CHUNKED) + b"0\r\nX: ", b"y" * 10_000),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 400),
    "interim answers of some length": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 4000 + b"\r\n\r\n"),
    "a body": (head(CHUNKED), chunked(b"x" * 10_000)[:-5]),
    "a body until the end": (head(), b"x" * 10_000),
    "a body that is longer than it says": (head("Content-Length: 99999999999"), b"x" * 10_000),
    "an event": (head(CHUNKED, media=SSE) + b"6\r\ndata: \r\n", chunked(b"x" * 10_000)[:-5]),
    "a failure": (head(CHUNKED, first="HTTP/1.1 500 Bad"), chunked(b"x" * 10_000)[:-5]),
    "empty lines": (b"", b"\r\n" * 5000),
}  # fmt: skip
"""How an answer begins, and what follows without end."""
PATIENT: Final = {
    "an extension of a chunk", "an extension of the last chunk", "a size of a chunk", "a trailer",
    "interim answers", "interim answers of some length", "empty lines",
}  # fmt: skip
"""What is read for as long as there is time."""
MOST: Final = 2**24
NOTHING: Final = bytes(5 * 10**7)


@req("SEC-6", "ERR-5", everywhere=True)
@pytest.mark.parametrize("case", [case for case in ENDLESS if case not in PATIENT])
def test_what_has_no_end_is_left(case: str) -> None:
    start, piece = ENDLESS[case]

    async def main() -> None:
        async def called(sent: Sent) -> None:
            await sent.raw(start)
            await sent.flood(piece, MOST)

        async with laid(called, http={"max_message": 300_000}) as (client, server):
            with pytest.raises((*ODD, HttpStatusError)):
                await call(client)
            (sent,) = server.calls
            await sent.gone.wait()
            assert sent.lane.wrote < MOST

    run(main())


@req("SEC-6", "TIME-1", everywhere=True)
@pytest.mark.parametrize("case", sorted(PATIENT))
def test_what_has_no_end_and_says_nothing_is_left_when_its_time_is_up(case: str) -> None:
    """None of it is kept meanwhile."""
    start, piece = ENDLESS[case]

    async def main() -> None:
        hurry()

        async def called(sent: Sent) -> None:
            await sent.raw(start)
            await sent.flood(piece, MOST)
            await sent.gone.wait()

        async with laid(called, http={"max_message": 300_000}) as (client, server):
            tracemalloc.start()
            try:
                with pytest.raises(RequestTimeout):
                    await client.call_tool("endless", timeout=0.5)
                assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
            finally:
                tracemalloc.stop()
            await server.calls[0].gone.wait()

    run(main(), has_both_ends=True)


SQUEEZED: Final[dict[str, Form]] = {
    "gzip": lambda body: whole(gzip.compress(body), "Content-Encoding: gzip"),
    "gzip of events": lambda body: (
        head("Content-Encoding: gzip", CHUNKED, media=SSE) + chunked(*bits(gzip.compress(event(body)), 20))
    ),
    "deflate": lambda body: whole(zlib.compress(body), "Content-Encoding: deflate"),
}


@req("HTTP-7", "SEC-6", everywhere=True)
@pytest.mark.parametrize("form", SQUEEZED)
@pytest.mark.parametrize("inflates", [True, False])
def test_a_session_of_the_users_reads_what_it_asks_to_be_compressed(inflates: bool, form: str) -> None:
    """It is the user's to say so, and to undo; what nobody undoes is refused, and never taken for an answer."""

    async def main() -> None:
        async def called(sent: Sent) -> None:
            assert ("gzip" in sent.headers["accept-encoding"]) is inflates
            await sent.raw(SQUEEZED[form](body_to(sent)))

        headers = {} if inflates else {"Accept-Encoding": "identity"}
        async with aiohttp.ClientSession(auto_decompress=inflates, headers=headers) as session:
            async with laid(called, http={"session": session}) as (client, server):
                for word in ("a", "b"):
                    with (
                        nullcontext() if inflates else pytest.raises(RemoteProtocolError, match="compressed")
                    ):
                        await call(client, word)
                assert len(server.calls) == 2
            assert not session.closed

    run(main())


@req("ERR-7", everywhere=True)
def test_a_session_that_raises_for_a_status_does_not_hide_why() -> None:
    async def main() -> None:
        async def called(sent: Sent) -> None:
            await sent.raw(whole(b"not here", first="HTTP/1.1 404 Not Found"))

        async with (
            aiohttp.ClientSession(raise_for_status=True) as session,
            laid(called, http={"session": session}) as (client, _),
        ):
            with pytest.raises(HttpStatusError, match="404 Not Found: not here"):
                await call(client)

    run(main())


@req("SEC-6", "ERR-5", everywhere=True)
@pytest.mark.parametrize("media", ["application/json", SSE])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_grows_without_bounds_when_unpacked_is_left(coding: str, media: str) -> None:
    """Fifty megabytes of nothing, in some kilobytes, for a session of the user's, which unpacks what comes."""
    bomb = gzip.compress(NOTHING, 1) if coding == "gzip" else zlib.compress(NOTHING, 1)
    assert len(bomb) < 10**6

    async def main() -> None:
        async def called(sent: Sent) -> None:
            await sent.raw(whole(bomb, f"Content-Encoding: {coding}", media=media))

        async with aiohttp.ClientSession() as session:
            http = {"max_message": 300_000, "session": session}
            async with laid(called, http=http) as (client, server):
                with pytest.raises(RemoteProtocolError, match="more than 30"):
                    await call(client)
                await server.calls[0].gone.wait()

    run(main())


@req("SEC-6", "ERR-7", everywhere=True)
@pytest.mark.parametrize("form", ["length", "chunks", "end"])
def test_the_limit_of_an_answer_is_exact(form: str) -> None:
    body = bytes(range(250)) * 4

    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            sent = cast("Sent", response_stream)
            await sent.raw(
                {
                    "length": whole(body),
                    "chunks": head(CHUNKED) + chunked(body[:10], body[10:]),
                    "end": head() + body,
                }[form]
            )
            if form == "end":
                sent.lane.writer.close()

        async with lanes(answer) as server:
            for limit in (1001, 1000):
                async with requesting(server.url, max_message=limit) as requests:
                    response = await requests.post(b"{}", [])
                    assert await response.read() == body
                    response.release()
            async with requesting(server.url, max_message=999) as requests:
                with pytest.raises(RemoteProtocolError, match="more than 999"):
                    await (await requests.post(b"{}", [])).read()

    run(main())


# -- all at once ---------------------------------------------------------------------------------------------


@each_once
@req("BASE-5", "CANC-7", "HTTPM-4", "HTTPM-6", "HTTPM-7", at=E)
@pytest.mark.parametrize("seed", range(4))
@each_loop
def test_whatever_becomes_of_others_a_call_is_answered(seed: int) -> None:
    """Some are answered well, some badly, and some are given up; each at its own pace."""
    chance = random.Random(seed)  # noqa: S311 - the same in every run
    bad = [case for case in sorted(WRONG) if case not in FORGIVEN]
    # aiohttp may take a connection that is just being closed.
    spared = suppress(ConnectionLost)

    async def main() -> None:
        hurry()

        async def called(sent: Sent) -> None:
            kind, _, form = sent.message["params"]["name"].split("/", 2)
            await turns(chance.randrange(10))
            body = body_to(sent)
            if kind == "bad":
                await sent.pieces(WRONG[form][0](body))
                if WRONG[form][1] not in {
                    BAD,
                    STATUS,
                }:  # which are HTTP, so that their connection is used again
                    sent.cut()
                return
            data = KEPT[form](body)
            size = chance.randrange(1, len(data))
            await sent.pieces(data[:size], data[size:])

        async def worker(client: mcprev.Client, number: int) -> None:
            for count in range(15):
                kind = chance.choice(["good", "good", "bad", "gone"])
                form = chance.choice(bad if kind == "bad" else sorted(KEPT))
                task = asyncio.create_task(call(client, f"{kind}/{number}.{count}/{form}"))
                if kind == "good":
                    with spared:
                        await task
                elif kind == "bad":
                    with pytest.raises(McpError):
                        await task
                else:
                    await turns(chance.randrange(30))
                    with spared:
                        await ended(task)

        async with laid(called) as (client, server):
            await asyncio.gather(*(worker(client, number) for number in range(12)))
            names = [sent.message["params"]["name"] for sent in server.calls]
            assert len(set(names)) == len(names)  # none was sent twice
        assert server.open == 0

    run(main())


# -- anything ------------------------------------------------------------------------------------------------

WORDS: Final = st.sampled_from(
    [
        b"HTTP/1.1 ", b"HTTP/1.0 ", b"200", b"100", b"101", b"204", b"304", b"500", b" OK\r\n", b"\r\n", b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 204 X\r\n\r\n", b"\r", b"\n", b"\0", b":",
        b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Connection: close\r\n",
        b"Connection: upgrade\r\nUpgrade: x\r\n", b"Content-Encoding: gzip\r\n", b"Content-Encoding: deflate\r\n",
        b"Content-Type: application/json\r\n", b"Content-Type: text/event-stream\r\n", b"Location: /mcp\r\n", b"307",
        b"Set-Cookie: a=b\r\n", b"Set-Cookie: \xff=;;=\r\n", b"5\r\n", b"0\r\n", b"0\r\n\r\n", b"12345", b"{}",
        b"data: {}\n\n", whole(b"{}"), head(CHUNKED) + chunked(b"{}"),
        b'{"jsonrpc":"2.0","id":2,"result":{"content":[],"resultType":"complete"}}',
    ]
)  # fmt: skip


@pytest.mark.slow
@req("ERR-5", "ERR-7", "SEC-6", everywhere=True)
@settings(max_examples=100)
@given(
    pieces=st.lists(st.one_of(WORDS, WORDS, WORDS, st.binary(max_size=20)), max_size=14),
    apart=st.booleans(),
    abort=st.booleans(),
)
def test_whatever_bytes_come_the_call_ends_and_the_next_is_well(
    pieces: list[bytes], apart: bool, abort: bool
) -> None:
    async def main() -> None:
        hurry()

        async def called(sent: Sent) -> None:
            if sent.message["params"]["name"] == "good":
                await sent.raw(whole(body_to(sent)))
                return
            await sent.pieces(*(pieces if apart else [b"".join(pieces)]))
            (sent.cut if abort else sent.lane.writer.close)()

        async with laid(called) as (client, server):
            with suppress(McpError):
                await client.call_tool("bad")
            await until(lambda: not server.calls or server.calls[0].gone.is_set())
            await turns(10)
            await call(client, "good")
            assert len([sent for sent in server.calls if sent.message["params"]["name"] == "good"]) == 1

    run(main())
