"""A server within a server, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP

shop = FastMCP("shop")
mcp = FastMCP("demo")


@shop.tool
def buy(item: str) -> str:
    return f"{item} bought"


mcp.mount(shop, "shop")
mcp.run(show_banner=False)
