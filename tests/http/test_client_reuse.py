"""Which connection a client's requests go over: one that is kept, another one, and never twice by a retry that could do harm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

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
    hurry,
    laid,
    lanes,
    requesting,
    turns,
    whole,
)
from helpers.raw_server import Exchange, Mcp, Reply
from helpers.requirements import D, E, req
from helpers.running import pass_time, run, until
from mcprev.errors import ConnectionLost, RemoteProtocolError
from mcprev.revisions import revision_named

LONG: Final = 3600.0
"""Seconds after which nothing is kept."""

# -- keeping -------------------------------------------------------------------------------------------------


@req("HTTPM-2", at=E)
def test_calls_one_after_the_other_share_a_connection() -> None:
    async def main() -> None:
        async with laid() as (client, server):
            for number in range(20):
                await call(client, str(number))
            assert len(server.lanes) == 1
        assert server.open == 0

    run(main())


@req("HTTPM-2", "BASE-5", at=E)
def test_calls_at_a_time_have_a_connection_each_and_leave_them_to_others() -> None:
    async def main() -> None:
        waiting: list[Sent] = []
        everybody = asyncio.Event()

        async def called(sent: Sent) -> None:
            waiting.append(sent)
            if len(waiting) == 5:
                everybody.set()
            await everybody.wait()
            await echo(sent)

        async with laid(called) as (client, server):
            await call_all(client, 5)
            assert len({sent.lane for sent in waiting}) == len(server.lanes) == 5
            waiting.clear()
            everybody.clear()
            await call_all(client, 5)
            assert len(server.lanes) == 5

    run(main())


async def call_all(client: mcprev.Client, count: int) -> None:
    await asyncio.gather(*(call(client, str(number)) for number in range(count)))


@pytest.mark.slow
@req("HTTPM-2", "BASE-5", "LIFE-16", at=E)
@each_loop
def test_hundreds_of_calls_at_a_time() -> None:
    async def main() -> None:
        hurry()
        async with laid() as (client, server):
            for _ in range(2):
                await call_all(client, 500)
                assert (
                    len(server.lanes) <= 501
                )  # the one that connected may be free again only when all others are taken
            assert len(server.calls) == 1000
        assert server.open == 0

    run(main())


@pytest.mark.slow
@req("LIFE-16", at=E)
def test_a_connection_that_is_not_used_for_long_is_given_up() -> None:
    """Only of our own connections: those of a session are the session's."""

    async def main() -> None:
        async with laid() as (client, server):
            await call_all(client, 4)
            assert server.open > 0
            pass_time(4.5)
            await until(lambda: server.open == 0)
            before = len(server.lanes)
            await call(client)
            await call(client)
            assert len(server.lanes) == before + 1

    run(main(), limit=LONG)


@req("LIFE-16", at=E)
def test_a_connection_in_use_is_not_given_up() -> None:
    async def main() -> None:
        async def called(sent: Sent) -> None:
            pass_time(10)
            await turns(20)
            await echo(sent)

        async with laid(called) as (client, server):
            for number in range(3):
                await call(client, str(number))
                pass_time(2)  # kept by each use
            assert len(server.lanes) == 1

    run(main(), limit=LONG)


# -- the server goes first -----------------------------------------------------------------------------------

QUIETLY: Final[dict[str, Callable[[Sent], None]]] = {
    "close": lambda sent: sent.lane.writer.close(),
    "half": lambda sent: sent.end_writing(),
    "abort": lambda sent: sent.cut(),
    "garbage": lambda sent: sent.lane.writer.write(b"\x15\x03\x01"),
}
"""What a server may do to a connection that nobody uses."""


@req("HTTP-29", "HTTPM-7", "BASE-5", at=E)
@pytest.mark.parametrize(
    "what",
    QUIETLY,
)
def test_a_server_that_spoils_a_connection_between_calls_does_no_harm(what: str) -> None:
    async def main() -> None:
        async with laid() as (client, server):
            for number in range(3):
                await call(client, str(number))
                await turns()  # the answer was taken, and the connection put back
                QUIETLY[what](server.calls[-1])
                await turns(10)
            assert [sent.lane.number for sent in server.calls] == [1, 2, 3]
            for sent in server.calls[:2]:
                await sent.gone.wait()

    run(main())


@each_once
@req("HTTP-29", "HTTPM-7", "HTTP-12", at=E)
@pytest.mark.parametrize("ahead", range(6))
@pytest.mark.parametrize("how", ["close", "half", "abort"])
@each_loop
def test_a_call_that_meets_the_end_of_its_connection(how: str, ahead: int) -> None:
    """It goes out on another one, or is lost; in no case does its server get it twice."""

    async def main() -> None:
        async with laid() as (client, server):
            await call(client, "first")
            await turns()
            QUIETLY[how](server.calls[-1])
            await turns(ahead)
            try:
                await call(client, "second")
            except ConnectionLost as error:
                lost = (error.in_flight, error.retry_safe)
                assert lost == (True, False)
            await turns(10)
            await call(client, "third")
            names = [sent.message["params"]["name"] for sent in server.calls]
            assert names in (["first", "second", "third"], ["first", "third"])

    run(main())


@req("HTTP-29", "HTTPM-7", "HTTP-12", at=E)
@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
@pytest.mark.parametrize("end", ["close", "half", "abort"])
def test_a_call_that_broke_is_not_sent_twice(end: str, part: bytes) -> None:
    async def main() -> None:
        async def called(sent: Sent) -> None:
            if sent.message["params"]["name"] == "broken":
                await sent.pieces(part)
                QUIETLY[end](sent)
                if end == "half":
                    await sent.gone.wait()
            else:
                await echo(sent)

        async with laid(called) as (client, server):
            await call(client)
            with pytest.raises(ConnectionLost) as caught:
                await call(client, "broken")
            assert (caught.value.in_flight, caught.value.retry_safe) == (True, False)
            await turns(10)
            await call(client, "again")
            names = [sent.message["params"]["name"] for sent in server.calls]
            assert names == ["hello", "broken", "again"]
            assert [sent.lane.number for sent in server.calls] == [1, 1, 2]

    run(main())


@req("HTTP-29", "HTTPM-7", at=E)
def test_a_server_that_is_started_anew_is_found_again() -> None:
    async def main() -> None:
        answer = Mcp(LATEST, {"tools/call": cast("Reply", called)})
        async with lanes(answer) as server, calling(server.url, restart=False) as client:
            for number in range(3):
                await call(client, "before")
                task = asyncio.create_task(client.call_tool("wait"))
                await until(lambda: server.calls[-1].message["params"]["name"] == "wait")
                await server.stop()
                with pytest.raises(ConnectionLost) as caught:
                    await task
                assert caught.value.in_flight
                with pytest.raises(ConnectionLost) as caught:
                    await call(client)
                assert (caught.value.in_flight, caught.value.retry_safe) == (False, True)
                await server.start(server.port)
                await call(client, str(number))
            assert client.connection.error is None
            assert len(server.asked("server/discover")) == 1

    async def called(sent: Sent) -> None:
        if sent.message["params"]["name"] == "wait":
            await sent.gone.wait()
        else:
            await echo(sent)

    run(main())


@req("HTTP-24", "HTTP-29", at=D)
def test_the_end_of_a_session_is_told_once_more_if_the_connection_broke() -> None:
    """A DELETE may be sent twice: the second does nothing."""

    async def main() -> None:
        async def over(response_stream: Exchange) -> None:
            if len(server.asked(verb="DELETE")) == 1:
                response_stream.cut()
            else:
                await response_stream.respond(204)

        row = revision_named(D)
        async with laid(replies={"DELETE": over}, row=row) as (client, server):
            await call(client)
        first, second = server.asked(verb="DELETE")
        assert first.lane is not second.lane
        assert first.headers == second.headers

    run(main())


@req("HTTP-10", "HTTP-29", at=D)
@pytest.mark.parametrize("times", [1, 2])
def test_what_only_asks_is_sent_once_more_if_a_kept_connection_broke(times: int) -> None:
    """Once, and on a new one."""

    async def main() -> None:
        async def answer(response_stream: Exchange) -> None:
            sent = cast("Sent", response_stream)
            if sent.verb == "POST":
                await sent.respond(200, b"{}")
            elif len(server.asked(verb="GET")) <= times:
                sent.cut()
            else:
                await sent.respond(200, b"got", {"Content-Type": "text/event-stream"})

        async with lanes(answer) as server, requesting(server.url) as requests:
            first = await requests.post(b"{}", [])
            await first.read()
            first.release()
            if times == 1:
                got = await requests.get([("X", "y")])
                assert await got.read() == b"got"
                got.release()
            else:
                with pytest.raises(ConnectionLost):
                    await requests.get([("X", "y")])
            assert [sent.lane.number for sent in server.seen] == [1, 1, 2]
            assert server.seen[1].pairs == server.seen[2].pairs

    run(main())


# -- redirects -----------------------------------------------------------------------------------------------

REDIRECTING: Final = {
    "empty": whole(b"", "Location: /other", first="HTTP/1.1 307 X"),
    "with a body": whole(b"moved" * 100, "Location: other", first="HTTP/1.1 307 X"),
    "no length": b"HTTP/1.1 307 X\r\nLocation: /other\r\nConnection: close\r\n\r\n",
    "closed": whole(b"x", "Location: /other", "Connection: close", first="HTTP/1.1 308 X"),
    "permanent": whole(b"", "Location: ?x=y", first="HTTP/1.1 308 X"),
    "in chunks": (
        b"HTTP/1.1 301 X\r\nLocation: /mcp/../other\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    ),
}


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize("kind", REDIRECTING)
def test_redirects_are_followed_over_the_connections_there_are(kind: str) -> None:
    async def main() -> None:
        server_answer = Mcp(LATEST, {"tools/call": cast("Reply", echo)})

        async def answer(response_stream: Exchange) -> None:
            if response_stream.path == "/mcp":
                await response_stream.raw(REDIRECTING[kind])
                if "close" in kind or kind == "no length":
                    cast("Sent", response_stream).lane.writer.close()
            else:
                await server_answer(response_stream)

        async with lanes(answer) as server, calling(server.url) as client:
            for number in range(3):
                await call(client, str(number))
            where = "/mcp?x=y" if kind == "permanent" else "/other"
            assert [sent.path for sent in server.calls if sent.path != "/mcp"] == [where] * 3
            assert all(sent.body for sent in server.seen)
            if kind == "permanent":
                assert len(server.lanes) == 1
            assert server.open <= 2

    run(main())


@req("SEC-1", "SEC-6", everywhere=True)
def test_a_redirect_is_not_read_for_ever() -> None:
    """Its body has no use; the connection is given up rather than waited for."""

    async def main() -> None:
        server_answer = Mcp(LATEST, {"tools/call": cast("Reply", echo)})

        async def answer(response_stream: Exchange) -> None:
            sent = cast("Sent", response_stream)
            if sent.path == "/mcp":
                await sent.raw(b"HTTP/1.1 308 X\r\nLocation: /other\r\nContent-Length: 99999999999\r\n\r\n")
                await sent.flood(b"x" * 10_000, 2**24)
                assert sent.lane.wrote < 2**24
            else:
                await server_answer(sent)

        async with lanes(answer) as server, calling(server.url) as client:
            await call(client)
            await server.seen[0].gone.wait()

    run(main())


@req("SEC-1", everywhere=True)
def test_nothing_goes_to_the_origin_of_a_redirect_that_is_not_followed() -> None:
    async def main() -> None:
        async with lanes(Mcp(LATEST)) as other:

            async def called(sent: Sent) -> None:
                await sent.respond(307, b"", {"Location": other.url})

            async with laid(called) as (client, _):
                with pytest.raises(RemoteProtocolError, match="another origin"):
                    await call(client)
            assert other.lanes == []

    run(main())


# -- cookies -------------------------------------------------------------------------------------------------

COOKIES: Final[dict[str, tuple[list[str], dict[str, str]]]] = {
    "one": (["a=b"], {"a": "b"}),
    "of this path": (["a=b; Path=/mcp"], {"a": "b"}),
    "of everything": (["a=b; Path=/; HttpOnly; SameSite=Lax"], {"a": "b"}),
    "two": (["a=b", "c=d; Path=/"], {"a": "b", "c": "d"}),
    "with a space of time": (["a=b; Max-Age=1000"], {"a": "b"}),
    "again": (["a=b", "a=c"], {"a": "c"}),
    "with signs": (["a=b:c/d+e=f|g"], {"a": "b:c/d+e=f|g"}),
    "expired": (["a=b; Max-Age=0", "c=d; Expires=Thu, 01 Jan 1971 00:00:00 GMT", "e=f"], {"e": "f"}),
    "taken back": (["a=b", "a=; Max-Age=0"], {}),
    "of another path": (["a=b; Path=/other", "c=d; Path=/mc", "e=f; Path=/mcp/x"], {}),
    "of another host": (["a=b; Domain=example.com", "c=d; Domain=com", "e=f; Domain=.example.com"], {}),
    "for https": (["a=b; Secure"], {}),
    "nonsense": (["", "=", ";;;", "\xff", "a=b; Expires=never; Max-Age=x; Path=; Domain="], {"a": "b"}),
}  # fmt: skip


@req("HTTP-19", "HDR-4", everywhere=True)
@pytest.mark.parametrize("case", COOKIES)
def test_cookies_go_back_to_where_they_belong(case: str) -> None:
    """A balancer that sends a client to the server it had before needs them; aiohttp keeps none for bare addresses."""
    said, wanted = COOKIES[case]

    async def main() -> None:
        async def called(sent: Sent) -> None:
            lines = [f"Set-Cookie: {cookie}" for cookie in said[len(server.calls) - 1 :][:1]]
            await sent.raw(whole(body_to(sent), *lines))

        async with laid(called, host="localhost") as (client, server):
            for number in range(len(said) + 2):
                await call(client, str(number))
            assert "cookie" not in server.calls[0].headers
            for sent in server.calls[-2:]:
                assert cookies(sent).items() >= wanted.items()
                # What aiohttp makes of nonsense is its own affair.
                assert cookies(sent) == wanted or case == "nonsense"

    run(main())


AGES: Final = (
    "a=b; max-age", "a=b; max-age ", "a=b; Max-Age ; Path=/", "a=b; Max-Age= 10", "a=b; max-age=10 ; Path=/", "a=b; Max-Age=\t10",
    "a=b; Max-Age= ", "a=b; Max-Age = 10", "a=b; Max-Age=1 0", "a=b; Max-Age=- 1", "a=b;Max-Age=\xa010", "a=b; Max-Age=" + "9" * 400,
    "a=b; Max-Age=" + "9" * 5000, "a=b; Expires", "a=b; Expires= ", "a=b; Expires= ; Max-Age= x ; Domain= ",
)  # fmt: skip
"""Cookies that say in odd ways how long they are good."""


@req("SEC-6", "ERR-5", everywhere=True)
@pytest.mark.parametrize("line", AGES, ids=lambda line: line[:30])
def test_how_long_a_cookie_is_good_is_no_reason_for_a_traceback(
    line: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async def called(sent: Sent) -> None:
            await sent.raw(whole(body_to(sent), f"Set-Cookie: {line}"))

        async with laid(called, host="localhost") as (client, _):
            await call(client)
            await call(client, "again")

    caplog.set_level("WARNING")
    run(main())
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def cookies(sent: Sent) -> dict[str, str]:
    """What came in the one header that there may be."""
    line = sent.headers.get("cookie", "")
    pairs = [pair.split("=", 1) for pair in line.split("; ") if pair]
    assert len({name for name, _ in pairs}) == len(pairs)
    return {name: value.strip('"') for name, value in pairs}


@req("HDR-4", everywhere=True)
def test_cookies_of_the_users_stay_with_those_of_the_server() -> None:
    async def main() -> None:
        async def called(sent: Sent) -> None:
            await sent.raw(whole(body_to(sent), "Set-Cookie: a=b"))

        http = {"headers": {"Cookie": "mine=1"}}
        async with laid(called, host="localhost", http=http) as (client, server):
            await call(client)
            await call(client)
            first, second = server.calls
            assert cookies(first) == {"mine": "1"}
            assert cookies(second)["mine"] == "1"

    run(main())


@req("HDR-4", "SEC-1", everywhere=True)
def test_cookies_of_redirects_and_of_failures_are_kept_too() -> None:
    async def main() -> None:
        usual = Mcp(LATEST, {"tools/call": cast("Reply", echo)})

        async def answer(response_stream: Exchange) -> None:
            if response_stream.path == "/mcp":
                await response_stream.respond(
                    308, b"", {"Location": "/other", "Set-Cookie": "node=7; Path=/"}
                )
            else:
                await usual(response_stream)

        async with lanes(answer, host="localhost") as server, calling(server.url) as client:
            await call(client)
            assert [sent.headers.get("cookie") for sent in server.seen] == [
                None,
                *["node=7"] * (len(server.seen) - 1),
            ]

    run(main())


@req("HDR-4", everywhere=True)
def test_cookies_of_one_client_are_not_those_of_another() -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await cast("Sent", response_stream).raw(whole(body_to(response_stream), "Set-Cookie: a=b"))

        answer = Mcp(LATEST, {"tools/call": cast("Reply", called)})
        async with lanes(answer, host="localhost") as server:
            for _ in range(2):
                async with calling(server.url) as client:
                    await call(client)
            assert all("cookie" not in sent.headers for sent in server.seen)

    run(main())
