"""A client's connection over HTTP: sends each message in its own POST (HTTP-5, HTTPM-2, CANC-7, HTTPM-6, SSE-3, TIME-1,
AUTH-22).

Each call runs in its own task, concurrently with others; cancelling the task cancels the call. Messages that need an
order are sent one after the other: the progress and the response of one server request, and notifications that are not
`UNORDERED`. Calls and notifications wait for `notifications/initialized`, because some servers refuse messages before
it (LIFE-8). The transport, `StreamableHttp` or `LegacySse`, sends messages and receives responses. Each message has a
timeout of its own, which begins when it is sent; the numbers of messages in flight and of those that wait have bounds.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_COMPLETED
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from typing_extensions import override

from mcprev.core.connection import HTTP, Connection, Network
from mcprev.core.interfaces import CallOrigin, RequestHandler
from mcprev.core.limits import CLOSE
from mcprev.core.pauses import Pauses
from mcprev.errors import ConnectionLost, McpError, one_line
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
from mcprev.wire.jsonrpc import Batch, Notification, Request

ASIDE: Final = 30.0
"""The timeout for sending a message that has no response, in seconds."""
GRACE: Final = 5.0
"""Seconds that the stream of a cancelled call may stay open after `notifications/cancelled`."""  # AMB-10
UNORDERED: Final[Mapping[str, float]] = {CANCELLED: GRACE, "notifications/roots/list_changed": GRACE}
"""Notifications that do not depend on those before them, and the seconds that the server has to take each."""
MAX_IN_FLIGHT: Final = 100
"""The maximum number of notifications and responses that are sent and not yet accepted; each takes a connection."""
PATIENCE: Final = 1.0
"""Seconds without any answer after which the messages in flight are given up, if others wait."""
MAX_WAITING: Final = 10_000
"""The maximum number of messages that wait for those in flight, and of those of one order; more are given up."""
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
        self.pauses: Pauses = Pauses()

    def stop(self, call: Call) -> None:
        """Pause the timeouts of a call that starts during a pause."""
        if self.waiting and call not in self._left:
            now = self._loop.time()
            self._left[call] = (call.deadline - now, call.limit - now)
            call.deadline = call.limit = _NEVER

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Pause all timeouts for the duration of the block."""
        task = asyncio.current_task()
        self.waiting.add(task)
        for call in self._calls.waiting.values():
            self.stop(call)
        self.pauses.begin(self._loop.time())
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
        self.pauses.end(now)
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

    async def send_message(self, message: bytes, channel: Channel = None) -> None:
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


class Aside(NamedTuple):
    """A message without response that the server has not taken yet."""

    message: bytes
    channel: Channel
    what: str
    """Its method, or that it is a response: for the log."""
    order: object
    """It does not overtake messages of the same order."""
    done: asyncio.Future[None]
    """Done when the server has taken the message, or when it is given up."""


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
        requests.tap = protocol.tap
        self.network: Network = network_at(requests.url)
        self.timeouts: PausableTimeouts = PausableTimeouts(protocol.connection.calls, self._arm)
        self.pauses: Pauses = self.timeouts.pauses
        self._exchanges: dict[Call, asyncio.Task[None]] = {}
        """The tasks of the open calls."""
        self._orders: dict[object, deque[Aside]] = {}
        """The messages without response of each order; the first is ready or in flight. The key is the request of the
        server that they belong to, None for notifications outside requests, and its own future for an unordered message.
        """
        self._ready: deque[Aside] = deque()
        """The messages that wait until few are in flight, and for no others."""
        self._held: list[Aside] = []
        """The unordered notifications that wait until the session is confirmed."""
        self._in_flight: dict[asyncio.Task[None], Aside] = {}
        """The messages that are sent and not answered."""
        self._making_room: asyncio.Task[None] | None = None
        self._not_taken = Counter[str]()
        """How many messages the server did not take since the last log message about that."""
        self._burst: asyncio.TimerHandle | None = None
        self._confirming = False
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

    def take(self, *received: bytes, call: Call | None = None) -> None:
        """Pass messages of the server to the engine, those of a batch one by one, and process what happened.

        `call` is the one whose response they arrived on.
        """  # BATCH-1
        link, now = self._connection_state, self.now()
        origin = None if call is None else CallOrigin(call)
        for data in received:
            message = jsonrpc.parse(data, batch=link.accepts_batch)
            for each in message.messages if isinstance(message, Batch) else (message,):
                if origin is not None and isinstance(each, Request | Notification):
                    object.__setattr__(each, "origin", origin)  # messages are frozen for type checkers only
                self.client_side.receive(each, now)
        self.process_events()

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def send_messages(self, sends: list[tuple[Channel, bytes]]) -> None:
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
        """Send a message without response when those before it in its order are done and few are in flight."""
        what = channel.method if isinstance(channel, Notification) else "a response"
        done = self._loop.create_future()
        order: object = channel if isinstance(channel, IncomingRequest) else done
        if isinstance(channel, Notification) and what not in UNORDERED:
            order = None
        aside, before = Aside(message, channel, what, order, done), self._orders.get(order)
        if len(before or self._held or self._ready) >= MAX_WAITING:
            self._log_not_taken(what, f"more than {MAX_WAITING} messages wait")
            return
        self._orders.setdefault(order, deque()).append(aside)
        if not before:
            (self._held if self._confirmation and what in UNORDERED else self._ready).append(aside)
        if self._confirming and isinstance(channel, Notification):
            self._confirming = False
            self._confirmation = self.start(self._confirm(done))
        self._send_ready()

    def _send_ready(self) -> None:
        while self._ready and len(self._in_flight) < MAX_IN_FLIGHT:
            aside = self._ready.popleft()
            task = self._loop.create_task(self._deliver(aside))
            self._in_flight[task] = aside
            task.add_done_callback(self._delivered)
        if self._ready and (self._making_room is None or self._making_room.done()):
            self._making_room = self.start(self._make_room())

    def _delivered(self, task: asyncio.Task[None]) -> None:
        aside = self._in_flight.pop(task)
        if messages := self._orders.get(aside.order):
            aside.done.set_result(None)
            messages.popleft()
            if messages:
                self._ready.append(messages[0])
            else:
                del self._orders[aside.order]
            self._send_ready()

    async def _make_room(self) -> None:
        """While messages wait, give up those in flight if the server answers none of them for `PATIENCE` seconds."""
        while self._ready:
            done, late = await asyncio.wait(self._in_flight, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            for task in () if done or self.timeouts.waiting else late:
                self._log_not_taken(
                    self._in_flight[task].what, f"no response within {PATIENCE:g} s, and other messages wait"
                )
                task.cancel()

    async def _confirm(self, sent: asyncio.Future[None]) -> None:
        await asyncio.wait({sent})
        if self.error is None:
            await self._transport.confirmed()
        self._confirmation = None
        self._ready.extend(self._held)
        self._held.clear()
        self._send_ready()

    async def _deliver(self, aside: Aside) -> None:
        seconds = UNORDERED.get(aside.what, ASIDE)
        try:
            async with self.pauses.bound(seconds):
                await self._transport.send_message(aside.message, aside.channel)
        except McpError as error:
            self._log_not_taken(aside.what, error)
        except TimeoutError:
            self._log_not_taken(aside.what, f"it did not respond within {seconds:g} s")

    def _log_not_taken(self, what: str, why: object) -> None:
        """Log the first of the messages that the server does not take; count those of the next `BURST` seconds."""
        if self._burst is None:
            self.logger.warning("the server did not accept '%s': %s", what, one_line(why))
            self._burst = self._loop.call_later(BURST, self._end_burst)
        else:
            self._not_taken[what] += 1

    def _end_burst(self) -> None:
        if self._burst is not None:
            self._burst.cancel()
            self._burst = None
        if self._not_taken:
            counts = ", ".join(f"{count} of '{what}'" for what, count in self._not_taken.items())
            self.logger.warning("the server did not accept further messages: %s", counts)
            self._not_taken.clear()

    @override
    async def drain(self, channel: Channel = None) -> None:
        await super().drain(channel)
        self._flush()  # messages of this turn of the loop
        if isinstance(channel, IncomingRequest) and (messages := self._orders.get(channel)):
            await asyncio.wait({messages[-1].done})

    @override
    def on_opened(self, event: SessionOpened) -> None:
        super().on_opened(event)
        # The next message that the engine sends is the one that confirms the session.
        self._confirming = True

    @override
    def on_completed(self, event: CallCompleted) -> None:
        self._transport.answered(event)
        super().on_completed(event)

    @override
    def on_call_cancelled(self, event: CallCancelled) -> None:
        # The server has not accepted a request that waits for a login.
        left = self._exchanges.get(event.call) in self.timeouts.waiting
        revision = self.client_side.engine.negotiated
        if revision is not None and not revision.disconnect_cancels and not left:
            self._loop.call_later(GRACE, self._end_exchange, event.call)
        else:
            self._end_exchange(event.call)

    # -- the end -------------------------------------------------------------------------------------------

    @override
    async def shut(self) -> None:
        """Cancel exchanges at once and pending messages after a moment, then end the session."""
        if running := set(self._exchanges.values()):
            for call in tuple(self._exchanges):
                self._end_exchange(call)
            await asyncio.wait(running, timeout=CLOSE)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE):
                while self._in_flight:
                    await asyncio.wait(self._in_flight)
        for aside in (aside for messages in self._orders.values() for aside in messages):
            self._log_not_taken(aside.what, "the connection ends")
        self._orders.clear()
        self._ready.clear()
        for task in self._in_flight:
            task.cancel()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=CLOSE)
        self._end_burst()
        await self._transport.end_session()
        await self.requests.close()
