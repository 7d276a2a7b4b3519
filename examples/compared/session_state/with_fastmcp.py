"""State of a session, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import Context, FastMCP

mcp = FastMCP("demo")


@mcp.tool
async def count(ctx: Context) -> str:
    n = (await ctx.get_state("n") or 0) + 1
    await ctx.set_state("n", n)
    return str(n)


mcp.run(show_banner=False)
