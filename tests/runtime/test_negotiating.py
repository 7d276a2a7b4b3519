"""NEG-*, MOD-10: what a client and a server that may speak several revisions say first, and to what it leads."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import mcprev
from api.authors import Everything, sample
from api.wire import CLIENT_CAPABILITIES, INFO, VERSION, Error, HandServer, Json, Message, served
from bridge.hands import Servers
from core.fake_handler import RawPeer
from engine.fakes import initialize, modern, notification, request
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.errors import NegotiationError
from mcprev.protocol.negotiation.steps import Method, Ready
from mcprev.revisions import DEFAULT, LATEST, Era, Revision
from mcprev.transports.memory import connect_pair
from mcprev_types.latest import models as m

HANDSHAKE = tuple(row for row in DEFAULT if row.handshake)


class Asking(Everything):
    async def do_sample(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return m.CallToolResult(content=[m.TextContent(text=(await ctx.ask("s", sample())).model)])


class Dual(HandServer):
    """A server by hand that also has an answer to what its revision does not know."""

    def __init__(self, row: Revision, discover: Any, initialize: Any = None) -> None:
        super().__init__(row)
        self.answers: dict[str, Any] = {"server/discover": discover, "initialize": initialize}

    def _take(self, message: Message) -> None:
        answer = self.answers.get(message.get("method", ""))
        if answer is None:
            super()._take(message)
            return
        self.got.append(message)
        found: Json = answer(message) if callable(answer) else answer
        if isinstance(found, Error):
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": found.wire})
        elif found is not None:
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": found})

    @property
    def openings(self) -> list[tuple[str, str]]:
        """The requests that opened, with the version each asked for."""
        found: list[tuple[str, str]] = []
        for message in self.got:
            if message.get("method") == "initialize":
                found.append(("initialize", message["params"]["protocolVersion"]))
            elif message.get("method") == "server/discover":
                found.append(("server/discover", message["params"]["_meta"][VERSION]))
        return found


def connect(hand: HandServer, **options: Any) -> mcprev.connect:
    target: Any = hand
    return mcprev.connect(mcprev.memory(target), **options)


def up_to(row: Revision) -> list[str]:
    """The revisions of a client to which a revision is the newest."""
    return [found.name for found in DEFAULT[: DEFAULT.index(row) + 1]]


def unsupported(*rows: Revision | str) -> Error:
    names = [row if isinstance(row, str) else row.version for row in rows]
    return Error(-32022, data={"supported": names, "requested": LATEST.version})


def offering(*rows: Revision) -> Message:
    return {
        "supportedVersions": [row.version for row in rows], "capabilities": {}, "resultType": "complete", "ttlMs": 0,
        "cacheScope": "private",
    }  # fmt: skip


@req("NEG-1")
def test_the_first_thing_said_is_discovery(row: Revision) -> None:
    async def main() -> None:
        hand = HandServer(row)
        async with connect(hand, revisions=up_to(row)) as client:
            assert client.revision == row.name
            first = hand.got[0]
            assert (first["method"], first["params"]["_meta"][VERSION]) == ("server/discover", row.version)
            assert CLIENT_CAPABILITIES in first["params"]["_meta"]

    run(main())


@req("NEG-2", "NEG-13", "NEG-8")
def test_what_is_common_is_spoken(row: Revision) -> None:
    """A server of one revision and a client of all; then the other way round; then two that have one in common."""

    async def main() -> None:
        for theirs, ours in (
            ([row.name], None),
            (None, [row.name]),
            ([row.name, DEFAULT[0].name], [row.name, DEFAULT[-1].name] if row.handshake else [row.name]),
        ):
            made = mcprev.Server(Everything(), "s", "1", revisions=theirs)
            async with mcprev.connect(mcprev.memory(made), revisions=ours) as client:
                assert client.revision == row.name
                assert (await client.list_tools()).tools

    run(main())


@req("NEG-2")
def test_discovery_may_lead_to_a_session(row: Revision) -> None:
    async def main() -> None:
        if not row.handshake:
            return
        hand = Dual(row, offering(row))
        async with connect(hand) as client:
            assert client.revision == row.name
            assert hand.openings == [("server/discover", LATEST.version), ("initialize", row.version)]

    run(main())


@req("NEG-3", "MOD-10")
def test_an_error_of_modern_servers_is_taken_at_its_word(row: Revision) -> None:
    async def main() -> None:
        if row.handshake:
            hand = Dual(row, unsupported(row, "2099-01-01"))
            async with connect(hand) as client:
                assert client.revision == row.name
                assert hand.openings == [("server/discover", LATEST.version), ("initialize", row.version)]
            return
        for supported in (["2099-01-01"], [], [row.version]):
            hand = Dual(row, unsupported(*supported))
            with pytest.raises(NegotiationError) as caught:
                await connect(hand, revisions=up_to(row))
            # One that names the very version it refused is asked once more, and no session is ever tried.
            assert hand.openings == [("server/discover", row.version)] * (1 + (row.version in supported))
            assert caught.value.theirs == tuple(supported)

    run(main())


@req("NEG-4")
@pytest.mark.parametrize(
    "answer",
    [Error(-32601), Error(-32602), Error(-32600), Error(-32000), Error(0), Error(-32020), Error(-32021), {}, {"tools": []}],
    ids=str,
)  # fmt: skip
def test_anything_else_leads_to_a_session_on_the_same_pipe(row: Revision, answer: Any) -> None:
    async def main() -> None:
        hand = Dual(row, answer)
        names = [row.name, LATEST.name]
        async with connect(hand, revisions=names) as client:
            assert client.revision == row.name
            assert hand.openings == [("server/discover", LATEST.version), ("initialize", row.version)]

    run(main())


@req("NEG-4", "NEG-5")
def test_silence_leads_to_a_session_whose_deadline_is_its_own(row: Revision) -> None:
    """Longer than the probe's; and an error that comes late for the probe changes nothing."""

    async def main() -> None:
        if not row.handshake:
            return
        late: list[Message] = []
        hand = Dual(row, late.append)
        slow = asyncio.Event()

        def opening(message: Message) -> None:
            hand.send({"jsonrpc": "2.0", "id": late[0]["id"], "error": Error(-32601).wire})
            asyncio.get_running_loop().call_later(0.1, slow.set)
            asyncio.get_running_loop().call_later(0.1, hand.send, {
                "jsonrpc": "2.0", "id": message["id"],
                "result": {"protocolVersion": row.version, "capabilities": {}, "serverInfo": INFO},
            })  # fmt: skip

        hand.answers["initialize"] = opening
        async with connect(hand, probe_timeout=0.02, open_timeout=5) as client:
            assert client.revision == row.name
            assert slow.is_set()
            assert [method for method, _ in hand.openings] == ["server/discover", "initialize"]

    run(main())


@req("NEG-4", "NEG-5", "NEG-9", at=E)
@pytest.mark.parametrize("beside", ["serves both", "refuses", "ignores", "ends"])
def test_a_slow_server_that_has_taken_both_keeps_its_revision(beside: str) -> None:
    """It is asked once more which it serves, and started again if that is the session alone."""
    session = next(row for row in reversed(DEFAULT) if row.handshake)

    class Slow(Dual):
        """Reads nothing until there are two requests, as one that is still starting."""

        def __init__(self) -> None:
            super().__init__(
                LATEST,
                self.probed,
                {"protocolVersion": session.version, "capabilities": {}, "serverInfo": INFO},
            )

        def probed(self, message: Message) -> Any:
            if len(servers.made) > 1:
                return offering(LATEST, session)
            if not self.openings[1:]:
                self.waiting = message
                return None
            if beside == "ends":
                assert self._transport is not None
                self._transport.close()
            return {"serves both": offering(LATEST, session), "refuses": Error(-32600)}.get(beside)

        def _take(self, message: Message) -> None:
            if message.get("method") == "initialize":
                self.send({"jsonrpc": "2.0", "id": self.waiting["id"], "result": offering(LATEST, session)})
            super()._take(message)

    servers = Servers(Slow)

    async def main() -> None:
        target: Any = servers
        async with mcprev.connect(mcprev.memory(target), probe_timeout=0.02) as client:
            assert client.revision == LATEST.name
        assert len(servers.made) == (1 if beside == "serves both" else 2)

    run(main())


@req("NEG-5", at=E)
def test_a_modern_server_that_was_slow_is_asked_again() -> None:
    async def main() -> None:
        asked: list[Message] = []

        def discover(message: Message) -> Message | None:
            asked.append(message)
            return offering(LATEST) if len(asked) > 1 else None

        hand = Dual(LATEST, discover, unsupported(LATEST))
        async with connect(hand, probe_timeout=0.02) as client:
            assert client.revision == LATEST.name
            assert [method for method, _ in hand.openings] == [
                "server/discover",
                "initialize",
                "server/discover",
            ]

    run(main())


@req("NEG-7", "NEG-12")
def test_what_is_known_of_a_server_saves_asking(row: Revision) -> None:
    async def main() -> None:
        made = mcprev.Server(Everything(), "s", "1", revisions=[row.name])
        async with mcprev.connect(mcprev.memory(made)) as client:
            assert isinstance(client.plan.step, Ready)
            verdict = client.plan.step.revision.era
            assert verdict is row.era
        hand = HandServer(row)
        async with connect(hand, era=verdict) as client:
            assert client.revision == row.name
            assert hand.got[0]["method"] == ("initialize" if row.handshake else "server/discover")

    run(main())


@req("NEG-7")
def test_a_verdict_that_is_wrong_is_dropped(row: Revision) -> None:
    async def main() -> None:
        hand: Dual
        if row.handshake:
            hand = Dual(row, Error(-32601))
            async with connect(hand, era=Era.STATELESS) as client:
                assert client.revision == row.name
        else:
            hand = Dual(row, None, Error(-32601))
            async with connect(hand, era=Era.HANDSHAKE) as client:
                assert client.revision == row.name
                assert [method for method, _ in hand.openings] == ["initialize", "server/discover"]

    run(main())


@req("NEG-8", "NEG-9")
def test_both_eras_are_served_on_one_pipe(row: Revision) -> None:
    """Requests that describe themselves, before, during and after a session's; each answered in its own words."""

    async def main() -> None:
        made = mcprev.Server(Asking(), "s", "1")
        connection, peer = made.connection(), RawPeer()
        connect_pair(connection, peer)

        async def ask(*messages: Message) -> Message:
            seen = len(peer.messages)
            peer.send(*messages)
            await until(lambda: len(peer.messages) > seen)
            found: Message = peer.messages[-1]
            return found

        assert (await ask(modern("tools/list", {}, 1)))["result"]["resultType"] == "complete"
        if row.handshake:
            opened = await ask(initialize(row, sampling={}))
            assert opened["result"]["protocolVersion"] == row.version
            peer.send(notification("notifications/initialized"))
        else:
            assert "error" in await ask(request("tools/list", {}, 2))
        assert (await ask(modern("tools/call", {"name": "who"}, 3)))["result"]["resultType"] == "complete"
        if row.handshake:
            assert "resultType" not in (await ask(request("tools/call", {"name": "who"}, 4)))["result"]
            # What a session's call has to ask goes out as a request, that of the other as a result.
            asked = await ask(request("tools/call", {"name": "sample"}, 5))
            assert asked["method"] == "sampling/createMessage"
        able: Message = {"elicitation": {"form": {}}, "sampling": {}}
        asked = await ask(modern("tools/call", {"name": "sample"}, 6, clientCapabilities=able))
        assert asked["result"]["resultType"] == "input_required"
        await connection.aclose()

    run(main())


@req("NEG-12")
@pytest.mark.parametrize("how", ["pin", "list", "legacy"])
def test_what_may_be_spoken_is_chosen(row: Revision, how: str) -> None:
    async def main() -> None:
        options: dict[str, Callable[[], Message]] = {
            "pin": lambda: {"mode": row.name},
            "list": lambda: {"revisions": [row.name]},
            "legacy": lambda: {"mode": "legacy", "revisions": [row.name, LATEST.name]},
        }
        if how == "legacy" and not row.handshake:
            with pytest.raises(ValueError, match="excludes all"):
                connect(HandServer(row), **options[how]())
            return
        hand = HandServer(row)
        async with connect(hand, **options[how]()) as client:
            assert client.revision == row.name
            assert hand.got[0]["method"] == ("initialize" if row.handshake else "server/discover")
        other = next(found for found in DEFAULT if found is not row)
        with pytest.raises(NegotiationError):
            await mcprev.connect(
                mcprev.memory(mcprev.Server(None, "s", "1", revisions=[other.name])), mode=row.name
            )

    run(main())


@req("NEG-12")
def test_a_discovery_from_before_saves_asking(row: Revision) -> None:
    async def main() -> None:
        prior = m.DiscoverResult(
            supported_versions=[row.version], capabilities=m.ServerCapabilities(tools=m.ServerCapabilitiesTools()),
            ttl_ms=0, cache_scope="private",
        )  # fmt: skip
        hand = HandServer(row, {"tools/call": {"content": []}})
        async with connect(hand, prior=prior) as client:
            assert isinstance(client.plan.step, Ready)
            await client.call_tool("x")
            first = hand.got[0]["method"]
            assert (first, client.plan.step.method) == (
                ("initialize", Method.INITIALIZE) if row.handshake else ("tools/call", Method.PRIOR)
            )

    run(main())


@req("NEG-13")
@pytest.mark.parametrize("odd", ["2025-06-19", "9999-99-99", "", "draft", "2026-07-28 "])
def test_a_version_nobody_knows_is_near_no_other(row: Revision, odd: str) -> None:
    async def main() -> None:
        made = mcprev.Server(Everything(), "s", "1", revisions=[row.name])
        async with served(made, row) as hand:
            if not row.handshake:
                assert (await hand.ask("tools/list", {}, meta={VERSION: odd})).code == -32022
        answer = {"protocolVersion": odd, "capabilities": {}, "serverInfo": INFO}
        odd_one = Dual(row, {**offering(), "supportedVersions": [odd]}, answer)
        with pytest.raises(NegotiationError):
            await connect(odd_one, mode=row.name)

    run(main())
