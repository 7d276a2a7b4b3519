"""A client's connection that sends each message by a POST of its own (HTTP-5, HTTPM-2, CANC-7, HTTPM-6, SSE-3).

What both kinds of HTTP transport have in common. Calls go out side by side. What stands in an order for the server,
reports and answer of one of its requests, or notifications, goes out one after the other; nothing overtakes
`notifications/initialized`, for servers in the wild refuse what comes before it (LIFE-8). Every wait has a bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, cast

from typing_extensions import override

from mcprev.driver import CLOSE, Connection, Desk
from mcprev.errors import ConnectionLost, McpError
from mcprev.protocol.correlate import Call
from mcprev.protocol.link import Channel, Dropped, Failed, Inbound, Opened
from mcprev.protocol.sides import ClientSide
from mcprev.transports.clocks import Clocks
from mcprev.transports.http_requests import Requests
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import Batch, Notification

if TYPE_CHECKING:
    from mcprev.transports.http_lane import Lane

ASIDE: Final = 30.0
"""Seconds that a server gets to take what it does not answer."""
GRACE: Final = 5.0
"""Seconds that the stream of a call may go on that was cancelled by a message; a server ends it by itself (AMB-10)."""
CANCELLED: Final = "notifications/cancelled"
logger: Final = logging.getLogger("mcprev.client")


class PostingConnection(Connection):
    """Sends by POST; a subclass says where to, and what to make of the answer."""

    def __init__(self, side: ClientSide, desk: Desk, requests: Requests) -> None:
        super().__init__(side, desk, logger, linger=0)
        side.link.streams = True
        self.client_side = side
        self.requests = requests
        self.clocks = Clocks(side.link.calls, self._arm)
        self._sendable = True
        self._exchanges: dict[Call, asyncio.Task[None] | Lane] = {}
        """What runs for each call that is open, or the connection that it was sent on if that is all."""
        self._tails: dict[Inbound | None, asyncio.Task[None]] = {}
        """The last message that was sent for a request of the server's, or for none."""
        self._asides: set[asyncio.Task[None]] = set()
        self._others: set[asyncio.Task[Any]] = set()
        self._confirming = False
        self._gate: asyncio.Task[None] | None = None

    # -- for subclasses ------------------------------------------------------------------------------------

    async def _exchange(self, call: Call, message: bytes, early: Lane | None) -> None:
        """Send a call and see to it that it is answered. Raises `McpError` for what fails it.

        What was sent already has an `early` answer, or a reason for none.
        """
        raise NotImplementedError

    def _send_now(self, call: Call, message: bytes) -> bool:
        """Send a call where nothing has to be waited for; False, and nothing done, where something has."""
        del call, message
        return False

    async def _tell(self, message: bytes, *, shy: bool = False) -> None:
        """Send what has no answer; nobody has to log in for what is `shy`. Raises `McpError`."""
        raise NotImplementedError

    async def _farewell(self) -> None:
        """Say goodbye, within bounded time."""

    def _confirmed(self) -> None:
        """The server knows that the session is open."""

    def _take(self, data: bytes) -> None:
        """Hand a message of the server's to the engine; the members of an array by themselves (BATCH-1)."""
        link, now = self._link, self.now()
        message = jsonrpc.parse(data, batch=link.accepts_batch)
        if isinstance(message, Batch):
            for member in message.messages:
                self.client_side.receive(member, now)
        else:
            self.client_side.receive(message, now)

    def _fail(self, call: Call, error: McpError) -> None:
        """A call has failed, if it is still open."""
        if call in self._link.calls:
            self._link.calls.close(call.id)
            self._link.events.append(Failed(call, error))
            self.pump()

    def _run_aside(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something until the connection is closed."""
        task = self._loop.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def _send(self, sends: list[tuple[Channel, bytes]]) -> None:
        calls = self._link.calls
        for channel, message in sends:
            if isinstance(channel, Call):
                if channel in calls:
                    self.clocks.stop(channel)
                    if not self._send_now(channel, message):
                        self._exchanges[channel] = self._loop.create_task(
                            self._run_exchange(channel, message)
                        )
            else:
                self._send_aside(channel, message)

    async def _run_exchange(self, call: Call, message: bytes, early: Lane | None = None) -> None:
        try:
            while self._gate is not None and early is None:
                await asyncio.wait({self._gate})
            await self._exchange(call, message, early)
        except Exception as error:  # noqa: BLE001 - whoever waits for the call is told
            self._failed(call, error)
        finally:
            self._over(call)

    def _failed(self, call: Call, error: Exception) -> None:
        """An exchange failed: whoever waits for the call must not wait in vain, whatever is wrong here."""
        if not isinstance(error, McpError):
            self.logger.error("'%s' could not be sent", call.method, exc_info=error)
            error = ConnectionLost("the exchange failed", in_flight=True, retry_safe=False)
        self._fail(call, error)

    def _over(self, call: Call) -> None:
        if self._exchanges.pop(call, None) is not None:
            self._exchange_over()

    def _end_exchange(self, call: Call) -> None:
        """Want nothing more of a call."""
        exchange = self._exchanges.get(call)
        if exchange is None:
            return
        exchange.cancel()
        if not isinstance(exchange, asyncio.Task):
            self._over(call)

    def _exchange_over(self) -> None:
        """One exchange is over."""

    def _send_aside(self, channel: Channel, message: bytes) -> None:
        ordered = channel is None or isinstance(channel, Inbound)
        key = cast("Inbound | None", channel)
        before = self._tails.get(key) if ordered else None
        task = self._loop.create_task(self._deliver(message, before))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
        if ordered:
            self._tails[key] = task
            task.add_done_callback(lambda done: self._untie(key, done))
        if channel is None and self._confirming:
            self._confirming, self._gate = False, task
            task.add_done_callback(self._open_gate)

    def _untie(self, key: Inbound | None, task: asyncio.Task[None]) -> None:
        if self._tails.get(key) is task:
            del self._tails[key]

    def _open_gate(self, task: asyncio.Task[None]) -> None:
        self._gate = None
        if not task.cancelled() and self.error is None:
            self._confirmed()

    async def _deliver(self, message: bytes, before: asyncio.Task[None] | None) -> None:
        try:
            async with self.clocks.bound(ASIDE):
                if before is not None:
                    await asyncio.wait({before})
                await self._tell(message, shy=self.requests.login is not None and _is_notice(message))
        except (McpError, TimeoutError) as error:
            self.logger.warning("the server did not take %.100r: %s", message, error)

    @override
    async def drain(self, channel: Channel = None) -> None:
        tail = self._tails.get(channel) if isinstance(channel, Inbound) else None
        if tail is not None:
            await asyncio.wait({tail})

    @override
    def _on_opened(self, event: Opened) -> None:
        super()._on_opened(event)
        # What the engine sends next by itself confirms the session.
        self._confirming = True

    @override
    def _on_dropped(self, event: Dropped) -> None:
        login = self.requests.login
        # The server has not taken in what waits for somebody to log in.
        left = login is not None and self._exchanges.get(event.call) in login.waiting
        if self.client_side.agreed and not self.client_side.row.disconnect_cancels and not left:
            self._loop.call_later(GRACE, self._end_exchange, event.call)
        else:
            self._end_exchange(event.call)

    # -- the end -------------------------------------------------------------------------------------------

    @override
    async def _shut(self) -> None:
        """End what runs: exchanges at once, what is being told after a moment; then say goodbye."""
        running = {task for task in self._exchanges.values() if isinstance(task, asyncio.Task)} | self._others
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
        await self._farewell()
        await self.requests.close()


def _is_notice(message: bytes) -> bool:
    """Whether a message gives up a call, which is worth no login of its own."""
    said = jsonrpc.parse(message, batch=False)
    return isinstance(said, Notification) and said.method == CANCELLED
