"""Changes of lists and resources: who is told of what, in sessions and on listen streams (SUB-1..8, TOOL-11, AMB-1)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

import mcprev
from api.scripted import giving, server, text
from api.wire import INFO, PREFIX, SUBSCRIPTION_ID, HandClient, Json, Message, each_session, served, serving
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.client.subscriptions import WAITING
from mcprev.errors import ConnectionLost
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_types.latest import models as m

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
LISTS: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}
LISTED: Final[dict[str, Any]] = {
    "tools": {"list_tools": giving(m.ListToolsResult(tools=[]))},
    "prompts": {"list_prompts": giving(m.ListPromptsResult(prompts=[]))},
    "resources": {"list_resources": giving(m.ListResourcesResult(resources=[]))},
}
READ: Final[dict[str, Any]] = {"read_resource": giving(m.ReadResourceResult(contents=[]))}


def everything() -> mcprev.Server:
    return server(**LISTED["tools"], **LISTED["prompts"], **LISTED["resources"], **READ)


def change_all(made: mcprev.Server) -> None:
    """Say that everything changed."""
    for what in LISTS:
        made.changed(what)
    for uri in ("a:1", "a:2"):
        made.changed("resource", uri)


def told(messages: list[Message]) -> list[Json]:
    """Methods of notifications, with the URI of those about one resource."""
    return [(found["method"], found.get("params", {}).get("uri")) for found in messages]


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@req("SUB-1", "TOOL-11")
def test_changes_may_be_made_in_any_thread(row: Revision) -> None:
    """A function that is not async registers a tool, and says that a resource changed, in its own thread."""

    async def main() -> None:
        app = mcprev.App("demo", "1.0", store=mcprev.MemoryStore())

        @app.tool
        def learn(ctx: mcprev.Context) -> str:
            app.tool(lambda: "hi", name="hi")
            ctx.changed("resource", "a:1")
            return "learnt"

        @app.resource("a:1")
        def one() -> str:
            return "1"

        async with (
            mcprev.connect(app, mode=row.name) as client,
            client.listen(tools=True, uris="a:1") as changes,
        ):
            await client.call_tool("learn")
            assert {(await anext(changes)).what for _ in range(2)} == {"tools", "resource"}
            assert {tool.name async for tool in client.tools()} == {"learn", "hi"}
            await asyncio.to_thread(app.server.changed, "tools")
            assert (await anext(changes)).what == "tools"
        await app.server.aclose()

    run(main())


# -- sessions --------------------------------------------------------------------------------------------


@each_session
@req("SUB-1", "SUB-8", "TOOL-11", "CONV-38")
def test_lists_are_told_everybody_and_resources_their_subscribers(row: Revision) -> None:
    made = everything()

    async def main() -> None:
        async with served(made, row) as one, served(made, row) as other:
            assert (await one.ask("resources/subscribe", {"uri": "a:1"})).result == {}
            change_all(made)
            lists = [(method, None) for method in LISTS.values()]
            assert told(await one.settle()) == [*lists, (UPDATED, "a:1")]
            assert told(await other.settle()) == lists
            assert (await one.ask("resources/unsubscribe", {"uri": "a:1"})).result == {}
            change_all(made)
            assert told(await one.settle()) == lists

    run(main())


@each_session
@req("SUB-1", "TOOL-11", "LIFE-11")
@pytest.mark.parametrize("kind", LISTS)
def test_only_what_is_served_is_declared_and_told(row: Revision, kind: str) -> None:
    made = server(**LISTED[kind])

    async def main() -> None:
        async with served(made, row) as client:
            declared = client.hello["capabilities"]
            assert {name for name in LISTS if name in declared} == {kind}
            assert declared[kind] == {"listChanged": True}
            change_all(made)
            assert told(await client.settle()) == [(LISTS[kind], None)]
            assert (await client.ask("resources/subscribe", {"uri": "a:1"})).code == -32601

    run(main())


@each_session
@req("SUB-1", "RES-1")
@pytest.mark.parametrize("uri", [5, None, "", "no uri", "a: b", "\n", ":x"])
def test_what_is_no_uri_cannot_be_subscribed_to(row: Revision, uri: Json) -> None:
    async def main() -> None:
        async with served(server(**READ), row) as client:
            for method in ("resources/subscribe", "resources/unsubscribe"):
                assert (await client.ask(method, {"uri": uri})).code == -32602
                assert (await client.ask(method)).code == -32602

    run(main())


@each_session
@req("SUB-1", "LIFE-7")
def test_nothing_is_told_before_the_session_is_open(row: Revision) -> None:
    made = everything()

    async def main() -> None:
        async with served(made, row, opened=False) as client:
            hello = {"protocolVersion": row.version, "capabilities": {}, "clientInfo": INFO}
            change_all(made)
            await client.ask("initialize", hello)
            change_all(made)
            assert await client.settle() == []
            client.tell("notifications/initialized")
            await client.settle()
            change_all(made)
            assert [method for method, _ in told(await client.settle())] == list(LISTS.values())

    run(main())


# -- listen streams --------------------------------------------------------------------------------------


async def listen(client: HandClient, id_: Json, **wanted: Json) -> Message:
    """Open a stream, and what the server says it will carry."""
    params = {"notifications": wanted, "_meta": client.stamp}
    client.send({"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": params})
    first = await client.get(
        lambda found: found.get("params", {}).get("_meta", {}).get(SUBSCRIPTION_ID) == id_
    )
    assert first["method"] == ACKNOWLEDGED
    assert type(first["params"]["_meta"][SUBSCRIPTION_ID]) is type(id_)
    honoured: Message = first["params"]["notifications"]
    return honoured


@req("SUB-2", "SUB-3", "SUB-6", "SUB-8", "META-7", "TOOL-11", at=E)
def test_a_stream_carries_what_it_was_opened_for() -> None:
    made = everything()

    async def main() -> None:
        async with served(made, LATEST) as client:
            assert await listen(client, 7, toolsListChanged=True, resourceSubscriptions=["a:1"]) == {
                "toolsListChanged": True, "resourceSubscriptions": ["a:1"],
            }  # fmt: skip
            assert await listen(client, "7", promptsListChanged=True, toolsListChanged=False) == {
                "promptsListChanged": True
            }
            await client.settle()
            change_all(made)
            found = await client.settle()
        by_stream = [
            (message["params"]["_meta"][SUBSCRIPTION_ID], *pair)
            for message, pair in zip(found, told(found), strict=True)
        ]
        assert by_stream == [
            (7, LISTS["tools"], None), ("7", LISTS["prompts"], None), (7, UPDATED, "a:1"),
        ]  # fmt: skip

    run(main())


@req("SUB-2", "SUB-3")
def test_a_stream_says_what_the_server_cannot_do() -> None:
    made = server(**LISTED["tools"])

    async def main() -> None:
        async with served(made, LATEST) as client:
            everything_ = {
                "toolsListChanged": True,
                "promptsListChanged": True,
                "resourceSubscriptions": ["a:1"],
            }
            assert await listen(client, 1, **everything_) == {"toolsListChanged": True}
            assert await listen(client, 2) == {}
            await client.settle()
            change_all(made)
            assert told(await client.settle()) == [(LISTS["tools"], None)]

    run(main())


@req("SUB-3")
def test_a_stream_carries_neither_logs_nor_progress_nor_what_came_before_it() -> None:
    async def call(ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        await ctx.log("error", "x")
        await ctx.progress(1)
        ctx.changed("tools")
        return text("done")

    made = server(call_tool=call, **LISTED["tools"])

    async def main() -> None:
        async with served(made, LATEST) as client:
            change_all(made)
            assert await client.settle() == []
            await listen(client, 1, toolsListChanged=True)
            params = {"name": "t", "_meta": {PREFIX + "logLevel": "debug", "progressToken": "p"}}
            answer = await client.ask("tools/call", params)
            assert {found["method"] for found in answer.before} == {
                "notifications/message", "notifications/progress", LISTS["tools"],
            }  # fmt: skip
            for found in answer.before:
                streamed = SUBSCRIPTION_ID in found["params"].get("_meta", {})
                assert streamed is (found["method"] == LISTS["tools"])

    run(main())


@req("SUB-4", "AMB-1", "MOD-7")
def test_the_server_ends_streams_with_a_result() -> None:
    made = everything()

    async def main() -> None:
        async with served(made, LATEST) as client:
            await listen(client, 1, toolsListChanged=True)
            await listen(client, 2, toolsListChanged=True)
            client.tell("notifications/cancelled", {"requestId": 1})
            await client.settle()
            (connection,) = made._connections
            await connection.aclose()
            await until(lambda: client.lost)
        *_, last = client.got
        assert (last["id"], last["result"]["resultType"]) == (2, "complete")
        assert last["result"]["_meta"][SUBSCRIPTION_ID] == 2
        assert last["result"]["_meta"].keys() == {SUBSCRIPTION_ID, PREFIX + "serverInfo"}
        assert not [found for found in client.got if found.get("id") == 1]

    run(main())


# -- the client ------------------------------------------------------------------------------------------


@each_session
@req("SUB-7", "CONV-38")
def test_in_sessions_a_client_subscribes_to_each_resource_once(row: Revision) -> None:
    async def main() -> None:
        script: Any = {"resources/subscribe": {}, "resources/unsubscribe": {}}
        async with serving(row, script) as (client, hand):
            async with client.listen(tools=True, uris=["a:1", "a:2"]) as one, client.listen(uris=["a:1"]):
                subscribed = hand.asked("resources/subscribe")
                assert {params["uri"] for params in subscribed} == {"a:1", "a:2"}
                for method in (*LISTS.values(), "notifications/message"):
                    hand.tell(method, {"level": "info", "data": 1} if "message" in method else None)
                for uri in ("a:3", "a:2"):
                    hand.tell(UPDATED, {"uri": uri})
                assert {await anext(one), await anext(one)} == {
                    mcprev.Change(Changed.TOOLS), mcprev.Change(Changed.RESOURCE, "a:2"),
                }  # fmt: skip
            unsubscribed = [params["uri"] for params in hand.asked("resources/unsubscribe")]
            assert sorted(unsubscribed) == ["a:1", "a:2"]

    run(main())


@req("SUB-5", "SUB-7", at=E)
def test_a_flood_of_changes_that_nobody_reads_has_a_bound() -> None:
    """Changes of lists, and of resources that were subscribed to, are kept whatever comes besides."""

    async def main() -> None:
        async with serving(LATEST, {"subscriptions/listen": lambda _: None}) as (client, hand):
            subscription = client.listen(tools=True, uris=["a:1"])
            opening = asyncio.create_task(subscription.__aenter__())
            request = await hand.get(lambda found: found.get("method") == "subscriptions/listen")
            meta = {SUBSCRIPTION_ID: request["id"]}
            hand.tell(ACKNOWLEDGED, {"notifications": request["params"]["notifications"], "_meta": meta})
            await opening
            for number in range(WAITING + 500):
                hand.tell(UPDATED, {"uri": f"flood:{number}", "_meta": meta})
            hand.tell(LISTS["tools"], {"_meta": meta})
            hand.tell(UPDATED, {"uri": "a:1", "_meta": meta})
            await client.ping()  # until all of it has arrived
            found = [await anext(subscription) for _ in range(WAITING + 2)]
            assert found[-2:] == [mcprev.Change(Changed.TOOLS), mcprev.Change(Changed.RESOURCE, "a:1")]
            await subscription.aclose()

    run(main())


@req("SUB-5", "SUB-6", "SUB-7", at=E)
def test_a_client_tells_its_streams_apart() -> None:
    async def main() -> None:
        async with serving(LATEST, {"subscriptions/listen": lambda _: None}) as (client, hand):

            async def acknowledge() -> Json:
                request = await hand.get(lambda found: found.get("method") == "subscriptions/listen")
                meta = {SUBSCRIPTION_ID: request["id"]}
                filter_ = request["params"]["notifications"]
                hand.tell(ACKNOWLEDGED, {"notifications": filter_, "_meta": meta})
                return request["id"]

            first, second = client.listen(tools=True), client.listen(uris=["a:1"])
            ids: list[Json] = []
            for subscription in (first, second):
                opening = asyncio.create_task(subscription.__aenter__())
                ids.append(await acknowledge())
                await opening
            assert [dict(found.honoured) for found in (first, second)] == [
                {"toolsListChanged": True}, {"resourceSubscriptions": ["a:1"]},
            ]  # fmt: skip
            hand.tell(UPDATED, {"uri": "a:1", "_meta": {SUBSCRIPTION_ID: ids[1]}})
            hand.tell(LISTS["tools"], {"_meta": {SUBSCRIPTION_ID: ids[0]}})
            assert await anext(first) == mcprev.Change(Changed.TOOLS)
            assert await anext(second) == mcprev.Change(Changed.RESOURCE, "a:1")
            # One ends in good order, the other is torn down, which is a loss (AMB-1).
            done = {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: ids[0]}}
            hand.send({"jsonrpc": "2.0", "id": ids[0], "result": done})
            with pytest.raises(StopAsyncIteration):
                await anext(first)
            hand.tell("notifications/cancelled", {"requestId": ids[1]})
            hand.tell("notifications/cancelled", {"requestId": ids[1]})
            with pytest.raises(ConnectionLost):
                await anext(second)

    run(main())


@req("SUB-1", "SUB-2", "SUB-8", everywhere=True)
def test_every_kind_of_change_has_a_method_a_filter_and_a_capability() -> None:
    assert set(CHANGES) == set(Changed) - {Changed.TASK}
    with pytest.raises(mcprev.LocalProtocolError):
        everything().changed("task")
    for change in CHANGES.values():
        assert change.method in LATEST.methods
