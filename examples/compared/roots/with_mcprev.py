"""Roots, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
async def where(ctx: mcprev.Context) -> str:
    return (await ctx.roots())[0].uri


app.run_stdio()
