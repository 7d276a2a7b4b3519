"""Bearer tokens over HTTP, with a verifier of one's own, with mcprev."""

import sys

import mcprev

port = int(sys.argv[1])
url = f"http://127.0.0.1:{port}/mcp"
app = mcprev.App("demo", "1.0")


@app.tool
def who(ctx: mcprev.Context) -> str:
    return str(ctx.principal)


async def verify(token: str) -> mcprev.Access | None:
    return mcprev.Access("ann", audience=url) if token == "secret" else None


app.run_http(
    port=port, auth=mcprev.Bearer(verify, resource=url, authorization_servers=["https://as.example"])
)
