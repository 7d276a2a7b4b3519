"""The response to one HTTP request, as JSON or an event stream, and its timeouts (HTTP-6 to 8, HTTP-27, HTTPM-4 to 6, 9).

The format is decided as late as possible. A quick response without preceding messages is JSON, with the HTTP status of
its error. The first message before the response, or a delay, turns it into an event stream. Any task may queue data;
one task at a time writes it, and the task of the request writes the end. A client that reads too slowly is disconnected
(SEC-6).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from mcprev.core.limits import HIGH
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.transports.http.server.access import Access
from mcprev.transports.http.server.body_budget import BodyShare
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.request import JSON_TYPE, Fields, HttpRequest
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import RequestId, encode_batch, encode_error
from mcprev.wire.media import Accept
from mcprev.wire.sse import Event, encode_event, encode_message

MAX_WAITING: Final = 4 * 1024 * 1024
"""The number of unwritten bytes above which the client is disconnected; one message may be larger."""
REQUEST_CANCELLED: Final = -32800
"""The error code of the response to a cancelled request, because HTTP requires a response."""  # AMB-10

_SSE_HEAD: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_JSON_HEAD: Final = (JSON_TYPE,)
HEARTBEAT: Final = b": \n\n"
LOOK: Final = 1.0
"""The maximum number of seconds until a response is looked at again, for example whether its token has expired."""
_logger: Final = logging.getLogger("mcprev.transport.http")


class StreamOpener(Protocol):
    """What knows of the streams of a connection."""

    def opened(self, response_stream: ResponseStream, /) -> bytes:
        """Called when a response becomes a stream; returns the first bytes of it."""
        ...


class StreamOwner(Protocol):
    """The connection that sends messages on a response."""

    @property
    def streams(self) -> StreamOpener:
        """Its streams."""
        ...

    def response_ended(self, response_stream: ResponseStream, /) -> None:
        """Called when the client disconnects before the end of the response."""
        ...


class ReplayStream(Protocol):
    """An event stream that outlives the response that it began on."""

    reader: ResponseStream | None
    """The response that carries it now."""

    def push(self, message: bytes, /) -> None:
        """Send a message to the current reader, and store it for a client that resumes the stream."""
        ...

    def close(self) -> None:
        """End the stream after its last message."""
        ...

    def detach(self, response_stream: ResponseStream, /) -> None:
        """Remove a reader."""
        ...


class ResponseStream:
    """One HTTP request whose response has not been sent completely."""

    fields: Fields = ()
    """The headers of the response beside its type."""
    status: int = 200
    waiting: int = 1
    """The number of JSON-RPC responses to come."""
    batch: bool = False
    on_expired: Callable[[ResponseStream], object] | None = None
    """Ends the stream when the token of its request has expired."""
    request: IncomingRequest | None = None
    """The request that this task serves."""
    cancelled: bool = False
    """Whether this task was cancelled."""
    checking: bool = False
    """Whether the headers are still being checked, see `MessageOrigin`, or those of the response not known yet."""
    replay: ReplayStream | None = None
    started: bool = False
    """Whether the response is an event stream."""
    ended: bool = False
    """Whether nothing can be sent any more."""
    hold: asyncio.Task[None] | None = None
    """What has to be done before the response is sent; the response is refused with what it raises."""
    _size = 0
    _head_sent = _close = _stalled = _watched = False
    _writer: asyncio.Task[None] | None = None
    _wake: asyncio.Future[None] | None = None
    _drained: asyncio.Future[None] | None = None
    _finisher: asyncio.Task[object] | None = None

    def __init__(
        self, settings: HttpSettings, http_request: HttpRequest, owner: StreamOwner, accept: Accept
    ) -> None:
        self._http_request = http_request
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.owner: StreamOwner = owner
        self.principal: str | None = http_request.principal
        """The principal, set by the server's authentication."""
        self._set_access(http_request.access)
        self.share: BodyShare | None = http_request.share
        """The memory of the request body."""
        self.headers: Headers = http_request.headers
        self.task: asyncio.Task[object] | None = http_request.task
        self.streams: bool = accept.sse and not (settings.json_response is True and accept.json)
        """Whether messages can be sent before the response."""
        self.prefers_stream: bool = self.streams and (settings.json_response is False or not accept.json)
        self.answers: list[bytes] = []
        self._out: list[bytes] = []
        self._busy = self._last = self._loop.time()
        self._long = self._busy + settings.defer
        """When the request counts as long."""
        self._timer = self._loop.call_at(min(self._long, self._busy + LOOK), self._tick)

    # -- messages ------------------------------------------------------------------------------------------

    @property
    def carries(self) -> bool:
        """Whether messages can be sent before the response."""
        return self.replay is not None or (self.streams and not self.ended and not self.checking)

    def send(self, message: bytes) -> bool:
        """Send a message before the response; return False if the response cannot be a stream."""
        if carries := self.carries:
            self.start()
            self._send(message)
        return carries

    def answer(self, message: bytes, status: int = 200) -> None:
        """Send a JSON-RPC response; the last one ends the HTTP response."""
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

    def end_cancelled(self, request_id: RequestId) -> None:
        """End a cancelled request; a client that expects JSON gets an error."""  # AMB-10
        if self.started:
            self.waiting -= 1
            if not self.waiting:
                self._complete()
        else:
            error = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
            self.prefers_stream = False
            self.answer(encode_error(request_id, error))

    def end(self) -> None:
        """End the response without further messages."""
        self.waiting = 0
        self._complete()

    def _complete(self) -> None:
        """Close the replay stream, and wake the task in `finish`, which sends the last bytes."""
        if self.replay is not None:
            replay, self.replay = self.replay, None
            replay.close()
        if self._wake is not None:
            _release(self._wake)

    def _send(self, message: bytes) -> None:
        if self.replay is not None:
            self.replay.push(message)
        else:
            self.write(encode_message(message))

    def start(self) -> None:
        """Turn the response into an event stream; it begins with the batch's responses so far."""  # BATCH-7
        if not self.started:
            self.started = True
            self.write(self.owner.streams.opened(self))
            for message in self.answers:
                self._send(message)

    def write(self, data: bytes) -> None:
        """Queue bytes of the stream; disconnect a client that reads too slowly."""
        if self.ended or self._close:
            return
        if self._size > MAX_WAITING:
            self.disconnect()
            return
        self._out.append(data)
        self._size += len(data)
        # The task of the request waits for the last bytes and writes them.
        if self.waiting and self._writer is None:
            self._write_soon()

    async def hang_up(self, retry: int | None) -> bool:
        """Close the connection but not the stream; the client reconnects after `retry` milliseconds.

        Returns False if the connection is closed already or the client cannot reconnect.
        """  # HTTP-17
        if self.ended or self._close or not self.streams:
            return False
        self.start()
        if self.replay is None:
            return False
        if retry is not None:
            self.write(encode_event(Event(retry=retry)))
        self.hand_over()
        if self._writer is not None:
            await asyncio.wait({self._writer})
        return True

    def hand_over(self) -> None:
        """End this response, because another one continues its stream."""  # HTTP-12, HTTP-15
        if not self.ended and not self._close:
            self._close = True
            if self._writer is None:
                self._write_soon()

    # -- writing -------------------------------------------------------------------------------------------

    def _write_soon(self) -> None:
        self._busy = self._loop.time()  # the send timeout starts now, even after a long silence
        self._writer = self._loop.create_task(self._write())

    async def _write(self) -> None:
        """Write until the queue is empty."""
        try:
            await self._send_queued()
            if self._close:
                await self._http_request.end()
                self.disconnect()
        except OSError:
            self.disconnect()
        except Exception:
            # Some HTTP servers raise other errors than OSError if the client has disconnected.
            _logger.warning("a stream could not be written", exc_info=True)
            self.disconnect()
        finally:
            self._writer = None

    async def _send_queued(self) -> None:
        while self._out and not self.ended:
            self._busy = self._loop.time()
            data = b"".join(self._out)
            self._out.clear()
            self._size = 0
            if not self._head_sent:
                self._head_sent = True
                await self._http_request.begin(200, (*_SSE_HEAD, *self.fields), data)
            elif data:
                await self._http_request.write(data)
            self._last = self._loop.time()
            if self._drained is not None and self._size <= HIGH:
                _release(self._drained)

    async def drain(self) -> None:
        """Wait while too many bytes are unwritten, as on pipes, on the response that carries the stream now."""  # STDIO-9
        if (reader := self if self.replay is None else self.replay.reader or self) is not self:
            await reader.drain()
        while self._size > HIGH and not self.ended:
            if self._drained is None or self._drained.done():
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    async def finish(self) -> None:
        """Wait for the end of the response and send it; called by the task of the HTTP server."""
        try:
            if self.waiting and not self.ended:
                self._wake = self._loop.create_future()
                await self._wake
            if self._writer is not None:
                self._wake = None
                await asyncio.wait({self._writer})
            if self.hold is not None:
                await self.hold
            usual = _SSE_HEAD if self.started else _JSON_HEAD
            fields = (*usual, *self.fields) if self.fields else usual
            if not self.ended:
                self._finisher = self.task or asyncio.current_task()
                self._busy = self._loop.time()
                body = b"".join(self._out if self.started else self.answers)
                if self._head_sent:
                    await self._http_request.end(body)
                else:
                    self._head_sent = self.started
                    if self.batch and not self.started:
                        body = encode_batch(self.answers)
                    await self._http_request.answer(self.status, fields, body)
                self._finisher = None
            elif self.started and not self._head_sent:
                # The client was disconnected before the first byte; an HTTP server would log a missing response.
                self._head_sent = True
                await self._http_request.answer(200, fields, b"")
        except OSError:
            self.disconnect()
        except asyncio.CancelledError:
            task = self._finisher
            self.disconnect()
            if not self._stalled or task is None:
                raise
            task.uncancel()
        finally:
            self.ended = True
            self._timer.cancel()
            if self._watched:
                self._watched = False
                self._http_request.unwatch()

    # -- the client ----------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Watch a long request's client, start its stream, fill silence, disconnect a client that does not read."""
        settings, now = self._settings, self._loop.time()
        long = now >= self._long
        if long and self.waiting and not self._watched:
            self._watched = True
            self._http_request.watch(self.disconnect)  # HTTPM-9
        auth = settings.auth
        if (
            self.on_expired is not None
            and auth is not None
            and (now >= self._expired_at or self._expires() <= auth.clock())
        ):  # AUTH-1
            self.on_expired(self)
        if self.ended:
            return
        writing = self._writer is not None or self._finisher is not None
        if writing and now - self._busy >= settings.send_timeout:  # SEC-6
            self._stalled = True
            finisher = self._finisher
            self.disconnect()
            if finisher is not None:
                finisher.cancel()
            return
        if long and self.waiting and self.streams and not (self.started or self.checking):
            self.start()
        elif self._head_sent and not writing and now - self._last >= settings.heartbeat:  # HTTPM-5
            self.write(HEARTBEAT)
        due = now + min(LOOK, settings.heartbeat / 2, settings.send_timeout / 2)
        self._timer = self._loop.call_at(due if long else min(due, self._long), self._tick)

    def renew(self, access: Access) -> None:
        """Replace the token of the request if a later one of the same subject expires later."""
        if self._expires() < (inf if access.expires is None else access.expires):
            self._set_access(access)

    @property
    def client(self) -> str | None:
        """Whose share of a bound the request counts for; see `HttpRequest.client`."""
        return self._http_request.client

    def _set_access(self, access: Access | None) -> None:
        self.access: Access | None = access
        auth = self._settings.auth
        self._expired_at = inf if auth is None else self._loop.time() + self._expires() - auth.clock()
        """When the token expires on the clock of the loop, which nobody can set back."""

    def _expires(self) -> float:
        """Return when the token of the request expires, in seconds since 1970."""
        return inf if self.access is None or self.access.expires is None else self.access.expires

    def disconnect(self) -> None:
        """Handle the disconnection of the client, or disconnect it."""
        if self.ended:
            return
        self._stop()
        if self._writer is not None and self._writer is not asyncio.current_task():
            self._writer.cancel()
        self.owner.response_ended(self)

    def _stop(self) -> None:
        """Discard unsent bytes and refuse further ones, because nothing can be sent to this client any more."""
        self.ended = True
        self._timer.cancel()
        self._out.clear()
        self._size = 0
        _release(self._drained)
        if self.replay is not None:
            self.replay.detach(self)
        _release(self._wake)


def _release(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
