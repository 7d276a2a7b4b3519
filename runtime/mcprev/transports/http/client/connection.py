"""A client's connection over HTTP, which sends each message by a POST of its own (HTTP-5, HTTPM-2, CANC-7, HTTPM-6, SSE-3).

Calls go out side by side, each in a task of its own; ending that task gives the call up. What stands in an order for
the server, reports and the answer of one of its requests, or notifications, goes out one after the other; nothing
overtakes `notifications/initialized`, for servers in the wild refuse what comes before it (LIFE-8). How a message
travels and where its answer comes is the transport's: `http_streamable` or `sse_legacy_client`. Every wait has a bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol, cast

from typing_extensions import override

from mcprev.core.connection import Connection, RequestHandler
from mcprev.core.limits import CLOSE
from mcprev.errors import ConnectionLost, McpError
from mcprev.protocol.connection_state import (
    CallCancelled,
    CallCompleted,
    CallFailed,
    Channel,
    IncomingRequest,
    SessionOpened,
)
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.pending_calls import Call, PendingCalls
from mcprev.transports.http.client.session import HttpSession
from mcprev.transports.http.client.timeouts import PausableTimeouts
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import Batch, Notification

ASIDE: Final = 30.0
"""Seconds that a server gets to take what it does not answer."""
GRACE: Final = 5.0
"""Seconds that the stream of a call may go on that was cancelled by a message; a server ends it by itself (AMB-10)."""
CANCELLED: Final = "notifications/cancelled"
logger: Final = logging.getLogger("mcprev.client")


class HttpTransport(Protocol):
    """How messages travel over one kind of HTTP transport. It gets its `HttpConnection` when it is made."""

    async def open(self, seconds: float) -> None:
        """Get ready to send, within a number of seconds. Raises `TransportError` or `RemoteProtocolError`."""
        ...

    async def exchange(self, call: Call, message: bytes) -> None:
        """Send a call and see to it that it is answered. Raises `McpError` for what fails it."""
        ...

    async def tell(self, message: bytes, *, no_login: bool) -> None:
        """Send what has no answer; nobody has to log in for what is `shy`. Raises `McpError`."""
        ...

    def confirmed(self) -> None:
        """The server knows that the session is open."""
        ...

    def answered(self, event: CallCompleted) -> None:
        """A call is answered; called before whoever waits for it is told."""
        ...

    def exchange_over(self) -> None:
        """One exchange is over."""
        ...

    async def farewell(self) -> None:
        """End the session on the server, within bounded time."""
        ...


class HttpConnection(Connection):
    """Connects the engine of a client with a transport over HTTP."""

    at_once = True

    def __init__(
        self,
        protocol: ClientProtocol,
        handler: RequestHandler,
        requests: HttpSession,
        transport: Callable[[HttpConnection], HttpTransport],
    ) -> None:
        super().__init__(protocol, handler, logger, linger=0)
        self.client_side = protocol
        self.requests = requests
        self.timeouts = PausableTimeouts(protocol.connection.calls, self._arm)
        self._exchanges: dict[Call, asyncio.Task[None]] = {}
        """What runs for each call that is open."""
        self._tails: dict[IncomingRequest | None, asyncio.Task[None]] = {}
        """The last message that was sent for a request of the server's, or for none."""
        self._asides: set[asyncio.Task[None]] = set()
        self._others: set[asyncio.Task[Any]] = set()
        self._confirming = False
        self._gate: asyncio.Task[None] | None = None
        """Calls are sent once it is done."""
        self._transport = transport(self)

    async def open(self, seconds: float) -> None:
        """Get ready to send. Raises `TransportError` or `RemoteProtocolError`."""
        await self._transport.open(seconds)
        self._sendable = True
        self.process_events()

    # -- for transports ------------------------------------------------------------------------------------

    @property
    def calls(self) -> PendingCalls:
        """The calls that are open."""
        return self._connection_state.calls

    @property
    def idle(self) -> bool:
        """Whether nothing is under way on a connection that has not ended."""
        return not self._exchanges and self.error is None and not self.client_side.waiting

    def take(self, data: bytes) -> None:
        """Hand a message of the server's to the engine; the members of an array by themselves (BATCH-1).

        `pump` has to follow.
        """
        link, now = self._connection_state, self.now()
        message = jsonrpc.parse(data, batch=link.accepts_batch)
        if isinstance(message, Batch):
            for member in message.messages:
                self.client_side.receive(member, now)
        else:
            self.client_side.receive(message, now)

    def run_aside(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something until the connection is closed."""
        task = self._loop.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    def hold_calls(self, task: asyncio.Task[None]) -> None:
        """Send no call before a task is done."""
        self._gate = task
        task.add_done_callback(self._open_gate)

    def _open_gate(self, task: asyncio.Task[None]) -> None:
        if self._gate is task:
            self._gate = None

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def _send(self, sends: list[tuple[Channel, bytes]]) -> None:
        calls = self._connection_state.calls
        for channel, message in sends:
            if not isinstance(channel, Call):
                self._send_aside(channel, message)
            elif channel in calls:
                self.timeouts.stop(channel)
                self._exchanges[channel] = self._loop.create_task(self._exchange(channel, message))

    async def _exchange(self, call: Call, message: bytes) -> None:
        """Send a call; whoever waits for it must not wait in vain, whatever is wrong here."""
        try:
            while self._gate is not None:
                await asyncio.wait({self._gate})
            await self._transport.exchange(call, message)
        except McpError as error:
            self._fail(call, error)
        except Exception:
            self.logger.exception("'%s' could not be sent", call.method)
            self._fail(call, ConnectionLost("the exchange failed", in_flight=True, retry_safe=False))
        finally:
            self._over(call)

    def _fail(self, call: Call, error: McpError) -> None:
        """A call has failed, if it is still open."""
        if call in self._connection_state.calls:
            self._connection_state.calls.close(call.id)
            self._connection_state.events.append(CallFailed(call, error))
            self.process_events()

    def _over(self, call: Call, _task: asyncio.Task[None] | None = None) -> None:
        if self._exchanges.pop(call, None) is not None:
            self._transport.exchange_over()

    def _end_exchange(self, call: Call) -> None:
        """Want nothing more of a call."""
        exchange = self._exchanges.get(call)
        if exchange is not None:
            # A task that is cancelled before its first step does not get to its `finally`.
            exchange.add_done_callback(partial(self._over, call))
            exchange.cancel()

    def _send_aside(self, channel: Channel, message: bytes) -> None:
        ordered = channel is None or isinstance(channel, IncomingRequest)
        key = cast("IncomingRequest | None", channel)
        before = self._tails.get(key) if ordered else None
        task = self._loop.create_task(self._deliver(message, before))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
        if ordered:
            self._tails[key] = task
            task.add_done_callback(lambda done: self._untie(key, done))
        if channel is None and self._confirming:
            self._confirming = False
            self.hold_calls(task)
            task.add_done_callback(self._confirmed)

    def _untie(self, key: IncomingRequest | None, task: asyncio.Task[None]) -> None:
        if self._tails.get(key) is task:
            del self._tails[key]

    def _confirmed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and self.error is None:
            self._transport.confirmed()

    async def _deliver(self, message: bytes, before: asyncio.Task[None] | None) -> None:
        try:
            async with self.timeouts.bound(ASIDE):
                if before is not None:
                    await asyncio.wait({before})
                await self._transport.tell(
                    message, no_login=self.requests.login is not None and _is_notice(message)
                )
        except (McpError, TimeoutError) as error:
            self.logger.warning("the server did not take %.100r: %s", message, error)

    @override
    async def drain(self, channel: Channel = None) -> None:
        tail = self._tails.get(channel) if isinstance(channel, IncomingRequest) else None
        if tail is not None:
            await asyncio.wait({tail})

    @override
    def _on_opened(self, event: SessionOpened) -> None:
        super()._on_opened(event)
        # What the engine sends next by itself confirms the session.
        self._confirming = True

    @override
    def _on_completed(self, event: CallCompleted) -> None:
        self._transport.answered(event)
        super()._on_completed(event)

    @override
    def _on_call_cancelled(self, event: CallCancelled) -> None:
        login = self.requests.login
        # The server has not taken in what waits for somebody to log in.
        left = login is not None and self._exchanges.get(event.call) in login.waiting
        if self.client_side.agreed and not self.client_side.revision.disconnect_cancels and not left:
            self._loop.call_later(GRACE, self._end_exchange, event.call)
        else:
            self._end_exchange(event.call)

    # -- the end -------------------------------------------------------------------------------------------

    @override
    async def _shut(self) -> None:
        """End what runs: exchanges at once, what is being told after a moment; then say goodbye."""
        running = {*self._exchanges.values(), *self._others}
        for call in tuple(self._exchanges):
            self._end_exchange(call)
        for task in self._others:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=CLOSE)
        if self._asides:
            await asyncio.wait(set(self._asides), timeout=CLOSE)
        for task in set(self._asides):
            task.cancel()
        if self._asides:
            await asyncio.wait(set(self._asides), timeout=CLOSE)
        await self._transport.farewell()
        await self.requests.close()


def _is_notice(message: bytes) -> bool:
    """Whether a message gives up a call, which is worth no login of its own."""
    said = jsonrpc.parse(message, batch=False)
    return isinstance(said, Notification) and said.method == CANCELLED
