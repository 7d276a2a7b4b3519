"""Linux in the place of what only Windows can answer: process groups are jobs, and scripts are batch files."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from platforms.command_lines import read_by_cmd, words_of

_killpg, _kill, _hangup = os.killpg, signal.SIGKILL, signal.SIGHUP
_flock, _lock, _unlock = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN


class LinuxKernel:
    """Does what `mcprev.platforms.windows.Kernel` says, and records the jobs."""

    ctrl_break = int(signal.SIGHUP)

    def __init__(self) -> None:
        self.jobs: set[int] = set()
        self.cancelled = 0

    def group_flags(self) -> int:
        return 0

    def popen(
        self,
        line: str,
        executable: str | None,
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None,
    ) -> subprocess.Popen[bytes]:
        words = words_of(read_by_cmd(line, environment) if executable and "cmd.exe" in executable else line)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            words, 0, None, pipe, pipe, pipe, cwd=folder, env=environment, start_new_session=True
        )

    def job(self, leader: int) -> int | None:
        self.jobs.add(leader)
        return leader

    def end_job(self, job: int) -> None:
        self.jobs.remove(job)
        self._send(job, _kill)

    def end_process(self, process: int) -> None:
        os.kill(process, _kill)

    def send_break(self, leader: int) -> None:
        self._send(leader, _hangup)

    @staticmethod
    def _send(leader: int, number: int) -> None:
        with suppress(ProcessLookupError):
            _killpg(leader, number)

    def system_folder(self) -> str:
        return r"C:\Windows\System32"

    def cancel(self, thread: int) -> None:
        self.cancelled += 1

    def as_bytes(self, descriptor: int) -> None:
        os.fstat(descriptor)

    def lock(self, descriptor: int) -> None:
        _flock(descriptor, _lock)

    def unlock(self, descriptor: int) -> None:
        _flock(descriptor, _unlock)
