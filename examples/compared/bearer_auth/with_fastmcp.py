"""Bearer tokens over HTTP, with a verifier of one's own, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, RemoteAuthProvider, TokenVerifier
from fastmcp.server.dependencies import get_access_token

port = int(sys.argv[1])


class Verifier(TokenVerifier):
    async def verify_token(self, token):
        if token != "secret":
            return None
        return AccessToken(token=token, client_id="c", scopes=[], claims={"sub": "ann"})


auth = RemoteAuthProvider(Verifier(), ["https://as.example"], f"http://127.0.0.1:{port}")
mcp = FastMCP("demo", auth=auth)


@mcp.tool
def who() -> str:
    return get_access_token().claims["sub"]


mcp.run("http", port=port, show_banner=False)
