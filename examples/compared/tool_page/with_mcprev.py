"""A page for the results of a tool, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")
page = app.ui("ui://clock", "<!doctype html><title>Clock</title>")


@app.tool(ui=page)
def now() -> str:
    return "noon"


app.run_stdio()
