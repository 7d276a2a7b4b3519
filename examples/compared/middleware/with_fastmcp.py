"""Middleware around tool calls, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware


class Closed(Middleware):
    async def on_call_tool(self, context, call_next):
        raise ToolError("It is Sunday.")


mcp = FastMCP("demo", middleware=[Closed()])


@mcp.tool
def open_shop() -> str:
    return "open"


mcp.run(show_banner=False)
