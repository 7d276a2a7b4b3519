"""A client over stdio, with mcprev."""

import asyncio
import sys

import mcprev


async def main() -> None:
    async with mcprev.connect(mcprev.stdio(*sys.argv[1:])) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        print(result.text)


asyncio.run(main())
