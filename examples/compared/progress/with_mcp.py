"""Progress, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import Context, MCPServer

mcp = MCPServer("demo")


@mcp.tool()
async def work(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    return "done"


mcp.run()
