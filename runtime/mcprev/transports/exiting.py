"""Ends a serving process even if handlers still run (STDIO-6)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

EXIT: Final = 1.0
"""Seconds in which a process must end after it has stopped serving."""
RUNNING: Final = set[object]()
"""The functions of handlers that run in threads now, of whatever executor: Python waits for them before it exits."""
_logger: Final = logging.getLogger("mcprev.server")


@contextmanager
def exit_guard() -> Generator[threading.Timer, None, None]:
    """Return a timer that ends the process with exit code 0. Start it in the main thread when serving ends.

    Without it, a handler that ignores cancellation or runs in a thread would keep the process alive. After the end of
    the `with` block, the timer ends the process only if a function that was running in a thread then still runs.
    """
    stuck: set[object] | None = None

    def at_end() -> None:
        if stuck is None or stuck & RUNNING:
            _exit_now()

    guard = threading.Timer(EXIT, at_end)
    guard.daemon = True
    try:
        yield guard
    finally:
        stuck = set(RUNNING)


def _exit_now() -> None:
    """End the process at once, without waiting for threads or tasks."""
    _logger.error("serving has ended, but a handler is still running: the process exits without it")
    logging.shutdown()
    os._exit(0)
