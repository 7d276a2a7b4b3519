"""What decides about requests of clients of a bridge sees the names of its lists, whatever a client writes (SEC-5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

import mcprev
from bridge.hands import Downstream, bridged, said
from bridge.joining import SESSION, each_cell, each_client, ends, joined, tools
from bridge.test_several_faults import down
from fuzz.fuzzing import each_once
from helpers.asgi_bridge import Client, Exchange, modern
from helpers.running import run
from mcprev.bridge.several.options import BridgedServer, Offer
from mcprev.revisions import DEFAULT, Revision
from mcprev.wire.headers import encode_value

ROWS: Final = pytest.mark.parametrize("row", DEFAULT, ids=str)
MODES: Final = pytest.mark.parametrize("prefixes", ["always", "needed"])
TOKENS: Final[Any] = {"ann": {"subject": "ann", "scopes": "admin"}, "bob": "bob"}
SPELLED: Final = {
    "tools/call": ("name", "bank__transfer", "transfer", ("bank__transfer", "transfer")),
    "prompts/get": ("name", "bank__plan", "plan", ("bank__plan", "plan")),
    "resources/read": (
        "uri",
        "bank+notes://secret/x",
        "notes://secret/x",
        (
            "bank+notes://secret/x",
            "notes://secret/x",
            "BANK+notes://secret/x",
            "bank+NOTES://secret/%78",
            "bank+notes://%73ecret/x",
            "notes://s%65cret/x",
            "Notes://SECRET/x",
        ),
    ),
}
"""By method: the member that names something, its name with and without prefix, and all that clients may write."""
EVERY: Final = [(method, spelled) for method, (*_, several) in SPELLED.items() for spelled in several]
each_name = pytest.mark.parametrize(("method", "spelled"), EVERY)


def bank(done: list[str]) -> mcprev.App:
    app = mcprev.App("bank", "1")

    @app.tool
    async def transfer() -> str:
        done.append("transfer")
        return "done"

    @app.prompt
    async def plan() -> str:
        done.append("plan")
        return "done"

    @app.resource("notes://secret/x")
    async def notes() -> str:
        done.append("notes")
        return "done"

    return app


def files() -> mcprev.App:
    app = mcprev.App("files", "1")

    @app.tool
    async def search() -> str:
        return "found"

    return app


def asking(client: Client, row: Revision, method: str, spelled: str) -> Exchange:
    params = {SPELLED[method][0]: spelled}
    if row.handshake:
        return client.request(method, params)
    return modern(client, row, method, params, headers={"mcp-name": encode_value(spelled)})


def only_admins(method: str, name: str) -> Callable[[str, Mapping[str, Any]], str | None]:
    member = SPELLED[method][0]

    def needs(asked: str, params: Mapping[str, Any]) -> str | None:
        return "admin" if asked == method and params.get(member) == name else None

    return needs


@ROWS
@MODES
@each_name
@pytest.mark.parametrize("policy", ["with prefix", "without"])
@each_once
def test_scopes_are_needed_by_each_name(
    method: str, spelled: str, prefixes: Any, policy: str, row: Revision
) -> None:
    done: list[str] = []
    _, full, bare, _ = SPELLED[method]
    if policy == "without" and prefixes == "always":
        pytest.skip("all names have a prefix")
    needs = only_admins(method, full if policy == "with prefix" else bare)

    async def main() -> None:
        bridge = mcprev.Bridge({"bank": bank(done), "files": files()}, prefixes=prefixes)
        served = bridge.asgi(auth=mcprev.StaticTokens(TOKENS, needs=needs))
        async with bridge.running():
            for user in ("bob", "ann"):
                client = Client(served)
                client.session = {"authorization": f"Bearer {user}"}
                answer = await asking(await client.open(row), row, method, spelled).done()
                assert bool(done) == (user == "ann"), answer.body
                assert (b"too few scopes" in answer.body) == (user == "bob"), answer.body
        await served.aclose()

    run(main())


@ROWS
@MODES
@each_name
@each_once
def test_middleware_sees_the_name_of_the_lists(
    method: str, spelled: str, prefixes: Any, row: Revision
) -> None:
    done: list[str] = []
    seen: list[str] = []
    member, full, bare, _ = SPELLED[method]

    async def sees(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        if call.method == method:
            seen.append(getattr(call.params, member))
        return await call_next(call)

    async def main() -> None:
        bridge = mcprev.Bridge({"bank": bank(done), "files": files()}, prefixes=prefixes, middleware=[sees])
        async with bridge.running(), mcprev.connect(bridge, mode=row.name) as client:
            await client.raw(method, {member: spelled})

    run(main())
    assert [each.lower() for each in seen] == [full if prefixes == "always" else bare]
    assert len(done) == 1


@pytest.mark.parametrize(
    ("pattern", "uris"),
    [
        (
            "notes://secret*",
            ["notes://secret.txt", "notes://%73ecret.txt", "NOTES://Secret.txt", "notes://SECRET"],
        ),
        ("notes://caf\u00e9*", ["notes://caf\u00e9", "notes://caf%C3%A9", "notes://caf%c3%a91"]),
        ("notes://caf%C3%A9*", ["notes://caf\u00e9", "Notes://caf%C3%A9"]),
        ("NOTES://x/%7Eme", ["notes://x/~me", "notes://X/%7eme"]),
    ],
)
def test_a_pattern_is_compared_with_each_spelling(pattern: str, uris: list[str]) -> None:
    denying, allowing = Offer(deny={"resources": [pattern]}), Offer(allow={"resources": [pattern]})
    for uri in uris:
        assert not denying.allows("resources", uri)
        assert allowing.allows("resources", uri)
    for offer in (denying, allowing):
        assert not offer.allows("resources", "notes://x/%2e%2e/y")
        assert not offer.allows("resources", "notes://" + "x" * 20_000)
    assert denying.allows("resources", "notes://open")
    assert not allowing.allows("resources", "notes://open")


@ROWS
def test_what_is_denied_is_read_in_no_spelling(row: Revision) -> None:
    done: list[str] = []
    server = BridgedServer(target=bank(done), offer=Offer(deny={"resources": ["notes://secret*"]}))

    async def main() -> None:
        bridge = mcprev.Bridge({"bank": server, "files": files()})
        async with bridge.running(), mcprev.connect(bridge, mode=row.name) as client:
            for spelled in SPELLED["resources/read"][3]:
                with pytest.raises(mcprev.RpcError, match="leads to no server"):
                    await client.raw("resources/read", {"uri": spelled})

    run(main())
    assert done == []


@each_cell
@MODES
def test_a_name_of_a_server_that_is_down_is_given_to_no_other(
    row: Revision, there: Revision, prefixes: Any
) -> None:
    """Also for a client that has not seen the lists of that server, and for one that has."""
    lists: Any = {"files": {"tools/list": tools("who")}, "bank": {"tools/list": tools("who", "asks")}}
    servers = ends(there, "files", "bank", **lists)

    async def main() -> None:
        bridge = joined(servers, there, prefixes=prefixes)
        async with bridged(bridge, Downstream(row)) as _:
            first = mcprev.connect(bridge, mode=row.name)
            async with first as client:
                with pytest.raises(mcprev.RpcError, match="leads to no server"):
                    await client.raw("tools/call", {"name": "who"})
                down(servers["files"])
                for _ in range(2):
                    with pytest.raises(mcprev.RpcError, match="leads to no server"):
                        await client.raw("tools/call", {"name": "who"})
            async with mcprev.connect(bridge, mode=row.name) as later:
                assert [tool.name async for tool in later.tools()] == [
                    "bank__who",
                    "asks" if prefixes == "needed" else "bank__asks",
                ]
                with pytest.raises(mcprev.RpcError, match="leads to no server"):
                    await later.raw("tools/call", {"name": "who"})

    run(main())


@each_client
def test_without_prefix_nothing_leads_anywhere_while_a_server_is_unknown(row: Revision) -> None:
    servers = ends(SESSION, "files", "bank", files={"tools/list": tools("who")})
    client = Downstream(row)

    async def main() -> None:
        down(servers["files"])
        async with bridged(joined(servers, SESSION), client):
            assert said(await client.call("bank__who"))[0] == "bank"
            refused = await client.ask("tools/call", {"name": "who"})
            assert refused.code == -32602

    run(main())
