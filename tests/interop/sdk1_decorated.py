"""A server in the decorated style of release 1 of the official Python SDK: `sdk1_decorated.py [http|sse]`."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import inspect
import sys
from functools import partial

import anyio
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.prompts.base import AssistantMessage, UserMessage
from pydantic import BaseModel
from sdk_common import decorate, gates, note, serve

mcp = FastMCP("decorated", instructions="Try it all.")
ELICITS = hasattr(Context, "elicit")
MESSAGES = "message" in inspect.signature(Context.report_progress).parameters


class Who(BaseModel):
    name: str


@mcp.tool()
async def work(ctx: Context) -> str:
    """Works, until it may go on: the releases do not send progress and the answer in order over HTTP."""
    gate = anyio.Event()
    gates.append(gate)
    await ctx.report_progress(1, 2, **({"message": "half"} if MESSAGES else {}))
    with anyio.fail_after(5):
        await gate.wait()
    await ctx.info("working")
    return "done"


if ELICITS:

    @mcp.tool()
    async def ask(ctx: Context) -> str:
        """Asks."""
        found = await ctx.elicit("who is it?", schema=Who)
        note("elicited", action=found.action, name=getattr(getattr(found, "data", None), "name", None))
        return found.action


@mcp.prompt()
def greet(name: str) -> list:
    """Greets."""
    return [UserMessage(f"hello {name}"), AssistantMessage("hello")]


decorate(mcp, Image)
if __name__ == "__main__":
    how = [*sys.argv, "stdio"][1]
    apps = {"http": ("/mcp", mcp.streamable_http_app), "sse": ("/sse", mcp.sse_app)}
    anyio.run(mcp.run_stdio_async if how == "stdio" else partial(serve, *apps[how]))
