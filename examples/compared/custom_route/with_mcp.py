"""A route for probes beside the endpoint, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.responses import PlainTextResponse

mcp = MCPServer("demo")


@mcp.custom_route("/health", methods=["GET"])
async def health(request: Request) -> PlainTextResponse:
    return PlainTextResponse("fine")


mcp.run("streamable-http", port=int(sys.argv[1]))
