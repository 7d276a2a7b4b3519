"""A client that answers questions and has roots, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import sys

from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult, ListRootsResult, Root


async def answer(context, params):
    return ElicitResult(action="accept", content={"name": "ann"})


async def roots(context):
    return ListRootsResult(roots=[Root(uri="file:///srv")])


async def main():
    target = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with Client(
        target, elicitation_callback=answer, list_roots_callback=roots, mode="legacy"
    ) as client:
        for tool in ("ask", "where"):
            print((await client.call_tool(tool)).content[0].text)


asyncio.run(main())
