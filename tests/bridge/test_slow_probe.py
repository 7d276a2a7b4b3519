"""Servers that say nothing to the probe for their era, or answer it late: their clients do not wait for that."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from typing_extensions import override

from api.wire import Error, Message
from bridge.hands import Downstream, Servers, Upstream, bridged
from helpers.requirements import req
from helpers.running import run, until
from mcprev.bridge import upstreams
from mcprev.bridge.bridge import Bridge
from mcprev.client import probing
from mcprev.client.targets import Target
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.memory import memory

SESSIONS: Final = [row for row in DEFAULT if row.handshake]
SESSION, MODERN = SESSIONS[-1], DEFAULT[-1]
DISCOVER: Final = "server/discover"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "SOON", 1.0)


class Silent(Upstream):
    """A server with sessions that says nothing to what it does not know."""

    probes = 0

    @override
    def _take(self, message: Message) -> None:
        if message.get("method") == DISCOVER:
            self.probes += 1
        elif message.get("method") != "notifications/cancelled" or self.hello:
            super()._take(message)


def silent(row: Revision = SESSION) -> Servers:
    return Servers(lambda: Silent(row, {}, {"tools/list": {"tools": []}}))


def late(may_answer: asyncio.Event, asked: list[str]) -> Servers:
    """Servers without sessions that read nothing until they may, as those that are still starting."""

    class Late(Upstream):
        @override
        def _take(self, message: Message) -> None:
            if not may_answer.is_set():
                kept.append(asyncio.ensure_future(self._later(message)))
                asked.append(message["method"])
            elif message.get("method") == "initialize":
                error = Error(-32601, "no sessions").wire
                self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            else:
                super()._take(message)

        async def _later(self, message: Message) -> None:
            await may_answer.wait()
            self._take(message)

    kept: list[asyncio.Future[None]] = []
    return Servers(lambda: Late(MODERN, {}, {"tools/list": {"tools": []}}))


def bridge_to_unknown(servers: Servers, **options: Any) -> Bridge:
    """A bridge that does not know the revision of its server."""
    target: Any = servers
    found: Target = memory(target)
    return Bridge(found, **options)


def probes(servers: Servers) -> int:
    return sum(server.probes for server in servers.made if isinstance(server, Silent))


@req("SEAM-10", "NEG-4", everywhere=True)
@pytest.mark.parametrize("offered", [[row.name for row in DEFAULT], [SESSION.name, MODERN.name]], ids=len)
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_a_client_with_a_session_waits_for_no_probe(row: Revision, offered: list[str]) -> None:
    """Its own `initialize` is sent first, at the nearest revision that is negotiated with servers."""

    async def main() -> None:
        client, servers = Downstream(row), silent()
        async with bridged(bridge_to_unknown(servers, server_revisions=offered), client):
            assert (await client.ask("tools/list")).result["tools"] == []
            assert len(servers.made) == 1
            assert probes(servers) == 0

    run(main())


@req("SEAM-10", "NEG-4", everywhere=True)
def test_a_stateless_client_waits_for_a_probe_only_for_some_time() -> None:
    """The server is asked by `initialize` on the same pipe; later clients do not wait at all."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        client, later, servers = Downstream(MODERN), Downstream(MODERN, {}), silent()
        began = loop.time()
        async with bridged(bridge_to_unknown(servers), client):
            took = loop.time() - began
            assert probing.SOON <= took < upstreams.ANSWER
            assert (await client.ask("tools/list")).result["tools"] == []
            assert len(servers.made) == 1
            assert probes(servers) == 1
        again = bridge_to_unknown(servers)
        async with bridged(again, Downstream(SESSION), later):
            assert probes(servers) == 1, "the era is known from the first client"

    run(main())


@req("SEAM-10", "NEG-5", everywhere=True)
def test_a_server_that_is_slow_to_answer_the_probe_keeps_its_revision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "SOON", 0.05)

    async def main() -> None:
        may_answer, asked = asyncio.Event(), list[str]()
        servers = late(may_answer, asked)
        client = Downstream(MODERN)
        async with bridged(bridge_to_unknown(servers), client, opened=False):
            opening = asyncio.ensure_future(client.open())
            await until(lambda: asked == [DISCOVER, "initialize"])
            may_answer.set()
            await opening
            assert client.hello["supportedVersions"]
            assert (await client.ask("tools/list")).result["tools"] == []
            assert len(servers.made) == 1
        servers.check()

    run(main())


@req("SEAM-10", "NEG-5", everywhere=True)
def test_a_slow_server_is_waited_for_where_there_is_nothing_else_to_ask_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstreams, "ANSWER", 0.02)

    async def main() -> None:
        may_answer = asyncio.Event()
        servers, client = late(may_answer, []), Downstream(MODERN)
        only = bridge_to_unknown(servers, server_revisions=[MODERN.name])
        async with bridged(only, client, opened=False):
            opening = asyncio.ensure_future(client.open())
            assert not (await asyncio.wait({opening}, timeout=10 * upstreams.ANSWER))[0]
            may_answer.set()
            await opening
            assert len(servers.made) == 1
        servers.check()

    run(main())


@req("SEAM-10", "NEG-4", everywhere=True)
def test_a_server_that_answers_neither_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "SOON", 0.05)
    monkeypatch.setattr(upstreams, "ANSWER", 0.2)

    async def main() -> None:
        servers = Servers(lambda: Silent(SESSION, {}, {"initialize": Error(-32603, "not today")}))
        client = Downstream(MODERN)
        async with bridged(bridge_to_unknown(servers), client, opened=False):
            assert (await client.ask(DISCOVER)).code == -32603
            await until(lambda: all(server.lost for server in servers.made))
            assert len(servers.made) == 1

    run(main())


@req("SEAM-10", "NEG-4", everywhere=True)
def test_a_client_that_leaves_meanwhile_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "SOON", 0.05)

    async def main() -> None:
        class Mute(Upstream):
            @override
            def _take(self, message: Message) -> None:
                """Say nothing."""

        servers = Servers(lambda: Mute(SESSION, {}))
        client = Downstream(MODERN)
        async with bridged(bridge_to_unknown(servers), client, opened=False):
            opening = asyncio.ensure_future(client.open())
            await until(lambda: len(servers.made) == 2)
            opening.cancel()
        await until(lambda: all(server.lost for server in servers.made))

    run(main())
