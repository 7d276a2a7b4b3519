"""Lines that the user types, read without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from mcprev.cli.table import echo_question

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
            data = await self._read()
            self._rest += data
            if not data:
                self._ended = not self._rest
                break
        line, _, self._rest = self._rest.partition(b"\n")
        if self._ended:
            self._ended = False  # a terminal goes on after Ctrl+D
            return None
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        if sys.platform == "win32":
            return await asyncio.to_thread(os.read, self._descriptor, _READ)
        ready = asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
        return os.read(self._descriptor, _READ)
