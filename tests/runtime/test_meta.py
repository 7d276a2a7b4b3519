"""META-*: what stands in `_meta` of requests and results, as a peer by hand sends and sees it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import mcprev
from api.authors import Everything, Helpful
from api.wire import CLIENT_INFO, SERVER_INFO, VERSION, Message, served, serving
from helpers.requirements import req
from helpers.running import run
from mcprev.errors import LocalProtocolError
from mcprev.revisions import Revision
from mcprev_types.latest import models as m

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ODD: Message = {
    "_fastmcp": {"tags": []}, "a b": None, "": 1, "x/y/z": [1], "vendor.example/key": {"deep": [None, 1.5]}, "é": "é",
}  # fmt: skip
"""Keys that no author may write by now, beside one that anybody may."""
TAKEN: Message = {
    "io.modelcontextprotocol/anything": {"a": 1}, "io.modelcontextprotocol/related-task": 7,
    "io.modelcontextprotocol/subscriptionId": {"a": 1}, "dev.mcp/x": [], "mcp.dev/x": 0, "a.b.mcp/y": None,
    "traceparent": "no trace", "baggage": 7,
}  # fmt: skip
"""Reserved keys with values that mean nothing."""


class Mirror(Everything):
    """Gives back what a request's `_meta` holds."""

    async def do_echo(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        seen = {key: value for key, value in ctx.meta.items() if key != "progressToken"}
        return m.CallToolResult.from_wire({"resultType": "complete", "content": [], "_meta": seen})


def ignored(progress: float, total: float | None, message: str | None) -> None: ...


def keys_of(message: Message) -> set[str]:
    """The keys in the `_meta` of a message's params or result."""
    body: Message = message.get("result") or message.get("params") or {}
    return set(body.get("_meta") or {})


def mirror() -> mcprev.Server:
    return mcprev.Server(Mirror(), "mirror", "1")


def vendors(meta: Message) -> Message:
    return {key: value for key, value in meta.items() if not key.startswith("io.modelcontextprotocol/")}


@req("META-1", "META-9")
def test_any_key_reaches_the_handler_and_the_caller(row: Revision) -> None:
    async def main() -> None:
        async with served(mirror(), row) as hand:
            answer = await hand.ask("tools/call", {"name": "echo"}, meta=ODD)
            assert vendors(answer.result["_meta"]) == ODD
        async with serving(row, {"tools/call": {"content": [], "_meta": ODD}}) as (client, _):
            result = await client.call_tool("x")
            assert vendors(result.to_wire()["_meta"]) == ODD

    run(main())


@req("META-3", "META-4", "AMB-13")
def test_nothing_is_made_of_reserved_keys_that_mean_nothing_here(row: Revision) -> None:
    async def main() -> None:
        async with served(mirror(), row) as hand:
            for method, params in (
                ("tools/call", {"name": "echo"}),
                ("tools/list", {}),
                ("prompts/get", {"name": "p"}),
            ):
                assert (await hand.ask(method, params, meta=TAKEN)).result
        async with serving(row, {"tools/call": {"content": [], "_meta": TAKEN}}, handler=Helpful()) as (
            client,
            by_hand,
        ):
            assert (await client.call_tool("x")).content == []
            by_hand.tell("notifications/message", {"level": "info", "data": 1, "_meta": TAKEN})
            by_hand.tell("notifications/tools/list_changed", {"_meta": TAKEN})
            assert (await client.call_tool("x")).content == []

    run(main())


@req("META-2", "META-3", "META-6", "AMB-13")
@pytest.mark.parametrize(
    "wrong",
    ["a b", "_x", "x/y/z", "1a/b", "io.modelcontextprotocol/mine", "dev.mcp/mine", "traceparent", "tracestate", "baggage"],
)  # fmt: skip
def test_a_caller_is_told_which_key_it_may_not_write(row: Revision, wrong: str) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            await client.call_tool("x")
            seen = len(hand.got)
            for call in (
                lambda: client.call_tool("x", meta={wrong: "no"}),
                lambda: client.raw("x", meta={wrong: "no"}),
            ):
                with pytest.raises(LocalProtocolError, match=wrong):
                    await call()
            assert len(hand.got) == seen

    run(main())


@req("META-2")
def test_a_handler_learns_of_keys_that_it_should_not_write(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """What it returns may be another server's, so it goes out."""
    key = f"no key at {row.name}"

    class Careless(Everything):
        async def do_echo(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
            return m.CallToolResult.from_wire({"resultType": "complete", "content": [], "_meta": {key: 1}})

    async def main() -> None:
        async with served(mcprev.Server(Careless(), "s", "1"), row) as hand:
            for _ in range(3):
                assert vendors((await hand.ask("tools/call", {"name": "echo"})).result["_meta"]) == {key: 1}

    with caplog.at_level(logging.WARNING, logger="mcprev.server"):
        run(main())
    assert [key in record.getMessage() for record in caplog.records] == [True]


@req("META-5")
def test_the_runtimes_own_keys_are_in_the_namespace_of_the_specification(row: Revision) -> None:
    async def main() -> None:
        keys: set[str] = set()
        async with served(mirror(), row, capabilities={"sampling": {}, "roots": {}}) as hand:
            for name in ("echo", "progress", "log", "crash", "ask"):
                await hand.ask("tools/call", {"name": name, "_meta": {"progressToken": 1}})
            for method in ("tools/list", "resources/list", "prompts/list"):
                await hand.ask(method)
            for message in hand.got:
                keys |= keys_of(message)
        async with serving(row, {"tools/call": {"content": []}}) as (client, by_hand):
            await client.call_tool("x", progress=ignored)
            for message in by_hand.got:
                keys |= keys_of(message)
        assert "progressToken" in keys
        assert {key for key in keys if not key.startswith("io.modelcontextprotocol/")} == {"progressToken"}

    run(main())


@req("META-6")
def test_trace_context_goes_through(row: Revision) -> None:
    trace = {"traceparent": PARENT, "tracestate": "a=1,b@c=2", "baggage": "k=v;p, l=w"}

    async def main() -> None:
        async with mcprev.connect(mcprev.memory(mirror()), mode=row.name) as client:
            result = await client.call_tool("echo", meta=trace)
            assert vendors(result.to_wire()["_meta"]) == trace

    run(main())


@req("META-9")
def test_keys_of_callers_and_of_the_runtime_stand_side_by_side(row: Revision) -> None:
    async def main() -> None:
        own = {"vendor.example/a": 1, "b": {"progressToken": "mine"}}
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            given = dict(own)
            await client.call_tool("x", meta=given, progress=ignored)
            assert given == own
            sent = hand.requests[-1]["params"]["_meta"]
            assert {key: sent[key] for key in own} == own
            assert sent["progressToken"] == hand.requests[-1]["id"]
            for key in (VERSION, CLIENT_INFO, "progressToken"):
                with pytest.raises(LocalProtocolError, match="set by the runtime"):
                    await client.call_tool("x", meta={key: "mine"})
        async with served(mirror(), row) as caller:
            meta = (await caller.ask("tools/call", {"name": "echo"}, meta=own)).result["_meta"]
            assert {key: meta[key] for key in own} == own
            assert (SERVER_INFO in meta) is not row.handshake

    run(main())
