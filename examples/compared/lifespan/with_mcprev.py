"""Something open as long as the server runs, with mcprev."""

from collections.abc import AsyncIterator
from typing import Annotated

import mcprev


async def lifespan(server: mcprev.Server) -> AsyncIterator[dict[str, int]]:
    yield {"ann": 44}


app = mcprev.App("demo", "1.0", lifespan=lifespan)


@app.tool
def age(name: str, ages: Annotated[dict[str, int], mcprev.FromLifespan]) -> int:
    return ages[name]


app.run_stdio()
