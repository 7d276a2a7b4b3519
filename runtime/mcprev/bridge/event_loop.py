"""Chooses the event loop of a bridge over stdin and stdout, where most of a call's time is the loop's own (STDIO-1)."""

from __future__ import annotations

import os
import stat
from asyncio import AbstractEventLoop
from collections.abc import Callable
from importlib.util import find_spec


def new_loop_for(incoming: int, outgoing: int) -> Callable[[], AbstractEventLoop] | None:
    """Return what makes a loop of uvloop, if that is installed and can serve both descriptors; None for asyncio's own.

    uvloop reads its output too, to notice the end of a pipe: from a terminal it would take what is meant for the input.
    """
    try:
        ends = os.fstat(incoming), os.fstat(outgoing)
    except OSError:
        return None
    streams = all(stat.S_ISFIFO(end.st_mode) or stat.S_ISSOCK(end.st_mode) for end in ends)
    if not streams or os.path.samestat(*ends) or find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
