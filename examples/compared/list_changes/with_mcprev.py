"""A tool that appears, and its notification, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
def learn() -> str:
    app.tool(lambda: "hi", name="hi")
    return "learnt"


app.run_stdio()
