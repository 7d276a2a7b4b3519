"""Lines out of chunks of bytes (STDIO-1, STDIO-9, SEC-6)."""

from __future__ import annotations

from typing import Final

from mcprev.errors import INVALID_REQUEST
from mcprev.wire.jsonrpc import MAX_LINE, Malformed, unread
from mcprev.wire.unread import HEAD, TAIL, is_object

_SPACE: Final = b" \t\r"


class LineBuffer:
    r"""Lines out of chunks, however the chunks are cut (STDIO-1).

    Only `\n` ends a line; whoever knows that no more will come feeds one. White space around a line and blank lines are dropped. A line over the limit is one
    `Malformed`: as soon as it is known if its beginning shows the id of the message or that it is none, else when
    the line ends, for the id may be the last thing in it. What is kept is bounded by the limit plus one chunk, and
    every byte is copied at most twice.
    """

    __slots__ = ("_head", "_limit", "_rest", "_skipping")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False
        self._head = b""
        """How the line begins that is skipped, as long as its id may still come."""

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[bytes | Malformed]:
        """Take the next bytes and give the lines that are now complete, oldest first."""
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
        """Add to the line in progress, of which only the end is kept once it is over the limit."""
        self._rest += piece
        if not self._skipping and len(self._rest) > self._limit:
            self._skipping = True
            head = bytes(self._rest[: min(self._limit, HEAD)])
            told = self._too_long(head, b"")
            if told.id is None and is_object(head):
                self._head = head
            else:
                found.append(told)
        if self._skipping:
            del self._rest[:-TAIL]

    def _end(self, found: list[bytes | Malformed]) -> bytes:
        """End the line in progress: what it is, which is nothing if it was too long."""
        line = b"" if self._skipping else bytes(self._rest)
        if self._head:
            found.append(self._too_long(self._head, self._rest))
        self._rest, self._head, self._skipping = bytearray(), b"", False
        return line

    def _too_long(self, head: bytes | bytearray, tail: bytes | bytearray) -> Malformed:
        return unread(
            INVALID_REQUEST, f"Invalid Request: a line of more than {self._limit} bytes", head, tail
        )
