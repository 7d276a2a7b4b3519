"""How a process that only serves has its garbage collected: seldom, and never what stays."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

SETTLED: Final = 2.0
"""Seconds after which the models that are used have been built, most likely."""
GC: Final = (10_000, 20, 50)
"""How much a process of ours allocates between collections: three generations, as `gc.set_threshold` has them."""


@contextmanager
def collecting_less() -> Generator[None, None, None]:
    """Let the collector pass over what stays for the life of the process: what is there now, and the models later."""
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    # A thousand calls in flight are no garbage yet: look when there may be some.
    gc.set_threshold(*GC)
    later = asyncio.get_running_loop().call_later(SETTLED, gc.freeze)
    try:
        yield
    finally:
        later.cancel()
        gc.set_threshold(*before)
