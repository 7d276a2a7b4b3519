"""JSON Web Tokens, verified with a public key, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token

port, key = int(sys.argv[1]), sys.argv[2]
verifier = JWTVerifier(public_key=key, issuer="https://as.example", audience="shop")
mcp = FastMCP("demo", auth=verifier)


@mcp.tool
def who() -> str:
    return get_access_token().claims["sub"]


mcp.run("http", port=port, show_banner=False)
