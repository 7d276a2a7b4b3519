"""What a client's connections hold and for how long: bodies that are large or slow, calls that are given up, and the end."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.lanes import (
    LATEST,
    Sent,
    body_to,
    call,
    calling,
    each_loop,
    echo,
    ended,
    event,
    head,
    hurry,
    laid,
    lanes,
    open_descriptors,
    requesting,
    still,
    turns,
    whole,
)
from helpers.raw_server import Exchange, Mcp, Reply
from helpers.requirements import E, req
from helpers.running import passing, run, until
from helpers.wired import chunked
from mcprev.core.limits import CLOSE
from mcprev.errors import ConnectionLost, HttpStatusError, McpError, RequestTimeout

MEGA: Final = 2**20
SSE: Final = "text/event-stream"
CHUNKED: Final = "Transfer-Encoding: chunked"
LARGE: Final = b'{"x": "' + bytes(range(32, 33)) * (32 * MEGA) + b'"}'


def grown() -> int:
    """Bytes that were taken since measuring began, at most."""
    return tracemalloc.get_traced_memory()[1]


@pytest.fixture
def _measured() -> Any:
    """Memory is measured, and not before the test wants it."""
    yield
    tracemalloc.stop()


# -- large requests ------------------------------------------------------------------------------------------


@req("SEC-6", "HTTP-5", everywhere=True)
@pytest.mark.usefixtures("_measured")
def test_a_large_request_waits_for_a_slow_server() -> None:
    """It is copied once at most to where it waits."""

    async def main() -> None:
        go = asyncio.Event()
        found: list[str] = []

        async def early(sent: Sent) -> bool:
            began.set()
            await go.wait()
            summed = hashlib.sha256()
            for _ in range(sent.length // 1024):
                summed.update(await sent.lane.reader.readexactly(1024))
            summed.update(await sent.lane.reader.readexactly(sent.length % 1024))
            found.append(summed.hexdigest())
            await sent.raw(whole(b"{}"))
            return True

        began = asyncio.Event()
        async with lanes(Mcp(LATEST), early=early) as server, requesting(server.url) as requests:
            hurry()
            tracemalloc.start()
            sending = asyncio.create_task(requests.post(LARGE, []))
            await began.wait()
            await turns(300)
            assert not sending.done()
            assert grown() < 40 * MEGA
            tracemalloc.stop()
            go.set()
            answer = await sending
            assert await answer.read() == b"{}"
            answer.release()
            assert found == [hashlib.sha256(LARGE).hexdigest()]

    run(main())


EARLY: Final[dict[str, tuple[bytes, type[McpError] | None]]] = {
    "413": (whole(b"too large", first="HTTP/1.1 413 X"), HttpStatusError),
    "413, closed": (whole(b"too large", "Connection: close", first="HTTP/1.1 413 X"), HttpStatusError),
    "413, after leave": (
        b"HTTP/1.1 100 Continue\r\n\r\n" + whole(b"too large", first="HTTP/1.1 413 X"), HttpStatusError,
    ),
    "403": (head(CHUNKED, first="HTTP/1.1 403 X") + chunked(b"who?"), HttpStatusError),
}  # fmt: skip


@req("ERR-7", "SEC-6", "HTTP-31", everywhere=True)
@pytest.mark.parametrize("case", EARLY)
def test_a_server_that_refuses_a_large_request_is_heard(case: str) -> None:
    """It need not be sent to the end, nor does another request follow on its connection."""
    data, wanted = EARLY[case]

    async def main() -> None:
        refused = asyncio.Event()

        async def early(sent: Sent) -> bool:
            if sent.length < MEGA:
                return False
            await sent.raw(data)
            await refused.wait()
            assert await sent.drain() < sent.length
            drained.set()
            return True

        drained = asyncio.Event()
        async with laid(early=early) as (client, server):
            await call(client)
            with pytest.raises(HttpStatusError) as caught:
                await call(client, "large", x="y" * (24 * MEGA))
            assert isinstance(caught.value, cast("type", wanted))
            assert caught.value.status == int(case[:3])
            assert "too large" in caught.value.body or case == "403"
            refused.set()
            await drained.wait()
            await call(client)
            assert len(server.lanes) == 2

    run(main())


@req("LIFE-16", "SEC-6", everywhere=True)
def test_a_server_that_answers_early_and_reads_no_more_keeps_no_connection() -> None:
    async def main() -> None:
        let_go = asyncio.Event()

        async def early(sent: Sent) -> bool:
            sent.lane.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await sent.raw(whole(b"too large", first="HTTP/1.1 413 X"))
            await let_go.wait()
            while not sent.gone.is_set():
                await sent.raw(b"x")
                await turns()
            return True

        async with lanes(Mcp(LATEST), early=early) as server, requesting(server.url) as requests:
            answer = await requests.post(LARGE, [])
            assert await answer.read() == b"too large"
            answer.release()
            let_go.set()
            await until(lambda: not server.open)

    run(main())


@req("ERR-5", "LIFE-16", everywhere=True)
def test_a_server_that_will_not_answer_and_reads_no_more_is_left() -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def early(sent: Sent) -> bool:
            sent.lane.writer.transport.pause_reading()  # type: ignore[attr-defined]
            sent.end_writing()
            await over.wait()
            return True

        async with lanes(Mcp(LATEST), early=early) as server, requesting(server.url) as requests:
            with pytest.raises(ConnectionLost):
                await requests.post(LARGE, [])
            over.set()

    run(main())


@pytest.mark.slow
@req("SEC-6", everywhere=True)
def test_an_answer_in_small_chunks_takes_what_it_says() -> None:
    count = MEGA // 8
    data = head(CHUNKED) + b"2\r\n  \r\n" * count + b"0\r\n\r\n"

    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            await response_stream.raw(data)

        async with lanes(answer) as server, requesting(server.url) as requests:
            hurry()
            tracemalloc.start()
            try:
                found = await requests.post(b"{}", [])
                assert await found.read() == b"  " * count
                assert tracemalloc.get_traced_memory()[1] < len(data) + 8 * count
            finally:
                tracemalloc.stop()
            found.release()

    run(main())


@req("ERR-7", "ERR-5", "HTTP-29", "HTTPM-7", everywhere=True)
@pytest.mark.parametrize("end", ["close", "abort", "half"])
@pytest.mark.parametrize("said", [b"", EARLY["413"][0]])
def test_a_server_that_goes_while_a_large_request_is_sent(said: bytes, end: str) -> None:
    """The refusal arrives or is lost with the connection, as the network has it; either is told."""

    async def main() -> None:
        async def early(sent: Sent) -> bool:
            if sent.length < MEGA:
                return False
            await sent.pieces(said)
            if end == "half":
                sent.end_writing()
                await sent.drain()
            else:
                (sent.cut if end == "abort" else sent.lane.writer.close)()
            return True

        async with laid(early=early) as (client, server):
            with pytest.raises((HttpStatusError, ConnectionLost)) as caught:
                await call(client, "large", x="y" * (5 * MEGA))
            assert said or isinstance(caught.value, ConnectionLost)
            assert getattr(caught.value, "in_flight", True)
            await turns(10)
            await call(client)
            assert len([sent for sent in server.seen if sent.length > MEGA]) == 1

    run(main())


@each_once
@req("HTTP-5", "HTTPM-2", at=E)
@pytest.mark.parametrize("size", [60_000, 65_000, 65_536, 70_000, 131_072, 1_000_000, 1_100_000])
@each_loop
def test_requests_of_every_size_arrive_whole_and_their_connection_is_kept(size: int) -> None:
    async def main() -> None:
        async with laid() as (client, server):
            for number in range(3):
                await call(client, str(number), x="é" * (size // 2))
            assert {len(sent.message["params"]["arguments"]["x"]) for sent in server.calls} == {size // 2}
            assert len(server.lanes) == 1

    run(main())


# -- large answers -------------------------------------------------------------------------------------------

FLOOD: Final = 64 * MEGA


@req("SEC-6", "HTTP-7", everywhere=True)
@pytest.mark.usefixtures("_measured")
@pytest.mark.parametrize("form", ["chunks", "length", "end"])
def test_a_stream_that_nobody_reads_stands_still(form: str) -> None:
    piece = b": " + b"x" * 32_764 + b"\n\n"
    start, sent_piece = {
        "chunks": (head(CHUNKED, media=SSE), chunked(piece)[:-5]),
        "length": (head(f"Content-Length: {FLOOD}", media=SSE), piece),
        "end": (head(media=SSE), piece),
    }[form]

    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            sent = cast("Sent", response_stream)
            await sent.raw(start)
            for _ in range(FLOOD // len(piece)):
                await sent.raw(sent_piece)
            if form == "chunks":
                await sent.end()
            elif form == "end":
                sent.lane.writer.close()

        assert FLOOD % len(piece) == 0
        async with lanes(answer) as server, requesting(server.url) as requests:
            hurry()
            tracemalloc.start()
            response = await requests.post(b"{}", [])
            first = await response.chunk()
            stands = await still(lambda: server.lanes[0].wrote)
            assert stands < FLOOD // 4
            assert grown() < 4 * MEGA
            tracemalloc.stop()
            taken = len(first)
            ahead = 0
            while data := await response.chunk():
                ahead = max(ahead, server.lanes[0].wrote - taken)
                taken += len(data)
            assert taken == FLOOD
            assert ahead < FLOOD // 2
            response.release()

    run(main())


@req("SEC-6", "HTTP-7", everywhere=True)
def test_a_large_answer_is_read_whole() -> None:
    """Larger than what is held unread, in one piece and in chunks, and the connection is kept."""
    word = "x" * (3 * MEGA)

    async def main() -> None:
        async def called(sent: Sent) -> None:
            body = body_to(sent).replace(b"large", word.encode())
            if len(server.calls) % 2:
                await sent.raw(whole(body))
            else:
                await sent.raw(head(CHUNKED) + chunked(body[:100], body[100:MEGA], body[MEGA:]))

        async with laid(called) as (client, server):
            for _ in range(4):
                assert word in str(await client.call_tool("large"))
            assert len(server.lanes) == 1

    run(main())


# -- giving up -----------------------------------------------------------------------------------------------


async def nothing(sent: Sent) -> None:
    await sent.gone.wait()


async def half_a_head(sent: Sent) -> None:
    await sent.raw(b"HTTP/1.1 200 OK\r\nContent-")
    await sent.gone.wait()


async def half_a_body(sent: Sent) -> None:
    await sent.raw(whole(body_to(sent))[:-5])
    await sent.gone.wait()


async def a_body_until_the_end(sent: Sent) -> None:
    await sent.raw(head() + body_to(sent))
    await sent.gone.wait()


async def a_stream(sent: Sent) -> None:
    await sent.stream()
    await sent.send(b": here\n\n")
    await sent.gone.wait()


async def half_a_refusal(sent: Sent) -> None:
    await sent.raw(head("Content-Length: 99", first="HTTP/1.1 500 X") + b"no")
    await sent.gone.wait()


STAGES: Final = {
    found.__name__.replace("_", " "): found
    for found in (
        nothing,
        half_a_head,
        half_a_body,
        a_body_until_the_end,
        a_stream,
        half_a_refusal,
    )
}
"""How far an answer comes."""


@asynccontextmanager
async def midway(
    stage: str, **options: Any
) -> AsyncGenerator[tuple[mcprev.Client, asyncio.Task[Any], Sent], None]:
    """A client with a call that is under way; two others are in flight and well."""
    release = asyncio.Event()

    async def called(sent: Sent) -> None:
        name = sent.message["params"]["name"]
        if name == "slow":
            await STAGES[stage](sent)
        else:
            if name == "other":
                await release.wait()
            await echo(sent)

    async with laid(called, **options) as (client, server):
        await call(client)
        others = [asyncio.create_task(call(client, "other")) for _ in range(2)]
        task = asyncio.create_task(client.call_tool("slow"))
        await until(lambda: len(server.calls) == 4)
        await turns(10)  # what there is of the answer has arrived
        (slow,) = [sent for sent in server.calls if sent.message["params"]["name"] == "slow"]
        yield client, task, slow
        if client.connection.error is None:
            release.set()
            await asyncio.gather(*others)
            await call(client)
        else:
            assert all(
                isinstance(found, McpError) for found in await asyncio.gather(*others, return_exceptions=True)
            )


@req("CANC-7", "HTTPM-6", at=E)
@pytest.mark.parametrize("stage", STAGES)
def test_a_call_that_is_given_up_ends_its_connection(stage: str) -> None:
    async def main() -> None:
        async with midway(stage) as (_, task, slow):
            assert not slow.gone.is_set()
            await ended(task)
            await slow.gone.wait()

    run(main())


@req("TIME-1", "CANC-7", "HTTPM-6", at=E)
@pytest.mark.parametrize("stage", STAGES)
def test_a_call_that_takes_too_long_ends_its_connection(stage: str) -> None:
    async def main() -> None:
        async def called(sent: Sent) -> None:
            await (STAGES[stage] if sent.message["params"]["name"] == "slow" else echo)(sent)

        async with laid(called) as (client, server):
            await call(client)
            with pytest.raises(RequestTimeout):
                await passing(5, client.call_tool("slow", timeout=5), lambda: len(server.calls) > 1)
            await server.calls[1].gone.wait()

    run(main())


@req("CANC-7", "HTTPM-6", at=E)
def test_a_large_call_that_is_given_up_is_not_sent_further() -> None:
    async def main() -> None:
        async def early(sent: Sent) -> bool:
            if sent.length < MEGA:
                return False
            large.append(sent)
            await go.wait()
            assert await sent.drain() < sent.length
            over.set()
            return True

        large: list[Sent] = []
        go, over = asyncio.Event(), asyncio.Event()
        async with laid(early=early) as (client, _):
            task = asyncio.create_task(call(client, "large", x="y" * (24 * MEGA)))
            await until(lambda: bool(large))
            await turns(10)
            await ended(task)
            go.set()
            await over.wait()
            await call(client)

    run(main())


@req("CANC-7", "ERR-5", everywhere=True)
@each_loop
def test_giving_up_at_any_moment_leaves_nothing_behind() -> None:
    """However many turns of the loop a call had; the next one gets its own answer."""

    async def main() -> None:
        hurry()
        async with laid() as (client, server):
            await call(client)
            for number in range(60):
                task = asyncio.create_task(call(client, f"given up {number}"))
                await turns(number % 20)
                await ended(task)
                await call(client, str(number))
            assert server.open <= 2

    run(main())


@pytest.mark.slow
@req("CANC-7", "LIFE-16", everywhere=True)
def test_giving_up_while_a_connection_is_made_leaves_nothing_behind() -> None:
    """Nor is it waited for at the end."""

    async def main() -> None:
        hurry()
        loop = asyncio.get_running_loop()

        async def called(sent: Sent) -> None:
            if sent.message["params"]["name"] == "held":
                await sent.gone.wait()
            else:
                await echo(sent)

        async with laid(called) as (client, server):
            held = [asyncio.create_task(client.call_tool("held")) for _ in range(2)]
            await until(lambda: len(server.calls) == 2)
            for number in range(60):
                # There is no connection that is free, unless it was made for one that was given up.
                tasks = [asyncio.create_task(call(client, f"{number}.{which}")) for which in range(4)]
                await turns(number % 15)
                await asyncio.gather(*map(ended, tasks))
            await turns(10)
            for task in held:
                await ended(task)
            began = loop.time()
            await client.aclose()
            assert loop.time() - began < CLOSE
            await until(lambda: server.open == 0)

    leaves_nothing(main)


# -- the end -------------------------------------------------------------------------------------------------


def leaves_nothing(main: Callable[[], Any]) -> None:
    """Run it twice: what is opened once for all is open by then."""
    run(main())
    before = open_descriptors()
    run(main())
    assert open_descriptors() == before


@each_once
@req("LIFE-16", "HTTP-29", everywhere=True)
@pytest.mark.parametrize("stage", STAGES)
@each_loop
def test_closing_ends_whatever_is_under_way(stage: str) -> None:
    async def main() -> None:
        async with midway(stage) as (client, task, slow):
            await client.aclose()
            with pytest.raises(McpError):
                await task
            await slow.gone.wait()

    leaves_nothing(main)


@req("LIFE-16", everywhere=True)
def test_closing_hangs_up_at_once() -> None:
    """When it has returned every connection is gone, however long its server keeps its own end."""

    async def main() -> None:
        async with lanes(Mcp(LATEST, {"tools/call": cast("Reply", echo)})) as server:
            before = open_descriptors()
            async with calling(server.url) as client:
                await asyncio.gather(*(call(client, str(number)) for number in range(10)))
            await until(lambda: server.open == 0)
            assert len(server.lanes) > 1
            await until(lambda: open_descriptors() == before)

    run(main())


@req("LIFE-16", "ERR-5", everywhere=True)
def test_closing_while_a_large_request_is_sent() -> None:
    async def main() -> None:
        async def early(sent: Sent) -> bool:
            if sent.length < MEGA:
                return False
            large.append(sent)
            await go.wait()
            await sent.drain()
            return True

        large: list[Sent] = []
        go = asyncio.Event()
        async with laid(early=early) as (client, _):
            task = asyncio.create_task(call(client, "large", x="y" * (24 * MEGA)))
            await until(lambda: bool(large))
            await turns(10)
            await client.aclose()
            with pytest.raises(McpError):
                await task
            go.set()

    leaves_nothing(main)


@req("LIFE-16", "ERR-5", everywhere=True)
def test_a_client_that_was_closed_sends_nothing() -> None:
    async def main() -> None:
        async with laid() as (client, server):
            await client.aclose()
            before = len(server.seen)
            with pytest.raises(McpError):
                await call(client)
            assert len(server.seen) == before
        async with lanes(Mcp(LATEST)) as server, requesting(server.url) as requests:
            await requests.close()
            await requests.close()
            with pytest.raises(ConnectionLost) as caught:
                await requests.post(b"{}", [])
            assert (caught.value.in_flight, caught.value.retry_safe) == (False, True)
            assert server.lanes == []

    leaves_nothing(main)


@req("LIFE-16", everywhere=True)
def test_an_answer_that_is_let_go_unread_ends_its_connection() -> None:
    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            sent = cast("Sent", response_stream)
            if len(server.seen) == 1:
                await sent.raw(head(CHUNKED, media=SSE) + chunked(event(b"{}"))[:-5])
                await sent.gone.wait()
            else:
                await sent.raw(whole(b"second"))

        async with lanes(answer) as server, requesting(server.url) as requests:
            first = await requests.post(b"{}", [])
            first.release()
            await server.seen[0].gone.wait()
            second = await requests.post(b"{}", [])
            assert await second.read() == b"second"
            second.release()
            with suppress(McpError):
                await second.chunk()  # there is nothing, and nothing is waited for

    leaves_nothing(main)
