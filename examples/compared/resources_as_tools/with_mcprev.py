"""Resources for clients that know only tools, with mcprev."""

import mcprev
from mcprev.transforms import resources_as_tools

app = resources_as_tools(mcprev.App("demo", "1.0"))


@app.resource("memo://ann")
def memo() -> str:
    return "all about ann"


app.run_stdio()
