"""What is left of processes, descriptors and memory, as the operating system has it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import mcprev

HERE = Path(__file__).parent
TINY = [sys.executable, "-S", "-E", str(HERE / "tiny_server.py")]
OURS = [sys.executable, str(HERE / "our_server.py")]
BOUND = 30.0
"""Seconds in which everything has to have failed and gone, whatever happened: generous on a busy machine."""


def tiny(*arguments: str, **options: object) -> mcprev.stdio:
    """The server of a few lines."""
    return mcprev.stdio(*TINY, *arguments, **options)  # type: ignore[arg-type]


def _stat(pid: int) -> list[str]:
    """State, parent, group and so on of a process; empty for one that is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def exists(pid: int) -> bool:
    """Whether there is such a process, be it a zombie."""
    return bool(_stat(pid))


def runs(pid: int) -> bool:
    """Whether there is such a process and it has not ended."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def group(leader: int) -> list[int]:
    """The processes of a group that run."""
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in pids if runs(pid) and _stat(pid)[2:3] == [str(leader)]]


def children() -> set[int]:
    """The processes that this one has started and not taken leave of; zombies are among them."""
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return {pid for pid in pids if _stat(pid)[1:2] == [str(os.getpid())]}


def descriptors() -> int:
    """How many are open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


async def soon(condition: Callable[[], bool], what: str) -> None:
    """See that something comes true which the operating system does in its own time."""
    for _ in range(int(BOUND * 200)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(what)


async def each(cases: Mapping[str, Awaitable[None]]) -> None:
    """Do what mostly waits for processes side by side; the failures have the names of their cases."""
    ends = await asyncio.gather(*cases.values(), return_exceptions=True)
    found: list[Exception] = []
    for name, end in zip(cases, ends, strict=True):
        if isinstance(end, Exception):
            end.add_note(f"at: {name}")
            found.append(end)
        elif end is not None:
            raise end
    if found:
        raise ExceptionGroup("cases", found)


@contextmanager
def nothing_left() -> Generator[None, None, None]:
    """Fail where a process or a descriptor is left, of those that came up in between."""
    pids, before = children(), descriptors()
    yield
    assert children() <= pids, "processes are left"
    assert descriptors() <= before, "descriptors are left"
