"""A server of ours whose tools ask their client."""

from __future__ import annotations

from dataclasses import dataclass

import mcprev

app = mcprev.App("asking", "1.0")


@dataclass
class Who:
    name: str


@app.tool
async def ask(ctx: mcprev.Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("Who is it?", Who)
    return answer.data.name if answer.action == "accept" else answer.action


@app.tool
async def where(ctx: mcprev.Context) -> str:
    """Ask for a root."""
    return (await ctx.roots())[0].uri


app.run_stdio()
