"""Servers that are away for a while, behind a bridge of one and of several: all that listen hear of changes again (SUB-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import aiohttp
import pytest
from typing_extensions import override

import mcprev
from api.wire import SUBSCRIPTION_ID, Error, HandClient, Message
from bridge.hands import bridged
from bridge.joining import MODERN, SESSION, each_client
from fuzz.fuzzing import each_once
from helpers.away import SECONDS, URI, Away, Process, Processes, as_process, over_http, soon_quiet
from helpers.http_in_process import InProcess
from helpers.requirements import req
from helpers.running import run, until
from mcprev.bridge.bridge import Bridge
from mcprev.protocol.subscriptions import ACKNOWLEDGED, CHANGES, LISTEN, Changed
from mcprev.revisions import DEFAULT, HttpShape, Revision

TOOLS: Final = CHANGES[Changed.TOOLS].method
UPDATED: Final = CHANGES[Changed.RESOURCE].method
LISTS: Final = [change.method for kind, change in CHANGES.items() if kind is not Changed.RESOURCE]
WANTED: Final[Message] = {
    "toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True,
}  # fmt: skip
OLDEST: Final = [row for row in DEFAULT if row.http is HttpShape.SSE][:1]
SERVERS: Final = [
    *(pytest.param(over_http, row, {}, id=f"http-{row.name}") for row in (*OLDEST, SESSION, MODERN)),
    pytest.param(over_http, SESSION, {"forgets": True}, id=f"expired-{SESSION.name}"),
    *(pytest.param(as_process, row, {}, id=f"process-{row.name}") for row in (SESSION, MODERN)),
]


def one(server: Away, there: Revision) -> tuple[Bridge, str]:
    """A bridge of one, and what its clients call the resource."""
    return Bridge(server.target(), server_revisions=[there.name]), URI


def several(server: Away, there: Revision) -> tuple[Bridge, str]:
    return Bridge({"files": server.target()}, server_revisions=[there.name]), f"files+{URI}"


class Listener:
    """A client by hand that listens, and sends nothing else."""

    def __init__(self, client: HandClient, uri: str) -> None:
        self._client = client
        self._uri = uri
        self._read = 0

    async def begin(self) -> None:
        client = self._client
        if client.revision.handshake:
            assert (await client.ask("resources/subscribe", {"uri": self._uri})).result == {}
            return
        wanted = {**WANTED, "resourceSubscriptions": [self._uri]}
        params: Message = {"notifications": wanted, "_meta": client.stamp}
        client.send({"jsonrpc": "2.0", "id": "listening", "method": LISTEN, "params": params})
        assert (await client.heard(ACKNOWLEDGED))["notifications"] == wanted

    def _news(self) -> list[tuple[str, Any]]:
        found: list[Any] = [each for each in self._client.got[self._read :] if "method" in each]
        return [(each["method"], each.get("params", {}).get("uri")) for each in found]

    async def hears(self, *methods: str) -> None:
        """Wait until it has heard of changes, of the resource as well if that is one."""
        wanted = {(method, self._uri if method == UPDATED else None) for method in methods}
        await until(lambda: wanted <= {*self._news()})
        self._read = len(self._client.got)

    def check(self) -> None:
        """Its stream has not ended, and each notification names it."""
        if not self._client.revision.handshake:
            got = self._client.got
            assert not [each for each in got if each.get("id") == "listening"]
            told = [each["params"] for each in got if each.get("method") in (*LISTS, UPDATED, ACKNOWLEDGED)]
            assert {each["_meta"][SUBSCRIPTION_ID] for each in told} == {"listening"}
            assert len([each for each in got if each.get("method") == ACKNOWLEDGED]) == 1


@each_once
@req("SEAM-10", "SUB-5", "LIFE-16", at=(SESSION.name, MODERN.name))
@pytest.mark.parametrize("make", [one, several])
@pytest.mark.parametrize(("kind", "there", "options"), SERVERS)
@each_client
def test_who_only_listens_hears_of_changes_after_an_outage(
    row: Revision,
    kind: Callable[..., Any],
    there: Revision,
    options: dict[str, Any],
    make: Callable[[Away, Revision], tuple[Bridge, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with kind(there, **options) as server:
            bridge, uri = make(server, there)
            client = HandClient(row, {}, {})
            listener = Listener(client, uri)
            async with bridged(bridge, client):
                await client.ask("resources/list")
                await listener.begin()
                await server.change()
                await listener.hears(TOOLS)
                for seconds in SECONDS:
                    caplog.clear()
                    await server.away(seconds)
                    await listener.hears(*LISTS, UPDATED)
                    said = [found.getMessage() for found in caplog.records if found.levelname == "WARNING"]
                    lost = [text for text in said if "not heard of" in text or "is down" in text]
                    back = [text for text in said if text not in lost and ("again" in text or "back" in text)]
                    assert len(lost) == len(back), said
                    assert lost or seconds <= 8, said
                    assert len(lost) <= 1, said
                    await asyncio.sleep(40)  # of the clock of the loop: it is stable
                    await server.change()
                    await listener.hears(TOOLS)
            listener.check()

    run(main(), limit=2_000, has_both_ends=True)


@req("SEAM-10", "SUB-5", "PING-2", at=(SESSION.name, MODERN.name))
@pytest.mark.parametrize("make", [one, several])
@pytest.mark.parametrize("there", [*OLDEST, SESSION, MODERN], ids=lambda there: there.name)
@each_client
def test_who_only_listens_hears_of_changes_after_the_streams_of_the_server_fell_silent(
    row: Revision,
    there: Revision,
    make: Callable[[Away, Revision], tuple[Bridge, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No connection ends: what comes is heard again within a bound, and all counts as changed."""
    seconds = soon_quiet(monkeypatch)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with over_http(there) as server:
            bridge, uri = make(server, there)
            client = HandClient(row, {}, {})
            listener = Listener(client, uri)
            async with bridged(bridge, client):
                await client.ask("resources/list")
                await listener.begin()
                await server.change()
                await listener.hears(TOOLS)
                server.fall_silent()
                began = loop.time()
                await listener.hears(*LISTS, UPDATED)
                assert loop.time() - began < seconds + 60
                await server.change()
                await listener.hears(TOOLS)
            listener.check()

    run(main(), limit=2_000, has_both_ends=True)


@each_once
@req("SEAM-10", "SUB-5", at=(SESSION.name, MODERN.name))
@pytest.mark.parametrize("make", [one, several])
@pytest.mark.parametrize(("kind", "there", "options"), SERVERS)
@each_client
def test_a_request_that_succeeds_brings_all_listeners_back_at_once(
    row: Revision,
    kind: Callable[..., Any],
    there: Revision,
    options: dict[str, Any],
    make: Callable[[Away, Revision], tuple[Bridge, str]],
) -> None:
    """Those of others as well, who send nothing. Over HTTP, each session with the server has a stream of its own.

    Nobody reaches one of several servers that is known to be down before an attempt is due.
    """
    if make is several and (kind is as_process or there in OLDEST):
        return

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with kind(there, **options) as server:
            bridge, uri = make(server, there)
            clients = [HandClient(row, {}, {}) for _ in range(1 if there in OLDEST else 2)]
            listeners = [Listener(client, uri) for client in clients]
            async with bridged(bridge, *clients):
                for client, listener in zip(clients, listeners, strict=True):
                    await client.ask("resources/list")
                    await listener.begin()
                await server.away(400)
                began = loop.time()
                await clients[0].ask("tools/list")
                for listener in listeners[: 1 if there.handshake and kind is over_http else 2]:
                    await listener.hears(*LISTS, UPDATED)
                assert loop.time() - began < 5

    run(main(), limit=2_000, has_both_ends=True)


@each_once
@req("SEAM-10", "SUB-5", "HTTP-10", everywhere=True)
@pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)
def test_clients_of_every_revision_over_http_hear_of_changes_after_an_outage(
    row: Revision, there: Revision
) -> None:
    async def main() -> None:
        told: list[mcprev.Change] = []
        async with as_process(there) as server:
            bridge = Bridge(server.target(), server_revisions=[there.name])
            app = bridge.asgi(sse=True)
            connector = InProcess(app)
            path = "/sse" if row.http is HttpShape.SSE else "/mcp"
            async with bridge.running(), aiohttp.ClientSession(connector=connector) as http:
                target = mcprev.http(connector.origin + path, session=http)
                async with mcprev.connect(target, mode=row.name, on_change=told.append) as client:
                    await server.change()
                    await until(lambda: mcprev.Change(Changed.TOOLS) in told)
                    told.clear()
                    await server.away(30)
                    lists = {mcprev.Change(kind) for kind in CHANGES if kind is not Changed.RESOURCE}
                    await until(lambda: lists <= {*told})
                    told.clear()
                    await server.change()
                    await until(lambda: mcprev.Change(Changed.TOOLS) in told)
                    assert (await client.call_tool("t")).content
            await app.aclose()

    run(main(), limit=900)


@pytest.mark.slow
@req("SEAM-10", "SUB-5", "TIME-1", at=(SESSION.name, MODERN.name))
@pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)
@each_client
def test_a_server_that_dies_again_and_again_is_started_more_and_more_rarely(
    row: Revision, there: Revision
) -> None:
    async def main() -> None:
        servers = Processes(there)
        client = HandClient(row, {}, {})
        bridge = Bridge(mcprev.memory(cast("Any", servers)), server_revisions=[there.name])
        async with bridged(bridge, client):
            await Listener(client, URI).begin()
            before, began = len(servers.made), asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() - began < 600:
                await asyncio.sleep(0.5)
                for each in servers.made:
                    await each.aclose()
            assert 8 <= len(servers.made) - before <= 20

    run(main(), limit=2_000)


@req("SEAM-10", "SUB-5", "TIME-1", at=(SESSION.name, MODERN.name))
@each_client
def test_streams_that_end_at_once_are_opened_more_and_more_rarely(row: Revision) -> None:
    """Though each of them shows the others that the server is there, and requests succeed."""

    class Ending(Process):
        @override
        def reply(self, request: Message) -> Any:
            found = super().reply(request)
            if request["method"] != LISTEN:
                return found
            return {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: request["id"]}}

    class Servers(Processes):
        @override
        def connection(self) -> Process:
            self.made.append(Ending(MODERN))
            return self.made[-1]

    async def main() -> None:
        servers = Servers(MODERN)
        clients = [HandClient(row, {}, {}) for _ in range(2)]
        bridge = Bridge(mcprev.memory(cast("Any", servers)), server_revisions=[MODERN.name])
        async with bridged(bridge, *clients):
            for client in clients:
                await Listener(client, URI).begin()
            loop = asyncio.get_running_loop()
            began = loop.time()
            for _ in range(100):
                await clients[0].ask("tools/list")
                await asyncio.sleep(0.1)
            opened = sum(len(each.listens) for each in servers.made)
            assert 4 <= opened <= 4 + 2 * (loop.time() - began), opened

    run(main(), limit=300)


@req("SEAM-10", "SUB-1", at=SESSION.name)
@pytest.mark.parametrize("how", ["refused", "left out", "lost"])
def test_a_subscription_that_a_stateless_server_refuses_is_refused(how: str) -> None:
    """The stream before it goes on, and those that the server accepts are kept."""

    class Refusing(Process):
        refuses = False

        @override
        def reply(self, request: Message) -> Any:
            wanted: dict[str, Any] = request["params"].get("notifications", {})
            if "b:2" not in wanted.get("resourceSubscriptions", ()):
                return super().reply(request)
            if how == "refused":
                return Error(-32602, "not this one")
            if how == "left out":
                wanted["resourceSubscriptions"].remove("b:2")
                return super().reply(request)
            meta = {SUBSCRIPTION_ID: request["id"]}
            return {"resultType": "complete", "_meta": meta}

    class Servers(Processes):
        @override
        def connection(self) -> Process:
            self.made.append(Refusing(MODERN))
            return self.made[-1]

    async def main() -> None:
        servers = Servers(MODERN)
        client = HandClient(SESSION, {}, {})
        bridge = Bridge(mcprev.memory(cast("Any", servers)), server_revisions=[MODERN.name])
        async with bridged(bridge, client):
            assert (await client.ask("resources/subscribe", {"uri": URI})).result == {}
            error = (await client.ask("resources/subscribe", {"uri": "b:2"})).error
            assert error["code"] == (-32603 if how == "lost" else -32602)
            (up,) = servers.made
            living = up.listens[-1]
            meta = {"_meta": {SUBSCRIPTION_ID: living}}
            up.tell(UPDATED, {"uri": URI, **meta})
            assert (await client.heard(UPDATED))["uri"] == URI
            assert (await client.ask("resources/subscribe", {"uri": "c:3"})).result == {}
            wanted = [each["params"]["notifications"] for each in up.got if each.get("method") == LISTEN]
            assert wanted[-1]["resourceSubscriptions"] == [URI, "c:3"]

    run(main())
