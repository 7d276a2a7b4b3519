"""A client's connection over HTTP: sends each message in its own POST (HTTP-5, HTTPM-2, CANC-7, HTTPM-6, SSE-3, TIME-1,
AUTH-22).

Each call runs in its own task, concurrently with others; cancelling the task cancels the call. Messages that need an
order are sent one after the other: the progress and the response of one server request, and notifications that are not
`UNORDERED`. Calls and notifications wait for `notifications/initialized`, because some servers refuse messages before
it (LIFE-8). The transport, `StreamableHttp` or `LegacySse`, sends messages and receives responses. Every wait has a
timeout, and the number of messages that wait for the server to take them has a bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, cast
from urllib.parse import urlsplit

from typing_extensions import override

from mcprev.core.connection import HTTP, Connection, Network
from mcprev.core.interfaces import RequestHandler
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
from mcprev.protocol.engine import CANCELLED
from mcprev.protocol.pending_calls import Call, PendingCalls
from mcprev.transports.http.client.session import HttpSession
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import Batch, Notification

ASIDE: Final = 30.0
"""The timeout for sending a message that has no response, in seconds."""
GRACE: Final = 5.0
"""Seconds that the stream of a cancelled call may stay open after `notifications/cancelled`."""  # AMB-10
UNORDERED: Final[Mapping[str, float]] = {CANCELLED: GRACE, "notifications/roots/list_changed": GRACE}
"""Notifications that do not depend on those before them, and the seconds that the server has to take each."""
MAX_WAITING: Final = 1000
"""The maximum number of messages without response that wait for the server to take them; the oldest make room."""
BURST: Final = 30.0
"""Seconds for which messages that the server does not take are counted, after the first was logged."""
logger: Final = logging.getLogger("mcprev.client")
_NEVER: Final = float("inf")


class PausableTimeouts:
    """The timeouts of one connection, which all pause while a user logs in.

    Neither a call that waits for the login nor any call behind it times out during the login.
    """

    def __init__(self, calls: PendingCalls, changed: Callable[[], None]) -> None:
        """`changed` is called when the next deadline of a call may have moved forward."""
        self._calls = calls
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self.waiting: set[asyncio.Task[Any] | None] = set()
        """The tasks for which the timeouts pause; the server has accepted none of their requests."""
        self._left: dict[Call, tuple[float, float]] = {}
        """The remaining seconds of each call's two timeouts."""
        self._bounds: dict[asyncio.Timeout, float | None] = {}
        """The active timeouts of `bound`, and the remaining seconds of each while paused."""

    def stop(self, call: Call) -> None:
        """Pause the timeouts of a call that starts during a pause."""
        if self.waiting and call not in self._left:
            now = self._loop.time()
            self._left[call] = (call.deadline - now, call.limit - now)
            call.deadline = call.limit = _NEVER

    @asynccontextmanager
    async def bound(self, seconds: float) -> AsyncGenerator[None, None]:
        """Limit a block to a number of seconds, pauses excluded. Raises `TimeoutError`."""
        async with asyncio.timeout(None if self.waiting else seconds) as bound:
            self._bounds[bound] = seconds if self.waiting else None
            try:
                yield
            finally:
                del self._bounds[bound]

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Pause all timeouts for the duration of the block."""
        task = asyncio.current_task()
        self.waiting.add(task)
        for call in self._calls.waiting.values():
            self.stop(call)
        now = self._loop.time()
        for bound, left in self._bounds.items():
            when = bound.when()
            if left is None and when is not None and when > now:
                self._bounds[bound] = when - now
                bound.reschedule(None)
        try:
            yield
        finally:
            self.waiting.discard(task)
            if not self.waiting:
                self._go_on()

    def _go_on(self) -> None:
        now, calls = self._loop.time(), self._calls
        for call, (idle, limit) in self._left.items():
            call.deadline, call.limit = now + idle, now + limit
            calls.earliest = min(calls.earliest, call.deadline)
        self._left.clear()
        for bound, left in self._bounds.items():
            if left is not None:
                self._bounds[bound] = None
                bound.reschedule(now + left)
        self._changed()


class HttpTransport:
    """Sends messages over one kind of HTTP transport. What a transport has no use for does nothing here."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self._protocol = connection.client_side
        self._requests = connection.requests

    async def open(self, seconds: float) -> None:
        """Prepare for sending, within `seconds`. Raises `TransportError` or `RemoteProtocolError`."""

    async def exchange(self, call: Call, message: bytes) -> None:
        """Send a call and process its response. Raises `McpError` if the call fails."""
        raise NotImplementedError

    async def send_message(self, message: bytes) -> None:
        """Send a message without response. Raises `McpError`."""
        raise NotImplementedError

    async def confirmed(self) -> None:
        """Called when the server knows that the session is open; calls wait for it to return."""

    def answered(self, event: CallCompleted) -> None:
        """Called for each completed call, before its caller gets the result."""

    def exchange_ended(self) -> None:
        """Called at the end of each exchange."""

    async def end_session(self) -> None:
        """End the session on the server, within a bounded time."""


def network_at(url: str) -> Network:
    """Return what is known of the network between this client and a server."""
    at = urlsplit(url)
    port = at.port or (443 if at.scheme == "https" else 80)
    return {**HTTP, "server.address": at.hostname or "", "server.port": port}


class HttpConnection(Connection):
    """Connects a client's engine with an HTTP transport."""

    at_once = True

    def __init__(
        self,
        protocol: ClientProtocol,
        handler: RequestHandler[Connection],
        requests: HttpSession,
        transport: Callable[[HttpConnection], HttpTransport],
    ) -> None:
        super().__init__(protocol, handler, logger, linger=0)
        self.client_side = protocol
        self.requests = requests
        self.network: Network = network_at(requests.url)
        self.timeouts: PausableTimeouts = PausableTimeouts(protocol.connection.calls, self._arm)
        self._exchanges: dict[Call, asyncio.Task[None]] = {}
        """The tasks of the open calls."""
        self._last_sends: dict[IncomingRequest | None, asyncio.Task[None]] = {}
        """The task that sends the last message for each server request; None for messages outside requests."""
        self._asides: dict[asyncio.Task[None], str] = {}
        """The tasks that send messages without response, oldest first, and what each sends."""
        self._not_taken = Counter[str]()
        """How many messages the server did not take since the last log message about that."""
        self._burst: asyncio.TimerHandle | None = None
        self._confirming = False
        self._opening: asyncio.Task[None] | None = None
        """The task that sends the notification which confirms the session."""
        self._confirmation: asyncio.Task[None] | None = None
        """While the session is confirmed: calls wait for this task."""
        self._transport = transport(self)

    async def open(self, seconds: float) -> None:
        """Prepare for sending. Raises `TransportError` or `RemoteProtocolError`."""
        await self._transport.open(seconds)
        self.started()

    # -- for transports ------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether the connection is open and nothing is in progress."""
        return not self._exchanges and self.error is None and not self.client_side.waiting

    def take(self, *received: bytes) -> None:
        """Pass messages of the server to the engine, those of a batch one by one, and process what happened."""  # BATCH-1
        link, now = self._connection_state, self.now()
        for data in received:
            message = jsonrpc.parse(data, batch=link.accepts_batch)
            for each in message.messages if isinstance(message, Batch) else (message,):
                self.client_side.receive(each, now)
        self.process_events()

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
        """Send a call; an unexpected error fails the call, so that its caller never waits forever."""
        try:
            if self._confirmation is not None:
                await asyncio.wait({self._confirmation})
            await self._transport.exchange(call, message)
        except McpError as error:
            self._fail(call, error)
        except Exception:
            self.logger.exception("'%s' could not be sent", call.method)
            self._fail(call, ConnectionLost("the exchange failed", in_flight=True, retry_safe=False))
        finally:
            self._exchange_done(call)

    def _fail(self, call: Call, error: McpError) -> None:
        """Fail a call if it is still open."""
        if call in self._connection_state.calls:
            self._connection_state.calls.close(call.id)
            self._connection_state.events.append(CallFailed(call, error))
            self.process_events()

    def _exchange_done(self, call: Call, _task: asyncio.Task[None] | None = None) -> None:
        if self._exchanges.pop(call, None) is not None:
            self._transport.exchange_ended()

    def _end_exchange(self, call: Call) -> None:
        """Stop processing a call and cancel its task."""
        exchange = self._exchanges.get(call)
        if exchange is not None:
            # A task that is cancelled before its first step never runs its `finally`.
            exchange.add_done_callback(partial(self._exchange_done, call))
            exchange.cancel()

    def _send_aside(self, channel: Channel, message: bytes) -> None:
        said = jsonrpc.parse(message, batch=False) if channel is None else None
        what = said.method if isinstance(said, Notification) else "a response"
        seconds = UNORDERED.get(what)
        ordered = isinstance(channel, IncomingRequest) or (channel is None and seconds is None)
        key = cast("IncomingRequest | None", channel)
        before = self._last_sends.get(key) if ordered else self._opening if channel is None else None
        task = self._loop.create_task(self._deliver(message, what, before, seconds or ASIDE))
        if len(self._asides) >= MAX_WAITING:
            oldest = next(task for task in self._asides if task is not self._opening)
            self._log_not_taken(self._asides.pop(oldest), f"more than {MAX_WAITING} messages wait")
            oldest.cancel()
        self._asides[task] = what
        task.add_done_callback(lambda done: self._asides.pop(done, None))
        if ordered:
            self._last_sends[key] = task
            task.add_done_callback(lambda done: self._forget_last(key, done))
        if channel is None and self._confirming:
            self._confirming = False
            self._opening = task
            self._confirmation = self.start(self._confirm(task))

    def _forget_last(self, key: IncomingRequest | None, task: asyncio.Task[None]) -> None:
        if self._last_sends.get(key) is task:
            del self._last_sends[key]

    async def _confirm(self, sending: asyncio.Task[None]) -> None:
        await asyncio.wait({sending})
        if self.error is None:
            await self._transport.confirmed()
        self._confirmation = None

    async def _deliver(
        self, message: bytes, what: str, before: asyncio.Task[None] | None, seconds: float
    ) -> None:
        try:
            async with self.timeouts.bound(ASIDE):
                if before is not None:
                    await asyncio.wait({before})
                async with self.timeouts.bound(seconds):
                    await self._transport.send_message(message)
        except McpError as error:
            self._log_not_taken(what, error)
        except TimeoutError:
            self._log_not_taken(what, f"it did not answer within {seconds:g} s")

    def _log_not_taken(self, what: str, why: object) -> None:
        """Log the first of the messages that the server does not take; count those of the next `BURST` seconds."""
        if self._burst is None:
            self.logger.warning("the server did not take '%s': %s", what, why)
            self._burst = self._loop.call_later(BURST, self._end_burst)
        else:
            self._not_taken[what] += 1

    def _end_burst(self) -> None:
        if self._burst is not None:
            self._burst.cancel()
            self._burst = None
        if self._not_taken:
            counts = ", ".join(f"{count} of '{what}'" for what, count in self._not_taken.items())
            self.logger.warning("the server did not take more messages: %s", counts)
            self._not_taken.clear()

    @override
    async def drain(self, channel: Channel = None) -> None:
        tail = self._last_sends.get(channel) if isinstance(channel, IncomingRequest) else None
        if tail is not None:
            await asyncio.wait({tail})

    @override
    def _on_opened(self, event: SessionOpened) -> None:
        super()._on_opened(event)
        # The next message that the engine sends is the one that confirms the session.
        self._confirming = True

    @override
    def _on_completed(self, event: CallCompleted) -> None:
        self._transport.answered(event)
        super()._on_completed(event)

    @override
    def _on_call_cancelled(self, event: CallCancelled) -> None:
        # The server has not accepted a request that waits for a login.
        left = self._exchanges.get(event.call) in self.timeouts.waiting
        revision = self.client_side.engine.negotiated
        if revision is not None and not revision.disconnect_cancels and not left:
            self._loop.call_later(GRACE, self._end_exchange, event.call)
        else:
            self._end_exchange(event.call)

    # -- the end -------------------------------------------------------------------------------------------

    @override
    async def _shut(self) -> None:
        """Cancel exchanges at once and pending messages after a moment, then end the session."""
        if running := set(self._exchanges.values()):
            for call in tuple(self._exchanges):
                self._end_exchange(call)
            await asyncio.wait(running, timeout=CLOSE)
        if self._asides:
            await asyncio.wait(set(self._asides), timeout=CLOSE)
        for task, what in tuple(self._asides.items()):
            self._log_not_taken(what, "the connection ends")
            task.cancel()
        if self._asides:
            await asyncio.wait(set(self._asides), timeout=CLOSE)
        self._end_burst()
        await self._transport.end_session()
        await self.requests.close()
