"""Client and server of one revision: a bridge passes what they say as it is, known or not (SEAM-10)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from api.wire import CLIENT_CAPABILITIES, CLIENT_INFO, VERSION, Error, HandClient, Message, Reply
from bridge.hands import VENDOR, Downstream, Servers, Upstream, bridge_to, bridged
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import ALL, DEFAULT, Revision

each = pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
BIG = 12345678901234567890123
ODD: Message = {"null": None, "one": 1, "float": 1.0, "text": "1", "big": BIG, "é\u2028": ["", {}, [], False]}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False, width=16),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, where 1, 1.0 and true differ, and members have an order."""
    return json.dumps(one) == json.dumps(other)


def ends(row: Revision, replies: Mapping[str, Reply] | None = None) -> tuple[Downstream, Servers]:
    return Downstream(row), Servers(lambda: Upstream(row, {}, replies))


async def call(client: HandClient, method: str, params: Message) -> Message:
    answer = (await client.ask(method, params)).message
    if not client.revision.handshake and "result" in answer:
        assert answer["result"].pop("resultType") == "complete"  # which the server by hand adds
    return answer


@req("SEAM-10", "BASE-14")
@each
def test_what_no_schema_has_passes_in_both_directions(row: Revision) -> None:
    client, servers = ends(row, {f"{VENDOR}x": lambda request: {**ODD, "params": request["params"]}})

    async def main() -> None:
        bridge = bridge_to(servers, row, revisions=[row.name])
        async with bridged(bridge, client):
            params = {**ODD, "_meta": {"com.example/a": ODD}}
            result = (await call(client, f"{VENDOR}x", params))["result"]
            (got,) = [m["params"] for m in servers.made[0].got if m.get("method") == f"{VENDOR}x"]
            stamp = client.stamp
            assert same(got, {**ODD, "_meta": {**stamp, "com.example/a": ODD}})
            assert same(result, {**ODD, "params": got})

    run(main())


@req("SEAM-10", "LIFE-3", "MOD-9")
@each
def test_client_and_server_see_each_others_introduction(row: Revision) -> None:
    client, servers = ends(row)
    # Upstream's JSON Schema has neither null nor fractions in JSON of capabilities, which its TypeScript has.
    odd = {name: value for name, value in ODD.items() if name not in {"null", "float"}}
    client.capabilities = {**client.capabilities, "experimental": {"com.example/x": odd}}

    async def main() -> None:
        async with bridged(bridge_to(servers, row, revisions=[row.name]), client):
            seen = servers.made[0].hello
            if row.handshake:
                assert seen["capabilities"] == client.capabilities
                assert seen["clientInfo"] == {"name": "by hand", "version": "1"}
            else:
                await call(client, "tools/list", {})
                (got,) = [m["params"] for m in servers.made[0].got if m.get("method") == "tools/list"]
                assert got["_meta"] == client.stamp
                assert client.stamp.keys() == {VERSION, CLIENT_INFO, CLIENT_CAPABILITIES}
            assert client.hello["capabilities"]["tools"] == {"listChanged": True}

    run(main())


@pytest.mark.slow
@req("SEAM-10")
@given(value=JSON)
@pytest.mark.parametrize("row", DEFAULT[-2:], ids=lambda row: row.name)
def test_any_value_passes_unchanged(row: Revision, value: Any) -> None:
    client, servers = ends(row, {f"{VENDOR}x": lambda request: {"back": request["params"]["value"]}})

    async def main() -> None:
        async with bridged(bridge_to(servers, row), client):
            found = (await call(client, f"{VENDOR}x", {"value": value}))["result"]
            assert same(found, {"back": value})

    run(main())


@req("SEAM-10", "ERR-1")
@each
def test_errors_pass_with_all_their_members(row: Revision) -> None:
    class Odd(Upstream):
        def reply(self, request: Message) -> Message | Error | None:
            if request["method"] != f"{VENDOR}x":
                return super().reply(request)
            error = {"code": -30000, "message": "odd", "data": None, "vendor": ODD}
            self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            return None

        def send(self, *messages: Any) -> None:
            if messages[0].get("result", 0) is not None:
                super().send(*messages)

    client, servers = Downstream(row), Servers(lambda: Odd(row, {}))

    async def main() -> None:
        async with bridged(bridge_to(servers, row, revisions=[row.name]), client):
            answer = await call(client, f"{VENDOR}x", {})
            assert same(answer["error"], {"code": -30000, "message": "odd", "data": None, "vendor": ODD})

    run(main())


@req("SEAM-10")
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.handshake], ids=lambda row: row.name)
def test_notifications_and_requests_of_vendors_pass_in_a_session(row: Revision) -> None:
    client, servers = ends(row)
    client.replies[f"{VENDOR}ask"] = lambda request: {"back": request["params"]}

    async def main() -> None:
        async with bridged(bridge_to(servers, row), client):
            client.tell(f"{VENDOR}up", {"a": BIG})
            assert await servers.made[0].heard(f"{VENDOR}up") == {"a": BIG}
            servers.made[0].tell(f"{VENDOR}down", {"a": BIG})
            assert await client.heard(f"{VENDOR}down") == {"a": BIG}
            answer = await servers.made[0].ask(f"{VENDOR}ask", {"b": ODD})
            assert same(answer.message["result"], {"back": {"b": ODD}})

    run(main())


@req("SEAM-10", "PROG-1", "META-9")
@each
def test_progress_tokens_are_the_only_member_of_meta_that_changes(row: Revision) -> None:
    async def tool(up: Upstream, request: Message) -> Message:
        up.progresses(request, 1)
        return {"content": []}

    client, servers = Downstream(row), Servers(lambda: Upstream(row, {"tool": tool}))

    async def main() -> None:
        async with bridged(bridge_to(servers, row, revisions=[row.name]), client):
            several = [
                client.ask(
                    "tools/call", {"name": "tool", "_meta": {"progressToken": token, "com.example/x": 1}}
                )
                for token in ("mine", 7)
            ]
            answers = await asyncio.gather(*several)
            told = [found for answer in answers for found in answer.notified("notifications/progress")]
            tokens = {found["progressToken"] for found in told}
            assert tokens == {"mine", 7}
            metas = [m["params"]["_meta"] for m in servers.made[0].got if m.get("method") == "tools/call"]
            assert all(meta["com.example/x"] == 1 for meta in metas)
            assert len({meta["progressToken"] for meta in metas}) == 2

    run(main())


@req("BATCH-1", "BATCH-2")
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.accepts_batch], ids=lambda row: row.name)
def test_members_of_a_batch_are_calls_of_their_own(row: Revision) -> None:
    client, servers = ends(row, {"tools/list": {"tools": []}, "prompts/list": {"prompts": []}})

    async def main() -> None:
        async with bridged(bridge_to(servers, row), client):
            batch = [
                {"jsonrpc": "2.0", "id": number, "method": method}
                for number, method in enumerate(("tools/list", "prompts/list"))
            ]
            client._asked.update({0: "tools/list", 1: "prompts/list"})
            client.send(json.dumps(batch).encode())
            await client.get(lambda found: found.get("id") == 1)
            assert {found["id"] for found in client.got[-2:]} == {0, 1}

    run(main())
