"""The seam between authors and wires: one handler at every revision, and nothing invalid either way (SEAM-1..9)."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest

import mcprev
from api.authors import Everything, Helpful
from api.scripted import client as callbacks, giving, server, text
from api.wire import Json, Message, served, serving
from helpers.named import MEANT, ROW_A
from helpers.requirements import D, E, req
from helpers.running import Records, run
from helpers.support import ROOT
from mcprev.errors import LocalProtocolError, RemoteProtocolError
from mcprev.protocol.engine import Engine
from mcprev.protocol.handshake import HandshakeClient, HandshakeServer
from mcprev.protocol.stateless import StatelessClient, StatelessServer
from mcprev.revisions import ALL, DEFAULT, LATEST, Era, Revision, load
from mcprev_types.latest import models as m

RUNTIME: Final = ROOT / "runtime" / "mcprev"
ORDERING: Final = (ast.Lt, ast.Gt, ast.LtE, ast.GtE)


@pytest.fixture
def logged() -> Iterator[Records]:
    """What the server logs."""
    records, log = Records(), logging.getLogger("mcprev.server")
    log.addHandler(records)
    yield records
    log.removeHandler(records)


@req("SEAM-1", "SEAM-5", "CONV-42", "CONV-43", "META-1", "BASE-17")
def test_a_handler_sees_the_latest_types_and_who_asks(row: Revision) -> None:
    seen: list[Json] = []
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}

    async def call(ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        assert type(params) is m.CallToolRequestParams
        assert isinstance(ctx.client_capabilities, m.ClientCapabilities)
        assert ctx.client_info is not None
        seen.append((ctx.revision, ctx.client_info.name, params.name, params.arguments))
        seen.append({key: ctx.meta.get(key) for key in ("com.example/x", "traceparent")})
        return text("done")

    async def main() -> None:
        async with served(server(call_tool=call), row) as client:
            params = {"name": "t", "arguments": {"a": [None, 1.5]}, "x-unknown": {"y": None}}
            await client.ask("tools/call", params, meta={"com.example/x": [None], **trace})

    run(main())
    assert seen == [(row.name, "by hand", "t", {"a": [None, 1.5]}), {"com.example/x": [None], **trace}]


@req("SEAM-2", "SEAM-3", "LIFE-11", "MOD-14")
def test_what_is_served_and_declared_follows_from_handler_and_revision(row: Revision) -> None:
    """Each stub alone: its method is served where the revision has it, and its capability declared."""
    stubs = {
        "call_tool": ("tools/call", "tools"),
        "list_resources": ("resources/list", "resources"),
        "get_prompt": ("prompts/get", "prompts"),
        "complete": ("completion/complete", "completions"),
    }

    async def main() -> None:
        for stub, (method, capability) in stubs.items():
            made = server(**{stub: giving(None)})
            async with served(made, row) as client:
                kinds = made.identity.kinds(row)
                assert {
                    name for name in kinds if not name.startswith(("server/", "subscriptions/", "logging/"))
                } == {method}
                declared = set(client.hello["capabilities"])
                absent = capability == "completions" and row is ROW_A
                assert declared - {"logging"} == (set() if absent else {capability})

    run(main())


@req("SEAM-2", "LIFE-9", "LIFE-10")
def test_a_client_does_not_send_what_revision_or_server_lack(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, capabilities={"tools": {}}) as (client, hand):
            for method in (
                "resources/list",
                "prompts/get",
                "no/such",
                "initialize",
                "notifications/cancelled",
            ):
                with pytest.raises(LocalProtocolError):
                    await client.call(method, {})
            if row.handshake:
                with pytest.raises(LocalProtocolError):
                    async with client.listen(uris=["a:1"]):
                        pass
            assert hand.requests == []

    run(main())


@req("SEAM-4", "ERR-1")
@pytest.mark.parametrize(
    "broken",
    [
        {"content": "x"}, {"content": [5]}, {"content": [{"type": "text"}]}, {"content": [{"text": "x"}]}, {},
        {"content": [], "isError": "yes"}, {"content": [{"type": "image", "mimeType": "image/png"}]}, None, 5, [],
        {"content": [{"type": "resource_link", "name": "n"}]}, {"content": [{"type": "audio", "data": "AA=="}]},
        {"resultType": "made up", "content": []}, {"resultType": "task", "content": []},
    ],
)  # fmt: skip
def test_nothing_invalid_goes_out(row: Revision, broken: Json, logged: Records) -> None:
    """The author's log says what is wrong and where; the model learns that the tool failed."""

    async def main() -> None:
        async with served(server(call_tool=giving(broken)), row) as client:
            for _ in range(2):
                answer = await client.ask("tools/call", {"name": "t"})
                assert answer.failure == "the tool 't' failed"

    run(main())
    assert len(logged.records) == 2


@req("SEAM-5", "BASE-17")
def test_what_is_unknown_is_read_and_kept(row: Revision) -> None:
    """Unknown members, null for what is optional, content of a type that nobody knows yet."""
    result: Message = {
        "content": [
            {"type": "text", "text": "x", "annotations": None, "x-more": {"a": None}},
            {"type": "hologram", "data": [None, 1.5], "text": 5},
        ],
        "isError": None,
        "x-own": [None],
    }

    async def main() -> None:
        async with serving(row, {"tools/call": result}) as (client, _):
            found = await client.call_tool("t")
            assert isinstance(found.content[0], m.TextContent)
            assert found.content[0].to_wire()["x-more"] == {"a": None}
            assert type(found.content[1]).__name__ == "UnknownContent"
            assert found.content[1].to_wire() == result["content"][1]
            assert not found.is_error
            assert found.to_wire()["x-own"] == [None]

    run(main())


@req("SEAM-6", everywhere=True)
def test_there_are_two_engines_of_each_role() -> None:
    def leaves(base: type) -> set[type]:
        return {base}.union(*map(leaves, base.__subclasses__())) - {Engine}

    found = {peer for peer in leaves(Engine) if not peer.__subclasses__()}
    # A stand-in of a transport's, which hears nobody and answers nothing, is no engine.
    concrete = {peer for peer in found if peer.__module__.startswith("mcprev.protocol.")}
    assert concrete == {HandshakeServer, HandshakeClient, StatelessServer, StatelessClient}
    assert len(Era) == 2
    assert {row.era for row in ALL} == set(Era)


@pytest.mark.slow
@req("SEAM-6", "SEAM-7", everywhere=True)
def test_no_code_compares_revisions() -> None:
    """Rows say what differs; nothing but the table and the steps knows which revision is which."""
    for file in sorted(RUNTIME.rglob("*.py")):
        if file.name == "revisions.py" or file.name.startswith("step_"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and any(isinstance(op, ORDERING) for op in node.ops):
                names = {ast.unparse(side) for side in (node.left, *node.comparators)}
                assert not any(
                    name.endswith((".version", ".name", ".revision")) for name in names
                ), f"{file.relative_to(ROOT)}:{node.lineno}"


@req("SEAM-7", everywhere=True)
def test_a_revision_is_a_package_a_row_and_a_step() -> None:
    """The draft has no code of its own anywhere and is served as a whole; each dated one has a step, but the first."""
    draft = ALL[-1]
    for file in RUNTIME.rglob("*.py"):
        if file.name != "revisions.py":
            text = file.read_text(encoding="utf-8")
            nodes = ast.walk(ast.parse(text)) if draft.name in text else ()
            constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
            assert draft.name not in constants, file
    steps = {path.stem for path in (RUNTIME / "conversion").glob("step_*.py")}
    steps.discard(f"step_{draft.name}")  # for members that it leaves undecided
    assert steps == {f"step_{row.name.replace('-', '_')}" for row in DEFAULT[1:]}

    async def main() -> None:
        made = mcprev.Server(Everything(), "s", "1", revisions=[draft.name])
        async with served(
            made, draft, capabilities={"elicitation": {}, "sampling": {}, "roots": {}}
        ) as client:
            for method in ("tools/list", "resources/list", "prompts/list", "resources/templates/list"):
                assert (await client.ask(method)).result["resultType"] == "complete"
            asked = (await client.ask("tools/call", {"name": "ask"})).result
            assert asked["resultType"] == "input_required"
        async with serving(draft, {"tools/list": {"tools": []}}, handler=Helpful()) as (client_, _):
            assert client_.revision == draft.name
            assert (await client_.list_tools()).tools == []

    run(main())


@req("SEAM-8")
def test_the_draft_is_spoken_only_when_it_is_named() -> None:
    """Where its version is that of a dated revision, the version means the dated one."""
    draft = ALL[-1]
    assert not draft.negotiable

    async def speaks(client_speaks: Revision, *names: str) -> str:
        seen: list[str] = []

        async def call(ctx: mcprev.Context, params: Any) -> m.CallToolResult:
            seen.append(ctx.revision)
            return text("x")

        options = {"revisions": list(names)} if names else {}
        async with served(server(options, call_tool=call), client_speaks) as client:
            await client.ask("tools/call", {"name": "t"})
        return seen[0]

    async def main() -> None:
        assert await speaks(LATEST) == E
        assert await speaks(LATEST, E, draft.name) == E
        assert await speaks(draft, E, draft.name) == MEANT.name
        assert await speaks(draft, draft.name) == draft.name
        assert await speaks(draft, draft.name, D) == draft.name

    run(main())


@req("SEAM-9")
def test_exact_types_are_not_converted(row: Revision) -> None:
    """Client and server may be written in the revision itself; the answer is there as it came."""
    result: Message = {"content": [], "x-own": [None, 1.5]}

    async def main() -> None:
        async with serving(row, {"tools/call": result}, handler=callbacks()) as (client, hand):
            raw = await client.raw("tools/call", {"name": "t", "x-own": None})
            assert raw["x-own"] == [None, 1.5]
            assert hand.asked("tools/call") == [{"name": "t", "x-own": None}]
            broken: Message = {"content": 5}
            hand.replies["tools/call"] = broken
            assert (await client.raw("tools/call", {"name": "t"}))["content"] == 5
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("t")

    run(main())


@req("SEAM-9", "LIFE-11")
def test_exact_handlers_alone_offer_their_own_revisions(row: Revision) -> None:
    """There is nothing to serve at the others, unless the author says so."""
    exact = {row.name: load(row, "dispatch").ServerHandler()}
    for handler, revisions, offered in (
        (None, None, [row]),
        (None, [r.name for r in DEFAULT], DEFAULT),
        (mcprev.ServerHandler(), None, DEFAULT),
    ):
        made = mcprev.Server(handler, "s", "1", exact=exact, revisions=revisions)
        assert list(made.identity.revisions) == list(offered)
