"""An image as the result of a tool, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.utilities.types import Image

mcp = FastMCP("demo")


@mcp.tool
def chart() -> Image:
    return Image(data=b"not really a picture", format="png")


mcp.run(show_banner=False)
