"""A server on FastMCP, releases 2 to 4: `fastmcp_decorated.py [http]`."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import sys
import warnings
from functools import partial

import anyio
from pydantic import BaseModel
from sdk_common import decorate, gates, note, serve

warnings.simplefilter("ignore")

from fastmcp import Context, FastMCP  # noqa: E402
from fastmcp.prompts import Message  # noqa: E402
from fastmcp.utilities.types import Image  # noqa: E402

mcp = FastMCP("decorated", instructions="Try it all.")


class Who(BaseModel):
    name: str


@mcp.tool()
async def work(ctx: Context) -> str:
    """Works, until it may go on."""
    gate = anyio.Event()
    gates.append(gate)
    await ctx.report_progress(1, 2, "half")
    with anyio.fail_after(5):
        await gate.wait()
    await ctx.info("working")
    return "done"


@mcp.tool()
async def ask(ctx: Context) -> str:
    """Asks."""
    found = await ctx.elicit("who is it?", Who)
    note("elicited", action=found.action, name=getattr(getattr(found, "data", None), "name", None))
    return found.action


@mcp.prompt()
def greet(name: str) -> list[Message]:
    """Greets."""
    return [Message(f"hello {name}"), Message("hello", role="assistant")]


decorate(mcp, Image)
if __name__ == "__main__":
    how = [*sys.argv, "stdio"][1]
    stdio = partial(mcp.run_stdio_async, show_banner=False)
    anyio.run(stdio if how == "stdio" else partial(serve, "/mcp", mcp.http_app))
