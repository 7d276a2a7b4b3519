"""Runs a coroutine as a test: with asyncio's debug checks, within bounded time, leaving no task behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from typing_extensions import override

T = TypeVar("T")
LIMIT = 20.0
"""Seconds after which a test hangs."""


class CheckedLoop(asyncio.SelectorEventLoop):
    """A loop with the checks of the debug mode: calls from other threads, coroutines as callbacks, blocking sockets.

    It does not keep the stack that made each handle, task and future, which takes more time than most tests do. To
    see them in the warnings of a failing test, run it with `python -X dev -m pytest`.
    """

    ahead = 0.0
    """Seconds by which the clock was set forward."""

    @override
    def time(self) -> float:
        return super().time() + self.ahead

    @override
    def get_debug(self) -> bool:
        return super().get_debug() and sys.flags.dev_mode


new_loop: Callable[[], asyncio.AbstractEventLoop] = CheckedLoop
"""Makes the loop of a test; the fixture `event_loop_kind` sets it."""


def run(work: Coroutine[Any, Any, T], *, limit: float = LIMIT) -> T:
    """Run it. What the event loop would only log fails the test, and so does a task that is still running."""
    complaints: list[str] = []

    async def main() -> T:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 5.0
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
        gc.freeze()  # what is alive now need not be looked at again after each test
        assert complaints == [], "\n".join(complaints)


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is the case; the test's own limit is the bound."""
    while not condition():  # noqa: ASYNC110 - what happens is not ours to signal
        await asyncio.sleep(0)


def pass_time(seconds: float) -> None:
    """Let the loop's clock go on at once: every timer that is due by then runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CheckedLoop)
    loop.ahead += seconds


class Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
