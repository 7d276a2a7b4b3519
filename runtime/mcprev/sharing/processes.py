"""Whether another process of this machine has ended, which the system knows before a lease ends.

A lease holds what `this_process` returns. Only an end that is certain counts: a process on another machine or in another
container, of another user, or where the system cannot say, has ended when its lease has.
"""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from mcprev.errors import Json
from mcprev.platforms import HERE

_ROOT: Final = Path("/proc")
_DEAD: Final = frozenset("ZXx")
"""The states of a process that has ended, and that its parent has not waited for."""


def this_process() -> Json:
    """Return what tells this process from all others, for `process_has_ended`; None where the system cannot say."""
    return _described(os.getpid())


@lru_cache(maxsize=1)
def _described(pid: int) -> Json:
    found = _looked_up(pid)
    return None if found is None else [_machine(pid), pid, found[1]]


@lru_cache(maxsize=1)
def _machine(_pid: int) -> str:
    """Return what all processes have in common that see each other by the same numbers."""
    boot = (_ROOT / "sys/kernel/random/boot_id").read_text(encoding="ascii")
    space = (_ROOT / "self/ns/pid").readlink()
    return sha256(repr((boot, str(space), socket.gethostname(), HERE.process_owner())).encode()).hexdigest()[
        :32
    ]


def _looked_up(pid: int) -> tuple[str, str] | None:
    """Return the state of a process and when it started; None if that cannot be read."""
    try:
        text = (_ROOT / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()  # the name before it may hold anything
        _machine(os.getpid())
        return fields[0], fields[19]
    except (OSError, IndexError):
        return None


def process_has_ended(process: Json) -> bool:
    """Return whether the process that `this_process` has described has ended for certain."""
    match process:
        case [str(machine), int(pid), str(started)] if pid > 0 and this_process() is not None:
            if machine != _machine(os.getpid()):
                return False
        case _:
            return False
    found = _looked_up(pid)
    if found is not None:
        return found[1] != started or found[0] in _DEAD
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
