"""A connection over two byte streams of lines: pipes, a socket or memory (STDIO-1, STDIO-6, STDIO-9, STDIO-11, SEC-6).

`LineBuffer` is pure: it splits chunks of bytes into lines. `data_received` parses messages directly, without a task or
a queue. Reading pauses while the peer does not read its input, except while this side waits for a response: that
response may be the only thing that ends the wait.
"""

from __future__ import annotations

import asyncio
import logging
from io import BytesIO
from typing import Final, cast

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.limits import CLOSE, LINGER, MAX_HANDLERS
from mcprev.errors import INVALID_REQUEST, ConnectionLost
from mcprev.protocol.connection_state import Channel
from mcprev.protocol.endpoint import EndpointProtocol
from mcprev.wire.jsonrpc import MAX_LINE, Malformed, parse, unread
from mcprev.wire.unread import HEAD, TAIL, is_object

_SPACE: Final = b" \t\r"
_NEWLINE: Final = ord("\n")


class LineBuffer:
    r"""Splits chunks of bytes into lines, wherever the chunks are cut.

    Only `\n` ends a line; at the end of input the caller feeds one. White space around a line and blank lines are
    dropped. A line over the limit yields one `Malformed`: immediately if the beginning shows the id of the message or
    is not a JSON object, else when the line ends, because the id may be its last member. The buffer holds at most the
    limit plus one chunk. Every byte is searched and copied a fixed number of times, whatever the size of the chunks.
    """  # STDIO-1

    __slots__ = ("_head", "_limit", "_rest", "_skipping")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._rest = BytesIO()
        """The beginning of the current line; of a line that is being skipped, its end."""
        self._skipping = False
        self._head = b""
        """The beginning of a line that is being skipped, while its id is still unknown."""

    def feed(self, chunk: bytes) -> list[bytes | Malformed]:
        """Take the next bytes and return the lines completed by them, oldest first."""
        # To search a chunk takes less time than to split one from the middle of a long line.
        lines = chunk.split(b"\n") if _NEWLINE in chunk else [chunk]
        last = lines.pop()
        found: list[bytes | Malformed] = []
        if lines and self._rest.tell():
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
        self._rest.write(piece)
        if not self._skipping and self._rest.tell() > self._limit:
            self._skipping = True
            head = self._rest.getvalue()[: min(self._limit, HEAD)]
            malformed = self._too_long(head, b"")
            if malformed.id is None and is_object(head):
                self._head = head
            else:
                found.append(malformed)
        if self._skipping:
            tail = self._rest.getvalue()[-TAIL:]
            self._rest = BytesIO()
            self._rest.write(tail)

    def _end(self, found: list[bytes | Malformed]) -> bytes:
        """End the current line and return it, or empty bytes if it exceeded the limit."""
        line = self._rest.getvalue()
        if self._head:
            found.append(self._too_long(self._head, line))
        if self._skipping:
            line = b""
        self._rest, self._head, self._skipping = BytesIO(), b"", False
        return line

    def _too_long(self, head: bytes | bytearray, tail: bytes | bytearray) -> Malformed:
        return unread(
            INVALID_REQUEST, f"Invalid Request: a line of more than {self._limit} bytes", head, tail
        )


class LineConnection(Connection, asyncio.Protocol):
    """A connection of either role over an asyncio transport."""

    at_once = True

    def __init__(
        self,
        protocol: EndpointProtocol,
        handler: RequestHandler[Connection],
        logger: logging.Logger,
        *,
        max_line: int = MAX_LINE,
        max_handlers: int = MAX_HANDLERS,
        linger: float = LINGER,
    ) -> None:
        super().__init__(protocol, handler, logger, max_handlers=max_handlers, linger=linger)
        self._lines = LineBuffer(max_line)
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        """Set while the peer reads what is written."""
        self._writable.set()

    # -- in ------------------------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.started()

    @override
    def data_received(self, data: bytes) -> None:
        now, link, receive, tap = self.now(), self._connection_state, self.protocol.receive, self.protocol.tap
        for line in self._lines.feed(data):
            if tap is not None:
                tap.line(line)
            receive(parse(line, batch=link.accepts_batch) if isinstance(line, bytes) else line, now)
        self.process_events()

    @override
    def eof_received(self) -> bool:
        """Handle the end of input: fail the calls in progress; requests that are being handled may finish."""
        self.data_received(b"\n")
        self._fail_calls(ConnectionLost("the peer closed the connection", in_flight=True, retry_safe=False))
        self.process_events()
        self._end_soon(self._linger)
        return True

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def send_messages(self, sends: list[tuple[Channel, bytes]]) -> None:
        if self._transport is not None:
            lines = [message for _, message in sends]
            if (tap := self.protocol.tap) is not None:
                for message in lines:
                    tap.line(message, sent=True)
            self._transport.write(b"\n".join([*lines, b""]))

    @override
    def pause_writing(self) -> None:
        self._writable.clear()
        self.throttle()

    @override
    def resume_writing(self) -> None:
        self._writable.set()
        self.throttle()

    @override
    async def drain(self, channel: Channel = None) -> None:
        await super().drain(channel)
        await self._writable.wait()

    @override
    def throttle(self) -> None:
        pause = self._holds > 0 or (not self._writable.is_set() and not self.protocol.waiting)
        transport = self._transport
        if pause is self._paused or transport is None or transport.is_closing():
            return
        self._paused = pause
        (transport.pause_reading if pause else transport.resume_reading)()

    # -- the end -------------------------------------------------------------------------------------------

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        if not (exc is None or isinstance(exc, ConnectionLost)):
            exc = ConnectionLost(f"the connection ended: {exc}", in_flight=True, retry_safe=False)
        self.ended(exc)

    @override
    async def shut(self) -> None:
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait({self._lost}, timeout=CLOSE)
            if not self._lost.done():
                self._transport.abort()
