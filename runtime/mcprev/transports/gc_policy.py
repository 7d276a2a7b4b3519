"""The garbage collection policy of a process that only serves: collect rarely, and skip long-lived objects."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

SETTLED: Final = 2.0
"""Seconds after which the models in use have most likely been built."""
GC: Final = (10_000, 20, 50)
"""The thresholds of the three generations, as for `gc.set_threshold`."""


@contextmanager
def reduced_collection() -> Generator[None, None, None]:
    """Exclude long-lived objects from collection: the existing ones now, and the models after `SETTLED` seconds."""
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    # A thousand calls in progress are not garbage, so collect less often than the default.
    gc.set_threshold(*GC)
    later = asyncio.get_running_loop().call_later(SETTLED, gc.freeze)
    try:
        yield
    finally:
        later.cancel()
        gc.set_threshold(*before)
