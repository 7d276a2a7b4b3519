"""Runs what a command does with a server so that a signal ends the command and the server that it started (STDIO-7).

Python ends at once at most signals: `timeout 30 mcprev call` or a terminal that is closed would leave a server behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import click

from mcprev.platforms import HERE
from mcprev.transports import process_groups

T = TypeVar("T")
_EXIT: Final = 1.0
"""Seconds that threads have to end after everything else, such as a look-up of a host name."""
SIGNALLED: Final = 128
"""The exit code after a signal is this plus its number, as shells have it."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does; the first signal cancels it, so that it ends the server.

    Then `click.exceptions.Exit` is raised. A second signal, or a thread that does not end, kills what is left at once.
    """
    stop = _Stop()
    with stop.at_signals():
        try:
            found = asyncio.run(stop.watched(work))
        except BaseException:
            stop.check()  # what is raised on the way out matters to nobody
            raise
        stop.check()
        return found


class _Stop:
    def __init__(self) -> None:
        self._number = 0
        """The signal that has come."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    @contextmanager
    def at_signals(self) -> Generator[None, None, None]:
        """Handle signals in the block. Those that the caller ignores or handles, as `nohup` does, stay so."""
        numbers = list[int]()
        if threading.current_thread() is threading.main_thread():
            numbers = [*HERE.ending_signals]  # of Ctrl+C, asyncio takes care
        numbers = [each for each in numbers if signal.getsignal(each) is signal.SIG_DFL]
        for number in numbers:
            signal.signal(number, self._signalled)
        try:
            yield
        finally:
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)

    async def watched(self, work: Coroutine[Any, Any, T]) -> T:
        """Await the work in a task that a signal cancels."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._number:
            work.close()
            raise asyncio.CancelledError
        try:
            return await work
        finally:
            if self._number:
                self._leave_threads()

    def check(self) -> None:
        """Raise `click.exceptions.Exit` if a signal has come."""
        if self._number:
            raise click.exceptions.Exit(SIGNALLED + self._number) from None

    def _signalled(self, number: int, _frame: object) -> None:
        ends, self._number = self._number or (self._task is not None and self._task.done()), number
        if ends:
            self._exit()
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop is closed: everything has ended
                self._loop.call_soon_threadsafe(self._task.cancel)

    def _leave_threads(self) -> None:
        logging.getLogger("asyncio").disabled = True  # what is said of processes whose end nobody waits for
        timer = threading.Timer(_EXIT, self._exit)
        timer.daemon = True
        timer.start()

    def _exit(self) -> None:
        process_groups.kill_all()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(SIGNALLED + self._number)
