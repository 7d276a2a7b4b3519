"""Results that are still good are not asked for again: over a real connection, at every revision."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mcprev
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.protocol.cache import ResultCache
from mcprev.protocol.negotiation.steps import Method, Ready
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


class Lists(mcprev.ServerHandler):
    """Counts what it is asked, and says how long its answers are good."""

    def __init__(self, ttl: int = 60_000, scope: Any = "private") -> None:
        self.asked: list[str] = []
        self.good: dict[str, Any] = {"ttl_ms": ttl, "cache_scope": scope}
        self.gate = asyncio.Event()
        self.gate.set()

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        self.asked.append(f"tools {params.cursor}")
        number = len(self.asked)
        await self.gate.wait()
        tool = m.Tool(name=f"t{number}", input_schema=m.ToolInputSchema())
        return m.ListToolsResult(tools=[tool], next_cursor=None if params.cursor else "more", **self.good)

    async def list_prompts(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListPromptsResult:
        self.asked.append("prompts")
        return m.ListPromptsResult(prompts=[], **self.good)

    async def list_resources(self, ctx: Any, params: m.PaginatedRequestParams) -> m.ListResourcesResult:
        self.asked.append("resources")
        return m.ListResourcesResult(resources=[], **self.good)

    async def list_resource_templates(self, ctx: Any, params: Any) -> m.ListResourceTemplatesResult:
        self.asked.append("templates")
        return m.ListResourceTemplatesResult(resource_templates=[], **self.good)

    async def read_resource(
        self, ctx: mcprev.Context, params: m.ReadResourceRequestParams
    ) -> m.ReadResourceResult:
        self.asked.append(params.uri)
        if params.uri == "a:ask":
            await ctx.ask("x", m.ListRootsRequest())
        return m.ReadResourceResult(contents=[m.TextResourceContents(uri=params.uri, text="x")], **self.good)


async def everything(client: mcprev.Client, **options: Any) -> None:
    await client.list_tools(**options)
    await client.list_tools("more", **options)
    await client.list_prompts(**options)
    await client.list_resources(**options)
    await client.list_resource_templates(**options)
    await client.read_resource("a:1", **options)
    await client.read_resource("a:2", **options)


ALL = ["tools None", "tools more", "prompts", "resources", "templates", "a:1", "a:2"]


@req("CACHE-2", "CACHE-3", "CACHE-5")
@each_row
def test_asked_once_where_the_server_says_how_long(row: Revision) -> None:
    """Sessions say nothing of the kind, so there everything is asked each time."""

    async def main() -> None:
        handler = Lists()
        async with mcprev.connect(mcprev.memory(mcprev.Server(handler, "s", "1")), mode=row.name) as client:
            await everything(client)
            first = await client.list_tools()
            await everything(client)
            assert handler.asked == ([*ALL, "tools None", *ALL] if row.handshake else ALL)
            if not row.handshake:
                first.tools.clear()
                assert [tool.name for tool in (await client.list_tools()).tools] == ["t1"]
                handler.asked.clear()
                await everything(client, fresh=True)
                await client.list_tools(meta={"com.example/who": 1})
                assert handler.asked == [*ALL, "tools None"]

    run(main())


@req("CACHE-2", at=E)
def test_no_time_at_all_is_asked_each_time() -> None:
    async def main() -> None:
        for handler, cached in ((Lists(ttl=0), True), (Lists(), False)):
            server = mcprev.Server(handler, "s", "1")
            async with mcprev.connect(mcprev.memory(server), cache=cached) as client:
                await client.list_tools()
                await client.list_tools()
                assert handler.asked == ["tools None"] * 2

    run(main())


@req("CACHE-2", at=E)
def test_a_change_is_asked_for_by_who_hears_of_it() -> None:
    async def main() -> None:
        handler = Lists()
        server = mcprev.Server(handler, "s", "1")
        async with (
            mcprev.connect(mcprev.memory(server)) as client,
            client.listen(tools=True, uris=["a:1"]) as changes,
        ):
            await everything(client)
            server.changed("tools")
            server.changed("resource", "a:1")
            assert {(await anext(changes)).what, (await anext(changes)).what} == {"tools", "resource"}
            handler.asked.clear()
            await everything(client)
            assert handler.asked == ["tools None", "tools more", "a:1"]

    run(main())


@req("CACHE-2", at=E)
def test_an_answer_that_a_change_overtook_is_not_kept() -> None:
    async def main() -> None:
        handler = Lists()
        server = mcprev.Server(handler, "s", "1")
        async with mcprev.connect(mcprev.memory(server)) as client, client.listen(tools=True) as changes:
            handler.gate.clear()
            asking = asyncio.create_task(client.list_tools())
            await until(lambda: bool(handler.asked))
            server.changed("tools")
            await anext(changes)
            handler.gate.set()
            await asking
            await client.list_tools()
            assert handler.asked == ["tools None"] * 2

    run(main())


@req("MRTR-9", at=E)
def test_the_answer_to_a_retry_is_not_kept() -> None:
    class Roots(mcprev.ClientHandler):
        async def list_roots(self, ctx: mcprev.ClientContext, params: Any) -> m.ListRootsResult:
            return m.ListRootsResult(roots=[])

    async def main() -> None:
        handler = Lists()
        server = mcprev.Server(handler, "s", "1")
        async with mcprev.connect(mcprev.memory(server), handler=Roots()) as client:
            await client.read_resource("a:ask")
            await client.read_resource("a:ask")
            assert handler.asked == ["a:ask"] * 4

    run(main())


class Named(mcprev.memory):
    """A target that says which server it is, and whose authorization it has."""

    def __init__(self, server: mcprev.Server, principal: str | None = None) -> None:
        super().__init__(server)
        self.cache_key = "the server"
        self.principal = principal


@req("CACHE-2", at=E)
@pytest.mark.parametrize("scope", ["private", "public"])
@pytest.mark.parametrize("users", [("a", "a"), ("a", "b"), (None, None)])
def test_clients_may_share_a_cache(scope: str, users: tuple[str | None, str | None]) -> None:
    async def main() -> None:
        handler, cache = Lists(scope=scope), ResultCache()
        server = mcprev.Server(handler, "s", "1")
        for user in users:
            async with mcprev.connect(Named(server, user), cache=cache) as client:
                await client.list_prompts()
        shared = scope == "public" or users == ("a", "a")
        assert len(handler.asked) == (1 if shared else 2)

    run(main())


@req("CACHE-2", "NEG-12", at=E)
def test_a_good_discovery_saves_asking() -> None:
    """A server that says how long its introduction is good is not asked for it when it is connected to again."""

    async def main() -> None:
        cache, server = ResultCache(), mcprev.Server(Lists(), "s", "1")
        hello = server.identity.introduction(LATEST)
        for ttl, how in (
            (0, Method.DISCOVER),
            (0, Method.DISCOVER),
            (60_000, Method.DISCOVER),
            (0, Method.PRIOR),
        ):
            hello["ttlMs"] = ttl
            async with mcprev.connect(Named(server, "a"), cache=cache) as client:
                assert isinstance(client.plan.step, Ready)
                assert client.plan.step.method is how
                await client.list_prompts()

    run(main())
