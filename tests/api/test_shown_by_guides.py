"""What the guides show, and tools/snippet_types.py has type checkers accept, at run time (TOOL-1, RES-1, SAMP-1)."""

from __future__ import annotations

import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models

ICON = {"src": "https://shop.example/icon.png"}
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def app() -> mcprev.App:
    made = mcprev.App("shop", "1.0")

    @made.tool(annotations={"readOnlyHint": True}, icons=[ICON])
    async def ask(ctx: mcprev.Context) -> str:
        return (await ctx.sample("Say hi.")).text

    @made.resource("shop://all", annotations={"priority": 0.5}, icons=[ICON])
    async def everything() -> list[models.TextResourceContents | models.BlobResourceContents]:
        return [
            models.TextResourceContents(uri="shop://1", text="hat"),
            models.BlobResourceContents(uri="shop://2", blob="aGk="),
            models.TextResourceContents(uri="shop://3", text="scarf"),
        ]

    return made


@req("TOOL-1", everywhere=True)
def test_annotations_and_icons_may_be_mappings() -> None:
    async def main() -> None:
        async with mcprev.connect(app()) as client:
            [tool] = (await client.list_tools()).tools
            [resource] = (await client.list_resources()).resources
        assert tool.annotations == models.ToolAnnotations(read_only_hint=True)
        assert resource.annotations == models.Annotations(priority=0.5)
        assert tool.icons == resource.icons == [models.Icon(src=ICON["src"])]

    run(main())


@req("SAMP-1", everywhere=True)
@each_row
def test_a_function_for_sampling_may_return_a_mapping(row: Revision) -> None:
    def answer(_: models.CreateMessageRequestParams) -> dict[str, object]:
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hi."}}

    async def main() -> None:
        async with mcprev.connect(app(), mode=row.name, sampling=answer) as client:
            assert (await client.call_tool("ask")).text == "Hi."

    run(main())


@req("RES-2", everywhere=True)
@each_row
def test_the_text_of_a_resource_is_that_of_its_texts(row: Revision) -> None:
    async def main() -> None:
        async with mcprev.connect(app(), mode=row.name) as client:
            found = await client.read_resource("shop://all")
        assert isinstance(found, mcprev.ResourceResult)
        assert found.text == "hat\nscarf"

    run(main())
