"""Runs a coroutine as a test: with asyncio's debug checks, within bounded time, leaving no task behind."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import gc
import inspect
import io
import logging
import os
import selectors
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from typing_extensions import override

T = TypeVar("T")
LIMIT = 40.0
"""Seconds after which a test hangs: many times what the longest takes on a machine that does much else, and less than a call waits."""
QUIET = 0.02
"""Seconds after which nothing more comes from sockets whose both ends are in one loop."""
LATE = 0.0001
"""Seconds after its time at which a timer is due: an operating system never ends a wait too early."""
PATIENCE = 200
"""Turns of the loop after which what a test waits for takes time."""
OFTEN, SELDOM = 0.001, 0.02
"""The seconds between two looks, first and later: where no time passes, each look is a turn of everything else as well."""
SLOWER = 0.02
"""How much longer than it has taken already a test waits at most: minutes of a clock that is set forward are few looks."""


class _Selector(selectors.DefaultSelector):
    """Sets the loop's clock forward instead of waiting, where only a timer of the loop can end the wait."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0
        self.has_both_ends = False
        """Whether both ends of every socket are in this loop, and nothing else can end a wait."""
        self._quiet = QUIET
        self._threads = set(threading.enumerate())

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        wait = timeout or 0.0
        if wait > 0 and self._is_alone():
            wait = 0.0
        elif self.has_both_ends:
            wait = min(wait, self._quiet)
        found = super().select(None if timeout is None else wait)
        if found:
            self._quiet = QUIET
        elif timeout is not None and timeout > 0:
            self._quiet -= wait
            self.ahead += timeout - wait + LATE
        return found

    def _is_alone(self) -> bool:
        """Whether there is no file but the one that wakes the loop, no thread that it started and no process."""
        if len(self.get_map()) > 1 or not self._threads.issuperset(threading.enumerate()):
            return False
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return _children() == set()


def _children() -> set[bytes] | None:
    """The processes that this one has started, but for that which the library starts for shared memory and never ends.

    None where the system does not say.
    """
    found: set[bytes] = set()
    try:
        with os.scandir("/proc/self/task") as tasks:
            for task in tasks:
                with io.FileIO(f"{task.path}/children") as children:
                    found.update(children.read().split())
    except OSError:
        return None
    tracker: Any = resource_tracker._resource_tracker
    return found - {b"%d" % (tracker._pid or 0)}


def timers_of(kind: type[object]) -> list[object]:
    """The objects of a class that a timer of the running loop will call."""
    loop: Any = asyncio.get_running_loop()
    waiting = (timer._callback for timer in loop._scheduled if not timer.cancelled())
    owners = (getattr(callback, "__self__", None) for callback in waiting)
    return [owner for owner in owners if isinstance(owner, kind)]


_KEEPS_STACKS = sys.flags.dev_mode


class CheckedLoop(asyncio.SelectorEventLoop):
    """A loop with the checks of the debug mode: calls from other threads, coroutines as callbacks, blocking sockets.

    It does not keep the stack that made each handle, task and future, which takes more time than most tests do. To
    see them in the warnings of a failing test, run it with `python -X dev -m pytest`.
    """

    def __init__(self) -> None:
        self.clock = _Selector()
        super().__init__(self.clock)

    @override
    def time(self) -> float:
        return time.monotonic() + self.clock.ahead

    @override
    def get_debug(self) -> bool:
        return _KEEPS_STACKS and super().get_debug()

    def _check_callback(self, callback: Any, method: str) -> None:
        """As asyncio does, which looks for a coroutine in many ways, again for each call."""
        function = getattr(callback, "__func__", callback)
        code = getattr(function, "__code__", None)
        if isinstance(function, partial) or (code is not None and code.co_flags & inspect.CO_COROUTINE):
            check: Any = asyncio.SelectorEventLoop._check_callback  # type: ignore[attr-defined]
            check(self, callback, method)


new_loop: Callable[[], asyncio.AbstractEventLoop] = CheckedLoop
"""Makes the loop of a test; the fixture `event_loop_kind` sets it."""


def run(work: Coroutine[Any, Any, T], *, limit: float = LIMIT, has_both_ends: bool = False) -> T:
    """Run it. What the event loop would only log fails the test, and so does a task that is still running.

    With `has_both_ends`, both ends of every socket are in this loop: where nothing comes, the clock is set forward.
    """
    complaints: list[str] = []

    async def main() -> T:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 5.0
        if isinstance(loop, CheckedLoop):
            loop.clock.has_both_ends = has_both_ends
        loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
        if not loop.get_debug():
            sys.set_coroutine_origin_tracking_depth(0)  # the loop sets it back
        async with asyncio.timeout(limit):
            result = await work
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        complaints.extend(f"left running: {task!r}" for task in left)
        return result

    try:
        with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
            return runner.run(main())
    finally:
        gc.collect()
        assert complaints == [], "\n".join(complaints)


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is the case; the test's own limit is the bound."""
    turns, pause, waited = 0, OFTEN, 0.0
    while not condition():
        turns += 1
        if turns < PATIENCE:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(pause)
            waited += pause
            pause = min(1.05 * pause, max(SELDOM, SLOWER * waited))


def pass_time(seconds: float) -> None:
    """Let the loop's clock go on at once: every timer that is due by then runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CheckedLoop)
    loop.clock.ahead += seconds


async def passing(seconds: float, work: Awaitable[T], when: Callable[[], bool]) -> T:
    """Await what time ends: as soon as something is the case, so many seconds pass at once on the loop's clock.

    With the limits of a real user, which no slow machine reaches, and without waiting for them.
    """
    waiting = asyncio.ensure_future(work)
    await until(lambda: when() or waiting.done())
    pass_time(seconds)
    return await waiting


class Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
