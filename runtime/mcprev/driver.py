"""Moves bytes and time: one asyncio protocol for each connection, one task for each request (design §10.4).

PING-1, CANC-2, CANC-7, LIFE-18, STDIO-6, STDIO-9. Bytes become messages in `data_received` and go straight to
the engine; `ping` and `cancelled` are therefore never behind a handler. What is to be sent is written once for
each turn of the loop. Reading pauses while the peer does not read what it is sent, but never while this side
waits for an answer: the answer may be what would end the waiting. It does not pause because too much waits to be
served, for then a cancellation could not be read either; beyond a bound, requests are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, cast

from typing_extensions import override

from mcprev.errors import ConnectionLost, InternalError, Json, McpError, RequestTimeout
from mcprev.protocol.correlate import Call
from mcprev.protocol.peer import (
    Aborted,
    Answered,
    Event,
    Failed,
    Inbound,
    Noted,
    Notified,
    Opened,
    Progressed,
    Streamed,
    TimedOut,
)
from mcprev.protocol.sides import Side
from mcprev.wire.jsonrpc import MAX_LINE, LineBuffer, Malformed, parse

MAX_HANDLERS: Final = 1024
"""How many requests of one connection are served at a time; more wait their turn (STDIO-9)."""
QUEUED: Final = 16
"""How many times as many may wait; what comes beyond that is refused."""
LINGER: Final = 1.0
"""Seconds that running handlers get once the peer has said that nothing more will come (STDIO-6)."""
CLOSE: Final = 1.0
"""Seconds that a transport gets to write what it holds before it is torn down."""


class Desk(Protocol):
    """Serves what comes in. Neither method raises, except for cancellation."""

    async def serve(self, inbound: Inbound, connection: Connection, /) -> None:
        """Answer a request through its engine."""
        ...

    async def hear(self, notified: Notified, connection: Connection, /) -> None:
        """Take a notification."""
        ...


class Waiter:
    """Who waits for the answer to a call, and for what comes before it."""

    __slots__ = ("future", "progress", "stream")

    def __init__(
        self,
        future: asyncio.Future[dict[str, Json]],
        progress: Callable[[dict[str, Json]], None] | None,
        stream: Callable[[Streamed], None] | None,
    ) -> None:
        self.future = future
        self.progress = progress
        self.stream = stream


class Connection(asyncio.Protocol):
    """One connection of either role, over any transport that moves lines."""

    def __init__(
        self,
        side: Side,
        desk: Desk,
        logger: logging.Logger,
        *,
        max_line: int = MAX_LINE,
        max_handlers: int = MAX_HANDLERS,
        linger: float = LINGER,
    ) -> None:
        self.side = side
        self.logger = logger
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone and nothing of it runs any more."""
        self._loop = asyncio.get_running_loop()
        self._desk = desk
        self._link = side.link
        self._lines = LineBuffer(max_line)
        self._linger = linger
        self._transport: asyncio.Transport | None = None
        self._error: ConnectionLost | None = None
        self._flush_due = False
        self._blocked = False
        self._paused = False
        self._writable: asyncio.Future[None] | None = None
        self._max_handlers = max_handlers
        self._queue: deque[Inbound | Notified] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._on: dict[type, Callable[[Any], None]] = {
            Inbound: self._admit,
            Notified: self._admit,
            Aborted: self._on_aborted,
            Answered: self._on_answered,
            Failed: self._on_failed,
            TimedOut: self._on_timed_out,
            Progressed: self._on_progressed,
            Streamed: self._on_streamed,
            Opened: self._on_opened,
            Noted: self._on_noted,
        }

    @property
    def error(self) -> ConnectionLost | None:
        """Why the connection ended; None while it has not."""
        return self._error

    # -- bytes in and out ----------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.pump()

    @override
    def data_received(self, data: bytes) -> None:
        now, link, receive = self._loop.time(), self._link, self.side.receive
        for line in self._lines.feed(data):
            message = (
                line if line.__class__ is Malformed else parse(cast("bytes", line), batch=link.accepts_batch)
            )
            receive(cast("Any", message), now)
        self.pump()

    @override
    def eof_received(self) -> bool:
        """Nothing more will come: no call can be answered, but what runs may finish."""
        rest = self._lines.finish()
        if rest is not None:
            self.side.receive(parse(rest, batch=self._link.accepts_batch), self._loop.time())
        self._fail_calls(ConnectionLost("the peer closed the connection", in_flight=True, retry_safe=False))
        self.pump()
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(self._linger))
        return True

    def pump(self) -> None:
        """Act on what has happened, and see to it that what is to be sent is written in this turn of the loop."""
        link = self._link
        while link.events:
            events: list[Event] = link.events
            link.events = []
            for event in events:
                self._on[event.__class__](event)
        if link.sends and not self._flush_due and self._transport is not None:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        sends, transport = self._link.sends, self._transport
        if not sends or transport is None:
            return
        self._link.sends = []
        lines = [message for _, message in sends]
        if self.logger.isEnabledFor(logging.DEBUG):
            for line in lines:
                self.logger.debug("sent %.2000r", line)
        lines.append(b"")
        if not transport.is_closing():
            transport.write(b"\n".join(lines))

    @override
    def pause_writing(self) -> None:
        self._blocked = True
        self._throttle()

    @override
    def resume_writing(self) -> None:
        self._blocked = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._throttle()

    async def drain(self) -> None:
        """Wait while the peer does not read what it is sent."""
        while self._blocked:
            if self._writable is None or self._writable.done():
                self._writable = self._loop.create_future()
            await asyncio.shield(self._writable)

    def _throttle(self) -> None:
        pause = self._blocked and not self.side.waiting
        transport = self._transport
        if pause is self._paused or transport is None or transport.is_closing():
            return
        self._paused = pause
        (transport.pause_reading if pause else transport.resume_reading)()

    # -- requests of the peer's ----------------------------------------------------------------------------

    def _admit(self, event: Inbound | Notified) -> None:
        if len(self._tasks) < self._max_handlers:
            self._start(event)
        elif len(self._queue) < self._max_handlers * QUEUED:
            self._queue.append(event)
        elif isinstance(event, Inbound):
            event.peer.fail(event, InternalError("too many requests in progress"))
        else:
            self.logger.warning("too much waits to be served: %s is dropped", event.method)

    def _start(self, event: Inbound | Notified) -> None:
        task = self._loop.create_task(self._run(event))
        self._tasks.add(task)
        if isinstance(event, Inbound):
            event.handle = task

    async def _run(self, event: Inbound | Notified) -> None:
        try:
            if isinstance(event, Inbound):
                await self._desk.serve(event, self)
            else:
                await self._desk.hear(event, self)
        finally:
            self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            self.pump()
            while self._queue and len(self._tasks) < self._max_handlers:
                self._start(self._queue.popleft())

    def _on_aborted(self, event: Aborted) -> None:
        self.logger.debug("request %r was cancelled: %s", event.inbound.id, event.reason)
        task: object = event.inbound.handle
        if isinstance(task, asyncio.Task):
            self._stop(cast("asyncio.Task[None]", task))
        elif event.inbound in self._queue:
            self._queue.remove(event.inbound)

    def _stop(self, task: asyncio.Task[None]) -> None:
        # One that is cancelled before its first step never gets to the end of `_run`.
        task.add_done_callback(self._tasks.discard)
        task.cancel()

    # -- calls of our own ----------------------------------------------------------------------------------

    def now(self) -> float:
        """The time that engines are told."""
        return self._loop.time()

    async def wait(
        self,
        call: Call,
        progress: Callable[[dict[str, Json]], None] | None = None,
        stream: Callable[[Streamed], None] | None = None,
    ) -> dict[str, Json]:
        """Wait for the answer to a call that was just handed to the engine.

        Raises what the call failed with. When the waiting task is cancelled, so is the call (CANC-7).
        """
        future: asyncio.Future[dict[str, Json]] = self._loop.create_future()
        call.handle = Waiter(future, progress, stream)
        self.pump()
        self._arm()
        if self._paused:
            self._throttle()
        try:
            return await future
        except asyncio.CancelledError:
            self.give_up(call, "the caller gave up")
            raise

    def give_up(self, call: Call, reason: str) -> None:
        """Cancel a call and tell the peer."""
        self.side.cancel(call, reason)
        self.pump()

    def _on_answered(self, event: Answered) -> None:
        waiter = event.call.handle
        if isinstance(waiter, Waiter) and not waiter.future.done():
            waiter.future.set_result(event.result)

    def _on_failed(self, event: Failed) -> None:
        self._reject(event.call, event.error)

    def _on_timed_out(self, event: TimedOut) -> None:
        message = f"no answer to '{event.call.method}' within {event.elapsed:.3g} s ({event.kind} timeout)"
        self._reject(event.call, RequestTimeout(message, elapsed=event.elapsed, kind=event.kind))

    def _reject(self, call: Call, error: McpError) -> None:
        waiter = call.handle
        if isinstance(waiter, Waiter) and not waiter.future.done():
            waiter.future.set_exception(error)

    def _on_progressed(self, event: Progressed) -> None:
        self._arm()
        waiter = event.call.handle
        if isinstance(waiter, Waiter) and waiter.progress is not None:
            try:
                waiter.progress(event.params)
            except Exception:
                self.logger.exception("a progress callback raised")

    def _on_streamed(self, event: Streamed) -> None:
        waiter = event.call.handle
        if isinstance(waiter, Waiter) and waiter.stream is not None:
            waiter.stream(event)

    def _on_opened(self, event: Opened) -> None:
        self.logger.debug("a session is open at %s", event.row.name)

    def _on_noted(self, event: Noted) -> None:
        self.logger.debug("%s", event.what)

    # -- time ----------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        deadline, timer = self.side.deadline, self._timer
        if deadline is None or (timer is not None and timer.when() <= deadline):
            return
        if timer is not None:
            timer.cancel()
        self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.side.tick(self._loop.time())
        self.pump()
        self._arm()

    # -- the end -------------------------------------------------------------------------------------------

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        if self._error is None:
            self._error = _as_lost(exc)
        # Whoever waits learns of it before anything else is torn down (design §10.4, rule 3).
        self.side.lost(self._error)
        self.pump()
        self._queue.clear()
        for task in self._tasks:
            self._stop(task)
        if self._timer is not None:
            self._timer.cancel()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._blocked = False
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(0))

    def _fail_calls(self, error: ConnectionLost) -> None:
        self._error = error
        self._link.events.extend(Failed(call, error) for call in self._link.calls.drain())

    async def _end(self, linger: float) -> None:
        """Let handlers finish, then stop them; write what is left, then close. Every wait has a bound."""
        if self._tasks and linger:
            await asyncio.wait(set(self._tasks), timeout=linger)
        for task in self._tasks:
            self._stop(task)
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=CLOSE)
        self._flush()
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait({self._lost}, timeout=CLOSE)
            if not self._lost.done():
                self._transport.abort()
        if not self.closed.done():
            self.closed.set_result(None)

    async def aclose(self, error: ConnectionLost | None = None) -> None:
        """End the connection; may be called from any task, and again."""
        if self._error is None:
            self._fail_calls(
                error or ConnectionLost("the connection was closed", in_flight=True, retry_safe=False)
            )
        self.side.end()
        self.pump()
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(0))
        await asyncio.shield(self._ending)
        self.side.lost(self._error or _as_lost(None))
        self.pump()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something for as long as the connection lasts."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _as_lost(exc: Exception | None) -> ConnectionLost:
    """Why a connection ended, as callers learn of it."""
    if isinstance(exc, ConnectionLost):
        return exc
    why = "the connection ended" if exc is None else f"the connection ended: {exc}"
    return ConnectionLost(why, in_flight=True, retry_safe=False)
