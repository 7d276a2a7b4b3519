"""Static tokens for development, with mcprev."""

import sys

import mcprev

app = mcprev.App("demo", "1.0", auth=mcprev.StaticTokens({"secret": "ann"}))


@app.tool
def who(ctx: mcprev.Context) -> str:
    return str(ctx.principal)


app.run_http(port=int(sys.argv[1]))
