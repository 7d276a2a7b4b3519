"""Roots, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import Context, FastMCP

mcp = FastMCP("demo")


@mcp.tool
async def where(ctx: Context) -> str:
    return str((await ctx.session.list_roots()).roots[0].uri)


mcp.run(show_banner=False)
