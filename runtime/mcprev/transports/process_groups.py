"""The process groups that this process has started: none outlives it, however it ends (STDIO-7).

A launcher such as `npx` starts the server as a child of its own, so a signal goes to the whole group. Only SIGKILL and a
crash of this process leave no time for that: then the servers read the end of their stdin.
"""

from __future__ import annotations

import atexit
import os
import signal
from contextlib import suppress
from typing import Final

_running: Final = set[tuple[int, int]]()
"""The leaders of the groups, each with the process that has started it: a fork of this process ends none of them."""


def started(leader: int) -> None:
    """Remember the group of a process that leads one."""
    _running.add((os.getpid(), leader))


def send(leader: int, number: int) -> None:
    """Send a signal to all processes of a group that are left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill(leader: int) -> None:
    """Kill what is left of a group, and forget it."""
    if (os.getpid(), leader) in _running:
        _running.remove((os.getpid(), leader))
        send(leader, signal.SIGKILL)


def kill_all() -> None:
    """Kill what is left of all groups: this process ends now."""
    for owner, leader in [*_running]:
        if owner == os.getpid():
            kill(leader)


atexit.register(kill_all)
