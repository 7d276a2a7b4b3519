"""Completion of an argument, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import MCPServer
from mcp.types import Completion

mcp = MCPServer("demo")


@mcp.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


@mcp.completion()
async def names(ref, argument, context):
    if ref.type == "ref/prompt" and ref.name == "greet":
        return Completion(values=[name for name in ("ann", "bob") if name.startswith(argument.value)])
    return None


mcp.run()
