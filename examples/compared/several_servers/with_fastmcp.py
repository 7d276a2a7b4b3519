"""Several servers as one, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import sys

from fastmcp import Client

COMMAND = {"command": sys.argv[1], "args": sys.argv[2:]}


async def main():
    async with Client({"mcpServers": {"one": COMMAND, "two": COMMAND}}) as client:
        print((await client.call_tool("one_add", {"a": 1, "b": 2})).content[0].text)
        print((await client.call_tool("two_add", {"a": 3, "b": 4})).content[0].text)


asyncio.run(main())
