"""Results of a tool that are kept, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from itertools import count

from fastmcp import FastMCP
from fastmcp.server.middleware.caching import ResponseCachingMiddleware

mcp = FastMCP("demo", middleware=[ResponseCachingMiddleware()])
numbers = count(1)


@mcp.tool
def number() -> str:
    return str(next(numbers))


mcp.run(show_banner=False)
