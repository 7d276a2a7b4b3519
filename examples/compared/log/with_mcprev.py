"""A log message, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
async def work(ctx: mcprev.Context) -> str:
    await ctx.log("info", "working")
    return "done"


app.run_stdio()
