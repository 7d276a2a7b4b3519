"""Something open as long as the server runs, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import Context, FastMCP
from fastmcp.server.lifespan import lifespan


@lifespan
async def ages(server):
    yield {"ann": 44}


mcp = FastMCP("demo", lifespan=ages)


@mcp.tool
def age(name: str, ctx: Context) -> int:
    return ctx.lifespan_context[name]


mcp.run(show_banner=False)
