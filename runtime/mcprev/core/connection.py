"""Drives an engine: one connection, one task for each request, one timer.

PING-1, CANC-2, CANC-7, LIFE-18, STDIO-6. A transport passes each message to the engine when it arrives, so that `ping`
and `cancelled` never wait for a handler. Messages are sent once per turn of the event loop. How they are
sent depends on the transport: `transports.lines` has one stream for all messages, HTTP one for each request. Above a
limit requests are refused; reading goes on, because a cancellation could not be read otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias, cast

from mcprev.core.interfaces import RequestHandler, held_share
from mcprev.core.limits import BURST, CLOSE, HIGH, LINGER, MAX_HANDLERS, QUEUED
from mcprev.core.pauses import NEVER, Pauses
from mcprev.error_text import shutting_down
from mcprev.errors import ConnectionLost, InternalError, Json, McpError, one_line
from mcprev.protocol.connection_state import (
    CallCancelled,
    CallCompleted,
    CallFailed,
    CallNotification,
    Channel,
    Diagnostic,
    IncomingRequest,
    NotificationReceived,
    RequestCancelled,
    SessionChanged,
    SessionOpened,
    Unplaced,
)
from mcprev.protocol.endpoint import EndpointProtocol
from mcprev.protocol.pending_calls import Call
from mcprev.wire.payloads import payloads, redacted

_NEVER: Final = float("inf")

Network: TypeAlias = Mapping[str, str | int]
UNKNOWN_NETWORK: Final[Network] = {}
HTTP: Final[Network] = {"network.transport": "tcp", "network.protocol.name": "http"}
PIPES: Final[Network] = {"network.transport": "pipe"}


class Connection:
    """One connection of either role; each transport has a subclass that sends messages.

    A transport overrides `send_messages`, and of the other public methods those for which it has more to do.
    """

    at_once = False
    """Whether a single call, or a burst of calls, is sent when it is made and not later in the turn of the loop."""
    immediate = False
    """Whether messages are sent at once and not once per turn of the loop, because the transport collects them itself."""
    lasting: bool = True
    """Whether it belongs to one client and carries more than one of its requests."""
    session_id: str | None = None
    """The id of the session over HTTP, which the server chooses; None elsewhere."""
    network: Network = UNKNOWN_NETWORK
    """What carries the messages, by OpenTelemetry's names of attributes; empty if it is unknown or in memory."""
    shared: bool = False
    """Whether other processes may have copies of its session, one of which tells the client of changes."""
    pauses: Pauses = NEVER
    """The pauses of its timeouts, as while a user logs in."""
    restored: bool = False
    """Whether its session was opened by another process."""
    lives_on: bool = False
    """Whether its session goes on elsewhere after the end of this connection."""
    _sendable = False
    """Whether the transport accepts messages. True in a class whose transport does so from the beginning."""

    def __init__(
        self,
        protocol: EndpointProtocol,
        handler: RequestHandler[Connection],
        logger: logging.Logger,
        *,
        max_handlers: int = MAX_HANDLERS,
        linger: float = LINGER,
    ) -> None:
        self.protocol = protocol
        self.logger = logger
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended and none of its tasks runs."""
        self._loop = asyncio.get_running_loop()
        self._request_handler = handler
        self._connection_state = protocol.connection
        self._linger = linger
        self.error: ConnectionLost | None = None
        """Why the connection ended; None while it is open."""
        self.peer_context: object = None
        """What the request handler keeps of the peer for as long as the connection lasts."""
        self._flush_due = False
        self._drained = 0
        """How often messages were followed by a `drain`."""
        self._paused = False
        """Whether reading is paused."""
        self._holds = 0
        self._unheld = asyncio.Event()
        self._max_handlers = max_handlers
        self._queue: deque[IncomingRequest | NotificationReceived] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: dict[IncomingRequest, asyncio.Task[Any]] = {}
        """The tasks of the handlers that serve requests; those of notifications are in `_tasks` only."""
        self.now: Callable[[], float] = (
            time.monotonic if type(self._loop).time is asyncio.BaseEventLoop.time else self._loop.time
        )
        """Returns the time that engines use."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = _NEVER
        """The time at which the timer fires."""
        self._ending: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()

    def hold_reading(self) -> None:
        """Read nothing more from the peer until `release_reading` was called as often."""
        self._holds += 1
        self._unheld.clear()
        self.throttle()

    def release_reading(self) -> None:
        """Undo one `hold_reading`."""
        self._holds -= 1
        if not self._holds:
            self._unheld.set()
        self.throttle()

    async def readable(self) -> None:
        """Wait while reading is held."""
        while self._holds:
            await self._unheld.wait()

    # -- for transports ------------------------------------------------------------------------------------

    def send_messages(self, sends: list[tuple[Channel, bytes]]) -> None:
        """Send messages, each on its channel."""
        raise NotImplementedError

    async def drain(self, channel: Channel = None) -> None:  # noqa: ARG002 - for subclasses
        """Let the loop run after `BURST` messages and after a large one, then wait while a channel is read too slowly.

        Without the former, what a handler sends in a loop would not be written, and the handler could not be cancelled.
        """
        self._drained += 1
        sends = self._connection_state.sends
        if not self._drained % BURST or (sends and len(sends[-1][1]) > HIGH // BURST):
            await asyncio.sleep(0)

    def refuses(self, incoming: IncomingRequest) -> McpError | None:
        """Return why no request can be sent to the peer on behalf of `incoming`, or None."""  # HTTP-32
        del incoming
        return None

    async def hang_up(self, incoming: IncomingRequest, retry: float | None) -> bool:
        """Close the HTTP connection of a request but not its stream; return whether that was possible."""  # HTTP-17
        del incoming, retry
        return False

    def can_reach(self) -> bool:
        """Return whether the peer can receive messages that belong to none of its requests."""
        return self._sendable

    def throttle(self) -> None:
        """Pause reading while the peer does not read, or resume it; also called when a call waits while it is paused."""

    async def shut(self) -> None:
        """Write the remaining messages and close the transport, within `limits.CLOSE` seconds; also called after
        `ended`.
        """

    def started(self) -> None:
        """Handle that the transport can send from now on."""
        self._sendable = True
        self.process_events()

    def process_events(self, *, at_once: bool = False) -> None:
        """Handle the events, and send the outgoing messages: `at_once`, or together with others of this turn of the loop."""
        link = self._connection_state
        while link.events:
            events, link.events = link.events, []
            for event in events:
                match event:
                    case IncomingRequest() | NotificationReceived():
                        self._admit(event)
                    case CallCompleted():
                        self.on_completed(event)
                    case CallFailed(call, error):
                        future: Any = call.handle
                        if future is not None and not future.done():
                            future.set_exception(error)
                    case CallNotification():
                        self._on_call_notification(event)
                    case RequestCancelled():
                        self.on_cancelled(event)
                    case CallCancelled():
                        self.on_call_cancelled(event)
                    case SessionOpened():
                        self.on_opened(event)
                    case _:
                        self.on_noted(event)
        if link.sends and not self._flush_due and self._sendable:
            if at_once or self.immediate:
                self._flush()
            else:
                self._flush_due = True
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        sends = self._connection_state.sends
        if not sends or not self._sendable:
            return
        self._connection_state.sends = []
        if payloads.level <= logging.DEBUG:
            for _, message in sends:
                payloads.debug("%s sent %s", self.logger.name, redacted(message))
        if self.protocol.on_send is not None:
            for _, message in sends:
                self.protocol.on_send(message)
        self.send_messages(sends)

    # -- requests of the peer -----------------------------------------------------------------------------

    def _admit(self, event: IncomingRequest | NotificationReceived) -> None:
        if isinstance(event, NotificationReceived) and not self._request_handler.notified(event, self):
            return
        if event.origin is not None and (share := held_share(event)):
            share.hold()
        if len(self._tasks) < self._max_handlers:
            self._start(event)
        elif len(self._queue) < self._max_handlers * QUEUED:
            self._queue.append(event)
        elif isinstance(event, IncomingRequest):
            event.fail(InternalError("too many requests in progress"))
            self._drop(event)
        else:
            self.logger.warning(
                "too many messages are waiting to be served: %s is dropped", one_line(event.method)
            )
            self._drop(event)

    def _drop(self, event: IncomingRequest | NotificationReceived) -> None:
        """Release the memory of a message that will not be served."""
        if share := held_share(event):
            share.release()

    def _start(self, event: IncomingRequest | NotificationReceived) -> None:
        task = self._loop.create_task(self._serve(event), name=event.method)
        if not task.done():  # some task factories start a task at once
            self._tasks.add(task)
            if isinstance(event, IncomingRequest):
                self._serving[event] = task
        if event.origin is not None and (share := held_share(event)):
            task.add_done_callback(lambda _: share.release())

    async def _serve(self, event: IncomingRequest | NotificationReceived) -> None:
        try:
            if isinstance(event, IncomingRequest):
                await self._request_handler.handle_request(event, self)
            else:
                await self._request_handler.handle_notification(event, self)
        finally:
            # A request that was cancelled is not among those in service any more.
            task = self._serving.pop(event, None) if isinstance(event, IncomingRequest) else None
            self._tasks.discard(task or cast("asyncio.Task[None]", asyncio.current_task()))
            if self._connection_state.events or not self._flush_due:
                # If no other handler runs, no other response can be sent with this one.
                self.process_events(at_once=not self._tasks)
            while self._queue and len(self._tasks) < self._max_handlers:
                self._start(self._queue.popleft())

    def on_cancelled(self, event: RequestCancelled) -> None:
        """Cancel the handler of a request that the peer has cancelled."""
        self.logger.debug("request %r was cancelled: %s", event.request.id, one_line(event.reason))
        self.cancel_handler(event.request)

    def cancel_handler(self, incoming: IncomingRequest) -> None:
        """Cancel the handler of a closed request, or remove the request from the queue."""
        if (task := self._serving.pop(incoming, None)) is not None:
            self._stop(task)
        elif incoming in self._queue:
            self._queue.remove(incoming)
            self._drop(incoming)

    def _stop(self, task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step does not reach the end of `_serve`.
        task.add_done_callback(self._tasks.discard)
        task.cancel()

    async def finish_requests(self, linger: float) -> None:
        """Wait up to `linger` seconds for the requests in progress, then fail those that remain."""
        deadline = self._loop.time() + linger
        while (remaining := deadline - self._loop.time()) > 0:
            incoming = self._connection_state.incoming.values()
            tasks = [self._serving[request] for request in incoming if request in self._serving]
            if not tasks:
                break
            await asyncio.wait(tasks, timeout=remaining)
        self.fail_requests()

    def fail_requests(self) -> None:
        """Answer the requests in progress with an error, and cancel their handlers, because the server stops."""
        for incoming in tuple(self._connection_state.incoming.values()):
            incoming.fail(shutting_down(may_have_run=incoming not in self._queue))
            self.cancel_handler(incoming)
        self.process_events()

    # -- calls of our own ----------------------------------------------------------------------------------

    async def wait(
        self,
        call: Call,
        listener: Callable[[str, dict[str, Json]], None] | None = None,
        reason: Callable[[], str | None] | None = None,
    ) -> dict[str, Json]:
        """Wait for the response to a call that was just passed to the engine.

        Until then `listener` is called with the method and the params of each notification about the call. Raises the
        error that the call failed with. If the waiting task is cancelled, so is the call, and `reason` says why.
        """  # CANC-7
        future: asyncio.Future[dict[str, Json]] = self._loop.create_future()
        call.handle, call.listener = future, listener
        link, calls = self._connection_state, self._connection_state.calls
        if self.at_once and (len(link.sends) >= BURST or (not self._flush_due and len(calls.waiting) == 1)):
            self._flush()
        if link.events or (link.sends and not self._flush_due):
            self.process_events()
        if calls.earliest < self._due:
            self._arm()
        if self._paused:
            self.throttle()
        try:
            return await future
        except asyncio.CancelledError:
            why = None if reason is None else reason()
            self.protocol.cancel(call, why or "the caller was cancelled")
            self.process_events()
            raise

    def on_completed(self, event: CallCompleted) -> None:
        """Give a call its result."""
        future: Any = event.call.handle
        if future is not None and not future.done():
            future.set_result(event.result)

    def on_call_cancelled(self, event: CallCancelled) -> None:
        """Close the stream of a cancelled call."""

    def _on_call_notification(self, event: CallNotification) -> None:
        self._arm()
        if event.call.listener is not None:
            try:
                event.call.listener(event.method, event.params)
            except Exception:
                self.logger.exception("a callback for '%s' raised", event.method)

    def on_opened(self, event: SessionOpened) -> None:
        """Note that a session is open at a revision."""
        self.logger.debug("a session is open at %s", event.revision.name)

    def on_noted(self, event: SessionChanged | Unplaced | Diagnostic) -> None:
        """Log an event; a session that has copies in other processes tells them of the first two."""
        if isinstance(event, SessionChanged):
            return
        level = logging.WARNING if isinstance(event, Diagnostic) and event.warn else logging.DEBUG
        if event.text:
            self.logger.log(level, "%s", one_line(event.text))

    @property
    def tolerated_violations(self) -> dict[str, int]:
        """The violations of the protocol that were tolerated, with their numbers; the first of each is logged."""
        return {str(what): times for what, times in self._connection_state.violations.items()}

    # -- time ----------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        deadline = self._connection_state.calls.earliest
        if deadline >= self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = self._loop.call_at(deadline, self._tick), deadline

    def _tick(self) -> None:
        self._timer, self._due = None, _NEVER
        self.protocol.tick(self._loop.time())
        self.process_events()
        self._arm()

    # -- the end -------------------------------------------------------------------------------------------

    def ended(self, error: ConnectionLost | None) -> None:
        """Handle the loss of the transport: fail the calls first, then stop the handlers."""
        if not self._lost.done():
            self._lost.set_result(None)
        if self.error is None:
            self.error = error or ConnectionLost("the connection ended", in_flight=True, retry_safe=False)
        if (tap := self.protocol.tap) is not None:
            tap.closed(error or self.error)
        self.protocol.lost(self.error)
        self.process_events()
        while self._queue:
            self._drop(self._queue.popleft())
        for task in self._tasks:
            self._stop(task)
        if self._timer is not None:
            self._timer.cancel()
        self._sendable = False
        self._end_soon(0)

    def _end_soon(self, linger: float) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(linger))

    def _fail_calls(self, error: ConnectionLost) -> None:
        self.error = error
        self._connection_state.fail_calls(error)

    async def _end(self, linger: float) -> None:
        """Let handlers finish, then cancel them; write the remaining messages, then close. Every wait is bounded."""
        if self._tasks and linger:
            await asyncio.wait(set(self._tasks), timeout=linger)
        for task in self._tasks:
            self._stop(task)
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=CLOSE)
        self._flush()
        await self.shut()
        if not self.closed.done():
            self.closed.set_result(None)

    async def aclose(self, error: ConnectionLost | None = None) -> None:
        """End the connection; may be called from any task, and more than once."""
        if self.error is None:
            self._fail_calls(
                error or ConnectionLost("the connection was closed", in_flight=True, retry_safe=False)
            )
        self.protocol.end()
        self.process_events()
        self._end_soon(0)
        await asyncio.shield(cast("asyncio.Task[None]", self._ending))
        self.ended(None)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task that is cancelled at the end of the connection, before the last messages are sent."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
