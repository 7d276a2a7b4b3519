"""Ends a serving process even if handlers still run (STDIO-6)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from mcprev.platforms import HERE
from mcprev.transports import process_groups

EXIT: Final = 1.0
"""Seconds in which a process must end after it has stopped serving."""
RUNNING: Final = set[object]()
"""The functions of handlers that run in threads now, of whatever executor: Python waits for them before it exits."""
_logger: Final = logging.getLogger("mcprev.server")


def stop_signals() -> list[int]:
    """Return the signals at which a serving process stops; Python would end at once at most of them.

    That of a closed terminal is not among them if it is ignored, as below `nohup`, or has a handler.
    """
    closed = HERE.terminal_closed
    handler = signal.getsignal(closed)
    if not (handler is signal.SIG_DFL or isinstance(handler, _Cancel)):
        return [signal.SIGINT, signal.SIGTERM]
    return [signal.SIGINT, signal.SIGTERM, closed]


class _Cancel:
    """Cancels the task in which it was made."""

    def __init__(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()

    def __call__(self, *_: object) -> None:
        assert self._task is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)


@contextmanager
def cancelled_by_signals() -> Generator[None, None, None]:
    """Cancel the current task at the signals to stop, wherever nothing else handles them; asyncio does so at SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, _Cancel()) for each in stop_signals() if each != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    process_groups.kill_all()
    os._exit(0)
