"""Serving one client on stdin and stdout (STDIO-1, STDIO-2, STDIO-6, STDIO-9).

While a server runs, the descriptors that everyone knows lead elsewhere: what is printed, by this process or its
children, goes to stderr, and children read from an empty stdin. Only the transport has the real ones.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

from mcprev.transports.collecting import collecting_less
from mcprev.transports.pipes import connect

if TYPE_CHECKING:
    from mcprev.server import Server


EXIT: Final = 1.0
"""Seconds that a process of ours gets to end once it has served, whatever its handlers have left running."""
_logger: Final = logging.getLogger("mcprev.server")


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
        with collecting_less() if freeze else nullcontext():
            try:
                await asyncio.shield(connection.closed)
            finally:
                await connection.aclose()


def run(server: Server) -> None:
    """Serve in a process of its own, until its client is gone (STDIO-6)."""
    # A handler that takes no notice of being cancelled, or sits in a thread, would keep the process for ever.
    guard = threading.Timer(EXIT, _leave)
    guard.daemon = True

    async def main() -> None:
        try:
            await serve(server, freeze=True)
        finally:
            if threading.current_thread() is threading.main_thread():
                guard.start()

    try:
        asyncio.run(main())
    finally:
        guard.cancel()


def _leave() -> None:
    """End the process without asking what still runs in it."""
    _logger.error("the client is gone and a handler does not end: the process ends without it")
    logging.shutdown()
    os._exit(0)
