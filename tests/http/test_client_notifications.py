"""What a client sends without expecting a result, to servers that leave it unanswered: order, bounds, and what is logged.

HTTP-5, CANC-7, LIFE-8, SEC-6, TIME-1. The servers are real and never answer some of the POSTs.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import pytest

import mcprev
from helpers.raw_server import EVERYTHING, INFO, Exchange, Raw, Reply, connected, text
from helpers.requirements import D, req
from helpers.running import pass_time, run, until
from mcprev.core.limits import CLOSE
from mcprev.errors import McpError
from mcprev.protocol.engine import CANCELLED
from mcprev.revisions import DEFAULT, revision_named
from mcprev.transports.http.client import connection as module
from mcprev.transports.http.client.connection import (
    ASIDE,
    GRACE,
    MAX_IN_FLIGHT,
    PATIENCE,
    UNORDERED,
    HttpConnection,
)
from mcprev.wire.sse import encode_message
from mcprev_types.latest import models as m

ROW: Final = revision_named(D)
SESSIONS: Final = [row for row in DEFAULT if row.handshake]
LEFT: Final = "x/left"
"""A notification that depends on an order, as far as anybody knows, and that the server leaves unanswered."""
PAYLOAD: Final = "a secret of the user"


async def leave(exchange: Exchange) -> None:
    await exchange.gone.wait()


@asynccontextmanager
async def leaving(
    *methods: str, replies: dict[str, Reply] | None = None
) -> AsyncGenerator[tuple[mcprev.Client, Raw, HttpConnection], None]:
    """A client whose server leaves some methods unanswered."""
    answers: dict[str, Reply] = {**dict.fromkeys(methods, leave), **(replies or {})}
    async with connected(ROW, answers) as (client, _, raw):
        yield client, raw, cast("HttpConnection", client.session.connection)


def sent(raw: Raw, *methods: str) -> list[Any]:
    """The number of each notification that has arrived."""
    found = [seen for seen in raw.asked() if seen.method in methods]
    return [seen.message.get("params", {}).get("number") for seen in found]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about messages that the server did not accept."""
    assert PAYLOAD not in caplog.text
    found = [
        record for record in caplog.records if record.getMessage().startswith("the server did not accept")
    ]
    assert {record.levelno for record in found} <= {logging.WARNING}
    return [record.getMessage() for record in found]


def unfinished(connection: HttpConnection) -> int:
    """The number of messages that wait or are in flight."""
    return sum(len(messages) for messages in connection._orders.values())


def notify(client: mcprev.Client, method: str, number: int) -> None:
    client.session.notify(method, {"number": number, "requestId": number, "secret": PAYLOAD})


@req("CANC-7", "HTTP-5", at=D)
@pytest.mark.parametrize("method", UNORDERED)
def test_what_depends_on_no_order_is_sent_at_once(method: str) -> None:
    """Whatever is unanswered before it, of its own kind too."""

    async def main() -> None:
        async with leaving(LEFT, method) as (client, raw, _):
            began = asyncio.get_running_loop().time()
            notify(client, LEFT, 0)
            for number in range(20):
                notify(client, method, number)
            await until(lambda: len(sent(raw, method)) == 20)
            assert sorted(sent(raw, method)) == list(range(20))
            assert asyncio.get_running_loop().time() - began < GRACE

    run(main(), has_both_ends=True)


@req("CANC-7", "HTTP-5")
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_every_call_that_is_cancelled_is_cancelled_on_the_server_at_once(row: Any) -> None:
    async def main() -> None:
        replies: dict[str, Reply] = {CANCELLED: leave, "tools/call": leave}
        async with connected(row, replies) as (client, _, raw):
            calls = [asyncio.create_task(client.call_tool("t")) for _ in range(20)]
            await until(lambda: len(raw.asked(method="tools/call")) == 20)
            for call in calls:
                call.cancel()
            await until(lambda: len(raw.asked(method=CANCELLED)) == 20)
            ids = {seen.message["params"]["requestId"] for seen in raw.asked(method=CANCELLED)}
            assert ids == {seen.message["id"] for seen in raw.asked(method="tools/call")}
            await asyncio.wait(calls)

    run(main(), has_both_ends=True)


@req("HTTP-5", at=D)
def test_other_notifications_keep_their_order() -> None:
    """Each is sent when the server has answered the one before it."""
    answer = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await answer.wait()
        await exchange.respond(202)

    async def main() -> None:
        async with leaving(replies={LEFT: slow}) as (client, raw, _):
            for number in range(5):
                notify(client, LEFT if number < 2 else "x/other", number)
            await until(lambda: bool(sent(raw, LEFT)))
            await asyncio.sleep(0.05)
            assert sent(raw, LEFT, "x/other") == [0]
            answer.set()
            await until(lambda: len(sent(raw, LEFT, "x/other")) == 5)
            assert sent(raw, LEFT, "x/other") == [0, 1, 2, 3, 4]

    run(main(), has_both_ends=True)


@req("LIFE-8", "LIFE-5", at=D)
@pytest.mark.parametrize("method", [*UNORDERED, LEFT])
def test_no_notification_overtakes_the_confirmation(method: str) -> None:
    confirmed = asyncio.Event()

    async def confirm(exchange: Exchange) -> None:
        await confirmed.wait()
        await exchange.respond(202)

    async def main() -> None:
        async with leaving(replies={"notifications/initialized": confirm}) as (client, raw, _):
            notify(client, method, 1)
            await until(lambda: bool(raw.asked(method="notifications/initialized")))
            await asyncio.sleep(0.05)
            assert sent(raw, method) == []
            confirmed.set()
            await until(lambda: sent(raw, method) == [1])

    run(main(), has_both_ends=True)


@req("LIFE-8", "SEC-6", at=D)
def test_however_many_wait_for_it_the_confirmation_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)

    async def main() -> None:
        async with leaving("notifications/initialized") as (client, raw, _):
            await until(lambda: bool(raw.asked(method="notifications/initialized")))
            for number in range(9):
                notify(client, CANCELLED, number)
            await asyncio.sleep(0.05)
            (confirmation,) = raw.asked(method="notifications/initialized")
            assert not confirmation.gone.is_set()
            assert sent(raw, CANCELLED) == []

    run(main(), has_both_ends=True)


@req("CANC-7", "HTTP-5", "SEC-6", at=D)
@pytest.mark.parametrize("method", [*UNORDERED, LEFT])
def test_however_many_are_sent_at_once_all_reach_a_server_that_answers(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """More than may be in flight wait their turn, on few connections."""
    count = 3 * MAX_IN_FLIGHT

    async def main() -> None:
        async with connected(ROW) as (client, _, raw):
            connection = cast("HttpConnection", client.session.connection)
            await until(lambda: connection._confirmation is None)
            before = raw.connections
            for number in range(count):
                notify(client, method, number)
            await until(lambda: len(sent(raw, method)) == count)
            assert sorted(sent(raw, method)) == list(range(count))
            assert raw.connections - before <= (MAX_IN_FLIGHT if method != LEFT else 1)
            await until(lambda: not connection._orders)
            assert not connection._in_flight
        assert said(caplog) == []

    run(main())


@req("CANC-7", "SEC-6", at=D)
def test_the_confirmation_releases_all_that_wait_for_it() -> None:
    """At once, whatever is unanswered among them; also those handed over while the server's stream is opened."""

    async def main() -> None:
        async with leaving(LEFT, CANCELLED) as (client, raw, _):
            notify(client, LEFT, 0)
            for number in range(5):
                notify(client, CANCELLED, number)
            await until(lambda: bool(raw.asked("GET")) and len(sent(raw, CANCELLED)) == 5)
            assert sorted(sent(raw, CANCELLED)) == list(range(5))

    run(main(), has_both_ends=True)


@req("SEC-6", "TIME-1", at=D)
@pytest.mark.parametrize("method", UNORDERED)
def test_what_a_server_leaves_unanswered_makes_room_for_what_waits(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a while, so that a message reaches a server that reads and does not answer."""
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 5)

    async def main() -> None:
        async with leaving(method) as (client, raw, connection):
            await until(lambda: connection._confirmation is None)
            began = connection.now()
            for number in range(13):
                notify(client, method, number)
            await until(lambda: len(sent(raw, method)) == 13)
            assert sorted(sent(raw, method)[:5]) == list(range(5))
            assert sorted(sent(raw, method)[5:10]) == list(range(5, 10))
            assert 2 * PATIENCE <= connection.now() - began < GRACE
            assert len(connection._in_flight) == 3
            assert said(caplog) == [
                f"the server did not accept '{method}': no response within 1 s, and other messages wait"
            ]
            await until(lambda: not connection._orders)
            began = connection.now()
            for number in range(13, 26):
                notify(client, method, number)
            await until(lambda: len(sent(raw, method)) == 26)
            assert connection.now() - began < GRACE
        assert said(caplog)[1:] == [f"the server did not accept further messages: 25 of '{method}'"]

    run(main(), has_both_ends=True)


@req("SEC-6", at=D)
def test_what_is_in_flight_makes_no_room_while_the_server_answers_some(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 3)

    async def some(exchange: Exchange) -> None:
        if exchange.message["params"]["number"] < 2:
            await exchange.gone.wait()
        await asyncio.sleep(PATIENCE * 0.5)
        await exchange.respond(202)

    async def main() -> None:
        async with leaving(replies={CANCELLED: some}) as (client, raw, connection):
            await until(lambda: connection._confirmation is None)
            for number in range(8):
                notify(client, CANCELLED, number)
            await until(lambda: len(sent(raw, CANCELLED)) == 8)
            assert said(caplog) == []

    run(main(), has_both_ends=True)


@req("SEC-6", "AUTH-22", at=D)
def test_nothing_makes_room_while_a_user_logs_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server has not seen what waits for the login."""
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 2)

    async def main() -> None:
        async with leaving(CANCELLED) as (client, raw, connection):
            await until(lambda: connection._confirmation is None)
            with connection.timeouts.paused():
                for number in range(4):
                    notify(client, CANCELLED, number)
                await asyncio.sleep(3 * PATIENCE)
                assert said(caplog) == []
                assert len(sent(raw, CANCELLED)) == 2
            await until(lambda: len(sent(raw, CANCELLED)) == 4)

    run(main(), has_both_ends=True)


@req("SEC-6", at=D)
@pytest.mark.parametrize("method", [*UNORDERED, LEFT])
@pytest.mark.parametrize("confirmed", [True, False])
def test_few_messages_wait_and_what_is_given_up_is_logged_once_for_a_burst(
    method: str, confirmed: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has methods and numbers, no payload. Notifications of an order do not crowd out those without one."""
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 5)
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    monkeypatch.setattr(module, "PATIENCE", GRACE)
    unanswered = [LEFT, method] if confirmed else ["notifications/initialized"]
    kept = 10 if method == LEFT or not confirmed else 15
    kept -= method == LEFT and not confirmed  # behind the confirmation, which is of the same order

    async def main() -> None:
        async with leaving(*unanswered) as (client, raw, connection):
            await until(lambda: bool(raw.asked(method="notifications/initialized")))
            if confirmed:
                await until(lambda: connection._confirmation is None)
            before = unfinished(connection)
            for number in range(50):
                notify(client, method, number)
            await until(lambda: unfinished(connection) == before + kept)
            assert len(connection._in_flight) <= 5
            assert said(caplog) == [f"the server did not accept '{method}': more than 10 messages wait"]
            if confirmed and method == LEFT:
                notify(client, CANCELLED, 1)
                await until(lambda: sent(raw, CANCELLED) == [1])
        more = f"{49 - kept} of '{method}'"
        assert said(caplog)[1].startswith("the server did not accept further messages: ")
        assert any(f"{49} of '{method}'" in line or more in line for line in said(caplog)[1:])

    run(main(), has_both_ends=True)


@req("TIME-1", "SEC-6", at=D)
@pytest.mark.parametrize(("method", "seconds"), [*UNORDERED.items(), (LEFT, ASIDE)])
def test_the_wait_for_an_answer_has_a_bound(
    method: str, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """It begins when it is the message's turn: the one behind it in an order has its own."""

    async def main() -> None:
        async with leaving(method) as (client, raw, connection):
            await until(lambda: connection._confirmation is None)
            notify(client, method, 0)
            notify(client, method, 1)
            for numbers in [[0], [0, 1]] if method == LEFT else [[0, 1]]:

                def in_turn(numbers: list[int] = numbers) -> bool:
                    return sorted(sent(raw, method)) == numbers

                await until(in_turn)
                await asyncio.sleep(0.05)
                began, left = connection.now(), unfinished(connection)

                def fewer(left: int = left) -> bool:
                    return unfinished(connection) < left

                pass_time(seconds - 1)
                await asyncio.sleep(0.05)
                assert not fewer()
                pass_time(1)
                await until(fewer)
                assert connection.now() - began < seconds + 10
            await until(lambda: not connection._orders)
        why = f"it did not respond within {seconds:g} s"
        assert said(caplog)[0] == f"the server did not accept '{method}': {why}"

    run(main(), limit=120, has_both_ends=True)


@req("TIME-1", "HTTP-5", at=D)
def test_what_follows_a_notification_that_is_never_answered_is_sent() -> None:
    async def main() -> None:
        async with leaving(LEFT) as (client, raw, connection):
            for number in range(5):
                notify(client, LEFT if number == 0 else "x/other", number)
            await until(lambda: sent(raw, LEFT) == [0])
            assert sent(raw, "x/other") == []
            pass_time(ASIDE)
            await until(lambda: len(sent(raw, "x/other")) == 4)
            assert sent(raw, "x/other") == [1, 2, 3, 4]
            await until(lambda: not connection._orders)

    run(main(), limit=60, has_both_ends=True)


@req("LIFE-8", "SEC-6", at=D)
def test_what_waited_for_the_confirmation_leaves_the_bounds_of_the_rest_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 1)
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    monkeypatch.setattr(module, "PATIENCE", GRACE)

    async def main() -> None:
        async with leaving(CANCELLED) as (client, raw, connection):
            notify(client, CANCELLED, 0)
            await until(lambda: sent(raw, CANCELLED) == [0])
            for number in range(1, 10):
                notify(client, CANCELLED, number)
            await until(lambda: unfinished(connection) > 1)
            assert unfinished(connection) == 1 + 3
            await client.aclose()
            assert [*connection._orders, *connection._in_flight, *connection._ready] == []

    run(main(), has_both_ends=True)


@req("LIFE-8", "HTTP-5", at=D)
def test_what_has_an_order_does_not_wait_for_the_servers_stream() -> None:
    async def main() -> None:
        async with leaving("GET") as (client, raw, connection):
            await until(lambda: bool(raw.asked("GET")))
            notify(client, "x/other", 1)
            await until(lambda: sent(raw, "x/other") == [1])
            assert connection._confirmation is not None

    run(main(), has_both_ends=True)


@req("LIFE-8", at=D)
def test_an_answer_to_the_server_is_not_taken_for_the_confirmation() -> None:
    """A server may ask before it answers `initialize`: calls wait for the confirmation all the same."""

    async def open_(exchange: Exchange) -> None:
        result = {"protocolVersion": ROW.version, "capabilities": EVERYTHING, "serverInfo": INFO}
        await exchange.stream()
        ping = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
        messages = [ping, {**exchange.response, "result": result}]
        await exchange.send(b"".join(encode_message(json.dumps(each).encode()) for each in messages))
        await exchange.end()

    async def main() -> None:
        async def confirm(exchange: Exchange) -> None:
            await until(lambda: any("method" not in seen.message for seen in raw.asked()))
            await asyncio.sleep(0.05)
            assert raw.asked(method="tools/call") == []
            await exchange.respond(202)

        replies: dict[str, Reply] = {
            "initialize": open_, "notifications/initialized": confirm, "tools/call": text("x"),
        }  # fmt: skip
        async with connected(ROW, replies, session=None) as (client, _, raw):
            await client.call_tool("t")

    run(main(), has_both_ends=True)


@req("LIFE-16", "HTTP-5", at=D)
def test_a_server_that_answers_gets_all_that_waits_before_the_connection_ends() -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.01)
        await exchange.respond(202)

    async def main() -> None:
        async with leaving(replies={LEFT: slow}) as (client, raw, connection):
            await until(lambda: connection._confirmation is None)
            for number in range(4):
                notify(client, LEFT, number)
            await client.aclose()
            assert sent(raw, LEFT) == [0, 1, 2, 3]

    run(main(), has_both_ends=True)


@req("LIFE-16", "HTTP-5", at=D)
@pytest.mark.parametrize("end", ["closed", "expired"])
def test_the_end_of_the_connection_ends_all_that_wait(end: str, caplog: pytest.LogCaptureFixture) -> None:
    """After a moment, and the log says what was lost. `run` fails for a task that stays."""

    async def expire(exchange: Exchange) -> None:
        await exchange.respond(404)

    async def main() -> None:
        async with leaving(LEFT, CANCELLED, replies={"tools/call": expire}) as (client, raw, connection):
            for number in range(5):
                notify(client, LEFT, number)
                notify(client, CANCELLED, number)
            await until(lambda: len(sent(raw, CANCELLED)) == 5 and sent(raw, LEFT) == [0])
            if end == "expired":
                with suppress(McpError):
                    await client.call_tool("t")
            began = asyncio.get_running_loop().time()
            await client.aclose()
            assert asyncio.get_running_loop().time() - began < 2 * CLOSE + 1
            assert [*connection._orders, *connection._in_flight, *connection._ready] == []
            assert connection._burst is None
        assert said(caplog) == [
            f"the server did not accept '{LEFT}': the connection ends",
            f"the server did not accept further messages: 4 of '{LEFT}', 5 of '{CANCELLED}'",
        ]

    run(main(), has_both_ends=True)


@req("SEC-6", at=D)
def test_answers_that_a_server_does_not_take_are_bounded_and_stay_out_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server asks and asks: one that is refused, and one whose answer is a secret."""
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 4)
    monkeypatch.setattr(module, "MAX_WAITING", 6)

    class Handler(mcprev.ClientHandler):
        async def list_roots(self, ctx: Any, params: Any) -> Any:
            return m.ListRootsResult(roots=[m.Root(uri="file:///x", name=PAYLOAD)])

    async def ask(exchange: Exchange) -> None:
        await exchange.stream()
        for number in range(40):
            for method in ("roots/list", "x/unknown"):
                await exchange.event({"jsonrpc": "2.0", "id": f"{method}{number}", "method": method})
        await exchange.event({**exchange.response, "result": text("done")})
        await exchange.end()

    def answered(raw: Raw) -> set[str]:
        return {seen.message["id"] for seen in raw.asked() if "method" not in seen.message}

    async def main() -> None:
        replies: dict[str, Reply] = {"tools/call": ask, "answer": leave}
        async with connected(ROW, replies, handler=Handler()) as (client, _, raw):
            connection = cast("HttpConnection", client.session.connection)
            await client.call_tool("t")
            await until(lambda: len(answered(raw)) == 4)
            assert unfinished(connection) == 10
            assert len(connection._in_flight) == 4
        first, second = said(caplog)
        assert first == "the server did not accept 'a response': more than 6 messages wait"
        assert second == "the server did not accept further messages: 79 of 'a response'"

    run(main(), has_both_ends=True)
