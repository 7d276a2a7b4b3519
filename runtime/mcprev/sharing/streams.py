"""The streams of requests in a shared session: their events are in logs, so any worker resumes them (HTTP-14 to 17).

The first item of a log is its head: the ids of the requests and the worker that serves them. So event `n` of a stream
is item `n + 1`. The last item of a stream that its worker has ended is `END`. If a worker is dead, whoever reads the log
completes it, so that nobody writes into it any more, and tells the client which requests got no response.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from mcprev.core.store import LogBounds, LogItem, LogTail, Store, stored_for
from mcprev.error_text import worker_lost
from mcprev.errors import Json, StoreError, StoreShareError
from mcprev.sharing.worker import LOOK, Worker
from mcprev.transports.http.server.event_store import MAX_EVENTS, MAX_SESSION
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.wire.jsonrpc import encode_error
from mcprev.wire.sse import encode_message

END: Final = b"null"
"""The last item of a stream that its worker has ended."""
ENDED: Final = LogBounds(ttl=300.0, items=MAX_EVENTS + 2, size=MAX_SESSION)
"""What is kept of a stream that has ended: its events beside its head and its end."""
QUEUED: Final = 64
"""The number of events that are not stored yet, or not read elsewhere, above which a handler that sends more waits."""
MAX_QUEUED: Final = 512
"""The number of events that wait for a store that is away; beyond it, the stream cannot be resumed."""
BACKLOG: Final = 64
"""The number of streams that are not stored above which a response waits until its own is."""
PACE: Final = 1.0
"""Seconds for which it waits at most."""
RETRY: Final = 0.25
"""Seconds between two attempts to store events while the store is away."""
AHEAD: Final = 1_000
"""How many events a client may have seen that a dead worker has not stored."""
LOST: Final = worker_lost(
    "the process that served the request has ended; the request may have run in part", may_have_run=True
).to_wire()
"""The error of a request whose worker is dead."""
_NOTIFICATION: Final = b'{"jsonrpc":"2.0","method":'
_logger: Final = logging.getLogger("mcprev.sharing")


def is_droppable(message: bytes) -> bool:
    """Return whether a client that resumes the stream of a request can do without a message: it is a notification."""
    return message.startswith(_NOTIFICATION)


class SharedStream:
    """The event stream of requests that this worker serves; its events go to the reader here, and into a log."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        log: str,
        number: int,
        *,
        client: str | None,
        ids: Callable[[], Sequence[Json]],
        ttl: float,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        over: Callable[[int], object],
    ) -> None:
        """`ttl` is how long the stream is kept while its requests run, unless it is renewed. `ids` returns the ids of the requests in progress whose responses the stream carries.

        `client` is the digest of the client for whose share of the store it counts.
        `start` runs a task until it ends. `over` is called with the number when there is nothing more to store.
        """
        self._store, self._worker, self._log, self._ids, self._client = store, worker, log, ids, client
        self._start, self._over = start, over
        self._running = ENDED._replace(ttl=ttl)
        self.number: int = number
        self.last: int = 0
        """The number of the latest event."""
        self.reader: ResponseStream | None = None
        """The response that the client reads here, if any."""
        self.done: bool = False
        self.fenced: bool = False
        """Whether nothing is to be stored any more, because another worker has ended the stream or will."""
        self._elsewhere: tuple[int, int] | None = None
        """The worker where the client reads, and how far."""
        self._queue: deque[LogItem] = deque([LogItem(b"")])  # the place of the head
        self._stored = 0
        self._writing: asyncio.Task[None] | None = None
        self._moved: asyncio.Event = asyncio.Event()

    def event_id(self, number: int) -> str:
        """Return the id of an event."""
        return f"{self.number}-{number}"

    def push(self, message: bytes, /) -> None:
        """Store a message and send it to the reader."""
        self.last += 1
        self._add(LogItem(message, is_droppable(message)))
        if self.reader is not None:
            self.reader.write(encode_message(message, self.event_id(self.last)))

    def close(self) -> None:
        """End the stream after its last message."""
        if not self.done:
            self.done = True
            self._add(LogItem(END))
            if self.reader is not None:
                self.reader.end()
                self.reader = None

    def detach(self, response_stream: ResponseStream, /) -> None:
        """Remove the reader."""
        if self.reader is response_stream:
            self.reader = None

    def hand_over(self, worker: int, place: int) -> None:
        """Let a worker read the stream from an event on, in place of the reader here."""
        if self.reader is not None:
            reader, self.reader = self.reader, None
            reader.hand_over()
        self.read_elsewhere(worker, place)

    def read_elsewhere(self, worker: int, place: int) -> None:
        """Learn how far a worker has read; the worker 0 means that nobody reads."""
        self._elsewhere = (worker, place) if worker else None
        self._moved.set()

    def start(self) -> None:
        """Begin to store the stream, with its head."""
        if self._writing is None or self._writing.done():
            self._writing = self._start(self._write())

    async def renew(self) -> None:
        """Keep the stream for longer."""
        if self._stored and not self.done and not self.fenced:
            await self._store.append(self._log, [], bounds=self._running)

    async def flushed(self) -> None:
        """Wait until all events are stored, or cannot be stored now."""
        while self._queue and not self.fenced:
            self._moved.clear()
            await self._moved.wait()

    async def room(self) -> None:
        """Wait while too many events are not stored, or not read where the client reads."""  # STDIO-9
        while not self.fenced:
            behind = None if self._elsewhere is None else self.last - self._elsewhere[1]
            if len(self._queue) <= QUEUED and (behind is None or behind <= 2 * QUEUED):
                return
            self._moved.clear()
            try:
                async with asyncio.timeout(LOOK):
                    await self._moved.wait()
            except TimeoutError:
                await self._check_reader()

    async def _check_reader(self) -> None:
        try:
            if self._elsewhere is not None and not await self._worker.is_alive(self._elsewhere[0]):
                self._elsewhere = None
        except StoreError:
            self._elsewhere = None

    def _add(self, item: LogItem) -> None:
        if self.fenced:
            return
        self._queue.append(item)
        if len(self._queue) > MAX_QUEUED:
            _logger.warning("a stream cannot be resumed, because its events cannot be stored")
            self.fence()
            return
        self.start()

    def fence(self) -> None:
        """Store nothing any more."""
        self.fenced = True
        self._queue.clear()
        self._moved.set()
        self._over(self.number)

    async def _write(self) -> None:
        self._worker.unstored += 1
        try:
            while self._queue and not self.fenced:
                try:
                    async with self._worker.writing:
                        await self._write_queue()
                except StoreShareError:  # others do not wait for a client that has filled its share
                    _logger.warning("a stream cannot be resumed, because its client stores too much already")
                    self.fence()
                except StoreError as error:
                    self._worker.complain("the events of a stream cannot be stored now", error)
                    self._moved.set()
                    await asyncio.sleep(RETRY)
        finally:
            self._worker.unstored -= 1
        if self.done and not self.fenced:
            self._over(self.number)

    async def _write_queue(self) -> None:
        """Store what waits. Raises `StoreError`."""
        if self.fenced:
            return
        items = list(self._queue)
        if not self._stored:
            head = {"ids": list(self._ids()), "worker": self._worker.number}
            items[0] = LogItem(json.dumps(head).encode())
        if not await self._append(items):
            _logger.warning("another worker ended a stream, because this worker seemed to have died")
            self.fence()
            return
        self._stored += len(items)
        for _ in items[: len(self._queue)]:
            self._queue.popleft()
        self._moved.set()

    async def keep_pace(self) -> None:
        """Wait until the events are stored, or for a moment: a client that gets its response calls again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PACE):
                await self.flushed()

    async def _append(self, items: list[LogItem]) -> bool:
        """Append items; return False if others have ended the stream."""
        bounds = ENDED if items[-1].value == END else self._running
        with stored_for(self._client):
            if await self._store.append(self._log, items, bounds=bounds, seen=self._stored) is not None:
                return True
        # An earlier attempt may have stored them without saying so.
        tail = await self._store.tail(self._log, self._stored)
        last = self._stored + len(items)
        return tail.last == last and not tail.complete and (last, items[-1].value) in tail.items


class Report(Protocol):
    """Takes how far a client has read, and whether it still reads."""

    def __call__(self, place: int, /, *, reads: bool) -> object:
        """Take a report."""
        ...


class StreamReader:
    """Sends what is in the log of a stream on a response, from any worker."""

    reader: ResponseStream | None = None
    """None: the response is its own reader."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        log: str,
        number: int,
        response_stream: ResponseStream,
        *,
        report: Report,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        """`report` is told now and then how far the client has read, and whether it still reads."""
        self._start = start
        self._store, self._worker, self._log = store, worker, log
        self.number: int = number
        self.response: ResponseStream = response_stream
        self._report = report
        self._task: asyncio.Task[None] | None = None
        response_stream.replay = self

    def push(self, message: bytes, /) -> None:
        """Nothing is sent but what is in the log."""
        raise AssertionError(message)

    def close(self) -> None:
        """The response has ended with the stream."""

    def detach(self, response_stream: ResponseStream, /) -> None:
        """Stop reading, because the client is gone."""
        del response_stream
        if self._task is not None:
            self._task.cancel()

    def start(self, owner: int, after: int, tail: LogTail) -> None:
        """Send a tail that was read after an item, then what follows, until the stream ends."""
        self.response.started = True
        self._task = self._start(self._run(owner, after, tail))

    async def _run(self, owner: int, after: int, tail: LogTail) -> None:
        response, reported = self.response, after
        response.write(b"")
        try:
            while not response.ended:
                for number, value in tail.items:
                    if value == END:
                        response.end()
                        return
                    response.write(encode_message(value, f"{self.number}-{number - 1}"))
                    after = number
                if tail.complete:
                    await self._tell_lost(after)
                    response.end()
                    return
                await response.drain()
                if after - reported >= QUEUED // 2:
                    self._report(after - 1, reads=True)
                    reported = after
                tail = await self._store.tail(self._log, after, wait=LOOK)
                if tail.lost:
                    response.hand_over()
                    return
                if not tail.items and not tail.complete and not await self._worker.is_alive(owner):
                    await self._store.complete(self._log, ttl=ENDED.ttl)
                    tail = await self._store.tail(self._log, after)
        except StoreError as error:
            _logger.warning("a stream cannot be read from the store; its client may resume it: %s", error)
            response.hand_over()
        finally:
            self._report(after - 1, reads=False)

    async def _tell_lost(self, after: int) -> None:
        """Send the errors of requests that got no response, because their worker is dead."""
        tail = await self._store.tail(self._log, 0)
        answered: list[Json] = []
        head: dict[str, Json] = {}
        for number, value in tail.items:
            message: dict[str, Json] = json.loads(value)
            if number == 1:
                head = message
            elif "id" in message and "method" not in message:
                answered.append(message["id"])
        for id_ in unanswered(head.get("ids", []), answered):
            after += 1
            self.response.write(encode_message(encode_error(id_, LOST), f"{self.number}-{after - 1}"))


def unanswered(ids: Sequence[Json], answered: Collection[Json]) -> list[Json]:
    """Return the ids without those that were answered; 1 is not "1"."""
    known: set[object] = {(type(each), each) for each in answered}
    return [each for each in ids if (type(each), each) not in known]
