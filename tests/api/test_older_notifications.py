"""Notifications that only older revisions have: a handler of the latest one hears of them under their old names."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

import mcprev
from api.authors import Helpful
from api.scripted import giving, handler
from api.transports import Reach, asgi, http, memory, over, pipes, reach
from api.wire import served, serving
from helpers.requirements import A, B, C, D, req
from helpers.running import run
from mcprev.revisions import DEFAULT, LATEST, Revision, load
from mcprev_types.latest import models as m

ROOTS: Final = "notifications/roots/list_changed"
OLDER: Final = [row for row in DEFAULT if ROOTS in row.methods]
REACHES: Final[dict[str, Reach]] = {"memory": memory, "pipes": pipes, "uvicorn": http(), "asgi": asgi()}
each_older = pytest.mark.parametrize("row", OLDER, ids=lambda row: row.name)


class Watching(mcprev.ServerHandler):
    """Keeps the client's roots, and asks for them anew when they have changed."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Any] = asyncio.Queue()

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    async def roots_list_changed(self, ctx: mcprev.Context, params: Any) -> None:
        assert ctx.request_id is None
        await ctx.log("error", "asking")
        await ctx.progress(1)
        found = await ctx.ask("roots", m.ListRootsRequest())
        client = None if ctx.client_info is None else ctx.client_info.name
        self.heard.put_nowait((ctx.revision, client, [root.uri for root in found.roots], params))


@req("ROOT-1", "SEAM-9", "BASE-9", at=(A, B, C, D))
@pytest.mark.parametrize("way", REACHES)
@each_older
def test_a_server_hears_that_roots_changed_and_asks_for_them(row: Revision, way: str) -> None:
    async def main() -> None:
        author = Watching()
        with over(REACHES[way]):
            async with (
                reach(mcprev.Server(author, "s", "1"), row) as target,
                mcprev.connect(target, handler=Helpful(), mode=row.name, name="c") as client,
            ):
                for _ in range(2):
                    client.roots_changed()
                    assert await author.heard.get() == (row.name, "c", ["file:///x"], None)

    run(main())


@req("ROOT-1", at=D)
def test_where_there_is_no_such_notification_nothing_is_heard() -> None:
    async def main() -> None:
        author = Watching()
        target = mcprev.memory(mcprev.Server(author, "s", "1"))
        async with mcprev.connect(target, handler=Helpful(), mode=LATEST.name) as client:
            client.roots_changed()
            await client.ping()
            assert author.heard.empty()

    run(main())


@req("SEAM-9", "ROOT-1", at=(A, B, C, D))
@each_older
def test_an_exact_handler_hears_it_with_a_context_too(row: Revision) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def changed(ctx: mcprev.Context, params: Any) -> None:
        heard.put_nowait(ctx.revision)

    async def main() -> None:
        exact = handler(load(row, "dispatch").ServerHandler, roots_list_changed=changed)
        async with served(mcprev.Server(None, "s", "1", exact={row.name: exact}), row) as client:
            client.tell(ROOTS)
            assert await heard.get() == row.name
            await client.settle()

    run(main())


@req("BASE-9", at=(A, B, C, D))
@each_older
def test_one_that_raises_or_is_not_listened_for_harms_nobody(row: Revision) -> None:
    async def broken(ctx: mcprev.Context, params: Any) -> None:
        raise ValueError("no")

    async def main() -> None:
        listing: Any = giving(m.ListToolsResult(tools=[]))
        for stubs in ({"roots_list_changed": broken}, {}):
            made = handler(mcprev.ServerHandler, list_tools=listing, **stubs)
            async with served(mcprev.Server(made, "s", "1"), row) as client:
                client.tell(ROOTS)
                client.tell("notifications/roots/unheard_of")
                assert await client.settle() == []
                assert (await client.ask("tools/list")).result["tools"] == []

    run(main())


@req("SEAM-9", "BASE-9", at=D)
def test_a_client_hears_of_what_its_handler_has_an_old_name_for() -> None:
    row = next(row for row in DEFAULT if "notifications/elicitation/complete" in row.methods)
    heard: asyncio.Queue[tuple[str, object]] = asyncio.Queue()

    async def complete(ctx: mcprev.ClientContext, params: Any) -> None:
        heard.put_nowait((ctx.revision, params.to_wire()))

    async def main() -> None:
        listening = handler(mcprev.ClientHandler, elicitation_complete=complete)
        async with serving(row, handler=listening) as (_, hand):
            hand.tell("notifications/elicitation/complete", {"elicitationId": "e"})
            assert await heard.get() == (row.name, {"elicitationId": "e"})

    run(main())
