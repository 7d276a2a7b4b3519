"""A server's connection over HTTP, whose messages go out on the answers of requests (HTTP-12, HTTP-32, HTTPM-4, HTTPM-6).

The task that the HTTP server has for a request also runs its handler: no other task, queue or future is between a
request and its answer. The members of an array, of which one task could run only one at a time, get tasks of their
own. Which exchange a message belongs to is said by the `origin` of the request that it belongs to.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import cast

from typing_extensions import override

from mcprev.driver import LINGER, MAX_HANDLERS, Connection, RequestHandler
from mcprev.errors import ConnectionLost, InternalError
from mcprev.protocol.http_verdicts import status_of
from mcprev.protocol.link import RequestCancelled, Channel, Event, IncomingRequest, NotificationReceived
from mcprev.protocol.sides import ServerProtocol
from mcprev.transports.exchange import ResponseStream
from mcprev.wire.jsonrpc import Batch, Malformed, Message, Notification, Request, encode_error


def from_here(message: Request | Notification, origin: object) -> None:
    """Say which way a message came in, which is also the way out of a request's answer."""
    object.__setattr__(message, "origin", origin)  # a message is frozen for everyone but who made it


class AsgiConnection(Connection):
    """What one session and all requests without one have in common."""

    side: ServerProtocol

    def __init__(
        self, side: ServerProtocol, desk: RequestHandler, logger: logging.Logger, *, max_handlers: int = MAX_HANDLERS
    ) -> None:
        super().__init__(side, desk, logger, max_handlers=max_handlers)
        self._sendable = True
        self._running = 0

    # -- in ------------------------------------------------------------------------------------------------

    async def serve(self, request: Request, exchange: ResponseStream) -> None:
        """Take a request, serve it in this very task, and answer it."""
        object.__setattr__(request, "origin", exchange)  # a message is frozen for everyone but who made it
        self.receive(request)
        inbound = exchange.request
        if inbound is None:
            await exchange.finish()
            return
        task = inbound.handle = exchange.task or asyncio.current_task()
        self._running += 1
        try:
            await self._request_handler.handle_request(inbound, self)
        except asyncio.CancelledError:
            if not exchange.cancelled:
                inbound.handle = None
                inbound.engine.cancel_request(inbound, "the HTTP server gave the request up")
                raise
        finally:
            self._running -= 1
            self.process_events()
            exchange.request = None  # the two would keep each other
        if exchange.cancelled and task is not None:
            await _calm(task)
        if not exchange.settle():
            await exchange.finish()

    async def serve_batch(self, batch: Batch, exchange: ResponseStream) -> None:
        """Take the members of an array, each by itself: one that is slow delays no other (BATCH-4, BATCH-7)."""
        exchange.batch, exchange.inline = True, False
        broken = [member for member in batch.messages if isinstance(member, Malformed) and member.answer]
        exchange.waiting = len(broken) + sum(isinstance(member, Request) for member in batch.messages)
        for member in broken:
            error = {"code": member.code, "message": member.message}
            exchange.answer(encode_error(member.id, error, null_id=True))
        for message in batch.messages:
            if isinstance(message, Request):
                from_here(message, exchange)
                self.receive(message)
            else:
                self.hear(message, exchange)
        await exchange.finish()

    def receive(self, message: Message) -> None:
        """Take a message in."""
        self.side.receive(message, self._loop.time())
        self.process_events()

    def hear(self, message: Message | Batch, origin: object = None) -> None:
        """Take in what wants no answer, and nothing else. `origin` is where it came in."""
        for member in message.messages if isinstance(message, Batch) else (message,):
            if isinstance(member, Notification):
                from_here(member, origin)
            if not isinstance(member, Malformed) or member.answer is None:
                self.receive(member)
            elif self._connection_state.broken(member):
                self.process_events()

    @override
    def process_events(self) -> None:
        # What is sent is only put where it is to be written from, so there is nothing to be won by waiting.
        link = self._connection_state
        while link.events:
            events: list[Event] = link.events
            link.events = []
            for event in events:
                self._on[event.__class__](event)
        if link.sends:
            self._flush()

    @override
    def _admit(self, event: IncomingRequest | NotificationReceived) -> None:
        exchange = event.origin if isinstance(event, IncomingRequest) else None
        if not isinstance(exchange, ResponseStream) or not exchange.inline or not isinstance(event, IncomingRequest):
            super()._admit(event)
        elif self._running < self._max_handlers:
            exchange.request = event
        else:
            event.engine.fail(event, InternalError("too many requests in progress"))

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def _send(self, sends: list[tuple[Channel, bytes]]) -> None:
        for channel, message in sends:
            if isinstance(channel, IncomingRequest):
                exchange = channel.origin
                if not isinstance(exchange, ResponseStream):
                    self._stray(message)
                elif message is channel.response:
                    # A result always has the same status.
                    exchange.answer(message, 200 if channel.code is None else self._status(channel.code))
                elif not exchange.send(message):
                    self._stray(message, related=True)
            elif isinstance(channel, Request) and isinstance(channel.origin, ResponseStream):
                channel.origin.answer(message, self._status_unserved(message))
            else:
                self._stray(message)

    def _status(self, code: int) -> int:
        """The HTTP status of an error that a handler answered."""
        del code
        return 200

    def _status_unserved(self, message: bytes) -> int:
        """The HTTP status of an answer that no handler was asked for."""
        del message
        return 200

    def _stray(self, message: bytes, *, related: bool = False) -> None:
        """A message that has no stream of a request to go to, although it may be related to one."""
        del related
        self.logger.debug("there is no stream for a message of %d bytes", len(message))

    @override
    async def drain(self, channel: Channel = None) -> None:
        exchange = channel.origin if isinstance(channel, IncomingRequest) else None
        if isinstance(exchange, ResponseStream):
            await exchange.drain()

    @override
    async def hang_up(self, inbound: IncomingRequest, retry: float | None) -> bool:
        exchange = inbound.origin
        if not isinstance(exchange, ResponseStream) or not inbound.open or not self._can_return():
            return False
        return await exchange.hang_up(None if retry is None else round(retry * 1000))

    def _can_return(self) -> bool:
        """Whether clients know how to come back to a stream whose connection was closed."""
        return False

    # -- requests that end otherwise -----------------------------------------------------------------------

    def opened(self, exchange: ResponseStream) -> bytes:
        """An answer becomes a stream; what is to come first on it."""
        del exchange
        return b""

    def left(self, exchange: ResponseStream) -> None:
        """The client of an exchange is gone."""

    @override
    def _on_cancelled(self, event: RequestCancelled) -> None:
        super()._on_cancelled(event)
        cast("Exchange", event.request.origin).cancelled_request(event.request.id)

    @override
    def _cancel_handler(self, inbound: IncomingRequest) -> None:
        exchange = cast("Exchange", inbound.origin)
        if exchange.request is not inbound:
            super()._cancel_handler(inbound)
            return
        task: object = inbound.handle
        if isinstance(task, asyncio.Task):
            exchange.cancelled = True
            task.cancel()

    @override
    async def aclose(self, error: ConnectionLost | None = None, *, linger: float = LINGER) -> None:
        """Let the requests in progress finish within `linger` seconds, then end the connection; may be called again."""
        self.side.end()
        self.process_events()
        await self.finish_requests(linger)
        self.ended(error or ConnectionLost("the server stops", in_flight=True, retry_safe=False))
        await asyncio.shield(self.closed)


async def _calm(task: asyncio.Task[object]) -> None:
    """Take back a cancellation of ours, also where the handler ended without noticing it."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    task.uncancel()


class StatelessConnection(AsgiConnection):
    """The one connection of all requests that describe themselves: each client's answer is on its own exchange."""

    def __init__(
        self, side: ServerProtocol, desk: RequestHandler, logger: logging.Logger, *, max_handlers: int = MAX_HANDLERS
    ) -> None:
        super().__init__(side, desk, logger, max_handlers=max_handlers)
        self._connection_state.shared = True

    @override
    def receive(self, message: Message) -> None:
        stateless = self.side.stateless
        if isinstance(message, Request):
            stateless.request(message)
        elif isinstance(message, Notification):
            stateless.notification(message)
        self.process_events()

    def end_listening(self, exchange: ResponseStream) -> None:
        """End the listen stream of an exchange in good order, if it has one (SUB-4)."""
        inbound = self._connection_state.inbound.get(exchange)
        if inbound is not None:
            self.side.stateless.end_stream(inbound)
            self.process_events()

    @override
    def _status(self, code: int) -> int:
        return status_of(code, pre_dispatch=False)

    @override
    def _status_unserved(self, message: bytes) -> int:
        error = json.loads(message).get("error")  # the fast parser refuses lone surrogates, as in an id
        return 200 if error is None else status_of(error["code"], pre_dispatch=True)

    @override
    def left(self, exchange: ResponseStream) -> None:
        # The end of the stream is how its request is cancelled (HTTPM-6).
        inbound = self._connection_state.inbound.get(exchange)
        if inbound is not None:
            inbound.engine.cancel_request(inbound, "the client closed the connection")
            self._loop.call_soon(self.process_events)
