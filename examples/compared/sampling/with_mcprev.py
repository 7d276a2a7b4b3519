"""A question to the client's model, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
async def say(ctx: mcprev.Context) -> str:
    return (await ctx.sample("Say it.", max_tokens=9)).text


app.run_stdio()
