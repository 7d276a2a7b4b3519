"""Nothing that a server sends holds a lone surrogate, as of a file name that is not UTF-8: most clients could not read it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from pydantic import BaseModel

import mcprev
from helpers.running import run
from mcprev.middleware import SizeLimit
from mcprev.revisions import DEFAULT, Revision

NAME = "a\udc80b"
SENT = "a\ufffdb"


class Model(BaseModel):
    name: str


def serving() -> mcprev.App:
    app = mcprev.App("names", "1", show_errors=True, middleware=[SizeLimit(10_000)])

    @app.tool
    def text() -> str:
        return NAME

    @app.tool
    def listed() -> list[str]:
        return [NAME]

    @app.tool
    def model() -> Model:
        return Model(name=NAME)

    @app.tool
    def mapping() -> dict[str, str]:
        return {NAME: NAME}

    @app.tool
    def plain():  # type: ignore[no-untyped-def]
        return {NAME: {"model": Model(name=NAME)}}

    @app.tool
    def told() -> str:
        raise mcprev.ToolError(NAME)

    @app.tool
    def fails() -> str:
        raise ValueError(NAME)

    @app.tool
    async def logs(ctx: mcprev.Context) -> str:
        await ctx.log("error", {NAME: NAME})
        await ctx.progress(1, 2, NAME)
        return NAME

    app.resource("names://text", name=NAME)(text)
    app.resource("names://json")(mapping)
    app.prompt(title=NAME)(text)
    return app


def shown(value: object) -> str:
    """The JSON of a result that a client has read."""
    return json.dumps(cast("Any", value).to_wire(), ensure_ascii=False)


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_every_text_of_a_server_can_be_read(row: Revision) -> None:
    async def main() -> None:
        progress = list[object]()

        def note(*told: object) -> None:
            progress.append(told)

        async with mcprev.connect(serving(), mode=row.name) as client:
            found = [shown(await client.call_tool(tool.name, progress=note)) async for tool in client.tools()]
            found += [shown(await client.read_resource(uri)) for uri in ("names://text", "names://json")]
            found += [shown(await client.get_prompt("text")), shown(await client.list_resources())]
        assert len(found) == 12
        for text in found:
            assert SENT in text
            assert NAME not in text
        assert len(progress) == 1
        assert ascii(NAME)[1:-1] not in ascii(progress)

    run(main())
