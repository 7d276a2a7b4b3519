"""A question to the user, with mcprev."""

from dataclasses import dataclass

import mcprev

app = mcprev.App("demo", "1.0")


@dataclass
class Who:
    name: str


@app.tool
async def ask(ctx: mcprev.Context) -> str:
    found = await ctx.elicit("Who is it?", Who)
    return found.data.name if found.action == "accept" else found.action


app.run_stdio()
