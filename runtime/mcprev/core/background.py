"""Work in the background: tasks that belong to an object, until they end or it does.

One policy for what they raise: nothing is said of a cancellation, an `McpError` is a warning in one line, and anything
else is an error with its traceback. So nobody has to wait for such a task to learn that it failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from mcprev.errors import McpError, one_line

T = TypeVar("T")


class Background:
    """The tasks of one object that nobody waits for."""

    def __init__(self, logger: logging.Logger, what: str) -> None:
        """`what` they are for is how what is logged of them begins."""
        self._logger, self._what = logger, what
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))

    def start(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine as a task that is kept until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, McpError):
            self._logger.warning("%s: %s", self._what, one_line(error))
        elif error is not None:
            self._logger.error("%s failed", self._what, exc_info=error)

    async def finish(self, seconds: float | None = None) -> None:
        """Wait until the tasks that run have ended, for so many seconds at most."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)

    def cancel(self) -> None:
        """Cancel the tasks that run."""
        for task in self:
            task.cancel()

    async def aclose(self, seconds: float | None = None) -> None:
        """Cancel the tasks that run, and wait until they have ended, for so many seconds at most."""
        self.cancel()
        await self.finish(seconds)
