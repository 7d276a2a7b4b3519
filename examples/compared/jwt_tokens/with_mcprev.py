"""JSON Web Tokens, verified with a public key, with mcprev."""

import sys

import mcprev

port, key = int(sys.argv[1]), sys.argv[2]
verify = mcprev.JwtVerifier(key, issuer="https://as.example", audience="shop")
app = mcprev.App("demo", "1.0", auth=mcprev.Bearer(verify, resource=f"http://127.0.0.1:{port}/mcp"))


@app.tool
def who(ctx: mcprev.Context) -> str | None:
    return ctx.principal


app.run_http(port=port)
