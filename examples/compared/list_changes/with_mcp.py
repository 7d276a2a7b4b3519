"""A tool that appears, and its notification, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import Context, MCPServer

mcp = MCPServer("demo")


@mcp.tool()
async def learn(ctx: Context) -> str:
    mcp.add_tool(lambda: "hi", name="hi")
    await ctx.session.send_tool_list_changed()
    return "learnt"


mcp.run()
