"""A test in memory, with mcprev."""

import asyncio

import mcprev

app = mcprev.App("demo", "1.0")


@app.tool
def add(a: int, b: int = 1) -> int:
    return a + b


async def main() -> None:
    async with mcprev.connect(app) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.data == 3


asyncio.run(main())
