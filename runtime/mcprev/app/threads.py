"""The threads in which functions run that may block."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
MAX_THREADS: Final = 40
"""The maximum number of functions of all apps in an event loop that run in threads at a time."""


class Threads:
    """Threads for blocking work: free ones go to the clients that wait, in turn, so that none waits for all calls of another."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="mcprev")
        self._free = MAX_THREADS
        self._waiting = OrderedDict[str | None, deque[asyncio.Future[None]]]()

    async def run(self, client: str | None, work: Callable[[], T]) -> T:
        """Run `work` in a thread, when one is free for this client. Raises what it raises.

        If this is cancelled, work that has begun runs on, and occupies its thread until it ends.
        """
        loop = asyncio.get_running_loop()
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.setdefault(client, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release()
                raise
        running = self._executor.submit(work)

        def ended(_: object) -> None:
            with suppress(RuntimeError):  # the loop has ended before the thread
                loop.call_soon_threadsafe(self._release)

        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    def _release(self) -> None:
        """Give a thread to the client whose turn it is."""
        while self._waiting:
            client, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[client] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


_THREADS: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, Threads]()
"""The threads of all apps in an event loop, which end with it. Its own executor stays free for what asyncio does there."""


def threads() -> Threads:
    """Return the threads of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _THREADS.get(loop)
    if found is None:
        found = _THREADS[loop] = Threads()
    return found
