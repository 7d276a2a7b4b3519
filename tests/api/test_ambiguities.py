"""Where the specification contradicts itself, and what was decided (AMB-*), seen on the wire."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, Final

import pytest

import mcprev
from api.scripted import giving, server, text
from api.wire import (
    CLIENT_CAPABILITIES,
    INFO,
    VERSION,
    Error,
    HandServer,
    Json,
    Message,
    each_session,
    served,
    serving,
)
from helpers.requirements import B, req
from helpers.running import run
from mcprev.errors import NegotiationError
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_types.latest import models as m

TOOLS: Final = giving(m.ListToolsResult(tools=[]))


def hello(version: Json) -> Message:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}


@req("AMB-2", "LIFE-3")
@pytest.mark.parametrize("asked", ["1999-01-01", "2099-01-01", "draft", "", LATEST.version])
def test_a_server_answers_an_unsupported_version_with_its_latest(row: Revision, asked: str) -> None:
    """Never with an error; whatever it is limited to, the answer is the latest of that which has sessions."""

    async def main() -> None:
        limited = server({"revisions": [row.name, LATEST.name]}, list_tools=TOOLS)
        async with served(limited, row, opened=False) as client:
            answer = await client.ask("initialize", hello(asked))
            assert answer.result["protocolVersion"] == row.version
            client.tell("notifications/initialized")
            assert (await client.ask("tools/list")).result == {"tools": []}

    run(main())


@req("AMB-2", "LIFE-4")
def test_a_client_reads_an_error_that_names_other_versions_and_tries_one(row: Revision) -> None:
    """Servers exist that refuse; the second attempt is the last."""

    def strict(request: Message) -> Message | Error:
        asked = request["params"]["protocolVersion"]
        if asked == row.version:
            return {"protocolVersion": row.version, "capabilities": {"tools": {}}, "serverInfo": INFO}
        data = {"supported": [row.version, "1999-01-01"], "requested": asked}
        return Error(-32602, "Unsupported protocol version", data)

    newest = [found for found in DEFAULT if found.handshake][-1]

    async def main() -> None:
        hand: Any = HandServer(row, {"initialize": strict, "tools/list": {"tools": []}})
        async with mcprev.connect(mcprev.memory(hand), mode="legacy") as client:
            assert client.revision == row.name
            assert (await client.list_tools()).tools == []
        asked = [params["protocolVersion"] for params in hand.asked("initialize")]
        assert asked == ([row.version] if row is newest else [newest.version, row.version])

    run(main())


@each_session
@req("AMB-2", "LIFE-4")
@pytest.mark.parametrize(
    "data", [None, {"supported": ["1999-01-01"]}, {"supported": "x"}, [], {"supported": [5]}]
)
def test_an_error_without_a_common_version_is_told_in_words(row: Revision, data: Json) -> None:
    async def main() -> None:
        error = Error(-32602, "Unsupported protocol version", data)
        hand: Any = HandServer(row, {"initialize": error})
        with pytest.raises(NegotiationError, match="Unsupported protocol version"):
            async with mcprev.connect(mcprev.memory(hand), revisions=[row.name]):
                pass
        assert len(hand.asked("initialize")) == 1

    run(main())


@req("AMB-6", "MOD-3", "MOD-4", "MOD-6", "MOD-14")
def test_the_order_of_checks() -> None:
    """Shape, version, capability, method, params: a request with several faults is refused for the first of them."""
    needs = m.ClientCapabilities(sampling=m.ClientCapabilitiesSampling())
    requires = {"requires": {"tools/call": needs, "no/such": needs}}
    wrong_version: Message = {VERSION: "1999-01-01"}
    unshaped: Message = {CLIENT_CAPABILITIES: None}
    able: Message = {CLIENT_CAPABILITIES: {"sampling": {}}}

    async def main() -> None:
        async with served(server(requires, call_tool=giving(text("x"))), LATEST) as client:

            async def code(method: str, params: Json, **meta: Json) -> Json:
                answer = await client.ask(method, params, meta=meta)
                return answer.message.get("error", {}).get("code")

            assert await code("no/such", {"name": 5}, **unshaped, **wrong_version) == -32602
            assert await code("no/such", {"name": 5}, **wrong_version) == -32022
            assert await code("no/such", {"name": 5}) == -32021
            assert await code("no/such", {"name": 5}, **able) == -32601
            assert await code("tools/call", {"name": 5}) == -32021
            assert await code("tools/call", {"name": 5}, **able) == -32602
            assert await code("tools/call", {"name": "t"}, **able) is None

    run(main())


@req("AMB-13", "META-3", "META-4")
@pytest.mark.parametrize(
    "key",
    [
        "modelcontextprotocol.io/x",
        "mcp.dev/x",
        "com.mcp.tools/x",
        "io.modelcontextprotocol/x",
        "com.example.mcp/x",
    ],
)
def test_reserved_prefixes_are_read_like_any_other(row: Revision, key: str) -> None:
    """The rules differ by revision; on reading none of them matters, and what they carry is not interpreted."""
    seen: list[Json] = []

    async def call(ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        seen.append(ctx.meta.get(key))
        return text("x")

    async def main() -> None:
        async with served(server(call_tool=call), row) as client:
            await client.ask("tools/call", {"name": "t"}, meta={key: {"any": [None, "thing"]}})
        async with serving(row, {"tools/call": {"content": [], "_meta": {key: [None]}}}) as (client_, _):
            found = await client_.call_tool("t")
            assert found.to_wire()["_meta"][key] == [None]

    run(main())
    assert seen == [{"any": [None, "thing"]}]


@req("AMB-16", "BATCH-1", "BATCH-6")
def test_an_array_is_a_message_only_where_that_was_agreed_on(row: Revision) -> None:
    async def main() -> None:
        async with served(server(list_tools=TOOLS), row, opened=False) as client:
            ping: Message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            client.send(b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]')
            refused = await client.get(lambda found: "error" in found)
            assert refused["error"]["code"] == -32600
            await client.open()
            if row.name == B:
                client._asked |= {1: "ping", 2: "ping"}
                client.send(
                    b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"},{"jsonrpc": "2.0", "id": 2, "method": "ping"}]'
                )
                assert [(await client.get())["id"], (await client.get())["id"]] == [1, 2]
            else:
                client.send(b"[" + str(ping).replace("'", '"').encode() + b"]")
                assert (await client.get(lambda found: "error" in found))["error"]["code"] == -32600

    run(main())
