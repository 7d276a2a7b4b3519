"""A server's connection over HTTP: sends messages on the responses of requests (HTTP-12, HTTP-32, HTTPM-4, HTTPM-6).

The task that the HTTP server creates for a request also runs its handler: no other task, queue or future is between a
request and its response. The members of a batch run concurrently, each in its own task. The `origin` of a request
says which HTTP response its messages belong to.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection
from typing import ClassVar, Final, cast

from typing_extensions import override

from mcprev.core.connection import HTTP, Connection
from mcprev.core.interfaces import RequestHandler, client_of
from mcprev.core.limits import LINGER, MAX_HANDLERS
from mcprev.core.shares import free_of, share_of
from mcprev.errors import ConnectionLost, InternalError
from mcprev.protocol.connection_state import (
    Channel,
    Diagnostic,
    IncomingRequest,
    RequestCancelled,
    SessionChanged,
    Unplaced,
)
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.handshake import HandshakeServer
from mcprev.protocol.http_request_class import RETRY_SOON, status_of
from mcprev.protocol.stateless import StatelessServer
from mcprev.transports.http.server.access import AccessRefused
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.wire.jsonrpc import Batch, Malformed, Message, Notification, Request, encode_error

_logger: Final = logging.getLogger("mcprev.transport.http")

COUNTED: Final = 256
"""The requests of each client are counted anew after so many parts of the bound: it takes time."""


def set_origin(message: Request | Notification, origin: object) -> None:
    """Set the HTTP request that a message came with; the response to the message is sent there."""
    object.__setattr__(message, "origin", origin)  # messages are frozen for type checkers only


class Copies:
    """The copies of a session in other processes; here there are none."""

    shared: bool = False
    """Whether there may be any."""
    unsettled: Collection[asyncio.Task[None]] = ()
    """What they have to know before a message is answered."""

    def noted(self, event: SessionChanged | Unplaced | Diagnostic, /) -> bool:
        """Take an event of the engine that concerns them; return False for any other."""
        del event
        return False

    async def settle(self, response_stream: ResponseStream | None = None, /) -> None:
        """Wait until they know what is unsettled. Raises `StoreError` if they cannot."""
        del response_stream

    def ended(self) -> None:
        """Handle the end of the session here; may be called again."""


class Streams:
    """The streams of a connection that last longer than a response; here there are none."""

    copies: Copies = Copies()

    @property
    def resumable(self) -> bool:
        """Whether a client can resume a stream."""  # HTTP-15
        return False

    def opened(self, response_stream: ResponseStream, /) -> bytes:
        """Return the first bytes of the response to a request that becomes a stream."""
        del response_stream
        return b""

    def send(self, message: bytes, /, *, related: bool = False) -> None:
        """Send or drop a message that no stream of a request can carry; `related` messages belong to a request."""
        del related
        _logger.debug("no stream carries a message of %d bytes; it is dropped", len(message))

    def reader(self) -> ResponseStream | None:
        """Return the response that carries messages outside of requests, if any."""
        return None

    def can_reach(self) -> bool:
        """Return whether the client can receive messages outside of requests now."""
        return False

    def has_get(self) -> bool:
        """Return whether the client has a GET stream, or may resume one."""
        return False

    async def drain(self, channel: Channel, /) -> None:
        """Wait while what carries a channel is read too slowly."""
        response_stream = carrier(channel) or self.reader()
        if response_stream is not None:
            await response_stream.drain()

    async def flush(self, response_stream: ResponseStream, /) -> None:
        """Wait until the stream of a request can be resumed, because its connection is to be closed."""
        del response_stream

    async def listen(self, respond: Callable[[], ResponseStream], /) -> ResponseStream | None:
        """Open a GET stream on the response that `respond` begins; return None if there are too many."""  # HTTP-10
        del respond
        return None

    async def resume(
        self, respond: Callable[[], ResponseStream], last_event_id: str, /
    ) -> ResponseStream | None:
        """Resume a stream after an event, on the response that `respond` begins; return None if a required event is lost.

        Required are the responses and server requests of a request's stream, and all events of any other stream.
        """  # HTTP-15, AMB-11
        del respond, last_event_id
        return None

    def ended(self) -> None:
        """Close the streams at the end of the connection; may be called again."""


class AsgiConnection(Connection):
    """The part shared by sessions and the stateless connection."""

    protocol: ServerProtocol
    stateless: ClassVar[bool] = False
    """Whether it serves the stateless requests of all clients."""
    immediate = True
    network = HTTP
    streams: Streams = Streams()
    copies: Copies = Streams.copies
    _sendable = True

    def __init__(
        self,
        protocol: ServerProtocol,
        handler: RequestHandler[Connection],
        logger: logging.Logger,
        *,
        max_handlers: int = MAX_HANDLERS,
    ) -> None:
        super().__init__(protocol, handler, logger, max_handlers=max_handlers)
        self._connection_state.shared = self.stateless
        self._free = free_of(max_handlers) if self.stateless else max_handlers
        """The requests that one client may have; beyond them, it has a share."""
        self.engine: HandshakeServer | StatelessServer = (
            protocol.stateless if self.stateless else protocol.session
        )
        """The engine that processes requests which are not in a batch."""
        self._running = 0
        self._tally = Counter[str | None]()
        """The requests of each client when they were counted last, and those that have begun since."""
        self._until_tally = 0

    # -- in ------------------------------------------------------------------------------------------------

    async def serve(self, request: Request, response_stream: ResponseStream) -> None:
        """Process a request, run its handler in the current task, and send the response."""
        set_origin(request, response_stream)
        self.engine.request(request)
        incoming = self._connection_state.take_request(response_stream)
        if incoming is not None and self._running >= self._free and self._is_full(response_stream.client):
            incoming.fail(InternalError("too many requests in progress"))
            incoming = None
        if incoming is None or self._connection_state.events:
            self.process_events()
        if incoming is None:
            if self.copies.unsettled:
                await self.copies.settle(response_stream)
            await response_stream.finish()
            return
        response_stream.request = incoming
        task = response_stream.task or asyncio.current_task()
        assert task is not None
        self._serving[incoming] = task
        self._running += 1
        try:
            await self._request_handler.handle_request(incoming, self)
        except BaseException as error:
            if not (response_stream.cancelled and isinstance(error, asyncio.CancelledError)):
                del self._serving[incoming]
                incoming.cancel(f"its task ended with {type(error).__name__}")
                response_stream.disconnect()
                raise
        finally:
            self._running -= 1
            self._serving.pop(incoming, None)
            self.process_events()
            response_stream.request = None  # breaks the reference cycle
        if response_stream.cancelled:
            await _undo_cancellation(task)
        await response_stream.finish()

    def _is_full(self, client: str | None) -> bool:
        """Return whether a client has no room for one more request, while few may begin."""  # SEC-6
        most = self._max_handlers
        if self._running >= most or client is None:
            return self._running >= most
        self._until_tally -= 1
        if self._until_tally <= 0:
            self._tally = Counter(map(client_of, self._serving))
            self._until_tally = max(1, most // COUNTED)
        self._tally[client] += 1
        return self._tally[client] > share_of(most)

    async def serve_batch(self, batch: Batch, response_stream: ResponseStream) -> None:
        """Process the members of a batch separately, so that a slow one delays no other."""  # BATCH-4, BATCH-7
        response_stream.batch = True
        broken = [member for member in batch.messages if isinstance(member, Malformed) and member.answer]
        response_stream.waiting = len(broken) + sum(isinstance(member, Request) for member in batch.messages)
        for member in broken:
            error = {"code": member.code, "message": member.message}
            response_stream.answer(encode_error(member.id, error, null_id=True))
        for message in batch.messages:
            if isinstance(message, Request):
                set_origin(message, response_stream)
                self.receive(message)
            else:
                self.receive_unanswered(message, response_stream)
        if self.copies.unsettled:
            await self.copies.settle(response_stream)
        await response_stream.finish()

    def receive(self, message: Message) -> None:
        """Process a message."""
        self.protocol.receive(message, self._loop.time())
        self.process_events()

    def receive_unanswered(self, message: Message | Batch, origin: object = None) -> None:
        """Process a message or batch that gets no response; `origin` is the HTTP request."""
        for member in message.messages if isinstance(message, Batch) else (message,):
            if isinstance(member, Notification):
                set_origin(member, origin)
            if not isinstance(member, Malformed) or member.answer is None:
                self.receive(member)
            else:
                self._connection_state.fail_malformed(member)
                self.process_events()

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def send_messages(self, sends: list[tuple[Channel, bytes]]) -> None:
        for channel, message in sends:
            if isinstance(channel, IncomingRequest):
                response_stream = channel.origin
                if not isinstance(response_stream, ResponseStream):
                    self.streams.send(message)
                elif message is channel.response:
                    # A result always has the same status.
                    status = 200 if channel.code is None else self.status_for(channel.code)
                    if channel.code is not None and not (response_stream.started or response_stream.batch):
                        status = _own_status(channel, response_stream, status)
                    response_stream.answer(message, status)
                elif not response_stream.send(message):
                    self.streams.send(message, related=True)
            elif isinstance(channel, Request) and isinstance(channel.origin, ResponseStream):
                # The fast parser refuses lone surrogates, as in an id.
                error = json.loads(message).get("error")
                status = 200 if error is None else self.status_for(error["code"], pre_dispatch=True)
                channel.origin.answer(message, status)
            else:
                self.streams.send(message)

    def status_for(self, code: int, *, pre_dispatch: bool = False) -> int:
        """Return the HTTP status of an error response; see `status_of`."""
        del code, pre_dispatch
        return 200

    @override
    async def drain(self, channel: Channel = None) -> None:
        await super().drain(channel)
        await self.streams.drain(channel)

    # -- the end of requests -------------------------------------------------------------------------------

    def response_ended(self, response_stream: ResponseStream) -> None:
        """Handle the disconnection of the client of a response."""

    @override
    def on_cancelled(self, event: RequestCancelled) -> None:
        super().on_cancelled(event)
        cast("ResponseStream", event.request.origin).end_cancelled(event.request.id)

    @override
    def cancel_handler(self, incoming: IncomingRequest) -> None:
        response_stream = cast("ResponseStream", incoming.origin)
        if response_stream.request is not incoming:
            super().cancel_handler(incoming)
        elif (task := self._serving.get(incoming)) is not None:
            response_stream.cancelled = True
            task.cancel()

    @override
    async def aclose(self, error: ConnectionLost | None = None, *, linger: float = LINGER) -> None:
        """Let the requests in progress finish within `linger` seconds, then end the connection; may be called again."""
        self.protocol.end()
        self.process_events()
        await self.finish_requests(linger)
        self.ended(error or ConnectionLost("the server is shutting down", in_flight=True, retry_safe=False))
        await asyncio.shield(self.closed)


def _own_status(incoming: IncomingRequest, response_stream: ResponseStream, usual: int) -> int:
    """Return the status of an error that nothing was sent before, with its headers: the client may do something about it."""
    if isinstance(incoming.failure, AccessRefused):  # AUTH-21
        response = incoming.failure.response
        response_stream.fields = (*response_stream.fields, *response.headers)
        return response.status
    if incoming.unserved:
        response_stream.fields = (*response_stream.fields, *RETRY_SOON)
        return 503
    return usual


def carrier(channel: Channel) -> ResponseStream | None:
    """Return the response that carries the messages of a channel before its own, if it can."""
    found = channel.origin if isinstance(channel, IncomingRequest) else None
    return found if isinstance(found, ResponseStream) and found.carries else None


async def _undo_cancellation(task: asyncio.Task[object]) -> None:
    """Undo the cancellation of a task, whether or not its handler noticed it."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    task.uncancel()


class StatelessConnection(AsgiConnection):
    """The connection of all stateless requests; each response is sent on the stream of its own request."""

    stateless = True
    lasting = False

    def end_listening(self, response_stream: ResponseStream) -> None:
        """End the listen stream that a response carries, if any, with its result."""  # SUB-4
        incoming = self._connection_state.incoming.get(response_stream)
        if incoming is not None:
            self.protocol.stateless.end_stream(incoming)
            self.process_events()

    @override
    def status_for(self, code: int, *, pre_dispatch: bool = False) -> int:
        return status_of(code, pre_dispatch=pre_dispatch)

    @override
    def response_ended(self, response_stream: ResponseStream) -> None:
        # A disconnection cancels the request (HTTPM-6).
        incoming = self._connection_state.incoming.get(response_stream)
        if incoming is not None:
            incoming.cancel("the client closed the connection")
            self._loop.call_soon(self.process_events)
