"""Lines that the user types, read without blocking the event loop."""

from __future__ import annotations

import sys
from typing import Final

from mcprev.cli.table import echo_question
from mcprev.platforms import HERE

MAX_LINE: Final = 1024 * 1024
"""The maximum length of a line in bytes; the rest of a longer one is the next line."""
_READ: Final = 4096


class TerminalInput:
    """The standard input of the command, if the user is at a terminal."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._rest = b""
        self._ended = False

    @staticmethod
    def is_there() -> bool:
        """Return whether a user can be asked: standard input and stderr are a terminal."""
        try:
            return sys.stdin.isatty() and sys.stderr.isatty()
        except (AttributeError, ValueError):  # it is closed
            return False

    async def line(self, question: str) -> str | None:
        """Ask the user for a line; None at the end of the input (Ctrl+D)."""
        echo_question(question)
        while b"\n" not in self._rest and len(self._rest) < MAX_LINE and not self._ended:
            data = await HERE.read_terminal(self._descriptor, _READ)
            self._rest += data
            if not data:
                self._ended = not self._rest
                break
        line, _, self._rest = self._rest.partition(b"\n")
        if self._ended:
            self._ended = False  # a terminal goes on after Ctrl+D
            return None
        return line.decode("utf-8", "replace").rstrip("\r")
