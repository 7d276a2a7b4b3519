"""Splitting chunks of bytes into lines (STDIO-1, STDIO-9, SEC-6)."""

from __future__ import annotations

from typing import Final

from mcprev.errors import INVALID_REQUEST
from mcprev.wire.jsonrpc import MAX_LINE, Malformed, unread
from mcprev.wire.unread import HEAD, TAIL, is_object

_SPACE: Final = b" \t\r"


class LineBuffer:
    r"""Splits chunks of bytes into lines, wherever the chunks are cut.

    Only `\n` ends a line; at the end of input the caller feeds one. White space around a line and blank lines are
    dropped. A line over the limit yields one `Malformed`: immediately if the beginning shows the id of the message or
    is not a JSON object, else when the line ends, because the id may be its last member. The buffer holds at most the
    limit plus one chunk, and every byte is copied at most twice.
    """  # STDIO-1

    __slots__ = ("_head", "_limit", "_rest", "_skipping")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False
        self._head = b""
        """The beginning of a line that is being skipped, while its id is still unknown."""

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[bytes | Malformed]:
        """Take the next bytes and return the lines completed by them, oldest first."""
        lines = bytes(chunk).split(b"\n")
        last = lines.pop()
        found: list[bytes | Malformed] = []
        if lines and (self._rest or self._skipping):
            self._extend(lines[0], found)
            lines[0] = self._end(found)
        for line in lines:
            if len(line) > self._limit:
                found.append(self._too_long(line[: min(self._limit, HEAD)], line))
            elif stripped := line.strip(_SPACE):
                found.append(stripped)
        if last:
            self._extend(last, found)
        return found

    def _extend(self, piece: bytes, found: list[bytes | Malformed]) -> None:
        """Append to the current line; once it exceeds the limit, keep only its end."""
        self._rest += piece
        if not self._skipping and len(self._rest) > self._limit:
            self._skipping = True
            head = bytes(self._rest[: min(self._limit, HEAD)])
            malformed = self._too_long(head, b"")
            if malformed.id is None and is_object(head):
                self._head = head
            else:
                found.append(malformed)
        if self._skipping:
            del self._rest[:-TAIL]

    def _end(self, found: list[bytes | Malformed]) -> bytes:
        """End the current line and return it, or empty bytes if it exceeded the limit."""
        line = b"" if self._skipping else bytes(self._rest)
        if self._head:
            found.append(self._too_long(self._head, self._rest))
        self._rest, self._head, self._skipping = bytearray(), b"", False
        return line

    def _too_long(self, head: bytes | bytearray, tail: bytes | bytearray) -> Malformed:
        return unread(
            INVALID_REQUEST, f"Invalid Request: a line of more than {self._limit} bytes", head, tail
        )
