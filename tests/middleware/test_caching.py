"""Who gets a kept result: nobody but those that may have it, and only while it is what the handler would say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest

import mcprev
from helpers.asgi_bridge import Client
from helpers.requirements import D, E
from helpers.running import run, until
from helpers.served import who
from mcprev.middleware import Caching
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import revision_named
from mcprev_types.latest import models as m

BOTH: Final = pytest.mark.parametrize("row", [revision_named(D), revision_named(E)], ids=[D, E])


class Shop:
    """An app that counts how often each function runs, and hides what a test says."""

    def __init__(self, caching: Caching, **options: Any) -> None:
        self.runs: list[str] = []
        self.hidden: set[str | None] = set()
        self.gate = asyncio.Event()
        self.app = app = mcprev.App(
            "shop",
            "1",
            middleware=[caching],
            visible=lambda ctx, _: ctx.principal not in self.hidden,
            **options,
        )

        @app.tool
        async def price(ctx: mcprev.Context, item: str = "x") -> str:
            self.runs.append(f"price {item}")
            return f"{item} for {ctx.principal} ({len(self.runs)})"

        @app.tool
        async def fails() -> str:
            self.runs.append("fails")
            raise mcprev.ToolError("not now")

        @app.tool
        async def says_failed() -> m.CallToolResult:
            self.runs.append("says_failed")
            return m.CallToolResult(content=[], is_error=True)

        @app.tool
        async def asks(ctx: mcprev.Context) -> str:
            self.runs.append("asks")
            answer = await ctx.elicit("sure?", ["yes", "no"])
            return str(answer)

        @app.tool
        async def waits() -> str:
            self.runs.append("waits")
            await self.gate.wait()
            return str(len(self.runs))

        @app.resource("notes://all")
        async def notes(ctx: mcprev.Context) -> str:
            self.runs.append("notes")
            return f"{ctx.principal} {len(self.runs)}"


async def said(client: Client, tool: str, arguments: object = None, **headers: str) -> str:
    exchange = await client.call(tool, arguments).done()
    return exchange.text


def client_of(app: Any, principal: str | None) -> Client:
    """A client that says in a header who it is."""
    client = Client(app)
    client.session = {} if principal is None else {"who": principal}
    return client


TOOLS: Final = ("price", "fails", "says_failed", "asks", "waits")


@BOTH
def test_nobody_gets_the_result_of_another_principal(row: Any) -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        app = shop.app.asgi(principal=who)
        ann, bob = await client_of(app, "ann").open(row), await client_of(app, "bob").open(row)
        again = await client_of(app, "ann").open(row)
        assert await said(ann, "price") == "x for ann (1)"
        assert await said(bob, "price") == "x for bob (2)"
        assert await said(again, "price") == await said(ann, "price") == "x for ann (1)"
        assert await said(ann, "price", {"item": "y"}) == "y for ann (3)"
        assert len(shop.runs) == 3
        await app.aclose()

    run(test())


@BOTH
def test_clients_without_a_principal_share_nothing(row: Any) -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        app = shop.app.asgi()
        one, other = await Client(app).open(row), await Client(app).open(row)
        texts = [await said(client, "price") for client in (one, one, other)]
        kept = row.handshake  # within the session of a client
        assert texts == [f"x for None ({n})" for n in ((1, 1, 2) if kept else (1, 2, 3))]
        await app.aclose()

    run(test())


@BOTH
def test_a_public_entry_is_shared_by_those_that_see_it(row: Any) -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS, public=["price"]))
        app = shop.app.asgi(principal=who)
        ann, bob, eve = [await client_of(app, name).open(row) for name in ("ann", "bob", "eve")]
        assert await said(ann, "price") == await said(bob, "price") == "x for ann (1)"
        shop.hidden.add("eve")
        refused = await eve.call("price").done()
        assert b"x for ann" not in refused.body
        assert b"Unknown tool" in refused.body
        await app.aclose()

    run(test())


@BOTH
def test_who_no_longer_sees_an_entry_gets_no_kept_result_of_it(row: Any) -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        app = shop.app.asgi(principal=who)
        ann = await client_of(app, "ann").open(row)
        assert await said(ann, "price") == "x for ann (1)"
        assert "ann" in str((await ann.request("resources/read", {"uri": "notes://all"}).done()).result)
        shop.hidden.add("ann")
        assert b"Unknown tool" in (await ann.call("price").done()).body
        assert b"ann" not in (await ann.request("resources/read", {"uri": "notes://all"}).done()).body
        await app.aclose()

    run(test())


def test_scopes_and_claims_of_a_token_tell_callers_apart() -> None:
    accesses = {
        "1": mcprev.Access("ann", audience="https://m.example/mcp", scopes="read"),
        "2": mcprev.Access("ann", audience="https://m.example/mcp", scopes="read write"),
        "3": mcprev.Access("ann", audience="https://m.example/mcp", scopes="read", claims={"tenant": "b"}),
        "4": mcprev.Access("ann", audience="https://m.example/mcp", scopes="read", client_id="c"),
        "5": mcprev.Access("ann", audience=["https://m.example/mcp", "https://other.example"], scopes="read"),
    }

    async def verify(token: str) -> mcprev.Access | None:
        return accesses.get(token)

    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        auth = mcprev.Bearer(
            verify, resource="https://m.example/mcp", authorization_servers=["https://login.example"]
        )
        app = shop.app.asgi(auth=auth)
        texts: list[str] = []
        for token in [*accesses, "1"]:
            client = Client(app)
            client.session = {"authorization": f"Bearer {token}"}
            texts.append(await said(await client.open(revision_named(E)), "price"))
        assert texts == [f"x for ann ({n})" for n in (1, 2, 3, 4, 5, 1)]
        await app.aclose()

    run(test())


@pytest.mark.parametrize("tool", ["fails", "says_failed"])
def test_failures_are_not_kept(tool: str) -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        async with mcprev.connect(shop.app) as client:
            for _ in range(2):
                assert (await client.call_tool(tool)).is_error
        assert shop.runs == [tool] * 2

    run(test())


@BOTH
def test_a_call_that_asks_its_client_is_not_kept(row: Any) -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        answers = iter(["yes", "no"])

        class Answering(mcprev.ClientHandler):
            async def elicit(self, ctx: Any, params: Any) -> m.ElicitResult:
                return m.ElicitResult(action="accept", content={"value": next(answers)})

        async with mcprev.connect(shop.app, handler=Answering(), revisions=[row.name]) as client:
            first, second = await client.call_tool("asks"), await client.call_tool("asks")
        assert "'yes'" in first.text
        assert "'no'" in second.text

    run(test())


def test_results_of_one_connection_are_kept_for_it_alone() -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        async with mcprev.connect(shop.app) as one, mcprev.connect(shop.app) as other:
            assert (await one.call_tool("price")).content == (await one.call_tool("price")).content
            assert (await other.call_tool("price")).content != (await one.call_tool("price")).content

    run(test())


def test_a_kept_result_ends_with_its_time_and_with_a_change() -> None:
    now = [0.0]

    async def test() -> None:
        caching = Caching(10, tools=TOOLS, clock=lambda: now[0])
        shop = Shop(caching)
        server = shop.app.server
        async with mcprev.connect(shop.app) as client:

            async def numbers() -> tuple[int, int]:
                await client.call_tool("price")
                await client.read_resource("notes://all")
                return shop.runs.count("price x"), shop.runs.count("notes")

            assert await numbers() == (1, 1)
            assert await numbers() == (1, 1)
            server.changed("resource", "notes://other")
            assert await numbers() == (1, 1)
            server.changed("resource", "notes://all")
            assert await numbers() == (1, 2)
            server.changed("tools")
            assert await numbers() == (2, 2)
            server.changed("resources")
            assert await numbers() == (2, 3)
            now[0] = 9.9
            assert await numbers() == (2, 3)
            now[0] = 25
            assert await numbers() == (3, 4)
            caching.clear()
            assert await numbers() == (4, 5)

    run(test())


def test_a_result_that_was_made_before_a_change_is_not_kept() -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        async with mcprev.connect(shop.app) as client:
            task = asyncio.create_task(client.call_tool("waits"))
            await until(lambda: "waits" in shop.runs)
            shop.app.server.changed("tools")
            shop.gate.set()
            await task
            await client.call_tool("waits")
        assert shop.runs == ["waits"] * 2

    run(test())


def test_a_tool_that_is_replaced_gives_no_result_of_the_former_one() -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        async with mcprev.connect(shop.app) as client:
            await client.call_tool("price")
            shop.app.remove_tool("price")

            @shop.app.tool(name="price")
            async def other(item: str = "x") -> str:
                return "new"

            assert "new" in str((await client.call_tool("price")).content)

    run(test())


def test_a_mounted_app_that_keeps_results_hears_of_changes() -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        outer = mcprev.App("outer", "1")
        outer.mount(shop.app, "in")
        async with mcprev.connect(outer) as client:
            for _ in range(2):
                await client.read_resource("notes://in/all")
            assert shop.runs == ["notes"]
            outer.server.changed("resource", "notes://in/all")
            await client.read_resource("notes://in/all")
            assert shop.runs == ["notes"] * 2

    run(test())


def test_one_caller_displaces_its_own_results_first() -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS, max_entries=8))
        app = shop.app.asgi(principal=who)
        for name, items in (("honest", "a"), ("flood", "abcdefghij"), ("honest", "a")):
            client = Client(app)
            client.session["who"] = name
            await client.open(revision_named(E))
            for item in items:
                await client.call("price", {"item": item}).done()
        assert len(shop.runs) == 11, "what was kept for the other one is still there"
        await app.aclose()

    run(test())


def test_entries_and_bytes_are_bounded_and_each_caller_has_a_copy() -> None:
    async def test() -> None:
        caching = Caching(60, tools=TOOLS, max_entries=2)
        shop = Shop(caching)
        async with mcprev.connect(shop.app) as client:
            for item in ("a", "b", "a", "c", "a", "b"):
                await client.call_tool("price", {"item": item})
        assert shop.runs == ["price a", "price b", "price c", "price b"]
        few = Shop(Caching(60, tools=TOOLS, max_bytes=1000))  # one takes about 400 bytes with its params
        async with mcprev.connect(few.app) as client:
            for item in ("a", "b", "c", "c", "a"):
                await client.call_tool("price", {"item": item})
        assert few.runs == ["price a", "price b", "price c", "price a"]
        small = Shop(Caching(60, tools=TOOLS, max_bytes=300))
        async with mcprev.connect(small.app) as client:
            for _ in range(2):
                await client.call_tool("price")
        assert len(small.runs) == 2

    run(test())


def test_a_cancelled_call_leaves_nothing_behind() -> None:
    async def test() -> None:
        shop = Shop(Caching(60, tools=TOOLS))
        async with mcprev.connect(shop.app) as client:
            task = asyncio.create_task(client.call_tool("waits"))
            await until(lambda: "waits" in shop.runs)
            task.cancel()
            await asyncio.wait({task})
            shop.gate.set()
            await client.call_tool("waits")
        assert shop.runs == ["waits"] * 2

    run(test())


@pytest.mark.parametrize(
    "wrong",
    [
        {"methods": ["tools/list"]},
        {"methods": ["tools/call"]},
        {"ttl": 0},
        {"max_entries": 0},
        {"max_bytes": 0},
    ],
)
def test_what_cannot_be_kept_is_refused(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cannot be kept|of Caching must be positive"):
        Caching(**(dict[str, Any](ttl=60) | dict(wrong)))


def test_a_cache_belongs_to_one_app() -> None:
    caching = Caching(60)
    Shop(caching)
    with pytest.raises(ValueError, match="create one for each app"):
        Shop(caching)


def test_a_change_of_another_kind_changes_nothing() -> None:
    caching = Caching(60)
    caching.changed(Changed.PROMPTS)


@BOTH
def test_tasks_and_lists_pass_by_the_cache(row: Any) -> None:
    async def test() -> None:
        runs, seen = list[str](), list[str]()

        async def note(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
            seen.append(call.method)
            return await call_next(call)

        app = mcprev.App("builds", "1", middleware=[Caching(60, tools=["build", "price"]), note])

        @app.tool(task="optional")
        async def build(ctx: mcprev.Context) -> str:
            runs.append("build")
            if not row.handshake:
                await ctx.detach()
            return str(len(runs))

        @app.tool
        async def price() -> str:
            runs.append("price")
            return str(len(runs))

        async with mcprev.connect(app, mode=row.name, cache=False) as client:
            for _ in range(2):
                assert (await client.call_tool("price")).text == "1"
            for number in ("2", "3"):
                task = await client.start_tool("build")
                assert (await task.result(timeout=10)).text == number
            for _ in range(2):
                await client.list_tools(fresh=True)
            assert runs == ["price", "build", "build"]
            assert seen.count("tools/list") == 2

    run(test())
