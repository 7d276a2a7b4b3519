"""Learns of the signal that stops uvicorn, where uvicorn runs the app by itself (HTTP-3).

uvicorn waits for the responses in progress before it ends an app's lifespan, and a stream or a call that waits for its
client's answer does not end by itself. Other servers limit that wait.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

SIGNALS: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class StopSignal:
    """Calls `stop(number)` in the running event loop after uvicorn's own handler of a signal."""

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
    """Call `stop` with the number of a signal that tells uvicorn to stop. Has no effect in other servers and other threads.

    uvicorn restores the handlers that were there before its own when it ends.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        before = signal.getsignal(number)
        owner = getattr(before, "__self__", None)
        if callable(before) and (hasattr(owner, "should_exit") or isinstance(owner, StopSignal)):
            signal.signal(number, StopSignal(before, stop).received)
