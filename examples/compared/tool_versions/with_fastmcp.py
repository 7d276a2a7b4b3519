"""Two versions of a tool, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP

mcp = FastMCP("demo")


@mcp.tool(name="price", version="1")
def price_in_euros() -> str:
    return "20 EUR"


@mcp.tool(version="2")
def price() -> str:
    return "22 USD"


mcp.run(show_banner=False)
