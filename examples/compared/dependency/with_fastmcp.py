"""A dependency that clients do not see, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.dependencies import Depends

mcp = FastMCP("demo")


def user() -> str:
    return "ann"


@mcp.tool
def greet(user: str = Depends(user)) -> str:
    return f"hello {user}"


mcp.run(show_banner=False)
