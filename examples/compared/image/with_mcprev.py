"""An image as the result of a tool, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
def chart() -> mcprev.Image:
    return mcprev.Image(b"not really a picture", "image/png")


app.run_stdio()
