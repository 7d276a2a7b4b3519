"""Tools that are out of service by their tag, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
def buy() -> str:
    return "bought"


@app.tool(tags={"admin"})
def close() -> str:
    return "closed"


app.disable(tags={"admin"})
app.run_stdio()
