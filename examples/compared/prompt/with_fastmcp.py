"""A prompt, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP

mcp = FastMCP("demo")


@mcp.prompt
def greet(name: str) -> str:
    return f"Greet {name}."


mcp.run(show_banner=False)
