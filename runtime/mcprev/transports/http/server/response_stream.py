"""The answer to one HTTP request: JSON or an event stream, decided as late as possible (HTTP-6 to 8, HTTPM-4 to 6, HTTPM-9).

While nothing has been sent the status is open: an answer that comes soon and alone is JSON with the status of its
error. With the first message ahead of the answer, or after a while, the answer becomes a stream. What is to be
written is queued by whoever has it and written by one task at a time; the task of its request writes the end.
A reader who is too slow is let go instead of being waited for without bound (SEC-6).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from mcprev.protocol.connection_state import IncomingRequest
from mcprev.transports.http.server.request import JSON_TYPE, Fields, HttpRequest
from mcprev.wire.jsonrpc import RequestId, encode_error
from mcprev.wire.media import Accept
from mcprev.wire.sse import encode_message, encode_retry

HIGH: Final = 64 * 1024
"""Bytes that wait to be written before a handler that writes more has to wait."""
MAX_WAITING: Final = 4 * 1024 * 1024
"""Bytes that wait to be written before the reader is let go; one message may be larger."""
REQUEST_CANCELLED: Final = -32800
"""The code of the answer to a request that was cancelled, where HTTP wants an answer all the same (AMB-10)."""

_SSE_HEAD: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_JSON_HEAD: Final = (JSON_TYPE,)
KEEP_ALIVE: Final = b": \n\n"
_logger: Final = logging.getLogger("mcprev.transport.http")


class StreamOwner(Protocol):
    """The connection whose messages an exchange carries."""

    def opened(self, response_stream: ResponseStream, /) -> bytes:
        """It became a stream; give what comes before everything else."""
        ...

    def left(self, response_stream: ResponseStream, /) -> None:
        """Its client is gone, for good or for now, although it has not been answered."""
        ...


class ReplayStream(Protocol):
    """A stream that outlives the exchange it began on."""

    def push(self, message: bytes, /) -> None:
        """Send a message to whoever reads now, and keep it for who comes back."""
        ...

    def close(self) -> None:
        """The last message was sent."""
        ...

    def detach(self, response_stream: ResponseStream, /) -> None:
        """This one reads no longer."""
        ...


class ResponseStream:
    """One HTTP request whose answer is still to be sent, or is being sent."""

    __slots__ = (
        "_busy",
        "_close",
        "_drained",
        "_finisher",
        "_head_sent",
        "_http_request",
        "_last",
        "_out",
        "_size",
        "_stalled",
        "_wake",
        "_watched",
        "_writer",
        "access",
        "answers",
        "batch",
        "began",
        "cancelled",
        "ended",
        "headers",
        "inline",
        "owner",
        "prefers_stream",
        "principal",
        "replay",
        "request",
        "share",
        "started",
        "status",
        "streams",
        "task",
        "waiting",
    )  # fmt: skip

    def __init__(
        self,
        http_request: HttpRequest,
        owner: StreamOwner,
        began: float,
        *,
        accept: Accept,
        json_response: bool | None = None,
    ) -> None:
        """`json_response` decides the format where the client leaves the choice; None decides by what happens."""
        self._http_request = http_request
        self.owner = owner
        self.began = began
        self.principal = http_request.principal
        """Who asks, as the server's authentication has it."""
        self.access = http_request.access
        self.share = http_request.share
        """What its body takes of the memory for all bodies."""
        self.streams = accept.sse and not (json_response is True and accept.json)
        """Whether messages can be sent ahead of the answer."""
        self.prefers_stream = self.streams and (json_response is False or not accept.json)
        self.headers: Fields = ()
        """What the answer says beside its type."""
        self.status = 200
        self.waiting = 1
        """How many answers are to come."""
        self.batch = False
        self.task = http_request.task
        self.inline = True
        """Whether its request is served by the task that the HTTP server runs for it."""
        self.request: IncomingRequest | None = None
        """The request that is served like that."""
        self.cancelled = False
        """Whether that task was asked to stop."""
        self.answers: list[bytes] = []
        self.replay: ReplayStream | None = None
        self.started = False
        """Whether it is a stream."""
        self.ended = False
        """Whether nothing can be sent any more."""
        self._out: list[bytes] = []
        self._size = 0
        self._busy = self._last = began
        self._head_sent = self._close = self._stalled = self._watched = False
        self._writer: asyncio.Task[None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._finisher: asyncio.Task[object] | None = None

    # -- what is to be sent --------------------------------------------------------------------------------

    def send(self, message: bytes) -> bool:
        """Send a message ahead of the answer; False where there is no stream it could go to."""
        if self.replay is None:
            if self.ended or not self.streams:
                return False
            self.start()
        self._send(message)
        return True

    def answer(self, message: bytes, status: int = 200) -> None:
        """Send an answer; the last one ends the exchange."""
        self.waiting -= 1
        if self.prefers_stream and not self.started and status == 200 and not self.ended:
            self.start()
        if self.started:
            self._send(message)
        else:
            self.answers.append(message)
            self.status = status
        if not self.waiting and (self.replay is not None or self._wake is not None):
            self._complete()

    def cancelled_request(self, request_id: RequestId) -> None:
        """A request will not be answered; the client that waits for JSON is told so (AMB-10)."""
        if self.started:
            self.waiting -= 1
            if not self.waiting:
                self._complete()
        else:
            error = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
            self.prefers_stream = False
            self.answer(encode_error(request_id, error))

    def end(self) -> None:
        """Nothing more will come."""
        self.waiting = 0
        self._complete()

    def _complete(self) -> None:
        if self.replay is not None:
            tape, self.replay = self.replay, None
            tape.close()
        if self._wake is not None:
            _release(self._wake)

    def _send(self, message: bytes) -> None:
        if self.replay is not None:
            self.replay.push(message)
        else:
            self.write(encode_message(message))

    def start(self) -> None:
        """Become a stream; the answers to some members of an array may be there already (BATCH-7)."""
        if not self.started:
            self.started = True
            self.write(self.owner.opened(self))
            for message in self.answers:
                self._send(message)

    def write(self, data: bytes) -> None:
        """Queue bytes of the stream. Who has not read what was sent long before is let go."""
        if self.ended or self._close:
            return
        if self._size > MAX_WAITING:
            self.disconnect()
            return
        self._out.append(data)
        self._size += len(data)
        # The last bytes are written by the task that waits for them to be there.
        if self.waiting and self._writer is None:
            self._write_soon()

    async def hang_up(self, retry: int | None) -> bool:
        """Close the connection and not the stream: its client comes back for the rest, in some milliseconds (HTTP-17).

        False where that is done already or cannot be.
        """
        if self.ended or self._close or not self.streams:
            return False
        self.start()
        if self.replay is None:
            return False
        if retry is not None:
            self.write(encode_retry(retry))
        self._close = True
        if self._writer is None:
            self._write_soon()
        if self._writer is not None:
            await asyncio.wait({self._writer})
        return True

    def hand_over(self) -> None:
        """Somebody else takes its stream up: it ends, and what it carries goes on there (HTTP-12, HTTP-15)."""
        if not self.ended and not self._close:
            self._close = True
            if self._writer is None:
                self._write_soon()

    # -- sending -------------------------------------------------------------------------------------------

    def _write_soon(self) -> None:
        loop = asyncio.get_running_loop()
        self._busy = loop.time()  # it has not been waited for yet, however long nothing was written
        self._writer = loop.create_task(self._write())

    async def _write(self) -> None:
        """Write until nothing is left."""
        try:
            await self._send_queued()
            if self._close:
                await self._http_request.end()
                self._hung_up()
        except OSError:
            self.disconnect()
        except Exception:
            # Not every HTTP server says with an OSError that a client is gone.
            _logger.warning("a stream could not be written", exc_info=True)
            self.disconnect()
        finally:
            self._writer = None

    async def _send_queued(self) -> None:
        loop = asyncio.get_running_loop()
        while self._out and not self.ended:
            self._busy = loop.time()
            data = self._take()
            if not self._head_sent:
                self._head_sent = True
                await self._http_request.begin(200, (*_SSE_HEAD, *self.headers), data)
            elif data:
                await self._http_request.write(data)
            self._last = loop.time()
            if self._drained is not None and self._size <= HIGH:
                _release(self._drained)

    def _take(self) -> bytes:
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        self._size = 0
        return data

    async def drain(self) -> None:
        """Wait while much is waiting to be written (STDIO-9 says the same of pipes)."""
        while self._size > HIGH and not self.ended:
            if self._drained is None or self._drained.done():
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def settle(self) -> bool:
        """Send all of the answer at once; False where that has to be waited for."""
        if self.waiting or self._writer is not None or self._head_sent or self.ended:
            return False
        fields = self._fields() if self.started or self.headers else _JSON_HEAD
        if not self._http_request.reply(self.status, fields, self._whole()):
            return False
        self._over()
        return True

    async def finish(self) -> None:
        """Wait until everything is there and send it; the task of the HTTP server ends with this."""
        try:
            await self._finish()
        finally:
            self._over()

    def _over(self) -> None:
        self.ended = True
        if self._watched:
            self._watched = False
            self._http_request.unwatch()

    async def _finish(self) -> None:
        try:
            if self.waiting and not self.ended:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
            if self._writer is not None:
                self._wake = None
                await asyncio.wait({self._writer})
            if not self.ended:
                await self._send_last()
            elif self.started and not self._head_sent:
                # Let go before its first byte: an HTTP server takes silence for an accident of the app.
                self._head_sent = True
                await self._http_request.answer(200, self._fields(), b"")
        except OSError:
            self.disconnect()
        except asyncio.CancelledError:
            task = self._finisher
            self.disconnect()
            if not self._stalled or task is None:
                raise
            task.uncancel()

    async def _send_last(self) -> None:
        task = self._finisher = self.task or asyncio.current_task()
        assert task is not None
        self._busy = task.get_loop().time()
        if self._head_sent:
            await self._http_request.end(self._take() if self._out else b"")
        else:
            self._head_sent = self.started
            await self._http_request.answer(self.status, self._fields(), self._whole())
        self._finisher = None

    def _fields(self) -> Fields:
        usual = _SSE_HEAD if self.started else _JSON_HEAD
        return (*usual, *self.headers) if self.headers else usual

    def _whole(self) -> bytes:
        if self.started:
            return self._out[0] if len(self._out) == 1 else b"".join(self._out)
        if self.batch:
            return b"[%b]" % b",".join(self.answers)
        return self.answers[0] if self.answers else b""

    # -- the client ----------------------------------------------------------------------------------------

    def watch_client(self) -> None:
        """It takes a while: watch whether the client is still there, and let it have a stream (HTTPM-9)."""
        if self.ended or not self.waiting:
            return
        if not self._watched:
            self._watched = True
            self._http_request.watch(self.disconnect)
        if self.streams:
            self.start()

    def tick(self, now: float, keep_alive: float, stall: float) -> None:
        """Keep a silent stream open, and let a reader go who takes nothing (HTTPM-5, SEC-6)."""
        writing = self._writer is not None or self._finisher is not None
        if writing and now - self._busy >= stall:
            self._stalled = True
            finisher = self._finisher
            self.disconnect()
            if finisher is not None:
                finisher.cancel()
        elif self._head_sent and not writing and now - self._last >= keep_alive:
            self.write(KEEP_ALIVE)

    def disconnect(self) -> None:
        """The client is gone, or has to be."""
        if self.ended:
            return
        self._end()
        if self._writer is not None and self._writer is not asyncio.current_task():
            self._writer.cancel()
        self.owner.left(self)

    def _hung_up(self) -> None:
        self._end()
        self.owner.left(self)

    def _end(self) -> None:
        self.ended = True
        self._out.clear()
        self._size = 0
        if self._drained is not None:
            _release(self._drained)
        if self.replay is not None:
            self.replay.detach(self)
        self._rouse()

    def _rouse(self) -> None:
        if self._wake is not None:
            _release(self._wake)


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
