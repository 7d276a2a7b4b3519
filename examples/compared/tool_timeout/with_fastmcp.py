"""A tool with a time limit, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio

from fastmcp import FastMCP

mcp = FastMCP("demo")


@mcp.tool(timeout=0.1)
async def wait() -> None:
    await asyncio.sleep(60)


mcp.run(show_banner=False)
