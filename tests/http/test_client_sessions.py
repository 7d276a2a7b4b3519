"""Sessions of a client: one that ran out is opened again, one that is given up is ended, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import aiohttp
import pytest

import mcprev
from api.authors import Helpful
from helpers.raw_server import Exchange, Mcp, Reply, connected, serve, text
from helpers.requirements import E, req
from helpers.running import passing, run, until
from mcprev.errors import ConnectionLost, LocalProtocolError, RequestTimeout, SessionExpired
from mcprev.revisions import DEFAULT, Revision, revision_named
from mcprev.transports.http.client.connection import GRACE

LATEST = revision_named(E)
SESSIONS = [row for row in DEFAULT if row.sse_resume]


class Forgetful(Mcp):
    """A server whose sessions have numbers; it can forget them."""

    def __init__(self, row: Revision, replies: Any = None, body: bytes = b"", status: int = 404) -> None:
        super().__init__(row, replies)
        self.known: set[str] = set()
        self.opened = 0
        self.body = body
        self.status = status

    async def __call__(self, response_stream: Exchange) -> None:
        named = response_stream.headers.get("mcp-session-id")
        if response_stream.method == "initialize":
            assert named is None
            self.opened += 1
            self.session = f"s{self.opened}"
            self.known.add(self.session)
        elif named not in self.known:
            await response_stream.respond(self.status, self.body, {"Content-Type": "application/json"})
            return
        await super().__call__(response_stream)


NO_VALID_SESSION = b"Bad Request: No valid session ID provided"
UNKNOWN = {
    "empty": (404, b""),
    "text": (404, b"Session not found"),
    "error": (404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'),
    "text of mcp 1.23": (400, NO_VALID_SESSION),
    "error of everything": (
        400,
        b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"%s"}}' % NO_VALID_SESSION,
    ),
    "error of one transport": (
        400,
        b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}',
    ),
}
"""What servers answer to a request whose session they do not know."""


@pytest.mark.parametrize(("status", "body"), UNKNOWN.values(), ids=UNKNOWN)
@req("HTTP-23", "HTTP-20")
def test_a_session_that_ran_out_is_opened_again_and_the_request_sent_once_more(
    row: Revision, status: int, body: bytes
) -> None:
    async def main() -> None:
        server = Forgetful(row, {"tools/call": text("x"), "logging/setLevel": {}}, body, status)
        async with serve(server) as raw:
            async with mcprev.connect(mcprev.http(raw.url), mode=row.name) as client:
                await client.set_log_level("debug")
                await client.call_tool("before")
                server.known.clear()
                await client.call_tool("after")
                assert client.reopened == 1
                assert client.revision == row.name
            calls = raw.asked(method="tools/call")
            sessions = [call.headers["mcp-session-id"] for call in calls]
            assert sessions == ["s1", "s1", "s2"]
            assert [call.message["params"]["name"] for call in calls] == ["before", "after", "after"]
            assert [seen.headers["mcp-session-id"] for seen in raw.asked(method="logging/setLevel")] == [
                "s1",
                "s2",
            ]
            # What ran out needs no ending.
            assert [seen.headers["mcp-session-id"] for seen in raw.asked("DELETE")] == ["s2"]

    run(main())


@pytest.mark.parametrize("lost", [1, 9])
@req("HTTP-23")
def test_a_new_session_that_runs_out_as_the_log_level_is_told_again_counts_as_an_attempt(
    row: Revision, lost: int
) -> None:
    """As behind a balancer that gives each request to another server."""

    async def main() -> None:
        async def forget_new(response_stream: Exchange) -> None:
            if 1 < server.opened <= 1 + lost:
                server.known.clear()
                await response_stream.respond(404)
            else:
                await response_stream.result({})

        server = Forgetful(row, {"tools/call": text("x"), "logging/setLevel": forget_new})
        target, again = serve(server), mcprev.ReconnectPolicy(limit=3, backoff=0.01)
        async with (
            target as raw,
            mcprev.connect(mcprev.http(raw.url), mode=row.name, restart=again) as client,
        ):
            await client.set_log_level("debug")
            server.known.clear()
            if lost == 1:
                await client.call_tool("after")
            else:
                with pytest.raises(ConnectionLost, match="not opened again"):
                    await client.call_tool("after")
            assert server.opened == 1 + min(lost + 1, 4)

    run(main())


@req("HTTP-23")
def test_many_calls_at_once_open_one_session(row: Revision) -> None:
    async def main() -> None:
        server = Forgetful(row, {"tools/call": text("x")})
        async with serve(server) as raw, mcprev.connect(mcprev.http(raw.url), mode=row.name) as client:
            for _ in range(3):
                server.known.clear()
                await asyncio.gather(*(client.call_tool("t") for _ in range(20)))
            assert server.opened == 4

    run(main())


@req("HTTP-23")
def test_a_session_that_runs_out_at_once_is_not_opened_for_ever(row: Revision) -> None:
    async def main() -> None:
        async def forget(response_stream: Exchange) -> None:
            await response_stream.respond(404)

        async with connected(row, {"tools/call": forget}) as (client, _, raw):
            with pytest.raises(SessionExpired):
                await client.call_tool("t")
            assert len(raw.asked(method="tools/call")) == 2

    run(main())


@req("HTTP-23")
def test_a_restart_both_breaks_the_answer_and_forgets_the_session(row: Revision) -> None:
    """What may be sent once more is: after the connection that broke, and after the session that is not known."""

    async def main() -> None:
        async def stop(response_stream: Exchange) -> None:
            if server.opened == 1:
                server.known.clear()
                response_stream.cut()
            else:
                await response_stream.result({"tools": []})

        server = Forgetful(row, {"tools/list": stop})
        async with serve(server) as raw:
            target = mcprev.http(raw.url)
            async with mcprev.connect(target, mode=row.name) as client:
                assert (await client.list_tools(retry=True)).tools == []
                assert client.reopened == 1
            asked = raw.asked(method="tools/list")
            assert [seen.headers["mcp-session-id"] for seen in asked] == ["s1", "s1", "s2"]

    run(main())


NOT_THE_SESSION = {
    "other text": (400, b"Bad Request: No valid name provided"),
    "text about it in another status": (500, NO_VALID_SESSION),
    "longer text": (400, NO_VALID_SESSION + b" to the tool"),
}


@pytest.mark.parametrize(("status", "body"), NOT_THE_SESSION.values(), ids=NOT_THE_SESSION)
@req("HTTP-23")
def test_a_request_that_is_refused_for_another_reason_is_not_sent_again(
    row: Revision, status: int, body: bytes
) -> None:
    async def main() -> None:
        async def refuse(response_stream: Exchange) -> None:
            await response_stream.respond(status, body)

        async with connected(row, {"tools/call": refuse}) as (client, _, raw):
            with pytest.raises(mcprev.HttpStatusError):
                await client.call_tool("t")
            assert client.reopened == 0
            assert len(raw.asked(method="tools/call")) == 1

    run(main())


@req("HTTP-23")
def test_a_method_that_is_not_found_says_nothing_of_the_session(row: Revision) -> None:
    async def main() -> None:
        async def unknown(response_stream: Exchange) -> None:
            await response_stream.error(-32601, 404)

        async with connected(row, {"tools/call": unknown}) as (client, _, raw):
            with pytest.raises(mcprev.MethodNotFound):
                await client.call_tool("t")
            assert client.reopened == 0
            assert len(raw.asked(method="initialize")) == 1

    run(main())


@pytest.mark.parametrize(("status", "body"), [(404, b""), (400, NO_VALID_SESSION)])
@req("HTTP-23")
def test_without_a_session_nothing_can_run_out(row: Revision, status: int, body: bytes) -> None:
    async def main() -> None:
        async def lost(response_stream: Exchange) -> None:
            await response_stream.respond(status, body)

        async with connected(row, {"tools/call": lost}, session=None) as (client, _, raw):
            with pytest.raises(mcprev.HttpStatusError):
                await client.call_tool("t")
            assert len(raw.asked(method="initialize")) == 1

    run(main())


@req("HTTP-23", "SUB-7", "SUB-5")
@pytest.mark.parametrize(("status", "body"), [(404, b""), (400, NO_VALID_SESSION)])
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_a_stream_that_is_not_found_any_more_tells_it_to_whoever_listens(
    row: Revision, status: int, body: bytes
) -> None:
    """HTTP-23: nobody calls, but the server's stream is refused, so that the session is opened again for the listener."""

    async def main() -> None:
        async def listen(response_stream: Exchange) -> None:
            streams.append(response_stream)
            await response_stream.stream()
            await response_stream.gone.wait()

        streams: list[Exchange] = []
        server = Forgetful(
            row, {"GET": listen, "resources/subscribe": {}, "resources/unsubscribe": {}}, body, status
        )
        async with (
            serve(server) as raw,
            mcprev.connect(mcprev.http(raw.url), mode=row.name) as client,
            client.listen(uris=["a:1"]) as changes,
        ):
            await until(lambda: len(streams) == 1)
            server.known.clear()
            streams[0].cut()
            assert await anext(changes) == mcprev.Change(mcprev.Changed.RESOURCE, "a:1")
            assert client.reopened == 1
            subscribed = raw.asked(method="resources/subscribe")
            assert [seen.headers["mcp-session-id"] for seen in subscribed] == ["s1", "s2"]

    run(main())


# -- the end ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 202, 204, 404, 405, 500, None])
@req("HTTP-24")
def test_a_session_is_ended_whatever_the_server_says_to_that(row: Revision, status: int | None) -> None:
    async def main() -> None:
        async def end(response_stream: Exchange) -> None:
            if status is None:
                response_stream.cut()
            else:
                await response_stream.respond(status)

        async with connected(row, {"DELETE": end}) as (client, _, raw):
            pass
        # What does no harm twice is sent once more when an old connection breaks under it.
        ended = len(raw.asked("DELETE"))
        assert ended == 1 or (status is None and ended == 2)
        await client.aclose()
        assert len(raw.asked("DELETE")) == ended

    run(main())


@req("HTTP-24")
def test_a_server_that_does_not_answer_does_not_hold_up_the_end(
    row: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcprev.transports.http.client.streamable.DELETE_TIMEOUT", 0.05)

    async def main() -> None:
        async def silent(response_stream: Exchange) -> None:
            await response_stream.gone.wait()

        replies: dict[str, Reply] = {"DELETE": silent, "tools/call": silent, "GET": silent}
        async with connected(row, replies) as (client, _, raw):
            task = asyncio.create_task(client.call_tool("t"))
            await until(lambda: bool(raw.asked(method="tools/call")))
        with pytest.raises(ConnectionLost):
            await task

    run(main(), has_both_ends=True)


@req("LIFE-16", "HTTP-24")
def test_closing_from_any_task_and_more_than_once(row: Revision) -> None:
    async def main() -> None:
        async with serve(Mcp(row, {"tools/call": text("x")})) as raw:
            client = await mcprev.connect(mcprev.http(raw.url), mode=row.name)
            await client.call_tool("t")
            await asyncio.gather(client.aclose(), asyncio.create_task(client.aclose()), client.aclose())
            with pytest.raises((ConnectionLost, LocalProtocolError)):
                await client.call_tool("t")
            await until(lambda: raw.open == 0)

    run(main())


@req("HTTP-24", everywhere=True)
def test_a_session_of_the_users_is_used_and_left_open() -> None:
    async def main() -> None:
        async with aiohttp.ClientSession(headers={"X-From": "user"}) as session, serve(Mcp(LATEST)) as raw:
            for _ in range(2):
                target = mcprev.http(raw.url, session=session)
                async with mcprev.connect(target, mode=LATEST.name) as client:
                    await client.ping()
            assert not session.closed
            assert {seen.headers["x-from"] for seen in raw.seen} == {"user"}
            assert raw.connections == 1

    run(main())


@req("ERR-5", everywhere=True)
def test_a_session_that_its_user_closed_is_a_lost_connection() -> None:
    async def main() -> None:
        async with serve(Mcp(LATEST)) as raw:
            session = aiohttp.ClientSession()
            async with mcprev.connect(mcprev.http(raw.url, session=session), mode=LATEST.name) as client:
                await session.close()
                with pytest.raises(ConnectionLost):
                    await client.ping()

    run(main())


@pytest.mark.slow
@req("HTTP-24", "HTTP-27", everywhere=True)
def test_opening_and_closing_leaves_nothing() -> None:
    async def main() -> None:
        async with serve(Mcp(SESSIONS[-1], {"tools/call": text("x")})) as raw:
            counts: list[int] = []
            for number in range(40):
                async with mcprev.connect(mcprev.http(raw.url), mode=SESSIONS[-1].name) as client:
                    await client.call_tool("t")
                if number in (19, 39):
                    gc.collect()
                    names = ("HttpConnection", "ClientSession", "Client", "Requests")
                    counts.append(sum(type(found).__name__ in names for found in gc.get_objects()))
            await until(lambda: raw.open == 0)
            assert counts[1] <= counts[0] + 4

    run(main())


# -- giving up -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "timeout"])
@req("CANC-7", "HTTP-9", "CONV-40")
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_giving_up_is_said_by_a_message_in_a_session(row: Revision, how: str) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            await response_stream.stream()
            started.set()
            await cancelled.wait()
            await response_stream.end()

        async def cancel(response_stream: Exchange) -> None:
            assert not raw.asked(method="tools/call")[0].gone.is_set()
            await response_stream.respond(202)
            cancelled.set()

        started, cancelled = asyncio.Event(), asyncio.Event()
        replies: dict[str, Reply] = {"tools/call": called, "notifications/cancelled": cancel}
        async with connected(row, replies) as (client, _, raw):
            await give_up(client, how, started)
            await cancelled.wait()
            (call,) = raw.asked(method="tools/call")
            (message,) = raw.asked(method="notifications/cancelled")
            assert message.message["params"]["requestId"] == call.message["id"]
            assert message.headers["mcp-session-id"] == "session-1"

    run(main())


async def give_up(client: mcprev.Client, how: str, started: asyncio.Event) -> None:
    """Call a tool and stop waiting for it."""
    if how == "timeout":
        with pytest.raises(RequestTimeout):
            await passing(5, client.call_tool("t", timeout=5), started.is_set)
        return
    task = asyncio.create_task(client.call_tool("t"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("how", ["cancel", "timeout"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "silence"])
@req("CANC-7", "HTTPM-6", "CANC-5", at=E)
def test_giving_up_closes_the_stream_in_the_stateless_era(how: str, stream: bool) -> None:
    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            if stream:
                await response_stream.stream()
            started.set()
            await response_stream.gone.wait()
            stopped.set()

        started, stopped = asyncio.Event(), asyncio.Event()
        replies: dict[str, Reply] = {
            "tools/call": called,
            "tools/list": {"tools": []},
            "prompts/list": {"prompts": []},
        }
        async with connected(LATEST, replies) as (client, _, raw):
            await client.list_tools()
            await give_up(client, how, started)
            began = asyncio.get_running_loop().time()
            await stopped.wait()
            assert asyncio.get_running_loop().time() - began < GRACE, "its closing is all that says so"
            await client.list_prompts()
            assert raw.asked(method="notifications/cancelled") == []

    run(main())


@req("CANC-3", "AMB-10")
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_whatever_comes_after_giving_up_has_no_effect(row: Revision) -> None:
    """AMB-10: a cancelled request may be answered with an error in JSON, as its exchange has to end somehow."""

    async def main() -> None:
        async def called(response_stream: Exchange) -> None:
            started.set()
            await cancelled.wait()
            await response_stream.error(-32800)

        async def cancel(response_stream: Exchange) -> None:
            await response_stream.respond(202)
            cancelled.set()

        started, cancelled = asyncio.Event(), asyncio.Event()
        replies: dict[str, Reply] = {
            "tools/call": called,
            "notifications/cancelled": cancel,
            "prompts/list": {"prompts": []},
        }
        async with connected(row, replies, handler=Helpful()) as (client, _, _):
            await give_up(client, "cancel", started)
            await cancelled.wait()
            await client.list_prompts()

    run(main())


# -- order -----------------------------------------------------------------------------------------------


@req("LIFE-5", "LIFE-6")
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_nothing_overtakes_the_confirmation(row: Revision) -> None:
    """LIFE-8: servers in the wild refuse requests that come before it, and connections can overtake each other."""

    async def main() -> None:
        async def confirm(response_stream: Exchange) -> None:
            await asyncio.sleep(0.05)
            assert [seen.method for seen in raw.seen] == ["initialize", "notifications/initialized"]
            await response_stream.respond(202)

        replies: dict[str, Reply] = {"notifications/initialized": confirm, "tools/call": text("x")}
        async with connected(row, replies) as (client, _, raw):
            await client.call_tool("t")
            assert raw.seen[1].method == "notifications/initialized"

    run(main())


@req("LIFE-5", at=tuple(row.name for row in SESSIONS))
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_a_server_that_refuses_the_confirmation_is_asked_all_the_same(row: Revision) -> None:
    async def main() -> None:
        async def confirm(response_stream: Exchange) -> None:
            await response_stream.respond(500)

        replies: dict[str, Reply] = {"notifications/initialized": confirm, "tools/call": text("x")}
        async with connected(row, replies) as (client, _, _):
            await client.call_tool("t")

    run(main())
