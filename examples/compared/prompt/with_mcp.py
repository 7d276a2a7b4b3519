"""A prompt, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import MCPServer

mcp = MCPServer("demo")


@mcp.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


mcp.run()
