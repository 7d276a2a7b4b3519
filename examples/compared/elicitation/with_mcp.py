"""A question to the user, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

mcp = MCPServer("demo")


class Who(BaseModel):
    name: str


@mcp.tool()
async def ask(ctx: Context) -> str:
    found = await ctx.elicit("Who is it?", Who)
    return found.data.name if found.action == "accept" else found.action


mcp.run()
