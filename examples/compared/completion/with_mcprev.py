"""Completion of an argument, with mcprev."""

import mcprev

app = mcprev.App("demo", "1.0")


@app.prompt
def greet(name: str) -> str:
    return f"Greet {name}."


@app.completion("greet", "name")
def names(value: str) -> list[str]:
    return [name for name in ("ann", "bob") if name.startswith(value)]


app.run_stdio()
