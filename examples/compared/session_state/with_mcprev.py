"""State of a session, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
async def count(ctx: mcprev.Context) -> str:
    return str(await ctx.session.update("n", lambda n: n + 1, 0))


app.run_stdio()
