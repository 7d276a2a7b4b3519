"""Middleware around tool calls, with mcprev."""

import mcprev


async def closed(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
    if call.method == "tools/call":
        raise mcprev.ToolError("It is Sunday.")
    return await call_next(call)


app = mcprev.App("demo", "1.0", middleware=[closed])


@app.tool
def open_shop() -> str:
    return "open"


app.run_stdio()
