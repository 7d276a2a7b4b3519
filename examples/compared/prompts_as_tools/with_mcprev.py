"""Prompts for clients that know only tools, with mcprev."""

import mcprev
from mcprev.transforms import prompts_as_tools

app = prompts_as_tools(mcprev.App("demo", "1.0"))


@app.prompt
def greet(name: str) -> str:
    return f"Greet {name}."


app.run_stdio()
