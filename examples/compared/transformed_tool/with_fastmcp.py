"""A tool made of another one, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform

mcp = FastMCP("demo")


@mcp.tool
def search(q: str, shop: str) -> str:
    return f"{q} of {shop}"


arguments = {"q": ArgTransform(name="text"), "shop": ArgTransform(hide=True, default="hats")}
mcp.add_tool(Tool.from_tool(search, name="find_hat", transform_args=arguments))
mcp.run(show_banner=False)
