"""A client that answers questions and has roots, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def answer(message, response_type, params, context):
    return {"name": "ann"}


async def main():
    target = StdioTransport(sys.argv[1], sys.argv[2:])
    async with Client(target, roots=["file:///srv"], elicitation_handler=answer, mode="legacy") as client:
        for tool in ("ask", "where"):
            print((await client.call_tool(tool)).content[0].text)


asyncio.run(main())
