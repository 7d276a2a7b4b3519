"""Resources for clients that know only tools, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.server.transforms import ResourcesAsTools

mcp = FastMCP("demo")
mcp.add_transform(ResourcesAsTools(mcp))


@mcp.resource("memo://ann")
def memo() -> str:
    return "all about ann"


mcp.run(show_banner=False)
