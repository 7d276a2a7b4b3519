"""One client takes all connections of a bridge that it can get, and another one is served (SEC-6, TIME-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from bridge.hands import Servers, Upstream, bridge_to, capabilities_of, text
from bridge.joining import ends, joined
from fuzz.fuzzing import each_once
from helpers.asgi_bridge import Client, Exchange, initialize
from helpers.flooding import ended, two, ways
from helpers.requirements import req
from helpers.running import run, until
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.upstreams import Bounds
from mcprev.revisions import DEFAULT, Revision

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
there_ = pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)
FLOOD: Final = 70
"""Attempts of the client that floods."""
SMALL: Final = Bounds(upstreams=8)
NEW: Final = {"mcp-session-id": None, "mcp-protocol-version": None}
"""The headers of who opens one more session."""
stateless = pytest.mark.parametrize("row", [MODERN], ids=lambda row: row.name)
sessions = pytest.mark.parametrize(
    "row", [row for row in DEFAULT[1:] if row.handshake], ids=lambda row: row.name
)


async def _quick(_server: Upstream, _request: Any) -> dict[str, Any]:
    return text("done")


async def _slow(_server: Upstream, _request: Any) -> None:
    await asyncio.Event().wait()


TOOLS: Final[dict[str, Any]] = {"quick": _quick, "slow": _slow}
LISTED: Final = {
    "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
}


def one(there: Revision, bounds: Bounds | None) -> tuple[Bridge, str, Callable[[], list[Any]]]:
    """A bridge of one server, the prefix of its tools, and the connections to it."""
    servers = Servers(lambda: Upstream(there, TOOLS, LISTED))
    return bridge_to(servers, there, bounds=bounds), "", lambda: servers.made


def several(there: Revision, bounds: Bounds | None) -> tuple[Bridge, str, Callable[[], list[Any]]]:
    """A bridge of two servers."""
    servers = ends(there, "a", "b", works=TOOLS, a=LISTED, b=LISTED)
    return joined(servers, there, bounds=bounds), "a__", lambda: servers["a"].made


bridges = pytest.mark.parametrize("make", [one, several])


def open_(made: list[Any]) -> int:
    return sum(not server.lost for server in made)


async def end(exchanges: list[Exchange]) -> None:
    for exchange in exchanges:
        exchange.disconnect()
    await asyncio.wait({exchange.task for exchange in exchanges})


def declaring(number: int, row: Revision) -> dict[str, Any]:
    """A set of capabilities that no other number has, of a client that can be asked."""
    return {**capabilities_of(row), "experimental": {f"x{number}": {}}}


@each_once
@req("SEC-6", "TIME-1")
@sessions
@there_
@bridges
@ways
@pytest.mark.parametrize("bounds", [None, SMALL], ids=["default", "small"])
def test_who_opens_many_sessions_and_uses_none_keeps_nobody_out(
    make: Any, row: Revision, there: Revision, way: str, bounds: Bounds | None
) -> None:
    async def main() -> None:
        bridge, prefix, made = make(there, bounds)
        async with two(bridge, row, way) as (flood, honest):
            for number in range(FLOOD):
                opened = await flood.post(initialize(row, number), NEW).done()
                assert opened.result, "the session that was unused the longest makes room"
                assert opened.headers["mcp-session-id"] != flood.session["mcp-session-id"]
            assert open_(made()) <= 1 + (16 if bounds is None else 4)
            assert (await honest.call(prefix + "quick").done()).text == '"done"'
            assert (await flood.call(prefix + "quick").done()).text == '"done"', "its first session goes on"

    run(main())


@each_once
@req("SEC-6", "TIME-1")
@sessions
@there_
@bridges
@ways
def test_who_is_served_in_many_sessions_keeps_nobody_out(
    make: Any, row: Revision, there: Revision, way: str
) -> None:
    async def main() -> None:
        bridge, prefix, made = make(there, SMALL)
        async with two(bridge, row, way) as (flood, honest):
            clients: list[Client] = []
            for _ in range(2 * SMALL.upstreams):
                more = Client(flood.app, **flood.scope)
                more.session.update({"who": flood.session["who"]} if "who" in flood.session else {})
                clients.append(await more.open(row))
            busy = [(client, [client.call(prefix + "slow", id_=0)]) for client in clients]
            await until(lambda: sum(bool(server.asked("tools/call")) for server in made()) == SMALL.share)
            assert open_(made()) <= 1 + SMALL.share
            assert (await honest.call(prefix + "quick").done()).text == '"done"'
            for client, exchanges in busy:
                await ended(client, exchanges)

    run(main())


@each_once
@req("SEC-6", "TIME-1")
@stateless
@there_
@bridges
@ways
@pytest.mark.parametrize("what", ["slow", "listen"])
@pytest.mark.parametrize("bounds", [None, SMALL], ids=["default", "small"])
def test_sets_of_capabilities_and_streams_take_the_connections_of_one_client_only(
    make: Any, row: Revision, there: Revision, way: str, what: str, bounds: Bounds | None
) -> None:
    flooded(make, row, there, way, what, bounds)


@req("SEC-6", "TIME-1")
@pytest.mark.parametrize("what", ["slow", "listen"])
def test_nothing_but_its_share_keeps_an_address_from_all_connections_to_a_server_with_sessions(
    what: str,
) -> None:
    """Of the combinations above, these are refused by no other bound first, so each of them is tried always."""
    flooded(one, MODERN, SESSION, "address", what, SMALL)


def flooded(make: Any, row: Revision, there: Revision, way: str, what: str, bounds: Bounds | None) -> None:
    async def main() -> None:
        bridge, prefix, made = make(there, bounds)
        async with two(bridge, row, way) as (flood, honest):
            assert (await honest.call(prefix + "quick").done()).text == '"done"'
            busy: list[Exchange] = []
            for number in range(FLOOD):
                stamp = {"clientCapabilities": declaring(number, row)}
                if what == "slow":
                    busy.append(flood.call(prefix + "slow", id_=number, **stamp))
                else:
                    wanted = {"notifications": {"toolsListChanged": True}}
                    busy.append(flood.request("subscriptions/listen", wanted, number, **stamp))
            await asyncio.sleep(1)
            assert open_(made()) <= 2 + (16 if bounds is None else 4)
            for number in range(3):
                stamp = {"clientCapabilities": declaring(number, row)}
                assert (await honest.call(prefix + "quick", **stamp).done()).text == '"done"'
            await end(busy)

    run(main())
