"""A question to the user, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from dataclasses import dataclass

from fastmcp import Context, FastMCP

mcp = FastMCP("demo")


@dataclass
class Who:
    name: str


@mcp.tool
async def ask(ctx: Context) -> str:
    found = await ctx.elicit("Who is it?", Who)
    return found.data.name if found.action == "accept" else found.action


mcp.run(show_banner=False)
