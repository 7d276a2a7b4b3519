"""Hearing of changes, in one way for both eras (SUB-2..7, SUB-9, CONV-38, AMB-1).

A change says only that something is to be fetched anew, so that several of the same kind are one: what waits to
be read is a set, and a reader who is slow misses nothing. A subscription outlives its connection: it is made again
over the next one (`reopening`), and as nobody knows what changed in between, everything listened to counts as changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from mcprev.convert import listens_to, subscribed_resources
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import ConnectionLost, HttpStatusError, Json, McpError, RequestTimeout
from mcprev.protocol.connection_state import StreamNotification
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    BY_METHOD,
    CHANGES,
    LISTEN,
    TASK_NOTIFICATIONS,
    Changed,
    task_ids,
)

if TYPE_CHECKING:
    from types import TracebackType

    from mcprev.client.session import ClientSession

OPEN: Final = 30.0
"""Seconds that a server gets to acknowledge a stream."""
CLOSE: Final = 2.0
"""Seconds that a server gets to take back each subscription."""
AGAIN: Final = ReconnectPolicy(limit=8)
"""How often a stream that broke is opened again, where the connection itself has not ended."""
_OUT_OF_ORDER: Final = 500
"""HTTP statuses from here on may pass."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something changed and may be fetched anew."""

    what: Changed
    uri: str | None = None
    """Which resource, for a single one."""
    task: str | None = None
    """Which task, for the state of one: a look at it tells the state."""


def change_in(method: str, params: Mapping[str, Json]) -> Change | None:
    """The change that a notification tells of, if it does."""
    kind, uri = BY_METHOD.get(method), params.get("uri")
    return None if kind is None else Change(kind, uri if isinstance(uri, str) else None)


class Subscription:
    """A stream of changes: an async context manager that is iterated over."""

    def __init__(self, session: ClientSession, wanted: Mapping[str, Json]) -> None:
        self.honoured: Mapping[str, Json] = wanted
        """What the server will tell of, in the words of a listen filter; all that was wanted before it has said."""
        self._session = session
        self._wanted = {"notifications": dict(wanted)}
        self._tasks = frozenset(task_ids(wanted))
        self._waiting: dict[Change, None] = {}
        self._news = asyncio.Event()
        self._ended = False
        self._error: McpError | None = None
        self._task: asyncio.Task[None] | None = None
        self._tried = 0
        self._since = 0.0

    async def __aenter__(self) -> Self:
        """Subscribe. Raises what a call raises."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = self._session.start(self._run(ready))
        try:
            async with asyncio.timeout(OPEN):
                await ready
        except TimeoutError:
            await self.aclose()
            text = f"the server did not say within {OPEN:g} s what it will tell of"
            raise RequestTimeout(text, elapsed=OPEN, kind="total") from None
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """The next change. Raises `ConnectionLost` when the stream broke off; a good end is the end."""
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change

    async def aclose(self) -> None:
        """Want to hear no more; may be called again."""
        task, self._task = self._task, None
        if task is not None:
            self._end(None)
            subscribed = self in self._session.listeners
            task.cancel()
            await asyncio.wait({task})
            if subscribed and self._session.connection.error is None:
                others = {uri for other in self._session.listeners for uri in other.uris}
                for uri in self.uris:
                    if uri not in others:
                        await self._unsubscribe(uri)

    @property
    def uris(self) -> tuple[str, ...]:
        """The resources that are listened to by name."""
        return subscribed_resources(self._wanted)

    async def _run(self, ready: asyncio.Future[None]) -> None:
        """Listen until there is an end, also over the connection that takes the place of one that was lost."""
        session = self._session
        end: McpError | None = _closed()
        try:
            while True:
                connection = session.connection
                try:
                    await (self._stream(ready) if session.revision.listens else self._subscribe(ready))
                except ConnectionLost as error:
                    if connection.error is not None:
                        await session.replace(connection, error)
                    else:
                        # The server ended the stream and not the connection.
                        await self._wait_again(
                            error, again=ready.done() and connection.protocol.connection.streams
                        )
                except HttpStatusError as error:
                    await self._wait_again(error, again=ready.done() and error.status >= _OUT_OF_ORDER)
                else:
                    end = None
                    return
        except McpError as error:
            end = error
            if not ready.done():
                ready.set_exception(error)
        finally:
            self._end(end)
            ready.cancel()

    async def _wait_again(self, error: McpError, *, again: bool) -> None:
        """Give a server time before it is asked for a stream that broke, as HTTP streams do (SUB-4, SUB-5)."""
        now = asyncio.get_running_loop().time()
        if now - self._since >= AGAIN.stable:
            self._tried = 0
        if not again or self._tried >= AGAIN.limit:
            raise error
        self._tried += 1
        await asyncio.sleep(AGAIN.delay(self._tried - 1))
        self._since = now

    def _acknowledged(self, ready: asyncio.Future[None]) -> None:
        """It is known what will be told; the second time, what happened in between is not (SUB-5).

        Of a task that is so from the first time on: it has gone on since it was last looked at.
        """
        for task in self._tasks:
            self._note(Change(Changed.TASK, task=task))
        if not ready.done():
            ready.set_result(None)
            return
        for kind, change in CHANGES.items():
            if kind is Changed.RESOURCE:
                for uri in self.uris:
                    self._note(Change(kind, uri))
            elif self._wanted["notifications"].get(change.member):
                self._note(Change(kind))

    # -- sessions ------------------------------------------------------------------------------------------

    async def _subscribe(self, ready: asyncio.Future[None]) -> None:
        """Subscribe to each resource, and pick changes out of the session's notifications until it is lost."""
        session, connection = self._session, self._session.connection
        session.listeners.add(self)
        try:
            if self.uris:
                session.protocol.check("resources/subscribe")
            for uri in self.uris:
                await session.raw("resources/subscribe", {"uri": uri})
            self._acknowledged(ready)
            await asyncio.wait({connection.closed})
            raise connection.error or _closed()
        finally:
            session.listeners.discard(self)

    async def _unsubscribe(self, uri: str) -> None:
        """Take a subscription back; a server that cannot be told has nothing more to tell either."""
        try:
            await self._session.raw("resources/unsubscribe", {"uri": uri}, timeout=CLOSE)
        except McpError as error:
            self._session.connection.logger.debug("unsubscribing failed: %s", error)

    def notification_received(self, method: str, params: Mapping[str, Json]) -> None:
        """A session's notification of a change came."""
        if method in TASK_NOTIFICATIONS:
            self._task_notification(params)
        elif listens_to(self._wanted, method, params):
            self._add(method, params)

    # -- streams -------------------------------------------------------------------------------------------

    async def _stream(self, ready: asyncio.Future[None]) -> None:
        """Open a stream and read it to its end."""
        session = self._session

        def stream(event: StreamNotification) -> None:
            if event.method == ACKNOWLEDGED:
                self.honoured = event.params.get("notifications") or {}
                self._acknowledged(ready)
            elif event.method in TASK_NOTIFICATIONS:
                self._task_notification(event.params)
            else:
                self._add(event.method, event.params)

        call = session.open(LISTEN, self._wanted)
        await session.connection.wait(call, stream=stream)

    def _add(self, method: str, params: Mapping[str, Json]) -> None:
        change = change_in(method, params)
        if change is not None:
            # Who hears of it may ask at once, and is not to get what was known before.
            self._session.server_cache.changed(change.what, change.uri)
            self._note(change)

    def _task_notification(self, params: Mapping[str, Json]) -> None:
        """The state of a task changed."""
        task = params.get("taskId")
        if isinstance(task, str) and task in self._tasks:
            self._note(Change(Changed.TASK, task=task))

    def _note(self, change: Change) -> None:
        self._waiting[change] = None
        self._news.set()

    def _end(self, error: McpError | None) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self._news.set()


def _closed() -> ConnectionLost:
    return ConnectionLost("the connection was closed", in_flight=False, retry_safe=False)
