"""A process with a client whose tokens other processes share: calls a tool for each line that it reads.

Arguments: the URL of the server, its revision, the folder of the store, and where to stop for ever: while a record is
written (`fsync`) or when it is written (`replaced`). Writes JSON lines: the page to log in at, which is answered with
a line, `ready`, and what became of each call.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

import mcprev
from mcprev.auth.client import token_stores


def say(word: str, more: object = None) -> None:
    sys.stdout.write(json.dumps([word, more]) + "\n")
    sys.stdout.flush()


def read() -> str:
    return sys.stdin.readline().strip()


def stop(*_: object) -> Any:
    say("stopped")
    threading.Event().wait()


async def log_in(page: str) -> str:
    say("page", page)
    return await asyncio.to_thread(read)


async def main(url: str, revision: str, folder: str, where: str) -> None:
    auth = mcprev.OAuth(
        redirect_uri="http://127.0.0.1:9/callback", open=log_in, store=mcprev.DiskTokens(folder)
    )
    async with mcprev.connect(mcprev.http(url, auth=auth), revisions=[revision], validate="off") as client:
        say("ready")
        while await asyncio.to_thread(read):
            if where == "fsync":
                setattr(os, "fsync", stop)  # noqa: B010 - of another type
            elif where == "replaced":
                setattr(token_stores, "_unlock", stop)  # noqa: B010 - as above
            try:
                await client.call_tool("any", {})
            except mcprev.McpError as error:
                say("failed", repr(error))
            else:
                say("called")


asyncio.run(main(*sys.argv[1:]))
