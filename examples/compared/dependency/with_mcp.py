"""A dependency that clients do not see, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from typing import Annotated

from mcp.server.mcpserver import MCPServer, Resolve

mcp = MCPServer("demo")


def user() -> str:
    return "ann"


@mcp.tool()
def greet(user: Annotated[str, Resolve(user)]) -> str:
    return f"hello {user}"


mcp.run()
