"""An app that is mounted with a prefix: its links and its changes have the names that clients know."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models

ROWS: Final = pytest.mark.parametrize("row", DEFAULT, ids=str)
LINKS: Final = {
    "notes://one": "notes://outer/inner/one",
    "notes://pages/2": "notes://outer/inner/pages/2",
    "https://example.com/x": "https://example.com/x",
    "notes://outer/inner/one": "notes://outer/inner/one",
    "notes://none": "notes://none",
}
"""By what the mounted app writes: what the client reads."""


def twice_mounted() -> tuple[mcprev.App, mcprev.App]:
    """An app, and one that mounts another one that mounts it."""
    inner, middle, outer = (mcprev.App(name, "1") for name in ("inner", "middle", "outer"))

    @inner.resource("notes://one")
    def one() -> str:
        return "the first"

    @inner.resource("notes://pages/{+page}")
    def page(page: str) -> list[models.TextResourceContents]:
        return [models.TextResourceContents(uri="notes://one", text=page)]

    @inner.tool
    def links() -> list[models.ResourceLink]:
        return [models.ResourceLink(name="it", uri=uri) for uri in LINKS]

    @inner.tool
    def contained() -> list[models.EmbeddedResource]:
        return [
            models.EmbeddedResource(resource=models.TextResourceContents(uri=uri, text="")) for uri in LINKS
        ]

    @inner.prompt
    def told() -> list[models.PromptMessage]:
        parts = [models.TextResourceContents(uri=uri, text="") for uri in LINKS]
        return [
            models.PromptMessage(role="user", content=models.EmbeddedResource(resource=one)) for one in parts
        ]

    middle.mount(inner, "inner")
    outer.mount(middle, "outer")
    return inner, outer


def uris_of(blocks: list[models.ContentBlock]) -> list[str]:
    found = [each.resource if isinstance(each, models.EmbeddedResource) else each for each in blocks]
    return [str(getattr(each, "uri", getattr(each, "text", "").removeprefix("it: "))) for each in found]


@ROWS
@req("RES-1", everywhere=True)
def test_links_of_a_mounted_app_can_be_read(row: Revision) -> None:
    async def main() -> None:
        _, outer = twice_mounted()
        async with mcprev.connect(outer, mode=row.name) as client:
            expected = list(LINKS.values())
            assert uris_of((await client.call_tool("outer_inner_links", {})).content) == expected
            assert uris_of((await client.call_tool("outer_inner_contained", {})).content) == expected
            messages = (await client.get_prompt("outer_inner_told")).messages
            assert uris_of([each.content for each in messages]) == expected
            for uri in expected[:2]:
                assert (await client.read_resource(uri)).text in {"the first", "2"}
            found = await client.read_resource(expected[1])
            assert [part.uri for part in found.contents] == [expected[0]]

    run(main())


@ROWS
@req("SUB-1", "SUB-3", everywhere=True)
def test_clients_hear_of_changes_that_a_mounted_app_announces(row: Revision) -> None:
    async def main() -> None:
        inner, outer = twice_mounted()
        async with (
            mcprev.connect(outer, mode=row.name) as client,
            client.listen(uris=list(LINKS.values())[:2], tools=True) as changes,
        ):
            heard = aiter(changes)
            async with asyncio.timeout(10):
                inner.server.changed("resource", "notes://pages/2")
                assert (await anext(heard)).uri == "notes://outer/inner/pages/2"
                inner.server.changed("tools")
                assert (await anext(heard)).what == "tools"
                inner.remove_tool("links")
                inner.server.changed("resource", "notes://one")
                assert [(await anext(heard)).what, (await anext(heard)).uri] == [
                    "tools",
                    "notes://outer/inner/one",
                ]

    run(main())
