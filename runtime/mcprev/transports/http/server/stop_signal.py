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

from mcprev.platforms import HERE

STOPS: Final = (signal.SIGINT, signal.SIGTERM, HERE.terminal_closed)
"""The signals at which uvicorn stops."""
LOOP_STOPS: Final = (signal.SIGINT, signal.SIGTERM)
"""Those at which each server stops that lets the event loop handle them."""
LOOPS: Final = ("asyncio.unix_events", "uvloop.loop")
"""The modules of event loops, whose handlers of signals do nothing: the loop is woken by the signal itself."""


class StopSignal:
    """Calls `stop(number)` in the running event loop after the server's own handler of a signal.

    While `waits` returns True, that handler is called when the task that `stop` returns has ended: the server would end
    without waiting for it. A second signal is passed on at once.
    """

    def __init__(
        self,
        before: Callable[[int, FrameType | None], object],
        stop: Callable[[int], asyncio.Task[None]],
        waits: Callable[[], bool],
    ) -> None:
        self.before: Callable[[int, FrameType | None], object] = before
        self.stop: Callable[[int], asyncio.Task[None]] = stop
        self.waits: Callable[[], bool] = waits
        self._loop = asyncio.get_running_loop()
        self.waiting = self._passed = False

    def received(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self._loop.is_closed():
            self.before(number, frame)
            return
        apps = self.apps()
        if any(app.waits() for app in apps) and not self.waiting:
            for app in apps:
                app.waiting = True
            self._loop.call_soon_threadsafe(self._stop_first, apps, number)
            return
        self._passed = True
        self.before(number, frame)
        self._loop.call_soon_threadsafe(self.stop, number)

    def apps(self) -> list[StopSignal]:
        """Return what was told to handle the signal, this one first."""
        owner = getattr(self.before, "__self__", None)
        return [self, *(owner.apps() if isinstance(owner, StopSignal) else ())]

    def _stop_first(self, apps: list[StopSignal], number: int) -> None:
        """Stop all, then let the server handle the signal."""
        stopping = {app.stop(number) for app in apps}
        handle, left = apps[-1].before, len(stopping)

        def ended(_: object) -> None:
            nonlocal left
            left -= 1
            if not left and not self._passed:
                handle(number, None)

        for task in stopping:
            task.add_done_callback(ended)


def on_stop(stop: Callable[[int], asyncio.Task[None]], waits: Callable[[], bool]) -> None:
    """Call `stop` with the number of a signal that tells the ASGI server to stop. Has no effect outside the main thread.

    The server is told of the signal when the task that `stop` returns has ended, if `waits` returns True; where the event
    loop handles signals, at once. Who has set the handlers before sets others when it ends: uvicorn those before its own,
    an event loop the default.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in STOPS:
        before = signal.getsignal(number)
        owner = getattr(before, "__self__", None)
        of_loop = number in LOOP_STOPS and getattr(before, "__module__", None) in LOOPS
        if callable(before) and (of_loop or hasattr(owner, "should_exit") or isinstance(owner, StopSignal)):
            signal.signal(number, StopSignal(before, stop, _never if of_loop else waits).received)
            if of_loop:
                HERE.keep_calls_going(number)  # as the loop has it


def _never() -> bool:
    return False
