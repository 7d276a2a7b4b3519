"""Results of a tool that are kept, with mcprev."""

from itertools import count

import mcprev
from mcprev.middleware import Caching

app = mcprev.App("demo", "1.0", middleware=[Caching(60, tools=["number"])])
numbers = count(1)


@app.tool
def number() -> str:
    return str(next(numbers))


app.run_stdio()
