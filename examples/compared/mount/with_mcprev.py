"""A server within a server, with mcprev."""

import mcprev

shop = mcprev.App("shop", "1.0")
app = mcprev.App("demo", "1.0")


@shop.tool
def buy(item: str) -> str:
    return f"{item} bought"


app.mount(shop, "shop")
app.run_stdio()
