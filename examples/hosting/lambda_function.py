"""A server as a function of AWS Lambda: each response is JSON, and there are neither sessions nor streams."""

from __future__ import annotations

import os

from mangum import Mangum

import mcprev

app = mcprev.App(
    "shop", "1.0", http={"sessions": False, "json_response": True, "hosts": [os.environ["PUBLIC_HOST"]]}
)
PRICES = {"hat": 20, "scarf": 12}


@app.tool
async def price(item: str) -> int:
    """Say what an item costs."""
    if item not in PRICES:
        raise mcprev.ToolError(f"There is no {item}; there are {', '.join(PRICES)}.")
    return PRICES[item]


handler = Mangum(app.asgi())
