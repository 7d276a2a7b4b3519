"""Prompts for clients that know only tools, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.server.transforms import PromptsAsTools

mcp = FastMCP("demo")
mcp.add_transform(PromptsAsTools(mcp))


@mcp.prompt
def greet(name: str) -> str:
    return f"Greet {name}."


mcp.run(show_banner=False)
