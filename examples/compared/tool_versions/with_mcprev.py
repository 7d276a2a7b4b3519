"""Two versions of a tool, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool(name="price", version="1")
def price_in_euros() -> str:
    return "20 EUR"


@app.tool(version="2")
def price() -> str:
    return "22 USD"


app.run_stdio()
