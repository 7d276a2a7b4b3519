"""Serving one client on stdin and stdout (STDIO-1, STDIO-2, STDIO-6, STDIO-9).

While a server runs, the descriptors that everyone knows lead elsewhere: what is printed, by this process or its
children, goes to stderr, and children read from an empty stdin. Only the transport has the real ones.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mcprev.transports.pipes import connect

if TYPE_CHECKING:
    from mcprev.server import Server


@contextmanager
def diverted() -> Generator[tuple[int, int], None, None]:
    """Take stdin and stdout away from everyone else; both are put back in the end."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    kept = os.dup(0), os.dup(1)
    blocking = [os.get_blocking(descriptor) for descriptor in kept]
    try:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - for its descriptor
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        yield incoming, outgoing
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        for number, (descriptor, was) in enumerate(zip(kept, blocking, strict=True)):
            # Whoever shares the other end of a terminal or pipe finds it as it was.
            with suppress(OSError):
                os.set_blocking(descriptor, was)
            os.dup2(descriptor, number)
            os.close(descriptor)


async def serve(server: Server, *, freeze: bool = False) -> None:
    """Serve until stdin ends or stdout is closed."""
    with diverted() as (incoming, outgoing):
        connection = server.connection()
        await connect(connection, incoming, outgoing)
        if freeze:
            # What is there by now stays for the life of the process: the collector need not look at it again.
            gc.collect()
            gc.freeze()
        try:
            await asyncio.shield(connection.closed)
        finally:
            await connection.aclose()
