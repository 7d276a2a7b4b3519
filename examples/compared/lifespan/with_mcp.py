"""Something open as long as the server runs, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from contextlib import asynccontextmanager

from mcp.server.mcpserver import Context, MCPServer


@asynccontextmanager
async def lifespan(server):
    yield {"ann": 44}


mcp = MCPServer("demo", lifespan=lifespan)


@mcp.tool()
def age(name: str, ctx: Context) -> int:
    return ctx.request_context.lifespan_context[name]


mcp.run()
