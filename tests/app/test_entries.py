"""What is served to whom, and how that changes: mounting, tags, hiding, disabling, removing; at every revision."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, cast

import aiohttp
import pytest

import mcprev
from helpers.http_in_process import InProcess
from helpers.named import ROW_E, D, E, row_of
from helpers.running import run, until
from mcprev.errors import InvalidParams, LocalProtocolError, McpError, ResourceNotFound
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.stateless import StatelessServer
from mcprev.revisions import DEFAULT, HttpShape, Revision
from mcprev.transforms import transform_tool
from mcprev_types.latest import models as m

EVERY = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


async def listed(client: mcprev.Client) -> list[str]:
    """The names and URIs that a client sees."""
    found = [tool.name async for tool in client.tools()]
    found += [resource.uri async for resource in client.resources()]
    found += [template.uri_template async for template in client.resource_templates()]
    return found + [prompt.name async for prompt in client.prompts()]


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def shop(**options: Any) -> mcprev.App:
    """An app with one entry of each kind."""
    app = mcprev.App("shop", "1", **options)

    @app.tool(tags={"public"})
    async def buy(thing: str) -> str:
        return f"bought {thing}"

    @app.resource("shop://open", tags={"public"})
    def is_open() -> str:
        return "yes"

    @app.resource("shop://things/{thing}", tags={"admin"})
    def thing(thing: str) -> str:
        return f"a {thing}"

    @app.prompt(tags={"admin"})
    def advise(thing: str) -> str:
        return f"Which {thing}?"

    @app.completion("advise", "thing")
    def things(value: str) -> list[str]:
        return [f"{value}!"]

    @app.completion("shop://things/{thing}", "thing")
    def more(value: str) -> list[str]:
        return [f"{value}?"]

    return app


ALL = ["buy", "shop://open", "shop://things/{thing}", "advise"]
PREFIXED = ["x_buy", "shop://x/open", "shop://x/things/{thing}", "x_advise"]


async def used(client: mcprev.Client, names: list[str]) -> list[str]:
    """What each of these entries answers."""
    tool, fixed, template, prompt = names
    read = await client.read_resource(fixed)
    one = await client.read_resource(template.replace("{thing}", "hat"))
    got = await client.get_prompt(prompt, {"thing": "hat"})
    by_prompt = await client.complete(m.PromptReference(name=prompt), "thing", "h")
    by_template = await client.complete(m.ResourceTemplateReference(uri=template), "thing", "h")
    return [
        text_of(await client.call_tool(tool, {"thing": "hat"})),
        read.to_wire()["contents"][0]["text"],
        one.to_wire()["contents"][0]["text"],
        got.to_wire()["messages"][0]["content"]["text"],
        *by_prompt.completion.values,
        *by_template.completion.values,
    ]


ANSWERS = ["bought hat", "yes", "a hat", "Which hat?", "h!", "h?"]


def at(row: Revision, app: mcprev.App, work: Callable[[mcprev.Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            await work(client)

    run(main())


# -- mounting --------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize(("prefix", "names"), [("x", PREFIXED), (None, ALL)])
def test_an_app_serves_what_is_mounted_in_it(row: Revision, prefix: str | None, names: list[str]) -> None:
    outer = mcprev.App("outer", "1")
    outer.mount(shop(), prefix)

    async def work(client: mcprev.Client) -> None:
        assert await listed(client) == names
        assert await used(client, names) == ANSWERS

    at(row, outer, work)


def test_apps_nest_and_share_a_name_under_different_prefixes() -> None:
    inner, middle, outer = shop(), mcprev.App("middle", "1"), mcprev.App("outer", "1")
    middle.mount(inner, "x")
    outer.mount(middle, "y")
    outer.mount(inner, "z")

    async def work(client: mcprev.Client) -> None:
        names = await listed(client)
        assert names[:2] == ["y_x_buy", "z_buy"]
        assert "shop://y/x/open" in names
        assert text_of(await client.call_tool("y_x_buy", {"thing": "hat"})) == "bought hat"

    at(ROW_E, outer, work)


@EVERY
def test_what_changes_in_a_mounted_app_changes_where_it_is_mounted_and_clients_are_told(
    row: Revision,
) -> None:
    inner, outer = shop(), mcprev.App("outer", "1")
    outer.mount(inner, "x")
    told: list[mcprev.Change] = []

    async def work(client: mcprev.Client) -> None:
        async with client.listen(tools=True) as changes:

            async def listen() -> None:
                async for change in changes:
                    told.append(change)  # noqa: PERF401 - each when it comes

            listening = asyncio.create_task(listen())

            @inner.tool
            async def sell() -> str:
                return "sold"

            await until(lambda: len(told) == 1)
            assert text_of(await client.call_tool("x_sell", {})) == "sold"
            inner.remove_tool("sell")
            await until(lambda: len(told) == 2)
            with pytest.raises(McpError, match="Unknown tool: x_sell"):
                await client.call_tool("x_sell", {})
            inner.disable("buy")
            await until(lambda: len(told) == 3)
            assert [tool.name async for tool in client.tools()] == []
            inner.enable("buy")
            await until(lambda: len(told) == 4)
            assert [tool.name async for tool in client.tools()] == ["x_buy"]
            listening.cancel()

    at(row, outer, work)


def test_the_lifespan_of_a_mounted_app_runs_too() -> None:
    events: list[str] = []

    async def inner_lifespan(server: mcprev.Server) -> AsyncGenerator[int, None]:
        events.append("inner open")
        yield 4
        events.append("inner closed")

    async def outer_lifespan(server: mcprev.Server) -> AsyncGenerator[str, None]:
        events.append("outer open")
        yield "x"
        events.append("outer closed")

    inner = mcprev.App("inner", "1", lifespan=inner_lifespan)
    outer = mcprev.App("outer", "1", lifespan=outer_lifespan)

    @inner.tool
    async def both(
        number: Annotated[int, mcprev.FromLifespan], text: Annotated[str, mcprev.FromLifespan]
    ) -> str:
        return f"{number} {text}"

    outer.mount(inner, "a")
    outer.mount(inner, "b")

    async def work(client: mcprev.Client) -> None:
        assert text_of(await client.call_tool("b_both", {})) == "4 x"

    at(ROW_E, outer, work)
    assert events == ["outer open", "inner open", "inner closed", "outer closed"]


LOST: list[tuple[Any, str]] = [
    ({"exact": {D: mcprev.ServerHandler()}}, "pass it to the app that mounts it"),
    ({"show_errors": True}, "pass it to the app that mounts it, or raise `mcprev.ToolError`"),
    ({"requires": {"tools/call": m.ClientCapabilities()}}, "pass it to the app that mounts it"),
]


def test_what_cannot_be_mounted_is_refused_and_changes_nothing() -> None:
    inner, outer = shop(), shop()
    with pytest.raises(ValueError, match="'buy' is registered already"):
        outer.mount(inner)
    with pytest.raises(ValueError, match="'a b' is not a prefix"):
        outer.mount(inner, "a b")
    long = mcprev.App("long", "1")
    long.tool(lambda_of(), name="t" * 100)
    with pytest.raises(ValueError, match="is too long for a tool name"):
        outer.mount(long, "x" * 64)
    for options, instead in LOST:
        with pytest.raises(ValueError, match=f"`{next(iter(options))}` of the mounted app .*; {instead}"):
            outer.mount(mcprev.App("m", "1", **options), "m")
    outer.mount(inner, "x")
    with pytest.raises(ValueError, match="an app cannot be mounted in itself"):
        inner.mount(outer, "y")
    with pytest.raises(ValueError, match="'x_buy' is registered already"):
        outer.tool(lambda_of(), name="x_buy")
    assert isinstance(outer.server, mcprev.Server)

    @inner.tool(name="late")
    async def late() -> str:
        return ""

    with pytest.raises(ValueError, match="'x_late' is registered already"):
        outer.tool(lambda_of(), name="x_late")
    tools = mcprev.App("tools", "1")
    tools.tool(lambda_of(), name="only")
    assert isinstance(tools.server, mcprev.Server)
    with pytest.raises(LocalProtocolError, match="is the first of the"):
        tools.mount(shop(), "s")

    async def work(client: mcprev.Client) -> None:
        assert [tool.name async for tool in client.tools()] == ["only"]

    at(ROW_E, tools, work)


def lambda_of() -> Callable[[], Awaitable[str]]:
    async def nothing() -> str:
        return ""

    return nothing


# -- who sees what ---------------------------------------------------------------------------------------


def by_header(scope: Mapping[str, Any]) -> str | None:
    return next((value.decode() for name, value in scope["headers"] if name == b"x-user"), None)


def is_admin(ctx: mcprev.Context) -> bool:
    return ctx.principal == "root"


def to_admins(ctx: mcprev.Context, tags: frozenset[str]) -> bool:
    return "admin" not in tags or is_admin(ctx)


def guarded() -> mcprev.App:
    app = shop(visible=to_admins)

    @app.tool(visible=is_admin)
    async def drop() -> str:
        return "dropped"

    outer = mcprev.App("outer", "1", visible=lambda ctx, tags: "public" not in tags or bool(ctx.principal))
    outer.mount(app, "x")
    return outer


@EVERY
def test_what_is_hidden_from_a_principal_does_not_exist_for_it(row: Revision) -> None:
    async def main() -> None:
        app = guarded().server.asgi(principal=by_header, sse=True)
        connector = InProcess(app)

        async def work(user: str, names: list[str]) -> None:
            headers = {"x-user": user} if user else {}
            async with aiohttp.ClientSession(
                connector=connector, connector_owner=False, headers=headers
            ) as session:
                path = "/sse" if row.http is HttpShape.SSE else "/mcp"
                target = mcprev.http(connector.origin + path, session=session)
                async with mcprev.connect(target, mode=row.name) as client:
                    assert await listed(client) == names
                    if user == "root":
                        assert await used(client, PREFIXED) == ANSWERS
                        assert text_of(await client.call_tool("x_drop", {})) == "dropped"
                        return
                    for call in (
                        client.call_tool("x_drop", {}),
                        client.get_prompt("x_advise", {"thing": "hat"}),
                        client.complete(m.PromptReference(name="x_advise"), "thing", "h"),
                        client.complete(
                            m.ResourceTemplateReference(uri="shop://x/things/{thing}"), "thing", "h"
                        ),
                        client.raw("tools/list", {"cursor": "x_drop"}),
                    ):
                        with pytest.raises(
                            InvalidParams, match=r"Unknown|has no argument|the cursor is unknown"
                        ):
                            await call
                    with pytest.raises(ResourceNotFound):
                        await client.read_resource("shop://x/things/hat")

        await work("root", ["x_buy", "x_drop", *PREFIXED[1:]])
        await work("ann", ["x_buy", "shop://x/open"])
        await work("", [])
        await app.aclose()
        await connector.close()

    run(main())


def test_tags_that_are_one_string_are_refused() -> None:
    app = mcprev.App("a", "1")
    with pytest.raises(TypeError, match="`tags` is one string"):
        app.tool(tags="admin")(lambda_of())


@EVERY
def test_entries_are_taken_out_of_service_and_put_back_by_name_and_by_tag(row: Revision) -> None:
    app = shop()
    app.disable(tags={"admin"})

    async def work(client: mcprev.Client) -> None:
        assert await listed(client) == ["buy", "shop://open"]
        with pytest.raises(InvalidParams, match="Unknown prompt"):
            await client.get_prompt("advise", {"thing": "hat"})
        app.disable("shop://open")
        app.enable("advise")
        assert await listed(client) == ["buy", "advise"]
        app.enable("shop://open", tags=["admin"])
        assert sorted(await listed(client)) == sorted(ALL)
        assert await used(client, ALL) == ANSWERS

    at(row, app, work)
    with pytest.raises(ValueError, match="'bye' is not registered"):
        app.disable("bye")


def test_what_is_out_of_service_keeps_its_name_and_where_it_is_mounted_its_state() -> None:
    inner, outer = shop(), mcprev.App("outer", "1")
    outer.mount(inner, "x")
    outer.disable("x_buy")
    with pytest.raises(ValueError, match="'x_buy' is registered already"):
        outer.tool(lambda_of(), name="x_buy")
    inner.disable("buy")
    inner.enable("buy")

    async def work(client: mcprev.Client) -> None:
        assert "x_buy" not in await listed(client)

    at(ROW_E, outer, work)
    inner.remove_tool("buy")
    with pytest.raises(ValueError, match="'x_buy' is not registered"):
        outer.enable("x_buy")


def names_taken(app: mcprev.App) -> Mapping[str, Any]:
    return {**app.registry.tools, **app.registry.resources, **app.registry.templates, **app.registry.prompts}


@pytest.mark.parametrize("prefix", [None, "x"])
@pytest.mark.parametrize("deep", [False, True], ids=["", "deep"])
def test_a_name_that_is_out_of_service_where_it_comes_from_cannot_be_taken(
    prefix: str | None, deep: bool
) -> None:
    """Neither where its app is mounted, whichever comes first, nor by another app that is mounted there."""

    inner, outer = shop(), mcprev.App("outer", "1")
    middle = mcprev.App("middle", "1")
    middle.mount(inner)
    outer.mount(middle if deep else inner, prefix)
    before = names_taken(outer)
    for kind in ("tools", "resources", "templates", "prompts"):
        for name in tuple(inner.registry.of(kind)):
            inner.disable(name)
            for key in set(before) - set(names_taken(outer)):
                single = mcprev.App("single", "1")
                single.registry.set_entry(kind, key, before[key])
                with pytest.raises(ValueError, match="registered already and disabled at present"):
                    outer.mount(single)
            inner.enable(name)
            assert names_taken(outer).keys() == before.keys()
    inner.disable("buy")
    key = "buy" if prefix is None else "x_buy"
    with pytest.raises(ValueError, match=f"'{key}' is registered already and disabled"):
        outer.tool(lambda_of(), name=key)
    late = mcprev.App("late", "1")
    late.tool(lambda_of(), name=key)
    held = late.registry.tools[key]
    with pytest.raises(ValueError, match="registered already"):
        late.mount(middle if deep else inner, prefix)
    assert late.registry.tools == {key: held}
    inner.enable("buy")
    assert late.registry.tools == {key: held}
    inner.remove_tool("buy")
    outer.tool(lambda_of(), name=key)


def test_a_name_of_a_tool_that_is_made_of_one_out_of_service_cannot_be_taken() -> None:
    inner, outer = shop(), mcprev.App("outer", "1")
    outer.mount(inner)
    transform_tool(outer, "buy", name="purchase")
    inner.disable("buy")
    with pytest.raises(ValueError, match="'purchase' is registered already and disabled"):
        outer.tool(lambda_of(), name="purchase")
    inner.enable("buy")
    assert "purchase" in outer.registry.tools


@EVERY
def test_entries_are_removed_and_clients_are_told(row: Revision) -> None:
    app = shop()
    told: list[mcprev.Change] = []

    async def work(client: mcprev.Client) -> None:
        async with client.listen(tools=True, prompts=True, resources=True) as changes:

            async def listen() -> None:
                async for change in changes:
                    told.append(change)  # noqa: PERF401 - each when it comes

            listening = asyncio.create_task(listen())
            app.remove_tool("buy")
            app.remove_prompt("advise")
            app.remove_resource("shop://open")
            app.remove_resource("shop://things/{thing}")
            await until(lambda: len(told) >= 3)
            listening.cancel()
        assert await listed(client) == []
        with pytest.raises(InvalidParams, match="Unknown tool: buy"):
            await client.call_tool("buy", {"thing": "hat"})

        @app.tool
        async def buy() -> str:
            return "again"

        assert text_of(await client.call_tool("buy", {})) == "again"

    at(row, app, work)
    for remove in (app.remove_prompt, app.remove_resource):
        with pytest.raises(ValueError, match="'advise' is not registered"):
            remove("advise")


# -- what is said of an entry ----------------------------------------------------------------------------


@EVERY
def test_a_resource_says_how_long_it_may_be_kept(row: Revision) -> None:
    app = mcprev.App("a", "1")
    reads: list[str] = []

    @app.resource("notes://all", ttl_ms=60_000, cache_scope="public")
    def notes() -> str:
        reads.append("all")
        return "all"

    @app.resource("notes://{name}", ttl_ms=5)
    def note(name: str) -> str:
        return name

    async def work(client: mcprev.Client) -> None:
        one = (await client.read_resource("notes://all")).to_wire()
        other = (await client.read_resource("notes://a")).to_wire()
        await client.read_resource("notes://all")
        if not row.handshake:
            assert (one["ttlMs"], one["cacheScope"]) == (60_000, "public")
            assert (other["ttlMs"], other["cacheScope"]) == (5, "private")
        assert len(reads) == (2 if row.handshake else 1)

    at(row, app, work)


@EVERY
def test_an_app_says_how_long_its_lists_may_be_kept(row: Revision) -> None:
    app, asked = mcprev.App("a", "1", list_ttl_ms=60_000), list[str]()

    def is_seen(_: mcprev.Context) -> bool:
        asked.append("tools")
        return True

    @app.tool(visible=is_seen)
    def one() -> str:
        return "one"

    app.resource("notes://all")(text)

    @app.resource("notes://{name}")
    def note(name: str) -> str:
        return name

    app.prompt(text, name="ask")

    async def listed(client: mcprev.Client) -> dict[str, Any]:
        return {
            "tools": await client.list_tools(),
            "resources": await client.list_resources(),
            "templates": await client.list_resource_templates(),
            "prompts": await client.list_prompts(),
        }

    async def work(client: mcprev.Client) -> None:
        for found in (await listed(client)).values():
            wire = found.to_wire()
            if not row.handshake:
                assert (wire["ttlMs"], wire["cacheScope"]) == (60_000, "private")
        await listed(client)
        assert len(asked) == (2 if row.handshake else 1)

    at(row, app, work)


def text() -> str:
    return "text"


def is_anyone(_: mcprev.Context) -> bool:
    return True


def test_what_only_some_clients_see_is_not_shared_between_users() -> None:
    app, guarded = (mcprev.App(name, "1") for name in ("a", "b"))
    app.resource("notes://all", ttl_ms=5, cache_scope="public")(text)
    app.resource("notes://own", ttl_ms=5, cache_scope="public", visible=is_anyone)(text)
    outer = mcprev.App("outer", "1", visible=lambda _, __: True)
    guarded.resource("notes://team", ttl_ms=5, cache_scope="public")(text)
    outer.mount(guarded)
    app.mount(outer)

    async def work(client: mcprev.Client) -> None:
        scopes = {
            uri: (await client.read_resource(uri)).cache_scope
            for uri in ("notes://all", "notes://own", "notes://team")
        }
        assert scopes == {"notes://all": "public", "notes://own": "private", "notes://team": "private"}

    at(ROW_E, app, work)


def test_what_no_client_can_be_told_about_caching_is_refused() -> None:
    app = mcprev.App("a", "1")
    with pytest.raises(ValueError, match="ttl_ms"):
        app.resource("notes://all", ttl_ms=-1)(lambda_of())
    with pytest.raises(ValueError, match="list_ttl_ms"):
        mcprev.App("a", "1", list_ttl_ms=-1)


@pytest.mark.parametrize("row", [row_of(D), ROW_E], ids=lambda row: row.name)
def test_a_tool_says_itself_that_it_runs_as_a_task(row: Revision) -> None:
    inner, app = mcprev.App("inner", "1"), mcprev.App("a", "1")

    @inner.tool(task="required")
    async def work(ctx: mcprev.Context) -> str:
        await ctx.detach()
        return "done"

    app.mount(inner, "x")

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            task = await client.start_tool("x_work", {})
            assert task.id is not None

            @app.tool(task="optional")
            async def later(ctx: mcprev.Context) -> str:
                await ctx.detach()
                return "later"

            assert (await client.start_tool("later", {})).id is not None

    run(main())


@EVERY
def test_a_hidden_tool_that_runs_as_a_task_answers_as_one_that_does_not_exist(row: Revision) -> None:
    app = mcprev.App("a", "1")
    app.tool(lambda_of(), name="seen", task="optional")
    app.tool(lambda_of(), name="hidden", task="required", visible=is_admin)
    app.tool(lambda_of(), name="secret", task="optional", visible=is_admin)
    app.tool(lambda_of(), name="removed", task="required")
    app.tool(lambda_of(), name="away", task="required")
    app.disable("away")

    async def work(client: mcprev.Client) -> None:
        app.remove_tool("removed")
        for call in (client.call_tool, client.start_tool):
            answers: set[str] = set()
            for name in ("hidden", "secret", "removed", "away", "nowhere"):
                with pytest.raises(McpError) as caught:
                    await call(name, {})
                answers.add(f"{type(caught.value).__name__} {caught.value}".replace(name, "X"))
            assert len(answers) == 1, answers
        app.enable("away")
        assert "away" in [tool.name async for tool in client.tools()]

    at(row, app, work)


def test_a_tool_that_takes_the_name_of_a_task_is_none_itself() -> None:
    app = mcprev.App("a", "1", tasks=mcprev.Tasks({"by_option": "optional"}))
    app.tool(lambda_of(), name="by_option")
    app.tool(lambda_of(), name="by_itself", task="required")

    async def work(client: mcprev.Client) -> None:
        for name in ("by_option", "by_itself"):
            app.remove_tool(name)
            app.tool(lambda_of(), name=name)
        tools = [tool.to_wire() async for tool in client.tools()]
        support = [tool.get("execution", {}).get("taskSupport") for tool in tools]
        assert support == ["optional", None]

    at(row_of(D), app, work)


class Store(mcprev.MemoryTaskStore):
    """Remembers whose tasks it stored."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = 0

    async def save(self, task: Any, /) -> None:
        self.saved += 1
        await super().save(task)


def building(tasks: mcprev.Tasks | None, name: str = "build") -> mcprev.App:
    app = mcprev.App(name, "1") if tasks is None else mcprev.App(name, "1", tasks=tasks)

    @app.tool(name=name)
    async def build(ctx: mcprev.Context) -> str:
        await ctx.detach()
        return "built"

    app.tool(lambda_of(), name=f"{name}_not")
    return app


@pytest.mark.parametrize("row", [row_of(D), ROW_E], ids=lambda row: row.name)
@pytest.mark.parametrize("owner", ["the outer app", "the mounted app", "both"])
def test_a_mounted_app_says_which_of_its_tools_run_as_tasks(owner: str, row: Revision) -> None:
    inner, outer = Store(), Store()
    app = (
        mcprev.App("a", "1")
        if owner == "the mounted app"
        else mcprev.App("a", "1", tasks=mcprev.Tasks({}, store=outer))
    )
    middle = mcprev.App("middle", "1")
    middle.mount(building(mcprev.Tasks({"build": "required"}, store=inner)), "y")
    app.mount(middle, "x")
    app.tool(lambda_of(), name="build")

    async def work(client: mcprev.Client) -> None:
        task = await client.start_tool("x_y_build", {})
        assert text_of(await task.result()) == "built"
        if row.name == D:
            tools = [tool.to_wire() async for tool in client.tools()]
            support = {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in tools}
            assert support == {"x_y_build": "required", "x_y_build_not": None, "build": None}
            with pytest.raises(McpError, match="can only run as a task"):
                await client.raw("tools/call", {"name": "x_y_build"})

    at(row, app, work)
    assert (inner.saved > 0, outer.saved > 0) == (owner == "the mounted app", owner != "the mounted app")


def has_the_tools(*names: str) -> Callable[[mcprev.Client], Awaitable[None]]:
    async def work(client: mcprev.Client) -> None:
        assert [tool.name async for tool in client.tools()] == [*names]

    return work


def test_settings_of_tasks_that_contradict_each_other_or_come_too_late_are_refused() -> None:
    app = mcprev.App("a", "1")
    app.mount(building(mcprev.Tasks({"build": "optional"})))
    with pytest.raises(ValueError, match="several mounted apps have `tasks`"):
        app.mount(building(mcprev.Tasks({"other": "optional"}), "other"), "x")
    at(ROW_E, app, has_the_tools("build", "build_not"))
    named = mcprev.App("b", "1")
    named.mount(building(mcprev.Tasks({"built": "optional"})))
    with pytest.raises(ValueError, match="`tasks` names 'built', which is not a tool of the app 'build'"):
        named.asgi()
    late, middle = mcprev.App("c", "1"), building(None)
    late.mount(middle)
    assert isinstance(late.server, mcprev.Server)
    for each in (late, middle):
        with pytest.raises(LocalProtocolError, match="a lifespan or `tasks` before the first use"):
            each.mount(building(mcprev.Tasks({"other": "optional"}), "other"))
        each.mount(building(None, "plain"), f"p{each is late}")


def test_a_first_task_that_comes_too_late_is_refused() -> None:
    app = shop()
    assert isinstance(app.server, mcprev.Server)
    with pytest.raises(LocalProtocolError, match="the first tool that can run as a task"):
        app.tool(lambda_of(), name="t", task="optional")
    app.tool(lambda_of(), name="t")
    with pytest.raises(ValueError, match="'sometimes' is not a valid Support"):
        mcprev.App("b", "1").tool(lambda_of(), name="t", task="sometimes")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def watched() -> mcprev.App:
    """An app with resources that everybody sees, that some see, and that nobody sees."""
    app = mcprev.App("a", "1")
    inner = mcprev.App("inner", "1", visible=to_admins)

    async def is_async_admin(ctx: mcprev.Context) -> bool:
        await asyncio.sleep(0)
        return is_admin(ctx)

    @app.resource("notes://t/{name}", visible=is_async_admin)
    def named(name: str) -> str:
        return name

    app.resource("notes://open")(text)
    app.resource("notes://t/open")(text)
    app.resource("notes://own", visible=is_admin)(text)
    app.resource("notes://away")(text)
    inner.resource("notes://team", tags={"admin"})(text)
    app.mount(inner)
    app.disable("notes://away")
    return app


WATCHED: Final = (
    "notes://own", "notes://team", "notes://t/7", "notes://away", "notes://open", "notes://t/open", "notes://nowhere",
)  # fmt: skip
TOLD: Final = {
    "root": {uri for uri in WATCHED if uri != "notes://away"},
    "ann": {"notes://open", "notes://t/open", "notes://nowhere"},
}


@EVERY
def test_a_change_of_a_resource_is_told_to_those_who_see_it(row: Revision) -> None:
    async def main() -> None:
        app = watched()
        served = app.server.asgi(principal=by_header, sse=True)
        connector = InProcess(served)

        async def work(user: str) -> None:
            async with aiohttp.ClientSession(
                connector=connector, connector_owner=False, headers={"x-user": user}
            ) as session:
                path = "/sse" if row.http is HttpShape.SSE else "/mcp"
                target = mcprev.http(connector.origin + path, session=session)
                async with (
                    mcprev.connect(target, mode=row.name) as client,
                    client.listen(uris=[*WATCHED, "notes://last"]) as changes,
                ):
                    for _ in range(2):  # a change that is not announced yet is announced with the next
                        for uri in WATCHED:
                            app.server.changed("resource", uri)
                    found: set[str | None] = set()
                    while not TOLD[user] <= found:
                        found.add((await anext(changes)).uri)
                    for _ in range(50):
                        await asyncio.sleep(0)
                    app.server.changed("resource", "notes://last")
                    while "notes://last" not in found:
                        found.add((await anext(changes)).uri)
                    assert found == TOLD[user] | {"notes://last"}

        for user in TOLD:
            await work(user)
        await served.aclose()
        await connector.close()

    run(main())


@pytest.mark.parametrize("row", [row_of(D), ROW_E], ids=lambda row: row.name)
def test_who_unsubscribes_before_it_is_decided_is_told_nothing(
    row: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        decided, asked = asyncio.Event(), asyncio.Event()

        async def check(_: mcprev.Context) -> bool:
            asked.set()
            return await decided.wait()

        app = mcprev.App("a", "1")
        app.resource("notes://own", visible=check)(text)
        async with mcprev.connect(app, mode=row.name) as client:
            got: list[str] = []
            async with client.listen(uris="notes://own"):
                app.server.changed("resource", "notes://own")
                await asked.wait()
            await client.ping()
            protocol = client.session.connection.protocol
            receive = protocol.receive

            def watch(message: Any, now: float) -> None:
                got.append(getattr(message, "method", ""))
                receive(message, now)

            monkeypatch.setattr(protocol, "receive", watch)
            decided.set()
            for _ in range(20):
                await asyncio.sleep(0)
            await client.ping()
            assert "notifications/resources/updated" not in got

    run(main())


def test_a_change_of_what_everybody_sees_is_told_at_once() -> None:
    app = watched()

    async def main() -> None:
        async with (
            mcprev.connect(app, mode=D) as client,
            client.listen(uris=["notes://open", "notes://own"], resources=True) as changes,
        ):
            for uri in ("notes://own", "notes://open"):
                app.server.changed("resource", uri)
            app.server.changed("resources")
            found = [(await anext(changes)).what for _ in range(2)]
            assert found == ["resource", "resources"]

    run(main())


def test_many_changes_of_a_resource_wait_for_one_decision_of_who_sees_it() -> None:
    asked: list[str] = []

    async def main() -> None:
        decided = asyncio.Event()

        async def check(ctx: mcprev.Context) -> bool:
            asked.append(ctx.request.method)
            await decided.wait()
            return True

        app = mcprev.App("a", "1")
        app.resource("notes://own", visible=check)(text)
        async with mcprev.connect(app, mode=D) as client, client.listen(uris="notes://own") as changes:
            for _ in range(100):
                app.server.changed("resource", "notes://own")
                await asyncio.sleep(0)
            assert len(asked) == 1
            decided.set()
            assert (await anext(changes)).uri == "notes://own"
            app.server.changed("resource", "notes://own")
            assert (await anext(changes)).uri == "notes://own"
            assert len(asked) == 2

    run(main())


def test_a_change_while_another_subscriber_is_decided_is_told_again() -> None:
    """A decision that takes long, or for ever, holds up nobody else, and no change is taken for one told before."""

    async def main() -> None:
        asked: list[object] = []

        async def check(ctx: mcprev.Context) -> bool:
            asked.append(ctx.request.id)
            if ctx.request.id != first:
                await asyncio.Event().wait()
            return True

        first: object = None
        app = mcprev.App("a", "1")
        app.resource("notes://own", visible=check)(text)
        async with (
            mcprev.connect(app, mode=E) as client,
            client.listen(uris="notes://own") as changes,
        ):
            [engine] = [each for each in served_engines(app) if each.listeners]
            first = engine.listeners[0].id
            async with client.listen(uris="notes://own"):
                for _ in range(3):
                    app.server.changed("resource", "notes://own")
                    async with asyncio.timeout(30):
                        assert (await anext(changes)).uri == "notes://own"
                assert len(asked) == 4

    run(main())


def test_a_change_right_after_a_notification_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    updated = StatelessServer.updated

    def check(ctx: mcprev.Context) -> bool:
        asked.append(ctx.request.id)
        return True

    async def main() -> None:
        app = mcprev.App("a", "1")
        app.resource("notes://own", visible=check)(text)

        def then_change(self: StatelessServer, incoming: Any, uri: str) -> None:
            updated(self, incoming, uri)
            if len(asked) == 1:
                asyncio.get_running_loop().call_soon(app.server.changed, "resource", "notes://own")

        monkeypatch.setattr(StatelessServer, "updated", then_change)
        async with mcprev.connect(app, mode=E) as client, client.listen(uris="notes://own") as changes:
            app.server.changed("resource", "notes://own")
            await anext(changes)
            await until(lambda: len(asked) == 2)

    run(main())


def served_engines(app: mcprev.App) -> list[StatelessServer]:
    """The stateless side of each connection of a server."""
    connections = app.server._connections  # pyright: ignore[reportPrivateUsage]
    return [cast("ServerProtocol", connection.protocol).stateless for connection in connections]
