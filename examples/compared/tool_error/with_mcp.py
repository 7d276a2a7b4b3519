"""An error that the model sees, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

mcp = MCPServer("demo")


@mcp.tool()
def find(name: str) -> str:
    raise ToolError(f"there is no {name}")


mcp.run()
