"""A route for probes beside the endpoint, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from fastmcp import FastMCP
from starlette.requests import Request
from starlette.responses import PlainTextResponse

mcp = FastMCP("demo")


@mcp.custom_route("/health", methods=["GET"])
async def health(request: Request) -> PlainTextResponse:
    return PlainTextResponse("fine")


mcp.run("http", port=int(sys.argv[1]), show_banner=False)
