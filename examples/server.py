"""A server that clients of every revision can talk to: `python examples/server.py`, or see client.py.

Over HTTP: `mcprev serve examples/server.py:server --http 8000`.
"""

from __future__ import annotations

import mcprev
from mcprev_types.latest import models

ADD = models.Tool(
    name="add",
    description="Adds two numbers.",
    input_schema=models.ToolInputSchema.from_wire(
        {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        }
    ),
)


class Handler(mcprev.ServerHandler):
    """The server declares and serves the methods that this class overrides."""

    async def list_tools(
        self, ctx: mcprev.Context, params: models.PaginatedRequestParams
    ) -> models.ListToolsResult:
        """Say what there is."""
        return models.ListToolsResult(tools=[ADD])

    async def call_tool(
        self, ctx: mcprev.Context, params: models.CallToolRequestParams
    ) -> models.CallToolResult:
        """Add, and say so; arguments that do not fit the schema never get here."""
        await ctx.log("info", f"adding for a client that speaks {ctx.revision}")
        arguments = params.arguments or {}
        total = arguments["a"] + arguments["b"]
        return models.CallToolResult(content=[models.TextContent(text=str(total))], structured_content=total)


server = mcprev.Server(Handler(), "adder", "1.0", instructions="Adds numbers.")

if __name__ == "__main__":
    server.run_stdio()
