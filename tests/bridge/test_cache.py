"""Caching hints through a bridge: given at every pair, and honoured by a bridge with a cache, for those they are meant for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest

import mcprev
from api.wire import INFO, Message
from bridge.hands import Downstream, Servers, Upstream, bridge_to, bridged, question
from bridge.joining import ends, joined
from bridge.test_matrix import outcomes
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run, until
from mcprev.bridge.introduction import ServerIntroduction
from mcprev.bridge.pair import Pair
from mcprev.bridge.upstreams import Bounds
from mcprev.revisions import DEFAULT, LATEST, Revision

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
STATELESS: Final = [row for row in DEFAULT if not row.handshake]
HOUR: Final = 3_600_000
CACHEABLE: Final[dict[str, tuple[Message | None, Message]]] = {
    "tools/list": (None, {"tools": []}),
    "prompts/list": (None, {"prompts": []}),
    "resources/list": (None, {"resources": []}),
    "resources/templates/list": (None, {"resourceTemplates": []}),
    "resources/read": ({"uri": "a:x"}, {"contents": [{"uri": "a:x", "text": "x"}]}),
}
"""The params and the result of each method with hints."""
each_method = pytest.mark.parametrize("method", CACHEABLE)


class Hinting(Upstream):
    """A server whose results have hints, and say with which request they were made."""

    def __init__(self, there: Revision, ttl: float, scope: str, numbers: Iterator[int]) -> None:
        super().__init__(there, {})
        self.ttl, self.scope, self.numbers = ttl, scope, numbers
        for method in CACHEABLE:
            self.replies[method] = self._hinted

    def _hinted(self, request: Message) -> Message:
        hints: Message = {} if self.revision.handshake else {"ttlMs": self.ttl, "cacheScope": self.scope}
        meta = {"number": next(self.numbers)}
        return self.complete(request["method"], {**CACHEABLE[request["method"]][1], "_meta": meta, **hints})


def hinting(there: Revision, ttl: float = HOUR, scope: str = "public") -> Servers:
    numbers = itertools.count(1)
    return Servers(lambda: Hinting(there, ttl, scope, numbers))


def count(servers: Servers, method: str) -> int:
    """How often the server was asked, over all connections."""
    return sum(len(server.asked(method)) for server in servers.made)


async def ask(client: Downstream, method: str, **meta: Any) -> Message:
    return (await client.ask(method, CACHEABLE[method][0], meta=meta)).result


@req("CACHE-1", "SEAM-10", everywhere=True)
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_hints_are_given_at_every_pair(row: Revision, there: Revision) -> None:
    """A stateless client gets those of a stateless server; of others, that nothing may be kept."""
    client, servers = Downstream(row), hinting(there, 5_000, "public")

    async def main() -> None:
        async with bridged(bridge_to(servers, there), client):
            for method in CACHEABLE:
                found = await ask(client, method)
                hints = {name: found[name] for name in ("ttlMs", "cacheScope") if name in found}
                if row.handshake:
                    assert hints == {}, method
                elif there.handshake:
                    assert hints == {"ttlMs": 0, "cacheScope": "private"}, method
                else:
                    assert hints == {"ttlMs": 5_000, "cacheScope": "public"}, method
                await ask(client, method)
                assert count(servers, method) == 2, "without a cache each request goes to the server"

    run(main())


@req("CACHE-2", "CACHE-3", "SEAM-10", everywhere=True)
@each_method
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@each_once
def test_hints_are_honoured_with_a_cache(row: Revision, there: Revision, method: str) -> None:
    client, other, servers = Downstream(row), Downstream(row), hinting(there)

    async def main() -> None:
        async with bridged(bridge_to(servers, there, cache=mcprev.ResultCache()), client, other):
            first, second = await ask(client, method), await ask(client, method)
            third = await ask(other, method)
            if there.handshake:
                assert count(servers, method) == 3, "a server with sessions gives no hints"
                return
            assert count(servers, method) == 1
            for found in (second, third):
                assert found["_meta"]["number"] == first["_meta"]["number"] == 1
                if not row.handshake:
                    assert HOUR - 30_000 < found["ttlMs"] <= HOUR, "what is left of the lifetime"

    run(main())


@req("SEAM-10", everywhere=True)
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@each_once
def test_everything_passes_with_a_cache_as_without(row: Revision, there: Revision) -> None:
    assert outcomes(row, there, cache=mcprev.ResultCache()) == outcomes(row, there)


@req("CACHE-2", everywhere=True)
@pytest.mark.parametrize("ttl", [0, -1, 0.0, True, "100", None, 1e-9, {"a": 1}], ids=repr)
def test_what_is_no_lifetime_keeps_nothing(ttl: Any) -> None:
    client, servers = Downstream(SESSION), hinting(MODERN, ttl)

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, cache=mcprev.ResultCache()), client):
            for _ in range(2):
                await client.ask("tools/list")
            assert count(servers, "tools/list") == 2

    run(main())


@req("CACHE-2", everywhere=True)
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_a_lifetime_of_a_lying_server_is_bounded(row: Revision) -> None:
    client, servers = Downstream(row), hinting(MODERN, 1e18)

    async def main() -> None:
        bridge = bridge_to(servers, MODERN, cache=mcprev.ResultCache(), bounds=Bounds(max_ttl=0.2))
        async with bridged(bridge, client):
            await ask(client, "tools/list")
            found = await ask(client, "tools/list")
            assert count(servers, "tools/list") == 1
            assert row.handshake or found["ttlMs"] <= 200
            async with asyncio.timeout(30):
                while count(servers, "tools/list") == 1:
                    await ask(client, "tools/list")

    run(main())


@each_once
@req("CACHE-5", everywhere=True)
@each_method
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_private_results_are_those_of_one_client(row: Revision, method: str) -> None:
    """Of two clients on pipes, none gets what the other got."""
    client, other, servers = Downstream(row), Downstream(row), hinting(MODERN, scope="private")

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, cache=mcprev.ResultCache()), client, other):
            for each in (client, client, other, other, client):
                await ask(each, method)
            assert count(servers, method) == 2
            one, two = await ask(client, method), await ask(other, method)
            assert one["_meta"] != two["_meta"]

    run(main())


@req("CACHE-2", everywhere=True)
def test_a_result_is_for_one_pair_one_set_of_capabilities_and_one_meta() -> None:
    servers = hinting(MODERN)
    clients = [*(Downstream(row) for row in DEFAULT), Downstream(MODERN, {})]

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, cache=mcprev.ResultCache()), *clients):
            for client in clients:
                await ask(client, "tools/list")
                await ask(client, "tools/list")
            assert count(servers, "tools/list") == len(clients)
            await ask(clients[-1], "tools/list", **{"com.example/tenant": "a"})
            await ask(clients[-1], "tools/list", **{"com.example/tenant": "b"})
            await ask(clients[-1], "tools/list", **{"com.example/tenant": "b"})
            await ask(clients[-1], "tools/list", traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01")
            assert count(servers, "tools/list") == len(clients) + 2

    run(main())


@req("CACHE-3", "SUB-3", everywhere=True)
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
@each_method
def test_changes_make_the_bridge_ask_again(row: Revision, method: str) -> None:
    client, servers = Downstream(row), hinting(MODERN)
    change = {
        "tools/list": "toolsListChanged",
        "prompts/list": "promptsListChanged",
        "resources/list": "resourcesListChanged",
        "resources/templates/list": "resourcesListChanged",
    }

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, cache=mcprev.ResultCache()), client):
            wanted: Message = (
                {change[method]: True} if method in change else {"resourceSubscriptions": ["a:x"]}
            )
            listening: asyncio.Future[Any] | None = None
            if not row.handshake:
                listening = asyncio.ensure_future(
                    client.ask("subscriptions/listen", {"notifications": wanted})
                )
                await client.heard("notifications/subscriptions/acknowledged")
            elif method not in change:
                await client.ask("resources/subscribe", {"uri": "a:x"})
            await ask(client, method)
            await ask(client, method)
            assert count(servers, method) == 1
            server = servers.upstreams[0]
            await until(lambda: bool(server.listens))
            name = f"notifications/{method.partition('/')[0]}/list_changed"
            told: Message = {"_meta": {"io.modelcontextprotocol/subscriptionId": server.listens[-1][0]}}
            if method not in change:
                name, told = "notifications/resources/updated", {**told, "uri": "a:x"}
            server.tell(name, told)
            await client.heard(name)
            await ask(client, method)
            assert count(servers, method) == 2, "it was asked before the client could know"
            if listening is not None:
                listening.cancel()

    run(main())


@req("MRTR-9", "CACHE-2", everywhere=True)
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_a_result_with_answers_of_a_user_is_not_kept(row: Revision) -> None:
    async def read(up: Upstream, request: Message) -> Message:
        found = await up.asks(request, question(MODERN, "form"))
        hints = {"ttlMs": HOUR, "cacheScope": "public"}
        return (
            found if isinstance(found, dict) else {"contents": [{"uri": "a:x", "text": str(found)}], **hints}
        )

    client = Downstream(row)
    servers = Servers(lambda: Upstream(MODERN, {"resources/read": read}))

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, cache=mcprev.ResultCache()), client):
            for number in (1, 2):
                result = (await client.ask("resources/read", {"uri": "a:x"})).result
                if not row.handshake:
                    (key,) = result["inputRequests"]
                    answer = {"action": "accept", "content": {"name": "me"}}
                    more = {"requestState": result["requestState"], "inputResponses": {key: answer}}
                    result = (await client.ask("resources/read", {"uri": "a:x", **more})).result
                assert "contents" in result
                assert count(servers, "resources/read") == 2 * number

    run(main())


@req("CACHE-2", everywhere=True)
def test_the_cache_is_bounded_and_ends_with_the_bridge() -> None:
    cache, client = mcprev.ResultCache(max_entries=3), Downstream(MODERN)
    servers = Servers(lambda: Upstream(MODERN, {}, {"resources/read": _read}))

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, cache=cache), client):
            for number in range(10):
                await client.ask("resources/read", {"uri": f"a:{number}"})
            assert len(cache) == 3
        assert len(cache) == 0

    run(main())


def _read(request: Message) -> Message:
    contents = [{"uri": request["params"]["uri"], "text": "x"}]
    return {"resultType": "complete", "contents": contents, "ttlMs": HOUR, "cacheScope": "public"}


@req("CACHE-2", "SEAM-10", everywhere=True)
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_results_of_several_servers_are_kept_apart(row: Revision) -> None:
    hints = {"ttlMs": HOUR, "cacheScope": "public"}

    def replies(name: str) -> dict[str, Any]:
        contents = [{"uri": "all:one", "text": name}]
        return {"resources/read": {"resultType": "complete", "contents": contents, **hints}}

    client = Downstream(row)
    servers = ends(MODERN, "files", "bank", files=replies("files"), bank=replies("bank"))

    async def main() -> None:
        async with bridged(joined(servers, MODERN, cache=mcprev.ResultCache()), client):
            for _ in range(2):
                for name in ("files", "bank"):
                    found = (await client.ask("resources/read", {"uri": f"{name}+all:one"})).result
                    assert found["contents"][0]["text"] == name
            for group in servers.values():
                assert count(group, "resources/read") == 1

    run(main())


@req("CACHE-2", everywhere=True)
def test_a_server_that_was_lost_may_be_another_one() -> None:
    client, servers = Downstream(SESSION), hinting(MODERN)

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN, cache=mcprev.ResultCache()), client):
            await ask(client, "tools/list")
            await servers.made[0].aclose()
            await until(lambda: servers.made[0].lost)
            await client.settle()
            await ask(client, "tools/list")
            assert count(servers, "tools/list") == 2

    run(main())


@req("CACHE-2", "MOD-9", everywhere=True)
def test_the_lifetime_of_an_introduction_runs_from_when_it_was_given() -> None:
    said: Message = {"capabilities": {}, "ttlMs": 10_000, "cacheScope": "public"}
    known, pair = ServerIntroduction(MODERN, said, at=100.0), Pair(MODERN, MODERN)
    lifetimes = [known.discovered(pair, INFO, [], now)["ttlMs"] for now in (100.0, 100.9, 104.0, 150.0)]
    assert lifetimes == [10_000, 10_000, 6_000, 0]


def test_a_cache_is_of_one_process() -> None:
    from mcprev.stores.memory import MemoryStore

    with pytest.raises(ValueError, match="pass no `store`"):
        mcprev.Bridge("https://a.example/mcp", cache=mcprev.ResultCache(), store=MemoryStore())


def test_methods_with_hints_are_those_of_the_schema() -> None:
    assert set(CACHEABLE) == {name for name, spec in LATEST.methods.items() if spec.cacheable} - {
        "server/discover"
    }
