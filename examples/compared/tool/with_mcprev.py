"""A tool with typed arguments, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
def add(a: int, b: int = 1) -> int:
    return a + b


app.run_stdio()
