"""An error that the model sees, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
def find(name: str) -> str:
    raise mcprev.ToolError(f"there is no {name}")


app.run_stdio()
