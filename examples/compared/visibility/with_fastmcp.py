"""Tools that are out of service by their tag, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP

mcp = FastMCP("demo")


@mcp.tool
def buy() -> str:
    return "bought"


@mcp.tool(tags={"admin"})
def close() -> str:
    return "closed"


mcp.disable(tags={"admin"})
mcp.run(show_banner=False)
