"""Several servers as one, with mcprev."""

import asyncio
import sys

import mcprev

COMMAND = {"command": sys.argv[1], "args": sys.argv[2:]}


async def main() -> None:
    async with mcprev.connect_all({"mcpServers": {"one": COMMAND, "two": COMMAND}}) as client:
        print((await client.call_tool("one__add", {"a": 1, "b": 2})).text)
        print((await client.call_tool("two__add", {"a": 3, "b": 4})).text)


asyncio.run(main())
