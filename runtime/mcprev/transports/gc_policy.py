"""The garbage collection policy of a process that only serves: collect rarely, and skip long-lived objects."""

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


@contextmanager
def reduced_collection() -> Generator[None, None, None]:
    """Collect rarely, and exclude from it what is alive after `SETTLED` seconds."""
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
