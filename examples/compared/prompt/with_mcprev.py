"""A prompt, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.prompt
def greet(name: str) -> str:
    return f"Greet {name}."


app.run_stdio()
