"""A client over HTTP, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import sys

from fastmcp import Client


async def main():
    async with Client(sys.argv[1]) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        print(result.content[0].text)


asyncio.run(main())
