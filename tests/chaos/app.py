"""The server of the chaos run: each tool says enough for its caller to find a mistake."""

from __future__ import annotations

import asyncio
import os

import mcprev
from mcprev.revisions import LATEST
from mcprev_types.latest import models as m

JOURNAL = os.environ["CHAOS_JOURNAL"]
"""The file to which each call of `add` adds a line: the world in which a call must not happen twice."""
SAFE = m.ToolAnnotations(read_only_hint=True)


async def echo(token: str) -> str:
    """Return the token."""
    return token


async def add(token: str) -> str:
    """Do something that must not be done twice."""
    where = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(where, f"{token}\n".encode())
    finally:
        os.close(where)
    await asyncio.sleep(0.05)
    return token


async def count(token: str, numbers: int, ctx: mcprev.Context) -> str:
    """Send numbered messages."""
    for number in range(numbers):
        await ctx.log("info", {"token": token, "number": number})
        if number % 10 == 9:
            await asyncio.sleep(0.02)
    return token


async def ask(token: str, ctx: mcprev.Context) -> str:
    """Ask the client, whose answer is the token of the question."""
    answer = await ctx.elicit(token, str)
    assert isinstance(answer, mcprev.Accepted)
    return f"{token} {answer.data}"


async def visit(ctx: mcprev.Context, handle: str | None = None) -> tuple[int, str]:
    """Count the visits of a state."""
    ctx.session.open(handle)
    return await ctx.session.update("visits", lambda visits: visits + 1, 0), ctx.session.handle


async def work(token: str, seconds: float, ctx: mcprev.Context) -> str:
    """Work as a task."""
    await ctx.detach()
    await asyncio.sleep(seconds)
    return token


def made(**options: object) -> mcprev.App:
    """The server with these tools."""
    tasks = mcprev.Tasks({}, ttl=40_000, poll_interval=500, max_running_each=10_000)
    found = mcprev.App("chaos", "1", tasks=tasks, http={"drain": 3}, **options)  # type: ignore[arg-type]
    found.tool(annotations=SAFE)(echo)
    for each in (add, count, ask, visit):
        found.tool(each)
    found.tool(task="optional")(work)
    return found


app = made(revisions=[LATEST.name])
with_sessions = made()
