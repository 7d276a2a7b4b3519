"""A login with GitHub in front of a server, with mcprev."""

import sys

import mcprev

port = int(sys.argv[1])
github = mcprev.Provider.github("id", "secret")
login = mcprev.Login(github, resource=f"http://127.0.0.1:{port}/mcp")
app = mcprev.App("demo", "1.0", auth=login)


@app.tool
def who(ctx: mcprev.Context) -> str:
    return str(ctx.access.claims["login"])  # type: ignore[union-attr]


app.run_http(port=port)
