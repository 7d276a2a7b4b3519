"""Who sends a request: what handlers see of it, and what is bound to it (MRTR-4, SEC-5, MOD-11)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

import mcprev
from api.authors import Everything, Helpful
from api.wire import Sender
from helpers.requirements import E, req
from helpers.running import run
from mcprev.errors import InvalidParams
from mcprev.revisions import LATEST, Revision
from mcprev.server.service import Service
from mcprev.wire.jsonrpc import Request
from mcprev_types.latest import models as m


@contextmanager
def sent_by(server: Service, principal: object = None) -> Generator[Sender, None, None]:
    """Everything that comes to the server comes from whom the test says."""
    (connection,) = server._connections
    side: Any = connection.protocol
    origin, receive = Sender(principal), side.receive

    def from_someone(message: Any, now: float) -> None:
        if isinstance(message, Request):
            unfrozen: Any = message
            unfrozen.origin = Sender(origin.principal)
        receive(message, now)

    side.receive = from_someone
    yield origin
    del side.receive


class Who(mcprev.ServerHandler):
    """Says who asks, and has a tool for each that takes what its name says."""

    def __init__(self) -> None:
        self.lists = 0

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> Any:
        self.lists += 1
        required = [] if ctx.principal is None else [ctx.principal]
        return {"tools": [{"name": "who", "inputSchema": {"type": "object", "required": required}}]}

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        return m.CallToolResult(content=[m.TextContent(text=str(ctx.principal))])


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


@req("SEC-5", "TOOL-3")
def test_handlers_see_who_asks_and_tools_are_theirs(row: Revision) -> None:
    """None on a pipe; what is no name is nobody. The schemas of one are not those of another."""

    async def main() -> None:
        handler = Who()
        server = mcprev.Server(handler, "s", "1")
        async with mcprev.connect(mcprev.memory(server), mode=row.name) as client:
            assert said(await client.call_tool("who")) == "None"
            with sent_by(server) as origin:
                for number, name in enumerate(("alice", "bob", "alice")):
                    origin.principal = name
                    assert said(await client.call_tool("who", {name: 1})) == name
                    assert handler.lists == (2, 3, 3)[number]
                    other = "bob" if name == "alice" else "alice"
                    if row.tool_argument_errors_are_results:
                        assert (await client.call_tool("who", {other: 1})).is_error
                    else:
                        with pytest.raises(InvalidParams):
                            await client.call_tool("who", {other: 1})
                origin.principal = 5
                assert said(await client.call_tool("who")) == "None"

    run(main())


class Own(Who):
    """Lists a tool for each principal, named after it, and one that is nobody's."""

    def __init__(self) -> None:
        super().__init__()
        self.owners = {"alice", "bob"}
        self.ran: list[str] = []

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> Any:
        names = [owner for owner in sorted(self.owners) if ctx.principal in (None, owner)]
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        self.ran.append(params.name)
        return await super().call_tool(ctx, params)


@req("SEC-5", "TOOL-1")
def test_what_is_not_listed_for_a_principal_is_unknown_to_it(row: Revision) -> None:
    async def main() -> None:
        handler = Own()
        server = mcprev.Server(handler, "s", "1")
        async with mcprev.connect(mcprev.memory(server), mode=row.name) as client:
            with sent_by(server, "alice") as origin:
                for hidden in ("bob", "nothing", "n" * 1_000):
                    for _ in range(2):
                        with pytest.raises(InvalidParams, match=f"Unknown tool: {hidden[:100]}$"):
                            await client.call_tool(hidden)
                assert handler.ran == []
                await client.call_tool("alice")
                origin.principal = "bob"
                await client.call_tool("bob")
                assert handler.ran == ["alice", "bob"]
                handler.owners = {"alice"}
                server.changed("tools")
                with pytest.raises(InvalidParams, match="Unknown tool: bob"):
                    await client.call_tool("bob")
                # Where nobody is told apart, a handler may have tools that it does not list.
                origin.principal = None
                await client.call_tool("nothing")
                assert handler.ran == ["alice", "bob", "nothing"]

    run(main())


@req("MRTR-4", "SEC-5", at=E)
@pytest.mark.parametrize("mine", [None, "alice"])
@pytest.mark.parametrize("thief", [None, "bob"])
def test_a_state_is_good_for_whom_it_was_made_only(mine: str | None, thief: str | None) -> None:
    async def main() -> None:
        author = Everything()
        server = mcprev.Server(author, "s", "1", validate=False)
        async with mcprev.connect(mcprev.memory(server), mode=LATEST.name, handler=Helpful()) as client:
            with sent_by(server, mine) as origin:
                asked = await client.raw("tools/call", {"name": "explicit"})
                given = {"a": {"action": "accept"}}
                retry = {"name": "explicit", "inputResponses": given, "requestState": asked["requestState"]}
                runs = author.runs
                if mine != thief:
                    origin.principal = thief
                    with pytest.raises(InvalidParams, match="requestState"):
                        await client.raw("tools/call", retry)
                    assert author.runs == runs
                origin.principal = mine
                assert set((await client.raw("tools/call", retry))["inputRequests"]) == {"b"}

    run(main())
