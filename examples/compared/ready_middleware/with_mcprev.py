"""Middleware that logs and retries, ready to use, with mcprev."""

import mcprev
from mcprev.middleware import Logging, Retries

app = mcprev.App("demo", "1.0", middleware=[Logging(), Retries(3, backoff=0.01, tools=["price"])])
failures = [ConnectionError(), ConnectionError()]


@app.tool
async def price() -> str:
    if failures:
        raise failures.pop()
    return "20"


app.run_stdio()
