"""An error that the model sees, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("demo")


@mcp.tool
def find(name: str) -> str:
    raise ToolError(f"there is no {name}")


mcp.run(show_banner=False)
