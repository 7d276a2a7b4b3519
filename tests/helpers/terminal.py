"""A command of `mcprev` at a terminal, and its user."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time


class AtTerminal:
    """A command at a terminal, whose user types when he is asked."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mcprev", *arguments],
            stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm", "BROWSER": "true"},
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + 20
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            if select.select([self._ours], [], [], 0.5)[0]:
                self.shown += os.read(self._ours, 4096).decode()
        self.shown = self.shown.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> tuple[int, str]:
        out, _ = self._process.communicate(timeout=20)
        os.close(self._ours)
        return self._process.returncode, out.decode()
