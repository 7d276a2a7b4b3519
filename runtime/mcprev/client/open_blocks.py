"""The `async with` blocks of one object that several tasks may enter at once (MOD-10)."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class OpenBlocks(Generic[T]):
    """What the `async with` blocks of one object opened that have not ended; several tasks may be inside at once."""

    def __init__(self) -> None:
        self._open: list[tuple[asyncio.Task[Any] | None, T]] = []

    def enter(self, opened: T) -> T:
        """Keep and return what a block of the current task opened."""
        self._open.append((asyncio.current_task(), opened))
        return opened

    def leave(self) -> T:
        """Return what the last block of the current task opened.

        A task without a block, such as one that ends an `AsyncExitStack` of another, gets that of a task that is done.
        """
        here, blocks = asyncio.current_task(), enumerate(self._open)
        at = max((task is here, task is None or task.done(), at) for at, (task, _) in blocks)[-1]
        return self._open.pop(at)[1]
