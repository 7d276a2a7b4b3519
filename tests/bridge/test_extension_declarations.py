"""A bridge declares extensions and pages as the server does, whichever client came first and whatever each speaks."""

from __future__ import annotations

from itertools import permutations
from typing import Any, Final

import pytest

import mcprev
from helpers.named import C, D, E
from helpers.requirements import req
from helpers.running import run
from mcprev.extensions.ui import HOST
from mcprev.revisions import DEFAULT, Revision

OTHER: Final = mcprev.Extension("com.example/other", settings={"a": 1})
PAGE: Final = "ui://clock"


def clock(*spoken: str) -> mcprev.App:
    options: dict[str, Any] = {"revisions": spoken} if spoken else {}
    app = mcprev.App("clock", "1", extensions=[OTHER], **options)
    page = app.ui(PAGE, "<!doctype html><title>Clock</title>")

    @app.tool(ui=page)
    def now() -> str:
        return "noon"

    return app


async def seen_by(server: Any, row: Revision) -> tuple[object, ...]:
    """What a client that shows pages is told of extensions, and of the page of the tool."""
    async with mcprev.connect(server, mode=row.name, extensions=[HOST, OTHER]) as client:
        [tool] = (await client.list_tools()).tools
        told = [client.supports(extension) for extension in (HOST.name, OTHER.name)]
        meta: dict[str, Any] = tool.to_wire().get("_meta") or {}
        return (*told, meta.get("ui"))


@req("CONV-31", "MOD-16", everywhere=True)
@pytest.mark.parametrize("spoken", [(), (C,), (D,), (E,)], ids=lambda spoken: spoken[0] if spoken else "all")
def test_who_came_first_does_not_decide(spoken: tuple[str, ...]) -> None:
    rows = (DEFAULT[0], DEFAULT[-2], DEFAULT[-1])

    async def main() -> None:
        wanted: dict[Revision, tuple[object, ...]]
        wanted = {row: (True, True, {"resourceUri": PAGE}) for row in rows[1:]}
        wanted[rows[0]] = (True, True, None)  # whose tools have no `_meta`
        if not spoken:
            assert {row: await seen_by(clock(), row) for row in rows} == wanted
        for order in permutations(rows):
            bridge = mcprev.Bridge(clock(*spoken))
            async with bridge.running():
                for row in order:
                    found = await seen_by(bridge, row)
                    assert found == wanted[row], [each.name for each in order]

    run(main())
