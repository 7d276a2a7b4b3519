"""The end of a process that serves, whatever its handlers have left running (STDIO-6)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

EXIT: Final = 1.0
"""Seconds that a process gets to end once it has served."""
_logger: Final = logging.getLogger("mcprev.server")


@contextmanager
def exit_guard() -> Generator[threading.Timer, None, None]:
    """A timer that ends the process with exit code 0, to be started in the main thread when serving is over.

    A handler that ignores its cancellation, or runs in a thread, would otherwise keep the process for ever. The timer
    is cancelled when the block ends.
    """
    guard = threading.Timer(EXIT, _leave)
    guard.daemon = True
    try:
        yield guard
    finally:
        guard.cancel()


def _leave() -> None:
    """End the process without asking what still runs in it."""
    _logger.error("serving is over and a handler does not end: the process ends without it")
    logging.shutdown()
    os._exit(0)
