"""Servers that die, stall or lie, and clients that go or do not read: each call ends typed, and nothing piles up."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import aiohttp
import pytest

import mcprev
from api.wire import Message, Reply
from bridge.hands import (
    ELICIT,
    Downstream,
    Servers,
    Upstream,
    bridge_to,
    bridged,
    question,
    said,
    text,
)
from bridge.insides import front_of, stateless_of
from fuzz.fuzzing import each_once
from helpers.http_in_process import InProcess
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.bridge import relay
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.upstreams import Bounds
from mcprev.errors import ConnectionLost, ProcessExited
from mcprev.protocol.subscriptions import CHANGES
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.memory import MemoryTransport

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
INTRODUCTION: Final = {
    "protocolVersion": SESSION.version,
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
each_cell = pytest.mark.parametrize(
    ("row", "there"),
    [(row, there) for row in (SESSION, MODERN) for there in (SESSION, MODERN)],
    ids=lambda row: row.name,
)
each_client = pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)


async def dies(up: Upstream, request: Message) -> None:
    await up.aclose()


async def stalls(up: Upstream, request: Message) -> None:
    await asyncio.Event().wait()


async def works(up: Upstream, request: Message) -> Message:
    return text("works")


async def asks(up: Upstream, request: Message) -> Message:
    return await up.asking(request, question(up.revision, "form"))


async def twice(up: Upstream, request: Message) -> Message:
    for id_ in (request["id"] + 1000, "nonsense", request["id"]):
        up.send({"jsonrpc": "2.0", "id": id_, "result": up.complete("tools/call", text(f"for {id_}"))})
    return text("a second answer")


async def floods(up: Upstream, request: Message) -> Message:
    for number in range(3_000):
        up.logs(request, "error", f"{number} " + "x" * 1_000)
        if number % 100 == 0:
            await asyncio.sleep(0)
    return text("done")


TOOLS: Final = {function.__name__: function for function in (dies, stalls, works, asks, twice, floods)}


def ends(row: Revision, there: Revision, **replies: Any) -> tuple[Downstream, Servers]:
    return Downstream(row), Servers(lambda: Upstream(there, TOOLS, replies))


def opened(servers: Servers) -> list[Upstream]:
    return cast("list[Upstream]", servers.made)


# -- servers -----------------------------------------------------------------------------------------------


@req("SEAM-10", "TIME-1", at=(SESSION.name, E))
@each_cell
def test_a_server_that_dies_fails_its_calls_and_is_replaced_with_the_next(
    row: Revision, there: Revision
) -> None:
    client, servers = ends(row, there)

    async def main() -> None:
        async with bridged(bridge_to(servers, there), client):
            # Calls of a stateless client have connections of their own at a server with sessions.
            own = not row.handshake and there.handshake
            several = [client.call(name) for name in (("dies",) if own else ("stalls", "stalls", "dies"))]
            for error in await asyncio.gather(*several):
                assert error["code"] == -32603
                assert "the server behind the bridge" in error["message"]
            before = len(servers.made)
            assert said(await client.call("works")) == "works"
            assert len(servers.made) >= before
            servers.check()

    run(main())


@req("LOG-2", "SUB-5", at=(SESSION.name, E))
@pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)
def test_a_session_is_restored_at_a_server_that_was_restarted(there: Revision) -> None:
    client, servers = ends(SESSION, there)

    async def main() -> None:
        replies: dict[str, Reply] = {"resources/subscribe": {}}
        servers._make = lambda: Upstream(there, TOOLS, replies)
        async with bridged(bridge_to(servers, there), client):
            await client.ask("logging/setLevel", {"level": "debug"})
            await client.ask("resources/subscribe", {"uri": "a:x"})
            await client.call("dies")
            assert said(await client.call("works")) == "works"
            second = opened(servers)[1]
            if there.handshake:
                assert second.asked("logging/setLevel") == [{"level": "debug"}]
                assert second.asked("resources/subscribe") == [{"uri": "a:x"}]
            else:
                await until(lambda: bool(second.listens))
                assert [wanted["resourceSubscriptions"] for _, wanted in second.listens] == [["a:x"]]
            wanted = {change.method for change in CHANGES.values()}
            await until(lambda: wanted <= {found.get("method") for found in client.got})

    run(main())


@req("TIME-1", "LIFE-18", at=(SESSION.name, E))
@each_cell
def test_a_server_that_stalls_is_told_and_the_call_ends(row: Revision, there: Revision) -> None:
    client, servers = ends(row, there)

    async def main() -> None:
        async with bridged(bridge_to(servers, there, bounds=Bounds(call=5)), client):
            error = await client.call("stalls")
            assert error["code"] == -32603
            assert "within" in error["message"]
            assert any("timeout" in reason for up in opened(servers) for reason in up.cancelled)

    run(main())


@req("BASE-5", "CANC-3", at=(SESSION.name, E))
@each_cell
def test_only_the_first_answer_to_a_call_counts(row: Revision, there: Revision) -> None:
    client, servers = ends(row, there)

    async def main() -> None:
        async with bridged(bridge_to(servers, there), client):
            assert "for " in said(await client.call("twice"))
            assert said(await client.call("works")) == "works"
            ids = [found["id"] for found in client.got if "id" in found]
            assert len(ids) == len(set(ids))

    run(main())


@req("SEAM-10", "CONV-36", at=(SESSION.name, E))
@pytest.mark.parametrize(("row", "there"), [(SESSION, MODERN), (MODERN, SESSION)], ids=lambda row: row.name)
def test_a_result_that_is_none_is_refused_with_its_path(row: Revision, there: Revision) -> None:
    client = Downstream(row)
    wrong = {"prompts": 5}
    servers = Servers(lambda: Upstream(there, TOOLS, {"prompts/list": wrong}))

    async def main() -> None:
        async with bridged(bridge_to(servers, there), client):
            error = (await client.ask("prompts/list", {})).error
            assert error["code"] == -32603
            assert "$.prompts" in error["message"]

    run(main())


class Unreachable:
    """A target that cannot be reached, and says a secret when it says why."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def open(self, *_: object) -> Any:
        raise self.error

    async def close(self) -> None:
        """There is nothing to close."""


@req("LIFE-3", "SEC-6", at=(SESSION.name, E))
@each_client
def test_a_server_that_cannot_be_reached_is_an_error_without_its_output(row: Revision) -> None:
    died = ProcessExited("the server process ended", returncode=3, stderr="password=hunter2")
    client = Downstream(row)

    async def main() -> None:
        bridge = Bridge(Unreachable(died))
        async with bridged(bridge, client, opened=False):
            method = "initialize" if row.handshake else "server/discover"
            params: Message = {
                "protocolVersion": row.version,
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            }
            for _ in range(2):
                error = (await client.ask(method, params if row.handshake else {})).error
                assert error["code"] == -32603
                assert "hunter2" not in json.dumps(error)
                assert "the server behind the bridge did not respond" in error["message"]

    run(main())


@asynccontextmanager
async def served(bridge: Bridge) -> AsyncGenerator[tuple[aiohttp.ClientSession, str], None]:
    """An aiohttp session whose requests the bridge serves, and the URL of its endpoint."""
    app = bridge.asgi()
    connector = InProcess(app)
    async with bridge.running(), aiohttp.ClientSession(connector=connector) as session:
        yield session, connector.origin + "/mcp"
    await app.aclose()


@req("HTTP-19", at=SESSION.name)
def test_a_failed_initialize_leaves_no_session_over_http() -> None:
    lost = ConnectionLost("nobody listens", in_flight=False, retry_safe=True)

    async def main() -> None:
        bridge = Bridge(Unreachable(lost))
        async with served(bridge) as (session, url):
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": SESSION.version,
                    "capabilities": {},
                    "clientInfo": {"name": "x", "version": "1"},
                },
            }
            headers = {"accept": "application/json, text/event-stream"}
            async with session.post(url, json=body, headers=headers) as response:
                found = await response.json()
                assert found["error"]["code"] == -32603
                assert "nobody listens" in found["error"]["message"]
                assert "mcp-session-id" not in response.headers

    run(main())


# -- clients -----------------------------------------------------------------------------------------------


@req("CANC-2", "STDIO-6", at=(SESSION.name, E))
@each_cell
def test_a_client_that_goes_in_a_call_leaves_nothing(row: Revision, there: Revision) -> None:
    client, servers = ends(row, there)

    async def main() -> None:
        bridge = bridge_to(servers, there, bounds=Bounds(idle=5))
        async with bridged(bridge, client):
            asked = asyncio.ensure_future(client.call("stalls"))
            await until(lambda: any(up._tasks for up in opened(servers)))
            await client.aclose()
            await until(lambda: any(up.cancelled or up.lost for up in opened(servers)))
            with pytest.raises(ConnectionError):
                await asked
            await asyncio.sleep(6)
            await until(lambda: all(up.lost for up in opened(servers)))
            relay = front_of(bridge).state
            assert len(relay.upstreams) == 0
            assert not relay.background

    run(main())


@req("CANC-2", at=(SESSION.name, E))
@each_cell
def test_a_client_that_goes_while_it_is_asked_leaves_nothing(row: Revision, there: Revision) -> None:
    client, servers = ends(row, there)
    client.replies[ELICIT] = lambda _: None

    async def main() -> None:
        bridge = bridge_to(servers, there, bounds=Bounds(idle=5, user=5))
        async with bridged(bridge, client):
            asked = asyncio.ensure_future(client.ask("tools/call", {"name": "asks"}))
            await until(lambda: any("elicitation" in json.dumps(found) for found in client.got))
            await client.aclose()
            asked.cancel()
            await asyncio.sleep(11)
            await until(lambda: all(up.lost for up in opened(servers)))
            stateless = stateless_of(bridge)
            assert not stateless.held

    run(main())


@pytest.mark.slow
@req("STDIO-9", "SEC-6", at=(SESSION.name, E))
@each_cell
@pytest.mark.parametrize("held", [True, False], ids=["the server waits", "until it has waited enough"])
@each_once
def test_a_client_that_does_not_read_pauses_its_server_for_some_time(
    row: Revision, there: Revision, monkeypatch: pytest.MonkeyPatch, *, held: bool
) -> None:
    """Then nothing is lost; after that, progress and log messages beyond a bound are."""
    client, servers = ends(row, there)
    if not held:
        monkeypatch.setattr(relay, "HOLD", 0.0)

    async def main() -> None:
        async with bridged(bridge_to(servers, there), client):
            if row.handshake:
                await client.ask("logging/setLevel", {"level": "debug"})
            await client.call("works")
            transport = cast("MemoryTransport", client._transport)
            transport.pause_reading()
            meta: Message = {} if row.handshake else {"io.modelcontextprotocol/logLevel": "debug"}
            asked = asyncio.ensure_future(client.ask("tools/call", {"name": "floods"}, meta=meta))
            await until(lambda: any({"name": "floods"} in up.asked("tools/call") for up in opened(servers)))
            await until(lambda: not any(up._tasks for up in opened(servers)))
            for _ in range(50):
                await asyncio.sleep(0)
            assert transport._size < 3 * relay.UNREAD if held else transport._size < 2 * relay.MOST
            transport.resume_reading()
            found = await asked
            assert said(found.result) == "done"
            got = len(found.notified("notifications/message"))
            assert got == 3_000 if held else 0 < got < 3_000

    run(main())


@req("TIME-1", at=SESSION.name)
def test_connections_are_bounded_and_the_unused_make_room() -> None:
    async def main() -> None:
        servers = Servers(lambda: Upstream(SESSION, TOOLS))
        bounds = Bounds(upstreams=2, wait=5)
        bridge = bridge_to(servers, SESSION, bounds=bounds)
        first, second, third = (Downstream(SESSION) for _ in range(3))
        async with bridged(bridge, first, second):
            connection = bridge.connection()
            from mcprev.transports.memory import connect_pair

            connect_pair(third, connection)
            error = (await third.ask("initialize", INTRODUCTION)).error
            assert error["code"] == -32603
            assert "no connection to the server was free" in error["message"]
            await first.aclose()
            await until(lambda: opened(servers)[0].lost)
            assert (await third.ask("initialize", INTRODUCTION)).result["protocolVersion"] == SESSION.version
            await connection.aclose()

    run(main())


@req("SEAM-10", at=SESSION.name)
def test_a_bridge_that_does_not_run_says_so() -> None:
    async def main() -> None:
        bridge = Bridge(mcprev.memory(Servers(lambda: Upstream(SESSION, TOOLS))))  # type: ignore[arg-type]
        client = Downstream(SESSION)
        from mcprev.transports.memory import connect_pair

        connection = bridge.connection()
        connect_pair(client, connection)
        assert "is not running" in (await client.ask("initialize", INTRODUCTION)).error["message"]
        await connection.aclose()

    run(main())


@req("LIFE-7", at=SESSION.name)
def test_nothing_overtakes_the_opening_of_a_session() -> None:
    """A server may announce a change as soon as its own session is open, before the client has confirmed."""

    class Eager(Upstream):
        def _take(self, message: Message) -> None:
            super()._take(message)
            if message.get("method") == "notifications/initialized":
                self.tell("notifications/tools/list_changed")

    client, servers = Downstream(SESSION), Servers(lambda: Eager(SESSION, TOOLS))

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client, opened=False):
            assert (await client.ask("initialize", INTRODUCTION)).result
            for _ in range(20):
                await asyncio.sleep(0)
            assert [found["id"] for found in client.got] == [client.got[0]["id"]]
            client.tell("notifications/initialized")
            await client.heard("notifications/tools/list_changed")

    run(main())


@req("SUB-5", "AMB-1", at=(SESSION.name, E))
def test_a_stream_of_changes_that_a_stateless_server_ends_is_opened_again() -> None:
    client, servers = ends(SESSION, MODERN)

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN), client):
            (up,) = opened(servers)
            await until(lambda: len(up.listens) == 1)
            for times in (2, 3):
                id_ = up.listens[-1][0]
                meta = {"io.modelcontextprotocol/subscriptionId": id_}
                up.send({"jsonrpc": "2.0", "id": id_, "result": {"resultType": "complete", "_meta": meta}})
                await client.heard("notifications/tools/list_changed")
                await until(lambda times=times: len(up.listens) == times)  # type: ignore[misc]

    run(main())


@req("TIME-1", "SUB-5", at=(SESSION.name, E))
def test_a_subscription_that_is_never_confirmed_is_an_error() -> None:
    class Silent(Upstream):
        def tell(self, method: str, params: Any = None) -> None:
            """It confirms nothing."""

    client, servers = Downstream(SESSION), Servers(lambda: Silent(MODERN, TOOLS))

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, bounds=Bounds(wait=5)), client):
            error = (await client.ask("resources/subscribe", {"uri": "a:x"})).error
            assert error["code"] == -32603
            assert "did not confirm" in error["message"]

    run(main())
