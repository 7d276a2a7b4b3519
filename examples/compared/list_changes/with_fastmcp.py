"""A tool that appears, and its notification, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import Context, FastMCP
from fastmcp.tools import Tool
from mcp_types import ToolListChangedNotification

mcp = FastMCP("demo")


@mcp.tool
async def learn(ctx: Context) -> str:
    mcp.add_tool(Tool.from_function(lambda: "hi", name="hi"))
    await ctx.send_notification(ToolListChangedNotification())
    return "learnt"


mcp.run(show_banner=False)
