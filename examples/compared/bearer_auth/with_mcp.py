"""Bearer tokens over HTTP, with a verifier of one's own, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

port = int(sys.argv[1])
url = f"http://127.0.0.1:{port}/mcp"


class Verifier(TokenVerifier):
    async def verify_token(self, token):
        if token != "secret":
            return None
        return AccessToken(token=token, client_id="c", scopes=[], subject="ann", resource=url)


settings = AuthSettings(issuer_url="https://as.example", resource_server_url=url)
mcp = MCPServer("demo", token_verifier=Verifier(), auth=settings)


@mcp.tool()
def who() -> str:
    return get_access_token().subject


mcp.run("streamable-http", port=port)
