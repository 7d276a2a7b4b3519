"""A dependency that clients do not see, with mcprev."""

from typing import Annotated

import mcprev

app = mcprev.App("demo", "1.0")


def user() -> str:
    return "ann"


@app.tool
def greet(user: Annotated[str, mcprev.Depends(user)]) -> str:
    return f"hello {user}"


app.run_stdio()
