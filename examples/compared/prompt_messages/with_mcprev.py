"""A prompt of several messages, with mcprev."""

import mcprev
from mcprev_types.latest import models

app = mcprev.App("demo", "1.0")


@app.prompt
def begin(task: str) -> list[str | models.PromptMessage]:
    return [f"Do {task}.", models.PromptMessage(role="assistant", content=models.TextContent(text="Yes."))]


app.run_stdio()
