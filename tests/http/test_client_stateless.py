"""A client over HTTP where every request stands alone: streams that break, and listening."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import mcprev
from helpers.named import ROW_D, ROW_E
from helpers.raw_server import EVERYTHING, Exchange, Mcp, connected, serve, text, tool
from helpers.requirements import D, E, req
from helpers.running import run, until
from mcprev.errors import ConnectionLost, HttpStatusError
from mcprev.protocol.negotiation.steps import Ready
from mcprev.revisions import Revision, revision_named

LATEST = revision_named(E)
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CALLS: dict[str, Callable[[mcprev.Client], Awaitable[object]]] = {
    "tools/list": lambda client: client.list_tools(),
    "resources/list": lambda client: client.list_resources(),
    "resources/templates/list": lambda client: client.list_resource_templates(),
    "resources/read": lambda client: client.read_resource("a:1"),
    "prompts/list": lambda client: client.list_prompts(),
    "prompts/get": lambda client: client.get_prompt("p"),
    "server/discover": lambda client: client.ping(),
}
RESULTS: dict[str, Any] = {
    "tools/list": {"tools": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": []},
    "prompts/list": {"prompts": []},
    "prompts/get": {"messages": []},
    "server/discover": {"supportedVersions": [E], "capabilities": EVERYTHING},
}


class Breaking(Mcp):
    """Breaks the streams of a method, as often as it is told to."""

    def __init__(self, method: str, times: int, replies: Any = None) -> None:
        super().__init__(LATEST, {**RESULTS, "tools/call": text("x"), **(replies or {})})
        self.method = method
        self.times = times
        self.broken = 0
        self.armed = False

    async def __call__(self, response_stream: Exchange) -> None:
        if self.armed and response_stream.method == self.method and self.broken < self.times:
            self.broken += 1
            await response_stream.stream()
            response_stream.cut()
        else:
            await super().__call__(response_stream)


@pytest.mark.parametrize("method", CALLS)
@req("HTTPM-7", "BASE-4", at=E)
def test_what_only_reads_is_asked_again_under_a_new_id(method: str) -> None:
    async def main(times: int) -> None:
        server = Breaking(method, times)
        async with serve(server) as raw, mcprev.connect(mcprev.http(raw.url), mode=E, cache=False) as client:
            server.armed = True
            before = len(raw.asked(method=method))
            if times == 1:
                await CALLS[method](client)
            else:
                with pytest.raises(ConnectionLost) as caught:
                    await CALLS[method](client)
                assert caught.value.in_flight
            ids = [post.message["id"] for post in raw.asked(method=method)[before:]]
            assert len(ids) == 2
            assert len(set(ids)) == 2

    run(main(1))
    run(main(2))


@pytest.mark.parametrize(
    ("hints", "retry", "again"),
    [
        ({}, False, False),
        ({"readOnlyHint": False, "idempotentHint": False}, False, False),
        ({"readOnlyHint": True}, False, True),
        ({"idempotentHint": True}, False, True),
        ({"destructiveHint": False}, False, False),
        ({}, True, True),
    ],
)
@req("HTTPM-7", "TOOL-9", at=E)
def test_a_tool_is_called_again_if_that_does_no_harm_or_is_wanted(
    hints: dict[str, bool], retry: bool, again: bool
) -> None:
    async def main() -> None:
        listed = {"tools": [{**tool("t"), "annotations": hints}]}
        server = Breaking("tools/call", 1, {"tools/list": listed})
        server.armed = True
        async with serve(server) as raw, mcprev.connect(mcprev.http(raw.url), mode=E) as client:
            if again:
                await client.call_tool("t", retry=retry)
            else:
                with pytest.raises(ConnectionLost) as caught:
                    await client.call_tool("t", retry=retry)
                assert (caught.value.in_flight, caught.value.retry_safe) == (True, False)
            assert len(raw.asked(method="tools/call")) == (2 if again else 1)

    run(main())


@pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("hints", "retry"),
    [({}, False), ({"destructiveHint": False}, False), ({"readOnlyHint": True}, False), ({}, True)],
)
@req("HTTPM-7", "TOOL-9", "ERR-7", at=(D, E))
def test_a_call_whose_server_a_proxy_has_lost_is_one_whose_connection_broke(
    row: Revision, hints: dict[str, bool], retry: bool
) -> None:
    """A 502 of nginx: the call may have run. It is sent again as after a broken connection: once, if that does no harm."""
    again = retry or (bool(hints.get("readOnlyHint")) and not row.handshake)

    async def main() -> None:
        times = 0

        async def lost(exchange: Exchange) -> None:
            nonlocal times
            times += 1
            if times == 1:
                await exchange.respond(502, b"<html>502 Bad Gateway</html>")
            else:
                await exchange.result({**text("done"), "resultType": "complete"})

        listed = {"tools": [{**tool("t"), "annotations": hints}], "ttlMs": 0, "cacheScope": "private"}
        replies: dict[str, Any] = {"tools/call": lost, "tools/list": {**listed, "resultType": "complete"}}
        async with connected(row, replies) as (client, _, raw):
            await client.list_tools()
            if again:
                assert (await client.call_tool("t", retry=retry)).text == "done"
            else:
                with pytest.raises(ConnectionLost, match=r"a proxy lost the server \(HTTP 502") as caught:
                    await client.call_tool("t")
                assert (caught.value.in_flight, caught.value.retry_safe) == (True, False)
                assert isinstance(caught.value.__cause__, HttpStatusError)
            assert len(raw.asked(method="tools/call")) == 1 + again

    run(main())


@req("HTTPM-7", "ERR-7", at=E)
def test_a_server_that_is_out_of_order_is_not_asked_again() -> None:
    async def main() -> None:
        async def broken(response_stream: Exchange) -> None:
            await response_stream.respond(503)

        async with connected(LATEST, {"prompts/list": broken}) as (client, _, raw):
            with pytest.raises(HttpStatusError):
                await client.list_prompts()
            assert len(raw.asked(method="prompts/list")) == 1

    run(main())


# -- listening -------------------------------------------------------------------------------------------


async def acknowledge(response_stream: Exchange) -> None:
    """Open a listen stream."""
    await response_stream.stream()
    params = {
        "_meta": {SUBSCRIPTION: response_stream.message["id"]},
        "notifications": response_stream.message["params"]["notifications"],
    }
    await response_stream.event(
        {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
    )


async def change(response_stream: Exchange, what: str = "tools/list_changed") -> None:
    """Tell of a change on it."""
    params = {"_meta": {SUBSCRIPTION: response_stream.message["id"]}}
    await response_stream.event({"jsonrpc": "2.0", "method": f"notifications/{what}", "params": params})


@req("SUB-5", "SUB-6", "SUB-7", "HTTPM-6", at=E)
def test_each_listener_has_a_stream_whose_closing_ends_it() -> None:
    async def main() -> None:
        streams: list[Exchange] = []

        async def listen(response_stream: Exchange) -> None:
            streams.append(response_stream)
            await acknowledge(response_stream)
            await response_stream.gone.wait()

        async with connected(LATEST, {"subscriptions/listen": listen}) as (client, _, raw):
            async with client.listen(tools=True) as tools, client.listen(prompts=True) as prompts:
                assert len(streams) == 2
                await change(streams[1], "prompts/list_changed")
                assert await anext(prompts) == mcprev.Change(mcprev.Changed.PROMPTS)
                await change(streams[0])
                assert await anext(tools) == mcprev.Change(mcprev.Changed.TOOLS)
                await prompts.aclose()
                await streams[1].gone.wait()
                assert not streams[0].gone.is_set()
            await streams[0].gone.wait()
            assert raw.asked(method="notifications/cancelled") == []
            wanted = [stream.message["params"]["notifications"] for stream in streams]
            assert wanted == [{"toolsListChanged": True}, {"promptsListChanged": True}]

    run(main())


@req("SUB-4", "AMB-1", at=E)
def test_a_listen_stream_that_ends_with_a_result_is_over() -> None:
    async def main() -> None:
        async def listen(response_stream: Exchange) -> None:
            await acknowledge(response_stream)
            await change(response_stream)
            result = {"resultType": "complete", "_meta": {SUBSCRIPTION: response_stream.message["id"]}}
            await response_stream.event({**response_stream.response, "result": result})
            await response_stream.end()

        async with (
            connected(LATEST, {"subscriptions/listen": listen}) as (client, _, raw),
            client.listen(tools=True) as changes,
        ):
            assert [found.what async for found in changes] == [mcprev.Changed.TOOLS]
            assert len(raw.asked(method="subscriptions/listen")) == 1

    run(main())


@pytest.mark.parametrize("how", ["cut", "end", "refused"])
@req("SUB-4", "SUB-5", "HTTPM-7", at=E)
def test_a_listen_stream_that_breaks_is_opened_again_and_counts_as_a_change(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcprev.client.subscriptions.AGAIN", mcprev.ReconnectPolicy(limit=8, backoff=0.001))

    async def main() -> None:
        streams: list[Exchange] = []

        async def listen(response_stream: Exchange) -> None:
            streams.append(response_stream)
            if how == "refused" and len(streams) == 2:
                await response_stream.respond(503)
                return
            await acknowledge(response_stream)
            if len(streams) == 1 and how == "end":
                await response_stream.end()
            elif len(streams) == 1:
                response_stream.cut()
            else:
                await response_stream.gone.wait()

        async with (
            connected(LATEST, {"subscriptions/listen": listen}) as (client, _, _),
            client.listen(tools=True, uris=["a:1"]) as changes,
        ):
            found = {await anext(changes), await anext(changes)}
            assert found == {
                mcprev.Change(mcprev.Changed.TOOLS),
                mcprev.Change(mcprev.Changed.RESOURCE, "a:1"),
            }
            assert len({stream.message["id"] for stream in streams}) == (3 if how == "refused" else 2)
            assert client.reopened == 0
            assert isinstance(client.plan.step, Ready)

    run(main())


@req("SUB-4", "HTTPM-7", at=E)
def test_a_listen_stream_that_never_holds_is_given_up_where_nothing_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcprev.client.subscriptions.AGAIN", mcprev.ReconnectPolicy(limit=3, backoff=0.001))

    async def main() -> None:
        async def listen(response_stream: Exchange) -> None:
            await acknowledge(response_stream)
            response_stream.cut()

        async with (
            connected(LATEST, {"subscriptions/listen": listen}, restart=False) as (client, _, raw),
            client.listen(tools=True) as changes,
        ):
            with pytest.raises(ConnectionLost):
                _ = [found async for found in changes]
            assert len(raw.asked(method="subscriptions/listen")) == 4

    run(main())


@req("SUB-2", "ERR-7", at=E)
def test_a_server_that_does_not_let_listen_says_so() -> None:
    async def main() -> None:
        async def refuse(response_stream: Exchange) -> None:
            await response_stream.error(-32601, 404)

        async with connected(LATEST, {"subscriptions/listen": refuse}) as (client, _, raw):
            with pytest.raises(mcprev.MethodNotFound):
                async with client.listen(tools=True):
                    pass
            assert len(raw.asked(method="subscriptions/listen")) == 1

    run(main())


@pytest.mark.slow
@req("BASE-4", "HTTP-13", at=E)
def test_a_call_is_not_held_up_by_others_that_wait() -> None:
    """However many calls are open, another finds a connection."""

    async def main() -> None:
        release = asyncio.Event()

        async def called(response_stream: Exchange) -> None:
            if response_stream.message["params"]["name"] == "last":
                release.set()
            await release.wait()
            await response_stream.result(server.complete(text("x")))

        async with connected(LATEST, {"tools/call": called, "tools/list": {"tools": []}}) as (
            client,
            server,
            raw,
        ):
            waiting = [asyncio.create_task(client.call_tool("t")) for _ in range(150)]
            await until(lambda: len(raw.asked(method="tools/call")) == 150)
            await client.call_tool("last")
            await asyncio.gather(*waiting)

    run(main())
