"""Coroutines for functions that run in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from mcprev.errors import LocalProtocolError

T = TypeVar("T")
EVENT_LOOP: Final = ContextVar[asyncio.AbstractEventLoop]("EVENT_LOOP")
"""The event loop whose function runs in a thread, set in the context of the thread."""


def wait_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that runs in the event loop, while this thread waits.

    Raises `LocalProtocolError` outside of a thread that `EVENT_LOOP` was set for, and when the event loop has ended.
    """
    loop = EVENT_LOOP.get(None)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_async = False
    else:
        is_async = True
    if loop is None or is_async or loop.is_closed():
        work.close()
        raise LocalProtocolError(
            "`ctx.wait` is for functions that run in a thread of the app; in a coroutine, write `await`"
        )
    running = asyncio.run_coroutine_threadsafe(work, loop)
    while True:
        try:
            return running.result(1)
        except TimeoutError:
            if running.done():
                raise
            if loop.is_closed():
                raise LocalProtocolError("the event loop ended before what `ctx.wait` waits for") from None
