"""Roots, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import Context, MCPServer

mcp = MCPServer("demo")


@mcp.tool()
async def where(ctx: Context) -> str:
    return str((await ctx.session.list_roots()).roots[0].uri)


mcp.run()
