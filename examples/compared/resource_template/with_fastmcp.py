"""A resource template, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP

mcp = FastMCP("demo")


@mcp.resource("memo://{name}")
def memo(name: str) -> str:
    return f"all about {name}"


mcp.run(show_banner=False)
