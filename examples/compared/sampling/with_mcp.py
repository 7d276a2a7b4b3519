"""A question to the client's model, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import SamplingMessage, TextContent

mcp = MCPServer("demo")


@mcp.tool()
async def say(ctx: Context) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say it."))
    return (await ctx.session.create_message([message], max_tokens=9)).content.text


mcp.run()
