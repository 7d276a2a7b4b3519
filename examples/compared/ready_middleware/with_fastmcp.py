"""Middleware that logs and retries, ready to use, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.server.middleware.error_handling import RetryMiddleware
from fastmcp.server.middleware.logging import LoggingMiddleware

mcp = FastMCP("demo", middleware=[LoggingMiddleware(), RetryMiddleware(3, base_delay=0.01)])
failures = [ConnectionError(), ConnectionError()]


@mcp.tool
async def price() -> str:
    if failures:
        raise failures.pop()
    return "20"


mcp.run(show_banner=False)
