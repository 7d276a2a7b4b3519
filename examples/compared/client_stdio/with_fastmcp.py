"""A client over stdio, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main():
    async with Client(StdioTransport(sys.argv[1], sys.argv[2:])) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        print(result.content[0].text)


asyncio.run(main())
