"""An image as the result of a tool, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import Image, MCPServer

mcp = MCPServer("demo")


@mcp.tool()
def chart() -> Image:
    return Image(data=b"not really a picture", format="png")


mcp.run()
