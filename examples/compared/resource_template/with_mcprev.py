"""A resource template, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.resource("memo://{name}")
def memo(name: str) -> str:
    return f"all about {name}"


app.run_stdio()
