"""How a process learns that a record was changed by another: it looks again, after pauses that grow up to a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")
FIRST_PAUSE: Final = 0.02
"""Seconds before the second look at a record; each further pause is twice as long."""
LONGEST_PAUSE: Final = 0.8
"""The longest pause between two looks, in seconds: news of another process is at most this old, plus one look."""
TRIES: Final = 100
"""How often a change is tried that other processes overtake, before it fails."""


async def watch(
    look: Callable[[], Awaitable[T | None]], woken: asyncio.Event, limit: float = float("inf")
) -> T | None:
    """Call `look` until it returns something else than None, and return that; None after `limit` seconds.

    `woken` ends a pause early; a change that this process makes itself sets it. Raises what `look` raises.
    """
    now = asyncio.get_running_loop().time
    until, pause = now() + limit, FIRST_PAUSE
    woken.clear()
    while (found := await look()) is None and (left := until - now()) > 0:
        try:
            async with asyncio.timeout(min(pause, left)):
                await woken.wait()
        except TimeoutError:
            pause = min(2 * pause, LONGEST_PAUSE)
        woken.clear()
    return found
