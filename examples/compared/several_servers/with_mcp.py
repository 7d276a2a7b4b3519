"""Several servers as one, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import sys

from mcp import ClientSessionGroup, StdioServerParameters

COMMAND = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
servers = {}


def named(component, info):
    return f"{servers.setdefault(id(info), len(servers))}_{component}"


async def main():
    async with ClientSessionGroup(component_name_hook=named) as group:
        await group.connect_to_server(COMMAND)
        await group.connect_to_server(COMMAND)
        print((await group.call_tool("0_add", {"a": 1, "b": 2})).content[0].text)
        print((await group.call_tool("1_add", {"a": 3, "b": 4})).content[0].text)


asyncio.run(main())
