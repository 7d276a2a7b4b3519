"""LIFE-*: how sessions open, what they allow and how they end, as a peer by hand sees it at each revision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import mcprev
from api.authors import URLS, Everything, Helpful, sample
from api.wire import CLIENT_CAPABILITIES, INFO, HandClient, HandServer, served, serving
from helpers.requirements import B, req
from helpers.running import run, until
from helpers.support import load
from mcprev.errors import LocalProtocolError, NegotiationError, RequestTimeout
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev.transports.memory import connect_pair
from mcprev_types.latest import models as m

HANDSHAKE = tuple(row for row in DEFAULT if row.handshake)


TEXT = {"type": "text", "text": "it"}


class Nothing(mcprev.ServerHandler):
    """Serves nothing."""


class Tools(mcprev.ServerHandler):
    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])


class Prompts(mcprev.ServerHandler):
    async def list_prompts(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListPromptsResult:
        return m.ListPromptsResult(prompts=[])

    async def complete(self, ctx: mcprev.Context, params: m.CompleteRequestParams) -> m.CompleteResult:
        return m.CompleteResult(completion=m.CompleteResultCompletion(values=[]))


class Resources(mcprev.ServerHandler):
    async def list_resources(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourcesResult:
        return m.ListResourcesResult(resources=[])


class Sampler(mcprev.ClientHandler):
    async def create_message(
        self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
    ) -> m.CreateMessageResult:
        return m.CreateMessageResult(role="assistant", model="x", content=m.TextContent(text="x"))


def ignored(progress: float, total: float | None, message: str | None) -> None: ...


def without_tasks(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Capabilities but for those of tasks, which have tests of their own."""
    return {name: value for name, value in capabilities.items() if name not in {"tasks", "extensions"}}


class Sampling(Everything):
    async def do_sample(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return m.CallToolResult(content=[m.TextContent(text=(await ctx.ask("s", sample())).model)])


def server(*revisions: str, handler: mcprev.ServerHandler | None = None) -> mcprev.Server:
    return mcprev.Server(handler or Everything(), "everything", "1", revisions=revisions or None)


# -- opening ---------------------------------------------------------------------------------------------


@req("LIFE-1", "LIFE-5", "LIFE-6")
def test_a_client_asks_then_confirms(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            await client.call_tool("x")
            first, second, third = hand.got
            assert (first["method"], set(first["params"])) == (
                "initialize", {"protocolVersion", "capabilities", "clientInfo"},
            )  # fmt: skip
            assert first["params"]["protocolVersion"] == row.version
            assert second == {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert third["method"] == "tools/call"

    run(main())


@req("LIFE-2")
def test_a_client_asks_for_its_latest_session_revision(row: Revision) -> None:
    async def main() -> None:
        hand = HandServer(row)
        names = [found.name for found in DEFAULT if found.name <= row.name] + [DEFAULT[-1].name]
        target: Any = hand
        async with mcprev.connect(mcprev.memory(target), revisions=names, mode="legacy") as client:
            assert client.revision == row.name
            assert [message["method"] for message in hand.got[:1]] == ["initialize"]
            assert hand.hello["protocolVersion"] == row.version

    run(main())


@req("LIFE-3", "AMB-2")
@pytest.mark.parametrize("asked", ["own", "1999-01-01", "2099-12-31", ""])
def test_a_server_answers_with_what_it_speaks(row: Revision, asked: str) -> None:
    async def main() -> None:
        made = server(row.name, DEFAULT[-1].name)
        connection, hand = made.connection(), HandClient(row)
        connect_pair(hand, connection)
        version = row.version if asked == "own" else asked
        said: dict[str, Any] = {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}
        assert (await hand.ask("initialize", said)).result["protocolVersion"] == row.version
        await connection.aclose()

    run(main())


@req("LIFE-4")
@pytest.mark.parametrize("answer", ["1999-01-01", "2099-12-31", DEFAULT[-1].version])
def test_a_client_leaves_a_server_of_another_version(row: Revision, answer: str) -> None:
    async def main() -> None:
        said: dict[str, Any] = {"protocolVersion": answer, "capabilities": {}, "serverInfo": INFO}
        hand = HandServer(row, {"initialize": said})
        target: Any = hand
        with pytest.raises(NegotiationError) as caught:
            await mcprev.connect(mcprev.memory(target), mode=row.name)
        assert (caught.value.ours, caught.value.theirs) == ((row.name,), (answer,))
        assert row.name in str(caught.value)
        assert answer in str(caught.value)
        await until(lambda: hand.lost)
        assert [message["method"] for message in hand.got] == ["initialize"]

    run(main())


@req("LIFE-7")
def test_a_server_is_silent_until_it_is_confirmed(row: Revision) -> None:
    async def main() -> None:
        made = server()
        connection, hand = made.connection(), HandClient(row)
        connect_pair(hand, connection)
        said: dict[str, Any] = {
            "protocolVersion": row.version,
            "capabilities": {"sampling": {}, "roots": {}},
            "clientInfo": INFO,
        }
        await hand.ask("initialize", said)
        made.changed("tools")
        made.changed("prompts")
        await hand.ask("ping")
        assert [message for message in hand.got if "method" in message] == []
        hand.tell("notifications/initialized")
        await hand.ask("ping")
        made.changed("tools")
        assert await hand.heard("notifications/tools/list_changed") == {}
        await connection.aclose()

    run(main())


@req("LIFE-7", "LIFE-8")
def test_a_question_waits_for_the_confirmation(row: Revision) -> None:
    """A call that came too soon is served, and what it asks goes out after `initialized`, unless it is cancelled."""

    async def main() -> None:
        connection, hand = server(handler=Sampling()).connection(), HandClient(row)
        connect_pair(hand, connection)
        hand.replies["sampling/createMessage"] = {"role": "assistant", "model": "m", "content": TEXT}
        said: dict[str, Any] = {
            "protocolVersion": row.version,
            "capabilities": {"sampling": {}},
            "clientInfo": INFO,
        }
        await hand.ask("initialize", said)
        for id_ in "ab":
            hand.send({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": "sample"}})
        for _ in range(3):
            await hand.ask("ping")
        assert [message for message in hand.got if "method" in message] == []
        hand.tell("notifications/cancelled", {"requestId": "a"})
        await hand.ask("ping")
        hand.tell("notifications/initialized")
        assert (await hand.get(lambda found: found.get("id") == "b"))["result"]["content"][0]["text"] == "m"
        assert [message["method"] for message in hand.got if "method" in message] == [
            "sampling/createMessage"
        ]
        await connection.aclose()

    run(main())


@req("LIFE-8", "PING-1")
def test_before_the_session_only_ping_is_answered(row: Revision) -> None:
    async def main() -> None:
        connection, hand = server(row.name).connection(), HandClient(row)
        connect_pair(hand, connection)
        assert (await hand.ask("ping")).result == {}
        early = (await hand.ask("tools/list")).error
        assert early["code"] == -32600
        assert "initialize first" in early["message"]
        assert (await hand.ask("no/such")).code == -32601
        said: dict[str, Any] = {"protocolVersion": row.version, "capabilities": {}, "clientInfo": INFO}
        await hand.ask("initialize", said)
        # Clients in the wild do not wait for their confirmation to be sent.
        assert (await hand.ask("tools/list")).result["tools"]
        hand.tell("notifications/initialized")
        assert (await hand.ask("tools/list")).result["tools"]
        await connection.aclose()

    run(main())


@req("LIFE-15")
def test_a_session_is_opened_once(row: Revision) -> None:
    async def main() -> None:
        async with served(server(), row) as hand:
            for version in (row.version, HANDSHAKE[0].version):
                said: dict[str, Any] = {
                    "protocolVersion": version,
                    "capabilities": {"roots": {}},
                    "clientInfo": INFO,
                }
                assert (await hand.ask("initialize", said)).code == -32600
            assert (await hand.ask("tools/list")).result["tools"]

    run(main())


@req("LIFE-17")
@pytest.mark.parametrize("how", ["timeout", "cancelled"])
def test_opening_is_given_up_in_silence(row: Revision, how: str) -> None:
    async def main() -> None:
        hand = HandServer(row, {"initialize": lambda _: None})
        target: Any = hand
        opening = mcprev.connect(
            mcprev.memory(target), mode=row.name, open_timeout=0.02 if how == "timeout" else 9
        )
        task = asyncio.create_task(opening.__aenter__())
        await hand.heard("initialize")
        if how == "cancelled":
            task.cancel()
        with pytest.raises(asyncio.CancelledError if how == "cancelled" else NegotiationError):
            await task
        await until(lambda: hand.lost)
        assert [message["method"] for message in hand.got] == ["initialize"]

    run(main())


# -- what was declared -----------------------------------------------------------------------------------


@req("LIFE-9", "LIFE-10")
def test_a_client_asks_for_nothing_that_was_not_offered(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": {"content": []}, "ping": {}}, capabilities={"tools": {}}) as (
            client,
            hand,
        ):
            await client.call_tool("x")
            seen = len(hand.got)
            reference = m.PromptReference(name="p")
            calls: list[Callable[[], Awaitable[object]]] = [
                client.list_prompts, client.list_resources, lambda: client.get_prompt("p"),
                lambda: client.read_resource("a:b"), lambda: client.set_log_level("info"),
            ]  # fmt: skip
            if row.name >= B:  # the first revision has no capability for it
                calls.append(lambda: client.complete(reference, "a", "b"))
            for call in calls:
                with pytest.raises(LocalProtocolError):
                    await call()
            with pytest.raises(LocalProtocolError):
                async with client.listen(uris=["a:b"]):
                    pass
            client.roots_changed()
            await client.ping()
            assert [message["method"] for message in hand.got[seen:]] in (
                ["ping"],
                ["notifications/initialized", "ping"],
            )

    run(main())


@req("LIFE-9", "LIFE-10")
def test_a_server_serves_and_asks_for_nothing_that_was_not_declared(row: Revision) -> None:
    async def main() -> None:
        async with served(server(handler=Tools()), row) as hand:
            assert "prompts" not in hand.hello["capabilities"]
            for method in ("prompts/list", "resources/list", "resources/subscribe", "completion/complete"):
                assert (await hand.ask(method, {"uri": "a:b"})).code == -32601
        async with served(server(), row, capabilities={"roots": {}}) as hand:
            assert (await hand.ask("tools/call", {"name": "ask"})).code == -32602
            assert (await hand.ask("tools/call", {"name": "ask_url"})).code == -32602
            assert [message for message in hand.got if "method" in message] == []

    run(main())


FLAGS: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True},
    "logging": {},
}


@req("LIFE-11", "SEAM-3")
@pytest.mark.parametrize(
    ("handler", "names", "since_b"),
    [(Nothing, [], []), (Tools, ["tools", "logging"], []), (Prompts, ["prompts", "logging"], ["completions"]),
     (Resources, ["resources", "logging"], []),
     (Everything, ["tools", "prompts", "logging"], ["completions"])],
)  # fmt: skip
def test_a_server_declares_what_it_serves(
    row: Revision, handler: type[mcprev.ServerHandler], names: list[str], since_b: list[str]
) -> None:
    async def main() -> None:
        async with served(server(handler=handler()), row) as hand:
            wanted = {name: FLAGS[name] for name in names}
            wanted |= {name: {} for name in since_b if row.name >= B}
            if handler is Everything:  # whoever reads resources can tell that they changed
                wanted["resources"] = {"listChanged": True, "subscribe": True}
            assert without_tasks(hand.hello["capabilities"]) == wanted

    run(main())


@req("LIFE-12", "SEAM-3")
def test_a_client_declares_what_it_can_be_asked(row: Revision) -> None:
    # A revision that has forms only does not name them.
    modes: Any = {"form": {}} if "url" in row.elicitation_modes else {} if row.elicitation_modes else None
    urls: Any = {"form": {}, "url": {}} if "url" in row.elicitation_modes else modes
    roots: dict[str, Any] = {"roots": {"listChanged": True} if row.handshake else {}}

    async def main() -> None:
        cases: list[tuple[Any, Any, dict[str, Any]]] = [
            (None, None, {}),
            (Sampler(), None, {"sampling": {}}),
            (Helpful(), None, {"sampling": {}, **roots, "elicitation": modes}),
            (Helpful(), URLS, {"sampling": {}, **roots, "elicitation": urls}),
        ]
        for handler, extra, wanted in cases:
            async with serving(row, handler=handler, capabilities_of_client=extra) as (_, hand):
                expected: dict[str, Any] = {
                    name: value for name, value in wanted.items() if value is not None
                }
                declared: Any = hand.hello.get("capabilities", hand.hello.get(CLIENT_CAPABILITIES))
                assert without_tasks(declared) == expected

    run(main())


@req("LIFE-13")
def test_unknown_capabilities_are_kept(row: Revision) -> None:
    odd: dict[str, Any] = {
        "tools": {"x": 1},
        "vendor": {"a": [1]},
        "experimental": {"own": {"deep": {"a": None}}},
    }

    class Curious(Everything):
        async def do_echo(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
            return m.CallToolResult(content=[], structured_content=ctx.client_capabilities.to_wire())

        async def do_raw(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
            return m.CallToolResult(content=[m.TextContent(text=str(ctx.request.capabilities == theirs))])

    theirs: dict[str, Any] = {
        "vendor": {"a": [1]},
        "sampling": {"x": 1},
        "experimental": {"own": {"a": None}},
    }

    async def main() -> None:
        async with serving(row, capabilities=odd) as (client, _):
            found = client.capabilities.to_wire()
            assert {name: found[name] for name in ("tools", "vendor", "experimental")} == odd
            assert client.connection.protocol.engine.peer_capabilities == odd  # type: ignore[attr-defined]
        async with served(server(handler=Curious()), row, capabilities=theirs) as hand:
            answer = await hand.ask("tools/call", {"name": "raw"})
            assert answer.result["content"][0]["text"] == "True"

    run(main())


def of_implementation(row: Revision) -> set[str]:
    """The members that a revision has for the info of a peer."""
    return {f.name for f in load(row.name).schema.flat("Implementation").fields}


@req("LIFE-14")
def test_instructions_and_names(row: Revision) -> None:
    icon = {"src": "https://x.test/i.png", "mimeType": "image/png"}
    known = of_implementation(row) & of_implementation(LATEST)
    site = "https://x.test" if "websiteUrl" in known else None
    made = mcprev.Server(
        Everything(), "s", "1", title="S", description="serves", website_url=site,
        icons=[m.Icon.from_wire(icon)], instructions="use it",
    )  # fmt: skip

    async def main() -> None:
        async with served(made, row) as hand:
            named: dict[str, Any] = {"name": "s", "version": "1", "title": "S", "description": "serves"}
            named |= {"websiteUrl": "https://x.test", "icons": [icon]}
            assert hand.hello["serverInfo"] == {k: v for k, v in named.items() if k in known}
            assert hand.hello["instructions"] == "use it"
        async with served(server(), row) as hand:
            assert "instructions" not in hand.hello
        info: dict[str, Any] = {"name": "h", "version": "1", "title": "H", "description": "by hand"}
        info = {k: v for k, v in (info | {"websiteUrl": "https://x.test"}).items() if k in known}
        said: dict[str, Any] = {"protocolVersion": row.version, "capabilities": {}, "serverInfo": info}
        async with serving(
            row, {"initialize": {**said, "instructions": "be kind"}}, title="T", description="asks"
        ) as (
            client,
            peer,
        ):
            assert client.server_info is not None
            assert client.server_info.to_wire() == info
            assert client.instructions == "be kind"
        opened = peer.got[0]["params"]["clientInfo"]
        wanted = {"name": "mcprev", "version": mcprev.__version__, "title": "T", "description": "asks"}
        assert opened == {k: v for k, v in wanted.items() if k in known}

    run(main())


# -- the end ---------------------------------------------------------------------------------------------


@req("LIFE-16")
def test_nobody_says_goodbye(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": {"content": []}}) as (client, hand):
            await client.call_tool("x")
            seen = list(hand.got)
        await until(lambda: hand.lost)
        assert hand.got == seen
        async with served(server(), row) as caller:
            await caller.ask("tools/list")
            seen = list(caller.got)
        await until(lambda: caller.lost)
        assert caller.got == seen

    run(main())


@req("LIFE-18", "TIME-1", "ERR-5")
def test_calls_have_limits_and_their_own(row: Revision) -> None:
    """Progress sets one clock back, never the other; each call may have limits of its own."""

    async def main() -> None:
        async with serving(row, {"tools/call": lambda _: None}, timeout=60, total_timeout=60) as (
            client,
            hand,
        ):
            with pytest.raises(RequestTimeout) as idle:
                await client.call_tool("x", timeout=0.02)
            asked = await hand.heard("notifications/cancelled")
            call = next(message for message in hand.got if message.get("method") == "tools/call")
            assert asked["requestId"] == call["id"]
            assert idle.value.kind == "idle"

            began = asyncio.get_running_loop().time()
            waiting = asyncio.create_task(
                client.call_tool("y", timeout=9, total_timeout=0.2, progress=ignored)
            )
            message = await hand.get(
                lambda found: found.get("method") == "tools/call" and found["id"] != call["id"]
            )
            token = message["params"]["_meta"]["progressToken"]
            for number in range(1000):
                hand.tell("notifications/progress", {"progressToken": token, "progress": number})
                done, _ = await asyncio.wait({waiting}, timeout=0.01)
                if done:
                    break
            with pytest.raises(RequestTimeout) as total:
                await waiting
            assert total.value.kind == "total"
            assert asyncio.get_running_loop().time() - began >= 0.2
            assert (await hand.heard("notifications/cancelled"))["requestId"] == message["id"]
        async with serving(row, {"tools/call": lambda _: None}, timeout=0.02) as (client, hand):
            with pytest.raises(RequestTimeout):
                await client.call_tool("x")

    run(main())


@req("LIFE-18")
def test_questions_of_a_server_have_limits(row: Revision) -> None:
    class Impatient(Everything):
        async def do_ask(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
            try:
                await ctx.ask("roots", m.ListRootsRequest(), timeout=0.02)
            except RequestTimeout as error:
                return m.CallToolResult(content=[m.TextContent(text=error.kind)])
            raise AssertionError

    async def main() -> None:
        made = server(handler=Impatient())
        async with served(
            made, row, capabilities={"roots": {}}, replies={"roots/list": lambda _: None}
        ) as hand:
            answer = await hand.ask("tools/call", {"name": "ask"})
            assert answer.result["content"][0]["text"] in {"idle", "total"}
            (question,) = [message for message in hand.got if message.get("method") == "roots/list"]
            (given_up,) = answer.notified("notifications/cancelled")
            assert given_up["requestId"] == question["id"]

    run(main())
