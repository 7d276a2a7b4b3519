"""Runs a coroutine as a test: in asyncio's debug mode, within bounded time, leaving no task behind."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from typing_extensions import override

T = TypeVar("T")
LIMIT = 20.0
"""Seconds after which a test hangs."""


def run(work: Coroutine[Any, Any, T], *, limit: float = LIMIT) -> T:
    """Run it. What the event loop would only log fails the test, and so does a task that is still running."""
    complaints: list[str] = []

    async def main() -> T:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 5.0
        loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
        async with asyncio.timeout(limit):
            result = await work
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        complaints.extend(f"left running: {task!r}" for task in left)
        return result

    try:
        return asyncio.run(main(), debug=True)
    finally:
        gc.collect()
        gc.freeze()  # what is alive now need not be looked at again after each test
        assert complaints == []


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is the case; the test's own limit is the bound."""
    while not condition():  # noqa: ASYNC110 - what happens is not ours to signal
        await asyncio.sleep(0)


class Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
