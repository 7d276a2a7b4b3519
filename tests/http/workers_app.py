"""Servers for several workers: one without sessions, one with, and one that asks its client."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import mcprev
from mcprev.revisions import LATEST
from mcprev_types.latest import models as m

app = mcprev.App("workers", "1", revisions=[LATEST.name])
with_sessions = mcprev.App("sessions", "1")


@app.tool(annotations=m.ToolAnnotations(read_only_hint=True))
async def pid() -> int:
    return os.getpid()


@app.tool
async def wait_for(file: str) -> int:
    """Wait until there is a file, and say so with another one first."""
    await asyncio.to_thread(Path(f"{file}.begun").touch)
    while not await asyncio.to_thread(Path(file).exists):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    return os.getpid()


@app.tool
async def remember(
    ctx: mcprev.Context, text: str | None = None, handle: str | None = None
) -> tuple[str | None, str]:
    """Set or get what this state has, which any process may be asked for."""
    ctx.session.open(handle)
    if text is not None:
        await ctx.session.set("text", text)
    return await ctx.session.get("text"), ctx.session.handle


@app.tool
async def name(ctx: mcprev.Context) -> str:
    """Ask for a name; the answer may come to another worker."""
    answer = await ctx.elicit("Name?", str)
    assert isinstance(answer, mcprev.Accepted)
    return f"{answer.data} of {os.getpid()}"
