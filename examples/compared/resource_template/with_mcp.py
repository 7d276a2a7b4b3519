"""A resource template, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import MCPServer

mcp = MCPServer("demo")


@mcp.resource("memo://{name}")
def memo(name: str) -> str:
    return f"all about {name}"


mcp.run()
