"""Talks to server.py at each revision in turn: `python examples/client.py`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import mcprev
from mcprev_types import ABSENT
from mcprev_types.latest import models

SERVER = mcprev.stdio(sys.executable, str(Path(__file__).with_name("server.py")))
MODES = ("auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class Handler(mcprev.ClientHandler):
    """The client declares the methods that this class overrides."""

    async def logging_message(
        self, ctx: mcprev.ClientContext, params: models.LoggingMessageNotificationParams
    ) -> None:
        """Show what the server logs."""
        print(f"  the server says: {params.data}")


async def main() -> None:
    """Connect, look around, call a tool."""
    for mode in MODES:
        async with mcprev.connect(SERVER, handler=Handler(), mode=mode) as client:
            print(f"{mode}: {client.server_info and client.server_info.name} speaks {client.revision}")
            print("  it has", [tool.name async for tool in client.tools()])
            result = await client.call_tool("add", {"a": 1, "b": 2}, log_level="info")
            text = result.to_wire()["content"][0]["text"]
            # Revisions before structured content send the text alone.
            print("  1 + 2 =", text if result.structured_content is ABSENT else result.structured_content)


if __name__ == "__main__":
    asyncio.run(main())
