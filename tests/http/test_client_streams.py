"""A client's streams: those that answer calls, and the server's own; how each is taken up where it was cut."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

import mcprev
from api.authors import Helpful
from fuzz.fuzzing import each_once
from helpers.raw_server import Exchange, Reply, connected, numbered, text
from helpers.requirements import E, req
from helpers.running import passing, run, until
from mcprev.errors import ConnectionLost, RequestTimeout
from mcprev.revisions import DEFAULT, Revision, revision_named
from mcprev.transports.http.client.streamable import ABSENT
from mcprev.transports.http.client.streams import FIRST, LIMIT, LONGEST_IDLE, ResumeState
from mcprev.wire.sse import encode_message

LATEST = revision_named(E)
RESUMING = [row for row in DEFAULT if row.sse_resume]


async def tells(response_stream: Exchange, *numbers: int) -> None:
    """Send log messages with their numbers as event ids."""
    found = list(numbered(max(numbers) + 1))
    for number in numbers:
        await response_stream.event(found[number], f"{number}")


# -- the server's own stream -----------------------------------------------------------------------------


@req("HTTP-10")
def test_the_servers_own_stream_is_opened_and_read(row: Revision) -> None:
    async def main() -> None:
        async def listen(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await response_stream.gone.wait()

        async with connected(row, {"GET": listen}, handler=Helpful()) as (client, _, raw):
            async with client.listen(tools=True) as changes:
                await until(lambda: bool(raw.asked("GET")))
                assert await anext(changes) == mcprev.Change(mcprev.Changed.TOOLS)
            (get,) = raw.asked("GET")
            assert get.headers["accept"] == "text/event-stream"
            assert "last-event-id" not in get.headers
        assert get.gone.is_set() or not raw.open

    run(main())


@pytest.mark.parametrize("row", [row for row in DEFAULT if row.handshake][1:], ids=lambda row: row.name)
@req("HTTP-10", "ELIC-1", at=tuple(row.name for row in RESUMING))
def test_what_the_server_asks_on_its_own_stream_is_answered(row: Revision) -> None:
    async def main() -> None:
        answered = asyncio.Event()

        async def listen(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
            await response_stream.gone.wait()

        async def answer(response_stream: Exchange) -> None:
            assert response_stream.message["result"]["roots"]
            answered.set()
            await response_stream.respond(202)

        async with connected(row, {"GET": listen, "answer": answer}, handler=Helpful()):
            await answered.wait()

    run(main())


@req("HTTP-10")
def test_calls_wait_a_moment_for_the_servers_own_stream(row: Revision) -> None:
    """What a server says there because of a call is not lost for a stream that comes too late."""

    async def main() -> None:
        async def listen(response_stream: Exchange) -> None:
            await asyncio.sleep(0.05)
            assert raw.asked(method="tools/call") == []
            await response_stream.stream()
            await response_stream.gone.wait()

        async with connected(row, {"GET": listen, "tools/call": text("x")}) as (client, _, raw):
            await client.call_tool("t")

    run(main())


@req("HTTP-10")
def test_calls_do_not_wait_long_for_the_servers_own_stream(
    row: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcprev.transports.http.client.streamable.OPENING", 0.02)

    async def main() -> None:
        async def silent(response_stream: Exchange) -> None:
            await response_stream.gone.wait()

        async with connected(row, {"GET": silent, "tools/call": text("x")}) as (client, _, raw):
            await asyncio.gather(*(client.call_tool("t") for _ in range(3)))
            assert len(raw.asked("GET")) == 1

    run(main())


@req("HTTP-18", "HTTP-15", at=E)
@pytest.mark.parametrize(
    ("retry", "waits"),
    [
        (None, [FIRST, 2 * FIRST, 4 * FIRST]),
        (0.0, [FIRST, 2 * FIRST, 4 * FIRST]),
        (3 * FIRST, [3 * FIRST, 3 * FIRST, 4 * FIRST]),
    ],
)
def test_a_server_that_asks_for_no_delay_is_not_asked_ever_faster(
    retry: float | None, waits: list[float]
) -> None:
    cursor = ResumeState(retry=retry)
    assert [cursor.wait() for _ in waits] == waits
    assert [cursor.wait() for _ in range(LIMIT)][-1] is None


@each_once
@req("HTTP-10")
@pytest.mark.parametrize("kind", ["events", "messages", "nothing"])
def test_a_stream_that_ends_at_once_again_and_again_is_asked_for_seldom(row: Revision, kind: str) -> None:
    """Even if the server asks for no delay at all."""

    async def main() -> None:
        async def ended(response_stream: Exchange) -> None:
            await response_stream.stream()
            if kind != "nothing":
                await response_stream.prime(f"{len(raw.seen)}", 0)
            if kind == "messages":
                await response_stream.event(log)
            await response_stream.end()

        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
        async with connected(row, {"GET": ended, "tools/call": text("x")}) as (_, _, raw):
            await asyncio.sleep(20.0)
            most = {"events": 20.0 / LONGEST_IDLE + 6, "messages": 20.0 / FIRST + 1, "nothing": LIMIT + 1}[
                kind
            ]
            assert 1 < len(raw.asked("GET")) <= most

    run(main(), limit=1_000.0, has_both_ends=True)


@pytest.mark.parametrize("status", [405, 404, 400, 401, 500, 501, 200])
@req("HTTP-10", "AMB-3")
def test_a_server_without_a_stream_is_not_asked_again(
    row: Revision, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcprev.transports.http.client.streams.FIRST", 0.0)

    async def main() -> None:
        async def refuse(response_stream: Exchange) -> None:
            await response_stream.respond(status, b"none", {"Content-Type": "text/plain"})

        async with connected(row, {"GET": refuse, "tools/call": text("x")}) as (client, _, raw):
            await until(lambda: bool(raw.asked("GET")))
            for _ in range(5):
                await client.call_tool("t")
            assert client.reopened == 0
        assert len(raw.asked("GET")) == 1

    run(main())


@req("HTTP-10", at=E)
def test_there_is_no_such_stream_in_the_stateless_era() -> None:
    async def main() -> None:
        async with connected(LATEST, {"tools/call": text("x")}) as (client, _, raw):
            await client.call_tool("t")
        assert {seen.verb for seen in raw.seen} == {"POST"}

    run(main())


@req("HTTP-15", "HTTP-18", "HTTP-16")
def test_the_servers_own_stream_is_taken_up_where_it_was_cut(row: Revision) -> None:
    """HTTP-15: an event that was not complete is asked for again, one that was is not."""
    handler = Helpful()

    async def main() -> None:
        async def listen(response_stream: Exchange) -> None:
            await response_stream.stream()
            last = response_stream.headers.get("last-event-id")
            if last is None:
                await tells(response_stream, 0, 1)
                await response_stream.send(b'id: 2\ndata: {"jsonrpc":"2.0","method":"notifications/mes')
                await asyncio.sleep(0.01)
                response_stream.cut()
            elif last == "1":
                await tells(response_stream, 2)
                await response_stream.end()
            else:
                assert last == "2"
                await tells(response_stream, 3)
                await response_stream.gone.wait()

        async with connected(row, {"GET": listen}, handler=handler):
            await until(lambda: len(handler.logs) == 4)
        assert handler.logs == [("error", number) for number in range(4)]

    run(main())


@req("AMB-11", "HTTP-15")
def test_a_stream_whose_place_is_unknown_begins_anew(row: Revision) -> None:
    handler = Helpful()

    async def main() -> None:
        async def listen(response_stream: Exchange) -> None:
            if "last-event-id" in response_stream.headers:
                await response_stream.json(
                    {"jsonrpc": "2.0", "error": {"code": -32600, "message": "which?"}}, 400
                )
                return
            await response_stream.stream()
            await tells(response_stream, len(raw.asked("GET")))
            if len(raw.asked("GET")) == 1:
                await response_stream.end()
            else:
                await response_stream.gone.wait()

        async with connected(row, {"GET": listen, "tools/call": text("x")}, handler=handler) as (
            client,
            _,
            raw,
        ):
            await until(lambda: len(handler.logs) == 2)
            await client.call_tool("t")
            assert client.reopened == 0
            assert len(raw.asked("GET")) == 3

    run(main())


@req("HTTP-29", "HTTP-10")
def test_a_stream_that_never_holds_is_given_up(row: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprev.transports.http.client.streams.FIRST", 0.001)
    monkeypatch.setattr("mcprev.transports.http.client.streams.LONGEST", 0.002)

    async def main() -> None:
        async def listen(response_stream: Exchange) -> None:
            await response_stream.stream()
            response_stream.cut()

        async with connected(row, {"GET": listen, "tools/call": text("x")}) as (client, _, raw):
            await until(lambda: len(raw.asked("GET")) == 9)
            await asyncio.sleep(0.05)
            assert len(raw.asked("GET")) == 9
            await client.call_tool("t")

    run(main())


# -- the streams of calls --------------------------------------------------------------------------------


@req("HTTP-15", "HTTP-18")
@pytest.mark.parametrize("retry", [None, 0, 80])
def test_a_call_is_polled_for_after_the_server_closed_its_connection(
    row: Revision, retry: int | None
) -> None:
    """HTTP-15, HTTP-18: the primed stream ends; it is asked for again, and not before the time that was given."""

    async def main() -> None:
        closed: list[float] = []

        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.prime("p-0", retry)
            await response_stream.end()
            closed.append(response_stream.at)
            waiting.append(response_stream)

        async def polled(response_stream: Exchange) -> None:
            last = response_stream.headers.get("last-event-id")
            if last is None:
                await response_stream.respond(405)
                return
            await response_stream.stream()
            await response_stream.prime(f"p-{int(last[2:]) + 1}")
            if last == "p-2":
                await response_stream.event(
                    {**waiting[0].response, "result": server.complete(text("at last"))}, "p-4"
                )
            await response_stream.end()

        waiting: list[Exchange] = []
        async with connected(row, {"tools/call": called, "GET": polled}) as (client, server, raw):
            result = await client.call_tool("t")
            assert "at last" in str(result)
            polls = [get for get in raw.asked("GET") if "last-event-id" in get.headers]
            assert [poll.headers["last-event-id"] for poll in polls] == ["p-0", "p-1", "p-2"]
            assert polls[0].at - closed[0] >= (retry or 0) / 1000
            assert len(raw.asked(method="tools/call")) == 1

    run(main(), has_both_ends=True)


@req("HTTP-18")
def test_an_event_without_data_is_no_message(row: Revision) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.prime("1")
            await response_stream.send(
                b"data:\n\n:comment\n\nid: 2\n\nevent: other\ndata: {}\n\nretry: 5\n\n"
            )
            await response_stream.event({**response_stream.response, "result": server.complete(text("x"))})
            await response_stream.end()

        async with connected(row, {"tools/call": called}) as (client, server, raw):
            await client.call_tool("t")
        assert all(post.method for post in raw.asked())

    run(main())


@pytest.mark.parametrize("how", ["end", "cut", "half"])
@req("HTTP-29", "HTTPM-7", "HTTP-8")
def test_a_stream_that_ends_too_early_fails_its_call_at_once(row: Revision, how: str) -> None:
    """HTTP-29, HTTPM-7: without an event id there is nothing to go on from, and the call is not sent again."""

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.event(next(numbered(1)))
            if how == "half":
                await response_stream.send(b'data: {"jsonrpc":"2.0","id":2,"result":{}')
            if how == "end":
                await response_stream.end()
            else:
                await asyncio.sleep(0.01)
                response_stream.cut()

        async def other(response_stream: Exchange) -> None:
            await release.wait()
            await response_stream.result(server.complete({"prompts": []}))

        release = asyncio.Event()
        replies: dict[str, Reply] = {"tools/call": called, "prompts/list": other}
        async with connected(row, replies, timeout=None, total_timeout=None) as (client, server, raw):
            task = asyncio.create_task(client.list_prompts())
            with pytest.raises(ConnectionLost) as caught:
                await client.call_tool("t")
            assert (caught.value.in_flight, caught.value.retry_safe) == (True, False)
            assert len(raw.asked(method="tools/call")) == 1
            assert not task.done()
            release.set()
            await task

    run(main())


@req("HTTP-15", at=E)
def test_ids_of_events_mean_nothing_in_the_stateless_era() -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.prime("1", 1)
            await response_stream.end()

        async with connected(LATEST, {"tools/call": called}) as (client, _, raw):
            with pytest.raises(ConnectionLost):
                await client.call_tool("t")
        assert raw.asked("GET") == []

    run(main())


@pytest.mark.parametrize("status", [400, 404, 405, 500])
@req("AMB-11", "HTTP-29", "HTTP-15")
def test_a_call_whose_stream_cannot_be_taken_up_is_lost(
    row: Revision, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMB-11: it is not sent again, for the server has seen it; the session is good for others, unless it is gone."""
    monkeypatch.setattr("mcprev.transports.http.client.streams.FIRST", 0.001)
    monkeypatch.setattr("mcprev.transports.http.client.streams.LONGEST", 0.002)

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.prime("1")
            response_stream.cut()

        async def refused(response_stream: Exchange) -> None:
            await response_stream.respond(status if "last-event-id" in response_stream.headers else 405)

        replies: dict[str, Reply] = {"tools/call": called, "GET": refused, "prompts/list": {"prompts": []}}
        async with connected(row, replies) as (client, _, raw):
            with pytest.raises(ConnectionLost) as caught:
                await client.call_tool("t")
            assert caught.value.in_flight
            assert not caught.value.retry_safe
            assert len(raw.asked(method="tools/call")) == 1
            resumed = [get for get in raw.asked("GET") if "last-event-id" in get.headers]
            assert (len(resumed) > 1) is (status >= 500), "a server that is out of order is asked again"
            await client.list_prompts()
            assert client.reopened == (1 if status == 404 else 0)

    run(main())


@req("HTTP-15", "HTTP-29", "ERR-5")
def test_a_call_to_a_server_that_is_gone_is_lost_soon(row: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there any more: its stream was not merely cut."""
    waits: list[float] = []
    usual = ResumeState.wait

    def at_once(cursor: ResumeState) -> float | None:
        delay = usual(cursor)
        waits.append(delay or 0)
        return None if delay is None else 0

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            token = response_stream.message["params"]["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": 1}
            await response_stream.event(
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, "1"
            )
            await response_stream.gone.wait()

        async with connected(row, {"tools/call": called}, restart=False) as (client, _, raw):
            arrived = asyncio.Event()
            call = client.call_tool("t", progress=lambda _done, _total, _text: arrived.set())
            task = asyncio.create_task(call)
            await arrived.wait()
            monkeypatch.setattr(ResumeState, "wait", at_once)
            await raw.stop()
            with pytest.raises(ConnectionLost) as caught:
                await task
            assert caught.value.in_flight
            assert sum(waits) < 4
            assert len(waits) == (ABSENT if row.sse_resume else 0)

    run(main())


@req("HTTP-29", "HTTP-9")
def test_the_time_of_a_call_bounds_its_polling(row: Revision) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.prime("1", 2_000_000_000)
            await response_stream.end()
            ended.set()

        ended = asyncio.Event()
        async with connected(row, {"tools/call": called}) as (client, _, raw):
            with pytest.raises(RequestTimeout):
                await passing(5, client.call_tool("t", timeout=5), ended.is_set)
            assert all("last-event-id" not in get.headers for get in raw.asked("GET"))
            await until(lambda: bool(raw.asked(method="notifications/cancelled")))

    run(main())


@req("HTTP-8", "HTTP-7", everywhere=True)
def test_a_server_that_keeps_the_stream_open_after_the_answer_is_left() -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            await response_stream.event({**response_stream.response, "result": server.complete(text("x"))})
            await response_stream.gone.wait()

        async with connected(LATEST, {"tools/call": called}) as (client, server, raw):
            await client.call_tool("t")
            await until(raw.asked(method="tools/call")[0].gone.is_set)

    run(main())


# -- cutting anywhere ------------------------------------------------------------------------------------

COUNT = 400


@pytest.mark.slow
@req("HTTP-15", "HTTP-16")
def test_wherever_it_is_cut_a_stream_loses_and_repeats_nothing(row: Revision) -> None:
    handler = Helpful()
    chance = random.Random(row.name)  # noqa: S311 - the same cuts in every run

    async def main() -> None:
        messages = list(numbered(COUNT))

        async def carry(response_stream: Exchange, first: int) -> None:
            """Send what follows, cut in the middle of an event or between two, after a random number of them."""
            await response_stream.stream()
            wire = b"".join(event(number) for number in range(first, COUNT))
            if first < COUNT:
                end = chance.randrange(1, 6000) if first < COUNT - 60 else len(wire)
                for part in chunks(wire[:end]):
                    await response_stream.send(part)
                if end < len(wire):
                    await asyncio.sleep(0)
                    response_stream.cut()
                    return
            await response_stream.event(
                {**asked[0].response, "result": server.complete(text("x"))}, str(COUNT)
            )
            await response_stream.end()

        def event(number: int) -> bytes:
            return encode_message(json.dumps(messages[number]).encode(), str(number))

        def chunks(wire: bytes) -> list[bytes]:
            size = chance.randrange(1, 900)
            return [wire[start : start + size] for start in range(0, len(wire), size)]

        async def called(response_stream: Exchange) -> None:
            asked.append(response_stream)
            await response_stream.stream()
            await response_stream.prime("-1", 0)
            response_stream.cut()

        async def resumed(response_stream: Exchange) -> None:
            last = response_stream.headers.get("last-event-id")
            if last is None:
                await response_stream.respond(405)
            else:
                await carry(response_stream, int(last) + 1)

        asked: list[Exchange] = []
        async with connected(row, {"tools/call": called, "GET": resumed}, handler=handler) as (
            client,
            server,
            raw,
        ):
            await client.call_tool("t")
            await until(lambda: len(handler.logs) >= COUNT)
        assert [data for _, data in handler.logs] == list(range(COUNT))
        assert len(raw.asked("GET")) > 5

    run(main())
