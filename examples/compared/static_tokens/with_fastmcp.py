"""Static tokens for development, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.dependencies import get_access_token

mcp = FastMCP("demo", auth=StaticTokenVerifier({"secret": {"client_id": "ann", "scopes": []}}))


@mcp.tool
def who() -> str:
    return get_access_token().client_id


mcp.run("http", port=int(sys.argv[1]), show_banner=False)
