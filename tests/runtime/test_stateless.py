"""MOD-*: requests that describe themselves, as a peer by hand sees them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

import mcprev
from api.authors import Everything
from api.wire import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    INFO,
    PREFIX,
    SERVER_INFO,
    VERSION,
    Message,
    served,
    serving,
)
from helpers.named import ROW_D, C, rows_since
from helpers.requirements import req
from helpers.running import run
from mcprev.errors import RemoteProtocolError
from mcprev.revisions import ALL, DEFAULT, Revision
from mcprev_types.latest import models as m

EXTENSION = "vendor.example/thing"


def server(**options: Any) -> mcprev.Server:
    return mcprev.Server(Everything(), "everything", "1", **options)


def extended() -> Any:
    return m.ClientCapabilities.from_wire({"extensions": {EXTENSION: {"deep": {}}}})


@req("MOD-1", "MOD-2")
def test_every_request_of_a_client_says_who_sends_it(row: Revision) -> None:
    """Discovery, calls, calls once more, streams and what goes out untouched."""
    asks: list[Any] = [
        {"resultType": "input_required", "requestState": "x"},
        {"resultType": "complete", "content": []},
    ]

    async def main() -> None:
        def listening(request: Message) -> None:
            meta = {PREFIX + "subscriptionId": request["id"]}
            hand.tell("notifications/subscriptions/acknowledged", {"notifications": {}, "_meta": meta})

        def ask(request: Message) -> Message:
            return cast("Message", asks.pop(0))

        replies: dict[str, Any] = {
            "tools/call": ask,
            "tools/list": {"tools": []},
            "subscriptions/listen": listening,
        }
        async with serving(row, replies, name="me") as (client, hand):
            await client.call_tool("x")
            await client.raw("tools/list")
            async with client.listen(tools=True):
                await hand.heard("subscriptions/listen")
                sent = [message for message in hand.got if "id" in message]
                assert [message["method"] for message in sent] == [
                    "server/discover", "tools/call", "tools/call", "tools/list", "subscriptions/listen",
                ]  # fmt: skip
                for message in sent:
                    meta = message["params"]["_meta"]
                    assert meta[VERSION] == row.version
                    assert isinstance(meta[CLIENT_CAPABILITIES], dict)
                    assert meta[CLIENT_INFO] == {"name": "me", "version": mcprev.__version__}

    run(main())


@req("MOD-3", "AMB-6")
@pytest.mark.parametrize(
    "method", ["server/discover", "tools/list", "tools/call", "subscriptions/listen", "no/such"]
)
@pytest.mark.parametrize("wrong", [{CLIENT_CAPABILITIES: None}, {VERSION: 7}, {CLIENT_CAPABILITIES: "x"}])
def test_a_request_that_does_not_describe_itself(row: Revision, method: str, wrong: Message) -> None:
    async def main() -> None:
        async with served(server(revisions=[row.name]), row) as hand:
            assert (await hand.ask(method, {"name": "echo"}, meta=wrong)).code == -32602

    run(main())


@req("MOD-3")
@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": {CLIENT_CAPABILITIES: {}}}])
def test_a_request_without_a_version(row: Revision, params: Any) -> None:
    async def main() -> None:
        async with served(server(revisions=[row.name]), row) as hand:
            hand.send(
                {"jsonrpc": "2.0", "id": "bare", "method": "tools/list"}
                | ({"params": params} if params else {})
            )
            hand._asked["bare"] = "tools/list"
            answer = await hand.get(lambda found: found.get("id") == "bare")
            assert answer["error"]["code"] == -32602

    run(main())


@req("MOD-4")
@pytest.mark.parametrize(
    "asked", ["1999-01-01", "2099-12-31", "draft", "", DEFAULT[0].version, ROW_D.version]
)
@pytest.mark.parametrize("served_at", [DEFAULT, rows_since(C), ()], ids=["all", "some", "one"])
def test_a_version_that_is_not_served(row: Revision, asked: str, served_at: tuple[Revision, ...]) -> None:
    async def main() -> None:
        spoken = served_at or (row,)
        async with served(server(revisions=[found.name for found in spoken]), row) as hand:
            for method in ("server/discover", "tools/list", "no/such"):
                error = (await hand.ask(method, {}, meta={VERSION: asked})).error
                assert error["code"] == -32022
                assert error["data"]["requested"] == asked
                # One of a session is refused without: who reads the list would ask for it again.
                assert set(error["data"]["supported"]) == {found.version for found in spoken} - {asked}
                assert ("begins with initialize" in error["message"]) is (
                    asked in {found.version for found in spoken}
                )

    run(main())


@req("MOD-5", "MOD-11")
def test_nothing_is_remembered_of_the_request_before(row: Revision) -> None:
    async def main() -> None:
        async with served(server(), row) as hand:
            who = {"name": "who"}
            rich: Message = {
                CLIENT_CAPABILITIES: {"sampling": {}},
                CLIENT_INFO: {"name": "rich", "version": "1"},
            }
            said = [
                (await hand.ask("tools/call", who, meta=meta)).result["content"][0]["text"]
                for meta in (rich, {CLIENT_INFO: None}, rich)
            ]
            assert ("'rich'" in said[0], "sampling" in said[0]) == (True, True)
            assert ("None" in said[1], "sampling" in said[1]) == (True, False)
            assert said[2] == said[0]
            # Nor does the server ask what only an earlier request said that it may.
            assert (await hand.ask("tools/call", {"name": "ask"})).code == -32021

    run(main())


@req("MOD-6", "MOD-16")
def test_what_a_method_needs_is_named(row: Revision) -> None:
    """A capability that is missing, and an extension that only the server has."""
    needs = {"tools/call": extended()}

    async def main() -> None:
        async with served(server(requires=needs), row) as hand:
            poor: list[Message] = [{}, {"extensions": {}}, {"extensions": {"other.example/x": {}}}]
            for able in poor:
                error = (
                    await hand.ask("tools/call", {"name": "echo"}, meta={CLIENT_CAPABILITIES: able})
                ).error
                assert error["code"] == -32021
                assert error["data"]["requiredCapabilities"] == {"extensions": {EXTENSION: {"deep": {}}}}
            can: Message = {"extensions": {EXTENSION: {"deep": {}}}}
            answer = await hand.ask("tools/call", {"name": "echo"}, meta={CLIENT_CAPABILITIES: can})
            assert "content" in answer.result
            missing = (await hand.ask("tools/call", {"name": "ask"}, meta={CLIENT_CAPABILITIES: can})).error
            assert missing["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}

    run(main())


@req("MOD-16")
def test_a_result_of_an_extension_that_was_not_offered_is_none(row: Revision) -> None:
    async def main() -> None:
        odd: Message = {"resultType": "vendor.example/later", "content": []}
        async with serving(row, {"tools/call": odd, "tools/list": {"tools": []}}) as (client, _):
            with pytest.raises(RemoteProtocolError, match="unknown type"):
                await client.raw("tools/call", {"name": "x"})
            assert (await client.list_tools()).tools == []

    run(main())


@req("MOD-17")
@pytest.mark.parametrize(
    "name",
    ["thing", "", "/thing", "vendor.example/", "vendor..example/x", "1vendor/x", "vendor-/x", "a/b/c", "vendor/-x"],
)  # fmt: skip
def test_an_extension_has_a_prefix(name: str) -> None:
    wrong: dict[str, Any] = {"extensions": {name: {}}}
    with pytest.raises(ValueError, match="extension"):
        server(capabilities=m.ServerCapabilities.from_wire(wrong))
    with pytest.raises(ValueError, match="extension"):
        mcprev.connect(mcprev.memory(server()), capabilities=m.ClientCapabilities.from_wire(wrong))


@req("MOD-17")
def test_extensions_are_capabilities(row: Revision) -> None:
    async def main() -> None:
        can: dict[str, Any] = {"extensions": {EXTENSION: {"deep": {}}}}
        made = server(capabilities=m.ServerCapabilities.from_wire(can))
        async with served(made, row) as hand:
            assert hand.hello["capabilities"]["extensions"][EXTENSION] == {"deep": {}}
        async with serving(row, capabilities_of_client=extended()) as (_, by_hand):
            assert by_hand.hello[CLIENT_CAPABILITIES]["extensions"][EXTENSION] == {"deep": {}}

    run(main())


@req("MOD-7")
def test_a_handler_may_say_who_answers(row: Revision) -> None:
    class Relay(Everything):
        async def do_echo(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
            meta = {SERVER_INFO: {"name": "behind", "version": "2"}, "vendor.example/a": 1}
            return m.CallToolResult.from_wire({"resultType": "complete", "content": [], "_meta": meta})

    async def main() -> None:
        async with served(mcprev.Server(Relay(), "relay", "1"), row) as hand:
            meta = (await hand.ask("tools/call", {"name": "echo"})).result["_meta"]
            assert meta == {SERVER_INFO: {"name": "behind", "version": "2"}, "vendor.example/a": 1}

    run(main())


@req("MOD-8")
def test_the_peers_name_changes_nothing(row: Revision) -> None:
    names: list[Any] = [None, INFO, {"name": "mcprev", "version": mcprev.__version__}, {"name": "", "version": ""},
                        {"name": "claude-ai", "version": "9", "title": "x", "extra": [1]}]  # fmt: skip
    calls: list[tuple[str, Any]] = [
        ("server/discover", {}), ("tools/list", {}), ("tools/call", {"name": "echo"}), ("tools/call", {"name": "ask"}),
        ("resources/read", {"uri": "a:1"}), ("no/such", {}),
    ]  # fmt: skip

    async def main() -> None:
        async with served(server(), row) as hand:
            said: list[list[str]] = []
            for name in names:
                answers = [
                    await hand.ask(method, params, meta={CLIENT_INFO: name}) for method, params in calls
                ]
                said.append([json.dumps({**answer.message, "id": 0}, sort_keys=True) for answer in answers])
            assert all(answers == said[0] for answers in said)
        found: list[list[Message]] = []
        for name in names:
            meta = {} if name is None else {SERVER_INFO: name}
            hello: Message = {"supportedVersions": [row.version], "capabilities": {"tools": {}}, "_meta": meta,
                     "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}  # fmt: skip
            replies: dict[str, Any] = {"server/discover": hello, "tools/call": {"content": []}}
            async with serving(row, replies) as (client, by_hand):
                await client.call_tool("x")
                found.append(by_hand.got)
        assert all(got == found[0] for got in found)

    run(main())


@req("MOD-9")
def test_discovery(row: Revision) -> None:
    async def main() -> None:
        async with served(server(instructions="use it"), row) as hand:
            assert set(hand.hello["supportedVersions"]) == {found.version for found in DEFAULT}
            assert hand.hello["supportedVersions"][0] == DEFAULT[-1].version
            assert hand.hello["instructions"] == "use it"
            assert set(hand.hello["capabilities"]) >= {
                "tools",
                "prompts",
                "resources",
                "completions",
                "logging",
            }
            assert (hand.hello["ttlMs"], hand.hello["cacheScope"]) == (0, "private")
            assert (await hand.ask("server/discover")).result == hand.hello

    run(main())


@req("MOD-11", "MOD-12")
def test_lists_are_the_same_for_everybody_and_every_time(row: Revision) -> None:
    class Many(Everything):
        async def list_tools(
            self, ctx: mcprev.Context, params: m.PaginatedRequestParams
        ) -> m.ListToolsResult:
            names = ["zeta", "alpha", "Beta", "10", "9"]
            return m.ListToolsResult(
                tools=[m.Tool(name=name, input_schema=m.ToolInputSchema()) for name in names]
            )

    async def main() -> None:
        made = mcprev.Server(Many(), "many", "1")
        methods = (
            "server/discover",
            "tools/list",
            "resources/list",
            "resources/templates/list",
            "prompts/list",
        )
        lists: list[list[Message]] = []
        clients: list[Message] = [{}, {"sampling": {}, "roots": {}, "elicitation": {}}]
        for can in clients:
            async with served(made, row, capabilities=can) as hand:
                for _ in range(2):
                    lists.append([(await hand.ask(method)).result for method in methods])
                    for method, params in (
                        ("tools/call", {"name": "echo"}),
                        ("resources/read", {"uri": "a:1"}),
                    ):
                        await hand.ask(method, params)
                    await hand.ask("tools/call", {"name": "changed"})
        assert all(found == lists[0] for found in lists)
        assert [tool["name"] for tool in lists[0][1]["tools"]] == ["zeta", "alpha", "Beta", "10", "9"]

    run(main())


@req("MOD-14")
@pytest.mark.parametrize("at", ["modern only", "both"])
def test_methods_of_sessions_do_not_exist(row: Revision, at: str) -> None:
    gone = {method for old in ALL if old.handshake for method in old.methods} - set(row.methods)

    async def main() -> None:
        made = server(revisions=[row.name]) if at == "modern only" else server()
        async with served(made, row) as hand:
            assert {"initialize", "ping", "logging/setLevel", "resources/subscribe"} <= gone
            for method in sorted(gone):
                if not method.startswith(("notifications/", "tasks/")):
                    params = {"uri": "a:1", "level": "info", "protocolVersion": ROW_D.version}
                    assert (await hand.ask(method, params)).code == -32601, method

    run(main())


@req("MOD-15")
def test_whoever_opens_a_session_learns_what_is_spoken(row: Revision) -> None:
    async def main() -> None:
        async with served(server(revisions=[row.name]), row) as hand:
            said: dict[str, Any] = {
                "protocolVersion": ROW_D.version,
                "capabilities": {},
                "clientInfo": INFO,
            }
            hand._asked["open"] = "initialize"
            hand.send({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": said})
            error = (await hand.get(lambda found: found.get("id") == "open"))["error"]
            assert row.version in error["message"]
            assert error["data"]["supported"] == [row.version]

    run(main())


@req("META-7", "SUB-2")
@pytest.mark.parametrize("id_", [5, "5", "é"])
def test_what_is_on_a_stream_bears_its_id(row: Revision, id_: Any) -> None:
    async def main() -> None:
        made = server()
        async with served(made, row) as hand:
            wanted: dict[str, Any] = {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]}
            stamp: Message = {VERSION: row.version, CLIENT_CAPABILITIES: {}}
            hand._asked[id_] = "subscriptions/listen"
            opening: Message = {"notifications": wanted, "_meta": stamp}
            hand.send({"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": opening})
            said = [await hand.heard("notifications/subscriptions/acknowledged")]
            made.changed("tools")
            made.changed("resource", "a:1")
            said.append(await hand.heard("notifications/tools/list_changed"))
            said.append(await hand.heard("notifications/resources/updated"))
            ids = [params["_meta"][PREFIX + "subscriptionId"] for params in said]
            assert [(found, type(found)) for found in ids] == [(id_, type(id_))] * 3
            await asyncio.gather(*(connection.aclose() for connection in tuple(made._connections)))
            last = await hand.get(lambda found: found.get("id") == id_)
            assert last["result"]["_meta"][PREFIX + "subscriptionId"] == id_

    run(main())
