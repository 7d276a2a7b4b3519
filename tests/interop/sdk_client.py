"""A client on the official Python SDK: calls the example server named on the command line and prints JSON."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import json
import sys

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    parameters = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    seen = {}
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        opened = await session.initialize()
        seen["revision"] = getattr(opened, "protocolVersion", None) or opened.protocol_version
        seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
        seen["sum"] = (await session.call_tool("add", {"a": 1, "b": 2})).content[0].text
        try:
            await session.call_tool("add", {"a": 1})
        except Exception as error:  # noqa: BLE001 - its class moved between releases
            seen["error"] = str(error)
    print(json.dumps(seen))  # noqa: T201


anyio.run(main)
