"""Bearer tokens over HTTP, with a verifier of one's own, with mcprev."""

import sys

import mcprev

port = int(sys.argv[1])
url = f"http://127.0.0.1:{port}/mcp"


async def verify(token: str) -> mcprev.Access | None:
    return mcprev.Access("ann", audience=url) if token == "secret" else None


auth = mcprev.Bearer(verify, resource=url, authorization_servers=["https://as.example"])
app = mcprev.App("demo", "1.0", auth=auth)


@app.tool
def who(ctx: mcprev.Context) -> str:
    return str(ctx.principal)


app.run_http(port=port)
