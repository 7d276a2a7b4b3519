"""A server that others install: as a package of PyPI, or as a bundle of a desktop host."""

from __future__ import annotations

import os

import mcprev

app = mcprev.App("shop", "1.0.0")
PRICES = {"hat": 20, "scarf": 12}


@app.tool
async def price(item: str) -> str:
    """Say what an item costs."""
    if item not in PRICES:
        raise mcprev.ToolError(f"There is no {item}; there are {', '.join(PRICES)}.")
    return f"{PRICES[item]} {os.environ.get('SHOP_CURRENCY', 'EUR')}"


def main() -> None:
    """Serve the client that starts the program."""
    app.run_stdio()


if __name__ == "__main__":
    main()
