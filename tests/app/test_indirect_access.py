"""What a tool reads, gets or calls for its client: no more than the client could itself, by any other name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.asgi_bridge import Client
from helpers.requirements import D, E
from helpers.running import run
from mcprev.middleware import Caching
from mcprev.revisions import Revision, revision_named
from mcprev.transforms import prompts_as_tools, resources_as_tools, tools_by_search, transform_tool
from mcprev_types.latest import models as m

BOTH: Final = pytest.mark.parametrize("row", [revision_named(D), revision_named(E)], ids=[D, E])
GUARDED: Final = {
    "call_tool": ("tools/call", {"name": "wipe"}),
    "read_resource": ("resources/read", {"uri": "a://secret"}),
    "get_prompt": ("prompts/get", {"name": "burn"}),
    "wipe@1": ("tools/call", {"name": "wipe"}),
    "wipe": ("tools/call", {"name": "wipe@2"}),
    "wipe@2": ("tools/call", {"name": "wipe"}),
}
"""By tool: the request that is only for admins."""


def office(**options: Any) -> mcprev.App:
    app = mcprev.App("office", "1", **options)
    for version in ("1", "2"):

        @app.tool(name="wipe", version=version)
        async def wipe() -> str:
            return "secret"

    @app.resource("a://secret")
    async def secret() -> str:
        return "secret"

    @app.prompt
    async def burn() -> str:
        return "secret"

    return tools_by_search(prompts_as_tools(resources_as_tools(app)))


def arguments_of(tool: str) -> dict[str, Any]:
    return {} if "wipe" in tool else {**GUARDED[tool][1]}


@BOTH
@pytest.mark.parametrize("tool", GUARDED)
@pytest.mark.parametrize("fails", [False, True], ids=["", "undecided"])
@each_once
def test_a_tool_gets_nothing_for_which_the_token_of_its_client_lacks_scopes(
    tool: str, row: Revision, fails: bool
) -> None:
    method, guarded = GUARDED[tool]

    def needs(asked: str, params: Mapping[str, Any]) -> str | None:
        if asked != method or any(params.get(key) != value for key, value in guarded.items()):
            return None
        if fails and params.get("name") != tool:
            raise OSError("down")
        return "admin"

    tokens: dict[str, Any] = {"ann": {"subject": "ann", "scopes": "admin"}, "bob": "bob"}

    async def main() -> None:
        app = office().asgi(auth=mcprev.StaticTokens(tokens, needs=needs))
        for user in tokens:
            client = Client(app)
            client.session = {"authorization": f"Bearer {user}"}
            answer = await (await client.open(row)).call(tool, arguments_of(tool)).done()
            assert (b"secret" in answer.body) == (user == "ann" and not fails), answer.body
            short = user == "bob" and not fails
            assert (b"too few scopes" in answer.body, answer.status == 403) == (short, short), answer.body
            told = answer.headers.get("www-authenticate", "")
            assert ('error="insufficient_scope"' in told, 'scope="admin"' in told) == (short, short)
        await app.aclose()

    run(main())


@pytest.mark.parametrize("tool", ["search_tools", "read_resource", "get_prompt"])
def test_a_tool_gets_nothing_for_which_its_client_lacks_a_capability(tool: str) -> None:
    method, arguments = {"search_tools": ("tools/list", {"query": "wipe"}), **GUARDED}[tool]
    needed = m.ClientCapabilities(elicitation=m.ClientCapabilitiesElicitation())
    app = office(requires={method: needed})

    async def answer(_: object) -> dict[str, Any]:
        return {}

    async def main() -> None:
        async with mcprev.connect(app, mode=E) as client:
            with pytest.raises(mcprev.RpcError, match="requires the client capability elicitation"):
                await client.call_tool(tool, arguments)
        async with mcprev.connect(app, mode=E, elicitation=answer) as client:
            assert not (await client.call_tool(tool, arguments)).is_error

    run(main())


@pytest.mark.parametrize("tool", ["call_tool", "read_resource", "get_prompt"])
def test_what_a_client_no_longer_sees_is_not_kept_under_the_name_of_a_tool(tool: str) -> None:
    hidden = set[str]()

    def seen(_: object, tags: frozenset[str]) -> bool:
        return not hidden & tags

    caching = Caching(60, tools=["call_tool", "read_resource", "get_prompt"])
    app = mcprev.App("office", "1", visible=seen, middleware=[caching])
    app.tool(tags={"x"}, name="wipe")(answers := lambda: "secret")
    app.resource("a://secret", tags={"x"}, name="secret")(answers)
    app.prompt(tags={"x"}, name="burn")(answers)
    tools_by_search(prompts_as_tools(resources_as_tools(app)))

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert "secret" in str((await client.call_tool(tool, arguments_of(tool))).content)
            hidden.add("x")
            later = await client.call_tool(tool, arguments_of(tool))
            assert later.is_error
            assert "Unknown" in later.text or "not found" in later.text

    run(main())


def house(depth: int, **options: Any) -> tuple[mcprev.App, str]:
    """An app in which the office is mounted, `depth` deep, beside other things; and the prefix of its tools."""
    inner, prefix = office(), ""
    for _ in range(depth):
        outer = mcprev.App("house", "1", **options)

        @outer.tool(name="own")
        async def own_tool() -> str:
            return "secret of the house"

        @outer.resource("h://own")
        async def own_resource() -> str:
            return "secret of the house"

        @outer.prompt(name="own")
        async def own_prompt() -> str:
            return "secret of the house"

        outer.mount(inner, "in")
        inner, prefix = outer, f"in_{prefix}"
    return inner, prefix


@pytest.mark.parametrize("depth", [1, 2])
def test_a_mounted_app_searches_and_reads_what_is_its_own_under_the_names_of_the_served_one(
    depth: int,
) -> None:
    async def main() -> None:
        app, at = house(depth)
        uri = "a://" + "in/" * depth + "secret"
        async with mcprev.connect(app) as client:
            listed = [tool.name async for tool in client.tools()]
            assert listed == [
                "own",
                *(["in_own"] if depth == 2 else []),
                f"{at}search_tools",
                f"{at}call_tool",
            ]
            found = await client.call_tool(
                f"{at}search_tools", {"query": "wipe own find list"}, as_=list[dict[str, Any]]
            )
            names = {tool["name"] for tool in found}
            assert f"{at}wipe" in names
            assert not names & {"own", "in_own", f"{at}search_tools", f"{at}call_tool"}
            called = await client.call_tool(f"{at}call_tool", {"name": f"{at}wipe"})
            assert called.text == "secret"
            for wrong in ("own", "wipe", f"{at}call_tool", f"{at}search_tools"):
                answer = await client.call_tool(f"{at}call_tool", {"name": wrong})
                assert answer.is_error, wrong
                assert "Unknown tool" in answer.text
            told = await client.call_tool(f"{at}list_resources", as_=dict[str, Any])
            assert [each["uri"] for each in told["resources"]] == [uri]
            assert (await client.call_tool(f"{at}read_resource", {"uri": uri})).text == "secret"
            prompts = await client.call_tool(f"{at}list_prompts", as_=list[dict[str, Any]])
            assert [each["name"] for each in prompts] == [f"{at}burn"]
            assert "secret" in (await client.call_tool(f"{at}get_prompt", {"name": f"{at}burn"})).text
            for tool, wrong_one in (("read_resource", {"uri": "h://own"}), ("get_prompt", {"name": "own"})):
                answer = await client.call_tool(at + tool, wrong_one)
                assert answer.is_error, tool
                assert "of the house" not in answer.text

    run(main())


def test_what_the_served_app_hides_refuses_and_runs_around_holds_for_the_tools_of_a_mounted_one() -> None:
    seen: list[str] = []

    async def watch(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        if isinstance(call.params, m.CallToolRequestParams):
            seen.append(call.params.name)
            if call.params.name == "in_wipe@1":
                raise mcprev.ToolError("never")
        return await call_next(call)

    async def main() -> None:
        app, _ = house(1, middleware=[watch])
        async with mcprev.connect(app) as client:
            assert (await client.call_tool("in_call_tool", {"name": "in_wipe"})).text == "secret"
            assert seen == ["in_call_tool", "in_wipe"]
            assert (await client.call_tool("in_call_tool", {"name": "in_wipe@1"})).text == "never"
        app, _ = house(1)
        async with mcprev.connect(app) as client:
            app.disable("in_wipe")
            answer = await client.call_tool("in_call_tool", {"name": "in_wipe"})
            assert answer.is_error
            found = await client.call_tool("in_search_tools", {"query": "wipe"}, as_=list[dict[str, Any]])
            assert found == []

    run(main())


def test_a_changed_call_tool_of_a_mounted_app_asks_the_served_one() -> None:
    """However it is put: what the served app takes out of service cannot be called."""

    async def main() -> None:
        inner = office()
        transform_tool(inner, "call_tool", name="do")
        outer = mcprev.App("house", "1")
        outer.mount(inner, "in")
        transform_tool(outer, "in_search_tools", name="look")
        async with mcprev.connect(outer) as client:
            assert (await client.call_tool("in_do", {"name": "in_wipe"})).text == "secret"
            assert await client.call_tool("look", {"query": "wipe"}, as_=list[dict[str, Any]])
            outer.disable("in_wipe")
            assert (await client.call_tool("in_do", {"name": "in_wipe"})).is_error
            assert (await client.call_tool("in_do", {"name": "wipe"})).is_error

    run(main())


def test_a_search_of_the_served_app_finds_what_a_mounted_one_does_not_list() -> None:
    async def main() -> None:
        app, _ = house(1)
        tools_by_search(app, always=["in_wipe"])
        async with mcprev.connect(app) as client:
            assert [tool.name async for tool in client.tools()] == ["in_wipe", "search_tools", "call_tool"]
            found = await client.call_tool(
                "search_tools", {"query": "wipe tools call find", "limit": 50}, as_=list[dict[str, Any]]
            )
            assert {"in_wipe", "in_read_resource"} & {tool["name"] for tool in found} == {"in_wipe"}
            assert not {"in_search_tools", "in_call_tool"} & {tool["name"] for tool in found}
            assert (await client.call_tool("call_tool", {"name": "in_wipe"})).text == "secret"

    run(main())


def test_an_app_that_is_mounted_already_gets_a_search() -> None:
    async def main() -> None:
        inner, outer = mcprev.App("i", "1"), mcprev.App("o", "1")
        inner.tool(name="a")(lambda: "a")
        outer.mount(inner, "x")
        outer.mount(inner, "y")
        tools_by_search(inner)
        async with mcprev.connect(outer) as client:
            assert {tool.name async for tool in client.tools()} == {
                "x_search_tools", "x_call_tool", "y_search_tools", "y_call_tool",
            }  # fmt: skip
            for at in ("x", "y"):  # an app that is mounted twice has its functions twice
                assert (await client.call_tool(f"{at}_call_tool", {"name": "x_a"})).text == "a"

    run(main())


def renamed(way: str) -> tuple[mcprev.App, str, str]:
    """An app with a guarded tool under another name; the guarded name, and the other one."""
    app = mcprev.App("office", "1")
    options: Any = {"version": "1"} if way == "version" else {}

    @app.tool(**options)
    async def wipe() -> str:
        return "secret"

    @app.tool
    async def other() -> str:
        return "fine"

    transform_tool(app, "wipe@1" if way == "version" else "wipe", name="clean", keep=way == "kept")
    if way == "chain":
        transform_tool(app, "clean", name="tidy")
        return app, "wipe", "tidy"
    if way != "mounted":
        return app, "wipe", "clean"
    outer = mcprev.App("house", "1")
    outer.mount(app, "in")
    return outer, "in_wipe", "in_clean"


@BOTH
@pytest.mark.parametrize("way", ["renamed", "kept", "chain", "mounted", "version"])
def test_a_tool_under_another_name_needs_what_its_original_needs(way: str, row: Revision) -> None:
    """A new name must not take the guard away that the author has put before the old one."""
    app, guarded, name = renamed(way)
    tools_by_search(app)

    def needs(_: str, params: Mapping[str, Any]) -> str | None:
        return "admin" if params.get("name") == guarded else None

    tokens: dict[str, Any] = {"ann": {"subject": "ann", "scopes": "admin"}, "bob": "bob"}

    async def main() -> None:
        served = app.asgi(auth=mcprev.StaticTokens(tokens, needs=needs))
        for user in tokens:
            client = Client(served)
            client.session = {"authorization": f"Bearer {user}"}
            await client.open(row)
            for tool, arguments in ((name, {}), ("call_tool", {"name": name})):
                body = (await client.call(tool, arguments).done()).body
                assert (b"secret" in body, b"too few scopes" in body) == (user == "ann", user == "bob"), body
            unguarded = "in_other" if way == "mounted" else "other"
            assert (await client.call(unguarded).done()).text == "fine"
        await served.aclose()

    run(main())
