"""Middleware around tool calls, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

mcp = MCPServer("demo")


async def closed(ctx, call_next):
    if ctx.method == "tools/call":
        return CallToolResult(content=[TextContent(type="text", text="It is Sunday.")], is_error=True)
    return await call_next(ctx)


mcp.middleware.append(closed)


@mcp.tool()
def open_shop() -> str:
    return "open"


mcp.run()
