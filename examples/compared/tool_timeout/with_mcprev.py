"""A tool with a time limit, with mcprev."""

import asyncio

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool(timeout=0.1)
async def wait() -> None:
    await asyncio.sleep(60)


app.run_stdio()
