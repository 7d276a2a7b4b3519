"""Progress, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
async def work(ctx: mcprev.Context) -> str:
    await ctx.progress(1, 2, "half")
    return "done"


app.run_stdio()
