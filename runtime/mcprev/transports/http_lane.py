"""One connection of a client's own: it carries one request and its answer at a time (HTTP-4, HTTP-31, HTTPM-6, SEC-6).

httptools reads the bytes. Whoever asks is told once, when there is something to look at: the head of an answer, all
of it where it is JSON and not long, or that there will be none.

Decided here because HTTP leaves it open:

- The head of an answer, with whatever answers come before the last one, has a bound, as has what surrounds its body.
- A byte that belongs to no answer ends the connection, and is read by nobody.
- An answer that comes before all of its request was sent is the answer; the rest of the request stays here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import httptools
from typing_extensions import override

from mcprev.transports.http_answers import Headers, broken
from mcprev.transports.http_lane_answer import LaneAnswer
from mcprev.transports.pipes import read_in_pieces

if TYPE_CHECKING:
    from mcprev.errors import ConnectionLost
    from mcprev.transports.http_heads import Origin
    from mcprev.transports.http_pool import Pool

MAX_HEAD: Final = 64 * 1024
"""Bytes that a head may have, and what is around a body without a byte of it."""
PIECE: Final = 64 * 1024
"""Bytes of a body that are sent at a time; one of no more goes out with its head."""
_CONTINUE: Final = 100
_OK: Final = 200
_SWITCHING: Final = 101


class Lane(asyncio.Protocol):
    """A connection."""

    def __init__(self, pool: Pool, origin: Origin) -> None:
        self._pool = pool
        self.origin = origin
        """Where it leads."""
        self._parser = httptools.HttpResponseParser(self)
        # What servers in the wild get wrong; where an answer ends is not doubtful for any of it.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self.heard = False
        """Whether a byte came since the last request."""
        self.idle_since = 0.0
        """When it was last put aside."""
        self.answer: LaneAnswer | None = None
        """What answers the last request, once its head is there."""
        self._url = ""
        self._told: Callable[[], None] | None = None
        self._expecting = self._lost = False
        self.spoilt = False
        """Whether it can carry no other request."""
        self._error = ""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._dry = self._size = 0
        self._fed = self._deaf = self._full = False
        self._writable: asyncio.Future[None] | None = None

    # -- requests ------------------------------------------------------------------------------------------

    def ask(self, url: str, data: bytes, told: Callable[[], None]) -> None:
        """Send a request, or the beginning of one. `told` is called once, unless the connection is closed before."""
        self._url, self._told = url, told
        self._expecting, self.heard, self._dry = True, False, 0
        self.answer = None
        self._transport.write(data)

    async def pour(self, body: bytes) -> None:
        """Send the body of a request, no faster than the server reads it, unless it answers before."""
        view = memoryview(body)
        for start in range(0, len(view), PIECE):
            if self._told is None or self._lost:
                self.spoilt = True
                return
            self._transport.write(view[start : start + PIECE])
            if self._full:
                self._writable = asyncio.get_running_loop().create_future()
                await self._writable

    def result(self) -> LaneAnswer:
        """What `told` was about. Raises `ConnectionLost`."""
        if self.answer is None:
            raise self.error()
        return self.answer

    def error(self) -> ConnectionLost:
        """What became of the connection."""
        return broken(self._url, self._error)

    def close(self) -> None:
        """End it, in good order if nothing is under way; whoever waits is told."""
        # What a server has not read of a request that it answered, it may never read.
        if self._told is None and self.answer is None and not self._transport.get_write_buffer_size():
            self.spoilt = True
            self._transport.close()
        else:
            self.abort()

    def abort(self) -> None:
        """End it at once."""
        self.spoilt = True
        self._transport.abort()

    def cancel(self) -> None:
        """End it at once, and tell nobody."""
        self._told = None
        self.abort()

    def resume(self) -> None:
        """Read on, if nothing was read for a while."""
        if self._deaf and not self._lost:
            self._deaf = False
            self._transport.resume_reading()

    # -- the transport -------------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        read_in_pieces(transport)
        self._pool.opened(self)

    @override
    def data_received(self, data: bytes) -> None:
        if self.answer is not None and self.answer.complete:
            self._fail("it says more than it was asked")
            return
        self.heard, self._fed, self._size = True, False, len(data)
        known = 0 if self.answer is None else len(self.answer.parts)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(self._error or f"this is no HTTP: {error}")
            return
        answer = self.answer
        if not self._fed and (answer is None or not answer.complete):
            self._dry += len(data)
            if self._dry > MAX_HEAD or not (answer or self._expecting):
                self._fail(f"more than {MAX_HEAD} bytes around what it says")
                return
        if answer is not None:
            if answer.complete and not answer.ends_with(data):
                self.spoilt = True
            if len(answer.parts) > known + 1:
                # Small chunks take many times what they say.
                answer.parts[known:] = [b"".join(answer.parts[known:])]
            self._tell(answer)

    @override
    def eof_received(self) -> None:
        self.spoilt = True
        answer = self.answer
        if answer is not None and answer.until_eof and not answer.complete:
            answer.complete = True
            self._tell(answer)
        elif self._told is not None or (answer is not None and not answer.complete):
            # Not left to the transport, which would wait until all of the request is read.
            self._fail("the server closed it")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = self.spoilt = True
        self._pool.gone(self)
        self._write_on()
        self._fail(str(exc or "") or (type(exc).__name__ if exc is not None else "the server closed it"))
        # The parser would otherwise wait for the garbage collector.
        del self._parser

    @override
    def pause_writing(self) -> None:
        self._full = True

    @override
    def resume_writing(self) -> None:
        self._full = False
        self._write_on()

    def _write_on(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def _fail(self, why: str) -> None:
        """Nothing more will come."""
        self.spoilt = True
        if not self._lost:
            self._transport.abort()
        answer = self.answer
        if self._told is None and (answer is None or answer.complete):
            return
        self._error = self._error or why
        if answer is not None:
            answer.lost = not answer.complete
            self._tell(answer, at_last=True)
        elif self._told is not None:
            told, self._told = self._told, None
            told()

    def _tell(self, answer: LaneAnswer, *, at_last: bool = False) -> None:
        """Say what there is now."""
        if answer.gathers and not (answer.complete or at_last or answer.unread > answer.room):
            return
        told, self._told = self._told, None
        if told is None:
            answer.rouse()
        else:
            told()
            if self._writable is not None:
                self._write_on()

    # -- what the parser finds -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer begins; it has to be to something."""
        if not self._expecting:
            raise ValueError("nothing was asked")
        self._pairs, self._reason = [], b""

    def on_status(self, status: bytes) -> None:
        """What its status means."""
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or one behind the body, of which none is of use here."""
        if b"\0" in value:
            self._error = "a NUL in a header"
            raise ValueError(self._error)
        self._pairs.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Its head is there; others come before the one that counts."""
        status = self._parser.get_status_code()
        if status < _OK:
            if status == _SWITCHING:
                self._error = "it wants to speak another protocol"
            elif status < _CONTINUE:
                self._error = f"there is no status {status}"
            if self._error:
                raise ValueError(self._error)
            return
        if self._dry + self._size > MAX_HEAD and sum(map(_length, self._pairs)) > MAX_HEAD:
            self._error = f"a head of more than {MAX_HEAD} bytes"
            raise ValueError(self._error)
        self._expecting, self._dry = False, 0
        headers = Headers(self._pairs)
        self._pairs = []
        if b"set-cookie" in headers.found:
            self._pool.learn(self._url, headers.all("Set-Cookie"))
        self.answer = LaneAnswer(self, self._url, status, self._reason, headers, self._pool.room)

    def on_body(self, data: bytes) -> None:
        """A part of its body."""
        self._fed, self._dry = True, 0
        answer = self.answer
        if answer is None:
            return
        answer.parts.append(data)
        answer.unread += len(data)
        if answer.unread > answer.room and not self._deaf:
            self._deaf = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """All of it is there."""
        if self.answer is not None:
            self.answer.complete = True
            self.answer.keep = self._parser.should_keep_alive()  # which a trailer can change

    def put_back(self, answer: LaneAnswer) -> None:
        """An answer is done with."""
        if self.answer is not answer:
            return
        if answer.complete and answer.keep and not self.spoilt:
            self.answer = None
            if self._deaf:
                self.resume()
            self._pool.put(self)
        else:
            if answer.complete:
                self.answer = None
            self.close()


def _length(pair: tuple[bytes, bytes]) -> int:
    return len(pair[0]) + len(pair[1]) + 4
