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
BUSY_THREADS: Final = set[int]()
"""The ids of the threads in which functions of handlers run, of whatever executor: Python waits for them before it exits."""
_logger: Final = logging.getLogger("mcprev.server")


@contextmanager
def exit_guard() -> Generator[threading.Timer, None, None]:
    """Return a timer that ends the process with exit code 0. Start it in the main thread when serving ends.

    Without it, a handler that ignores cancellation or runs in a thread would keep the process alive. After the end of
    the `with` block, the timer ends the process only if such a thread is still busy.
    """
    left = threading.Event()

    def at_end() -> None:
        if BUSY_THREADS or not left.is_set():
            _exit_now()

    guard = threading.Timer(EXIT, at_end)
    guard.daemon = True
    try:
        yield guard
    finally:
        left.set()


def _exit_now() -> None:
    """End the process at once, without waiting for threads or tasks."""
    _logger.error("serving is over and a handler does not end: the process ends without it")
    logging.shutdown()
    os._exit(0)
