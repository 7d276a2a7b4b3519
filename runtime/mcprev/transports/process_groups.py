"""The process trees that this process has started: none outlives it, however it ends (STDIO-7).

A launcher such as `npx` starts the server as a child of its own, so what ends a server goes to the whole tree. On POSIX only
SIGKILL and a crash of this process leave no time for that: then the servers read the end of their stdin.
"""

from __future__ import annotations

import atexit
import os
from typing import Final

from mcprev.platforms import HERE
from mcprev.platforms.interface import ProcessTree

_running: Final = dict[tuple[int, int], ProcessTree]()
"""The trees, by the process that has started each and its leader: a fork of this process ends none of them."""


def started(leader: int) -> None:
    """Remember the tree of a process that leads one; on Windows the process runs from now on."""
    _running[os.getpid(), leader] = HERE.tree(leader)


def terminate(leader: int) -> None:
    """Ask what is left of a tree to end."""
    if (tree := _running.get((os.getpid(), leader))) is not None:
        tree.terminate()


def kill(leader: int) -> None:
    """Kill what is left of a tree, and forget it."""
    if (tree := _running.pop((os.getpid(), leader), None)) is not None:
        tree.kill()


def kill_all() -> None:
    """Kill what is left of all trees: this process ends now."""
    for owner, leader in [*_running]:
        if owner == os.getpid():
            kill(leader)


atexit.register(kill_all)
