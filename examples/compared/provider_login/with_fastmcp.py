"""A login with GitHub in front of a server, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.github import GitHubProvider
from fastmcp.server.dependencies import get_access_token

port = int(sys.argv[1])
auth = GitHubProvider(client_id="id", client_secret="secret", base_url=f"http://127.0.0.1:{port}")
mcp = FastMCP("demo", auth=auth)


@mcp.tool
def who() -> str:
    return str(get_access_token().claims["login"])


mcp.run(transport="http", port=port)
