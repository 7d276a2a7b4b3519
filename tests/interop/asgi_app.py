"""A server for other ASGI servers: it tells what they pass on, and writes down that its lifespan has ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request

import mcprev

FOLDER = Path(os.environ["ASGI_APP_FOLDER"])


@asynccontextmanager
async def lifespan(_: mcprev.Server) -> AsyncGenerator[None, None]:
    """Say when it ends."""
    yield
    (FOLDER / "ended").touch()


app = mcprev.App("asgi", "1", lifespan=lifespan)


@app.tool
async def wait_for(name: str, ctx: mcprev.Context) -> str:
    """Say that this has begun, and wait until there is a file."""
    with (FOLDER / f"{name}.begun").open("a", encoding="utf-8") as begun:
        begun.write("x")
    await ctx.log("warning", "begun")
    while not (FOLDER / name).exists():  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    return "done"


@app.route("/seen")
async def seen(request: Request) -> dict[str, Any]:
    """Say who asks, under which URL."""
    assert request.client is not None
    return {"client": request.client.host, "url": str(request.url)}


asgi = app.asgi(proxies=["127.0.0.1"], hosts=["mcp.example"])
