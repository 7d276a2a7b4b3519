"""The memory policy of a process that only serves: collect garbage rarely, and keep the memory of large messages."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

SETTLED: Final = 2.0
"""Seconds after which the models in use have most likely been built, and the first answers are sent."""
GC: Final = (10_000, 20, 50)
"""The thresholds of the three generations, as for `gc.set_threshold`."""

LARGE: Final = 31 * 1024 * 1024
"""Twice this many freed bytes, at most, are kept for the next large message."""


@contextmanager
def reduced_collection() -> Generator[None, None, None]:
    """Collect rarely, and exclude from it what is alive after `SETTLED` seconds.

    Also makes glibc keep freed memory. To give that of a large message back to the system and get it again for the next
    one takes as long as handling it. The limit is twice the largest block that was ever freed.
    """
    bytes(LARGE)  # freed at once, and never touched
    before = gc.get_threshold()
    # A thousand calls in progress are not garbage, so collect less often than the default.
    gc.set_threshold(*GC)
    later = asyncio.get_running_loop().call_later(SETTLED, _exclude_living)
    try:
        yield
    finally:
        later.cancel()
        gc.set_threshold(*before)


def _exclude_living() -> None:
    gc.collect()
    gc.freeze()
