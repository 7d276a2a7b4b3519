"""Runs a client's callbacks one after another, in the order of the messages that they are called for (LIFE-18, LOG-5)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from mcprev.callbacks import is_cancelled
from mcprev.core.limits import MAX_HANDLERS, QUEUED

_Callback: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

SLOW: Final = 5.0
"""Seconds that a callback may delay later callbacks, and that callbacks may delay the result of a call."""
CALLBACKS: Final = MAX_HANDLERS * QUEUED
"""How many callbacks wait for a slow one; further ones are dropped."""
_logger: Final = logging.getLogger("mcprev.client")
_inside: Final[ContextVar[bool]] = ContextVar("mcprev_callback", default=False)
"""Whether the current task runs a callback, or was started by one."""


class CallbackQueue:
    """The callbacks of one client that wait, and those that run.

    One task runs the callbacks. After `SLOW` seconds in one callback another task takes over, and the slow callback
    continues beside it.
    """

    __slots__ = ("_closed", "_dropping", "_tasks", "_waiting", "runner")

    def __init__(self) -> None:
        self._waiting: deque[_Callback] = deque()
        self._closed = self._dropping = False
        self.runner: asyncio.Task[None] | None = None
        """The task that takes the next callback; None while there is none to run."""
        self._tasks: set[asyncio.Task[None]] = set()
        """The runner, and those that still run a slow callback."""

    def put(self, callback: _Callback) -> bool:
        """Run a callback after those that were put before; return False if too many wait. What it raises is logged."""
        if self._closed:
            return False
        dropping, self._dropping = (
            self._dropping,
            len(self._waiting) >= CALLBACKS or len(self._tasks) >= MAX_HANDLERS,
        )
        if self._dropping:
            if not dropping:
                _logger.warning("too many messages wait for slow callbacks: messages are dropped")
            return False
        self._waiting.append(callback)
        if self.runner is None:
            self._start()
        return True

    async def settled(self) -> None:
        """Wait until the callbacks that were put before have ended, for at most `SLOW` seconds.

        Return at once if a callback made the call: it would wait for itself.
        """
        if _inside.get() or self.runner is None:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def settle() -> None:
            done.set_result(None)

        self._waiting.append(settle)
        await asyncio.wait({done}, timeout=SLOW)

    async def aclose(self, linger: float) -> None:
        """Let the callbacks end within `linger` seconds, then cancel them; those that wait are not called."""
        if self._tasks and not _inside.get():
            await asyncio.wait(set(self._tasks), timeout=linger)
        self._closed = True
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=linger)

    def _start(self) -> None:
        task = asyncio.get_running_loop().create_task(self._run(), name="callbacks")
        if not task.done():  # some task factories start a task at once
            self.runner = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        _inside.set(True)
        loop = asyncio.get_running_loop()
        self.runner = runner = asyncio.current_task()
        while self._waiting:
            callback = self._waiting.popleft()
            timer = loop.call_later(SLOW, self._go_past)
            try:
                await callback()
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                _logger.exception("a callback awaited something that was cancelled")
            except Exception:
                _logger.exception("a callback raised")
            finally:
                timer.cancel()
            if self.runner is not runner:
                return  # it was slow, and another runner has taken over
        self.runner = None

    def _go_past(self) -> None:
        """Leave a slow callback alone, and run the next ones in another task."""
        _logger.warning("a callback takes longer than %g s: later callbacks no longer wait for it", SLOW)
        self.runner = None
        if self._waiting:
            self._start()
