"""What a tool reads, gets or calls for its client: no more than the client could itself, by any other name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

import mcprev
from asgi_bridge import Client
from mcprev.middleware import Caching
from mcprev.revisions import Revision, revision_named
from mcprev.transforms import prompts_as_tools, resources_as_tools, tools_by_search, transform_tool
from mcprev_types.latest import models as m
from requirements import D, E
from running import run

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
            body = (await (await client.open(row)).call(tool, arguments_of(tool)).done()).body
            assert (b"secret" in body) == (user == "ann" and not fails), body
            assert (b"too few scopes" in body) == (user == "bob" and not fails), body
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
            with pytest.raises(mcprev.RpcError, match="needs the client capability elicitation"):
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


@pytest.mark.parametrize("add", [tools_by_search, resources_as_tools, prompts_as_tools])
def test_an_app_whose_tools_use_its_others_is_mounted_without_them(add: Callable[[mcprev.App], Any]) -> None:
    inner, outer = mcprev.App("i", "1"), mcprev.App("o", "1")
    inner.tool(name="a")(lambda: "a")
    add(inner)
    advice = rf"was given tools by `{add.__name__}`.*call `mcprev\.transforms\.{add.__name__}` with this app"
    with pytest.raises(ValueError, match=advice):
        outer.mount(inner, "x")
    assert not outer.registry.tools
    plain = mcprev.App("p", "1")
    outer.mount(plain)
    with pytest.raises(ValueError, match="add these tools to the app that mounts it"):
        add(plain)


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
