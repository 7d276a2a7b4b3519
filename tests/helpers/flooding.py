"""Two clients of an app: one that floods it, and an honest one that has to be served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from helpers.asgi_bridge import Client, Exchange, notification
from helpers.served import who
from mcprev.revisions import DEFAULT, HttpShape, Revision

ROWS: Final = [row for row in DEFAULT if row.http is not HttpShape.SSE]
each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
FLOOD: Final = {"client": ("203.0.113.1", 1)}
HONEST: Final = {"client": ("198.51.100.1", 1)}
WAYS: Final = {"principal": ("flood", "honest"), "address": (None, None)}
ways = pytest.mark.parametrize("way", WAYS)


@asynccontextmanager
async def two(
    server: Any, row: Revision, way: str, **options: Any
) -> AsyncGenerator[tuple[Client, Client], None]:
    """Clients of an app who are told apart by their names, at one address, or by their addresses."""
    app = server.asgi(principal=who, **options)
    try:
        yield tuple([await client_of(app, row, name, **at) for name, at in zip(WAYS[way], places(way), strict=True)])  # type: ignore[misc]
    finally:
        await app.aclose()


def places(way: str) -> list[dict[str, Any]]:
    return [FLOOD, FLOOD if way == "principal" else HONEST]


async def client_of(app: Any, row: Revision, name: str | None, **at: Any) -> Client:
    made = Client(app, **at)
    if name is not None:
        made.session["who"] = name
    return await made.open(row)


async def ended(client: Client, exchanges: list[Exchange]) -> None:
    """End requests whose ids are 0 and so on: their client cancels them, or hangs up."""
    for number, exchange in enumerate(exchanges):
        if client.revision is not None and client.revision.handshake:
            await client.post(notification("notifications/cancelled", {"requestId": number})).done()
        exchange.disconnect()
    await asyncio.wait({exchange.task for exchange in exchanges})
