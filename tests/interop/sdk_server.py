"""A server on the official Python SDK's low-level API, whichever release runs it: one tool that echoes."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import anyio
import mcp.types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def echo(*given):
    """Older releases pass name and arguments, newer ones a context and the params."""
    params = given[-1]
    arguments = params if isinstance(params, dict) else params.arguments
    content = [t.TextContent(type="text", text=arguments["text"])]
    return content if isinstance(params, dict) else t.CallToolResult(content=content)


async def tools(*given):
    tool = t.Tool(name="echo", inputSchema={"type": "object"})
    return t.ListToolsResult(tools=[tool]) if given else [tool]


async def main():
    try:
        server = Server("echo", on_call_tool=echo, on_list_tools=tools)
    except TypeError:
        server = Server("echo")
        server.list_tools()(tools)
        server.call_tool()(echo)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
