"""Servers for several workers: `app` serves revisions without sessions only, `with_sessions` all."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import mcprev
from mcprev.middleware import Metrics
from mcprev.revisions import LATEST
from mcprev_types.latest import models as m

SAFE = m.ToolAnnotations(read_only_hint=True)


async def pid() -> int:
    """Say which process this is."""
    return os.getpid()


async def pid_later() -> int:
    """Say which process this is, after a moment in it."""
    await asyncio.sleep(0.02)
    return os.getpid()


async def wait_for(file: str, ctx: mcprev.Context) -> int:
    """Say with a file and a message that this has begun, and wait until there is another file."""

    def begin() -> None:
        with Path(f"{file}.begun").open("a", encoding="utf-8") as begun:
            begun.write(f"{os.getpid()}\n")

    await asyncio.to_thread(begin)
    await ctx.log("warning", "begun")
    while not await asyncio.to_thread(Path(file).exists):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    return os.getpid()


async def remember(
    ctx: mcprev.Context, text: str | None = None, handle: str | None = None
) -> tuple[str | None, str]:
    """Set or get what this state has, which any process may be asked for."""
    ctx.session.open(handle)
    if text is not None:
        await ctx.session.set("text", text)
    return await ctx.session.get("text"), ctx.session.handle


async def name(ctx: mcprev.Context) -> str:
    """Ask for a name; the answer may come to another process."""
    answer = await ctx.elicit("Name?", str)
    assert isinstance(answer, mcprev.Accepted)
    return f"{answer.data} of {os.getpid()}"


def made(**options: object) -> mcprev.App:
    """An app with these tools."""
    metrics = Metrics()
    found = mcprev.App("workers", "1", middleware=[metrics], **options)  # type: ignore[arg-type]
    found.route("/metrics", metrics.app)
    for safe in (pid, pid_later):
        found.tool(annotations=SAFE)(safe)
    for each in (wait_for, remember, name):
        found.tool(each)

    @found.tool
    async def change() -> int:
        """Tell all clients that the list of tools has changed."""
        found.server.changed("tools")
        return os.getpid()

    return found


app = made(revisions=[LATEST.name])
with_sessions = made()
