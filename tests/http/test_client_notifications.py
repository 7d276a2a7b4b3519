"""What a client sends without expecting a result, to servers that leave it unanswered: order, bounds, and what is logged.

HTTP-5, CANC-7, LIFE-8, SEC-6, TIME-1. The servers are real and never answer some of the POSTs.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import pytest

import mcprev
from mcprev.core.limits import CLOSE
from mcprev.errors import McpError
from mcprev.protocol.engine import CANCELLED
from mcprev.revisions import DEFAULT, revision_named
from mcprev.transports.http.client import connection as module
from mcprev.transports.http.client.connection import ASIDE, GRACE, UNORDERED, HttpConnection
from mcprev_types.latest import models as m
from raw_server import Exchange, Raw, Reply, connected, text
from requirements import D, req
from running import pass_time, run, until

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
    """What was logged about messages that the server did not take."""
    assert PAYLOAD not in caplog.text
    found = [record for record in caplog.records if record.getMessage().startswith("the server did not take")]
    assert {record.levelno for record in found} <= {logging.WARNING}
    return [record.getMessage() for record in found]


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


@req("SEC-6", at=D)
@pytest.mark.parametrize("method", [*UNORDERED, LEFT])
def test_few_messages_wait_and_what_is_given_up_is_logged_once_for_a_burst(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest make room, so that the newest still reach the server; the log has methods and numbers, no payload."""
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    monkeypatch.setattr(module, "BURST", 3.0)

    async def main() -> None:
        async with leaving(LEFT, method) as (client, raw, connection):
            for number in range(50):
                notify(client, method, number)
                await asyncio.sleep(0.001)
                assert len(connection._asides) <= 10
            await until(lambda: set(sent(raw, method)) >= (set(range(40, 50)) if method != LEFT else {40}))
            await until(lambda: sum(not seen.gone.is_set() for seen in raw.asked(method=method)) <= 10)
            assert said(caplog) == [f"the server did not take '{method}': more than 10 messages wait"]
            pass_time(3.0)
            await until(lambda: len(said(caplog)) == 2)
            assert said(caplog)[1] == f"the server did not take more messages: 39 of '{method}'"
        assert said(caplog)[2:] == [
            f"the server did not take '{method}': the connection ends",
            f"the server did not take more messages: 9 of '{method}'",
        ]

    run(main(), has_both_ends=True)


@req("TIME-1", "SEC-6", at=D)
@pytest.mark.parametrize(("method", "seconds"), [*UNORDERED.items(), (LEFT, ASIDE)])
def test_the_wait_for_an_answer_has_a_bound(
    method: str, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """It is that of all which wait for their turn: the second of an order is not given as long again."""

    async def main() -> None:
        async with leaving(method) as (client, raw, connection):
            notify(client, method, 0)
            notify(client, method, 1)
            await until(lambda: bool(sent(raw, method)))
            await asyncio.sleep(0.05)
            assert len(connection._asides) == 2
            began = connection.now()
            pass_time(seconds - 1)
            await asyncio.sleep(0.05)
            assert len(connection._asides) == 2
            pass_time(1)
            await until(lambda: not connection._asides)
            assert connection.now() - began < seconds + 10
        why = f"it did not answer within {seconds:g} s"
        assert said(caplog)[0] == f"the server did not take '{method}': {why}"

    run(main(), limit=60, has_both_ends=True)


@req("TIME-1", "SEC-6", at=D)
def test_a_message_waits_no_longer_than_the_bound_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(ASIDE * 0.9)
        await exchange.respond(202)

    async def main() -> None:
        async with leaving(replies={LEFT: slow}) as (client, raw, connection):
            for number in range(3):
                notify(client, LEFT, number)
            await until(lambda: sent(raw, LEFT) == [0])
            pass_time(ASIDE * 0.91)
            await until(lambda: sent(raw, LEFT) == [0, 1])
            pass_time(ASIDE * 0.1)
            await until(lambda: not connection._asides)

    run(main(), limit=60, has_both_ends=True)


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
            assert connection._asides == {}
            assert connection._burst is None
        assert said(caplog) == [
            f"the server did not take '{LEFT}': the connection ends",
            f"the server did not take more messages: 5 of '{CANCELLED}', 4 of '{LEFT}'",
        ]

    run(main(), has_both_ends=True)


@req("SEC-6", at=D)
def test_answers_that_a_server_does_not_take_are_bounded_and_stay_out_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server asks and asks: one that is refused, and one whose answer is a secret."""
    monkeypatch.setattr(module, "MAX_WAITING", 10)

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
            await until(lambda: "roots/list39" in answered(raw))
            assert len(connection._asides) <= 10
        first, second = said(caplog)
        assert first == "the server did not take 'a response': more than 10 messages wait"
        assert second == "the server did not take more messages: 79 of 'a response'"

    run(main(), has_both_ends=True)
