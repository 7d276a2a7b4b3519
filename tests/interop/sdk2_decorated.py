"""A server in the decorated style of release 2 of the official Python SDK: `sdk2_decorated.py [http]`."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import sys
import warnings
from functools import partial
from typing import Annotated

import anyio
from mcp.server.mcpserver import (
    AssistantMessage,
    Context,
    Elicit,
    ElicitationResult,
    Image,
    MCPServer,
    Resolve,
    UserMessage,
)
from pydantic import BaseModel
from sdk_common import decorate, gates, note, serve

# What the newest revision deprecates is what the older one is tried with.
warnings.simplefilter("ignore")
mcp = MCPServer("decorated", version="1.0", instructions="Try it all.")


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


def asking() -> Elicit[Who]:
    return Elicit("who is it?", Who)


@mcp.tool()
async def ask(found: Annotated[ElicitationResult[Who], Resolve(asking)]) -> str:
    """Asks."""
    note("elicited", action=found.action, name=found.data.name if found.action == "accept" else None)
    return found.action


@mcp.prompt()
def greet(name: str) -> list:
    """Greets."""
    return [UserMessage(f"hello {name}"), AssistantMessage("hello")]


decorate(mcp, Image)
if __name__ == "__main__":
    how = [*sys.argv, "stdio"][1]
    anyio.run(mcp.run_stdio_async if how == "stdio" else partial(serve, "/mcp", mcp.streamable_http_app))
