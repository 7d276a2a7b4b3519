"""A client over stdio, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import sys

from mcp import Client, StdioServerParameters


async def main():
    async with Client(StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        print(result.content[0].text)


asyncio.run(main())
