"""Learns of the signal that stops an ASGI server which waits for responses before it ends an app's lifespan (HTTP-3).

A stream or a call that waits for its client's answer does not end by itself. uvicorn and granian wait for it without a limit,
and other servers cut it when their limit is reached.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

STOPS: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""The signals at which uvicorn stops."""
LOOP_STOPS: Final = (signal.SIGINT, signal.SIGTERM)
"""Those at which each server stops that lets the event loop handle them."""
LOOPS: Final = ("asyncio.unix_events", "uvloop.loop")
"""The modules of event loops, whose handlers of signals do nothing: the loop is woken by the signal itself."""


class StopSignal:
    """Calls `stop(number)` in the running event loop after the server's own handler of a signal."""

    def __init__(
        self, before: Callable[[int, FrameType | None], object], stop: Callable[[int], object]
    ) -> None:
        self._before, self._stop = before, stop
        self._loop = asyncio.get_running_loop()

    def received(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self._before(number, frame)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop, number)


def on_stop(stop: Callable[[int], object]) -> None:
    """Call `stop` with the number of a signal that tells the ASGI server to stop. Has no effect outside the main thread.

    Who has set the handlers before sets others when it ends: uvicorn those before its own, an event loop the default.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in STOPS:
        before = signal.getsignal(number)
        owner = getattr(before, "__self__", None)
        of_loop = number in LOOP_STOPS and getattr(before, "__module__", None) in LOOPS
        if callable(before) and (of_loop or hasattr(owner, "should_exit") or isinstance(owner, StopSignal)):
            signal.signal(number, StopSignal(before, stop).received)
            if of_loop:
                signal.siginterrupt(number, False)  # noqa: FBT003 - as the loop has it
