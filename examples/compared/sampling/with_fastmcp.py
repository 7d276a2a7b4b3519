"""A question to the client's model, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import Context, FastMCP
from mcp_types import SamplingMessage, TextContent

mcp = FastMCP("demo")


@mcp.tool
async def say(ctx: Context) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say it."))
    return (await ctx.session.create_message([message], max_tokens=9)).content.text


mcp.run(show_banner=False)
