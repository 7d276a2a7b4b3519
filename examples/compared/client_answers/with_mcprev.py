"""A client that answers questions and has roots, with mcprev."""

import asyncio
import sys

import mcprev
from mcprev_types.latest import models


def answer(params: models.ElicitRequestParams) -> dict[str, str]:
    return {"name": "ann"}


async def main() -> None:
    target = mcprev.stdio(*sys.argv[1:])
    async with mcprev.connect(target, roots=["file:///srv"], elicitation=answer, mode="legacy") as client:
        for tool in ("ask", "where"):
            print((await client.call_tool(tool)).text)


asyncio.run(main())
