"""The server that is deployed. Its processes share a store, so that each of them serves every session; MCPREV_STORE says where."""

from __future__ import annotations

import mcprev

app = mcprev.App("shop", "1.0")
PRICES = {"hat": 20, "scarf": 12}


@app.tool
async def price(item: str, ctx: mcprev.Context) -> int:
    """Say what an item costs."""
    await ctx.log("info", f"{item} is looked up")
    if item not in PRICES:
        raise mcprev.ToolError(f"There is no {item}; there are {', '.join(PRICES)}.")
    return PRICES[item]
