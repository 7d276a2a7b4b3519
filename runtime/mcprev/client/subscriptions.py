"""Subscriptions to changes of the server, with one interface for all revisions (SUB-2..7, SUB-9, CONV-38, AMB-1).

A change only says that something must be fetched again, so equal changes are merged: the changes to deliver are a
set, and a slow reader misses none. A subscription outlives its connection: it is made again on the next connection
(`session`), and everything subscribed then counts as changed, because notifications may have been missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from mcprev.client.calls import until
from mcprev.client.session import ClientSession
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import ConnectionLost, HttpStatusError, Json, McpError, RemoteProtocolError, one_line
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    BY_METHOD,
    CHANGES,
    LISTEN,
    TASK_NOTIFICATIONS,
    Changed,
    task_ids,
    wants,
)

OPEN: Final = 30.0
"""Seconds to wait until the server acknowledges a stream."""
CLOSE: Final = 2.0
"""Seconds to wait for the response to each `resources/unsubscribe`."""
AGAIN: Final = ReconnectPolicy(limit=8)
"""How often to reopen a broken stream if the connection itself has not ended."""
WAITING: Final = 1000
"""How many changes wait for a slow reader; above, a change of a resource that was not subscribed to is dropped."""
_SERVER_ERROR: Final = 500
"""HTTP statuses from here on are worth another attempt."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change on the server. It carries no new state: fetch the list, the resource or the task again."""

    what: Changed
    """The kind of the change: `tools`, `prompts`, `resources`, `resource` or `task`."""
    uri: str | None = None
    """The URI of the changed resource, for the kind `resource`; otherwise None."""
    task: str | None = None
    """The id of the changed task, for the kind `task`; otherwise None."""


def change_in(method: str, params: Mapping[str, Json]) -> Change | None:
    """Return the change that a notification reports; None if it reports none."""
    kind, uri = BY_METHOD.get(method), params.get("uri")
    return None if kind is None else Change(kind, uri if isinstance(uri, str) else None)


class Subscription:
    """The changes of a server, from `Client.listen`: `async with` subscribes, `async for` yields each `Change`.

    Equal changes that have not been read yet are merged. When the connection is lost and opened again, the client
    subscribes again, and everything subscribed counts as changed.
    """

    def __init__(self, session: ClientSession, wanted: Mapping[str, Json]) -> None:
        self.honoured: Mapping[str, Json] = wanted
        """The part of the requested changes that the server reports, as JSON; before `async with`, all of them."""
        self.on_note: Callable[[], bool] | None = None
        """Called for each change that is to be delivered and does not wait yet; False drops the change."""
        self._session = session
        self._wanted = {"notifications": dict(wanted)}
        self._tasks = frozenset(task_ids(wanted))
        self._waiting: dict[Change, None] = {}
        self._news = asyncio.Event()
        self._end: Exception | None = None
        """What `__anext__` raises at the end of the subscription."""
        self._task: asyncio.Task[None] | None = None
        self._tried = 0
        self._since = 0.0

    async def __aenter__(self) -> Self:
        """Subscribe. Raises `RequestTimeout` if the server does not acknowledge it within 30 s, and other call errors."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        self._task = self._session.start(self._run(ready))
        try:
            async with until(loop.time() + OPEN, f"the server did not acknowledge '{LISTEN}'"):
                await ready
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """Return the next change. Raises `ConnectionLost` if the stream breaks; stops if the server ends it."""
        while not self._waiting:
            if self._end is not None:
                raise self._end
            self._news.clear()
            await self._news.wait()
        return self.take()

    def take(self) -> Change:
        """Remove and return the oldest change that has not been read yet."""
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change

    async def aclose(self) -> None:
        """Unsubscribe; may be called more than once."""
        task, self._task = self._task, None
        if task is not None:
            self._finish(StopAsyncIteration())
            subscribed = self._notified in self._session.listeners
            task.cancel()
            await asyncio.wait({task})
            if subscribed and self._session.connection.error is None:
                others = {uri for uris in self._session.listeners.values() for uri in uris}
                for uri in self.uris:
                    if uri not in others:
                        await self._unsubscribe(uri)

    @property
    def uris(self) -> tuple[str, ...]:
        """The URIs of the subscribed resources."""
        return tuple(self._wanted["notifications"].get(CHANGES[Changed.RESOURCE].member) or ())

    async def _run(self, ready: asyncio.Future[None]) -> None:
        """Listen until the subscription ends; continue on the next connection if one is lost."""
        session = self._session
        end: Exception = _closed()
        try:
            while True:
                connection = session.connection
                try:
                    await (self._stream(ready) if session.revision.listens else self._subscribe(ready))
                except (ConnectionLost, HttpStatusError) as error:
                    again = connection.protocol.connection.streams
                    if isinstance(error, HttpStatusError):
                        again = error.status >= _SERVER_ERROR
                    elif connection.error is not None:
                        await session.replace(connection, error)
                        continue
                    # The server closed the stream, not the connection.
                    await self._wait_again(error, again=again and ready.done())
                else:
                    end = StopAsyncIteration()
                    if not ready.done():
                        ready.set_exception(
                            RemoteProtocolError(f"the server ended '{LISTEN}' without acknowledging it")
                        )
                    return
        except McpError as error:
            end = error
            if not ready.done():
                ready.set_exception(error)
        finally:
            self._finish(end)
            ready.cancel()

    async def _wait_again(self, error: McpError, *, again: bool) -> None:
        """Wait before reopening a broken stream; raise `error` if it must not be reopened."""
        now = asyncio.get_running_loop().time()
        if now - self._since >= AGAIN.stable:
            self._tried = 0
        if not again or self._tried >= AGAIN.limit:
            raise error
        self._tried += 1
        await asyncio.sleep(AGAIN.delay(self._tried - 1))
        self._since = now

    def _acknowledged(self, ready: asyncio.Future[None]) -> None:
        """The server has acknowledged the subscription. Changes before a renewed one are unknown: report everything.

        A task may have changed even before the first acknowledgement.
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
        """Subscribe to each resource and deliver the session's notifications until the session ends."""
        session, connection = self._session, self._session.connection
        session.listeners[self._notified] = self.uris
        try:
            if self.uris:
                session.protocol.engine.check_sendable("resources/subscribe")
            for uri in self.uris:
                await session.raw("resources/subscribe", {"uri": uri})
            self._acknowledged(ready)
            await asyncio.wait({connection.closed})
            raise connection.error or _closed()
        finally:
            session.listeners.pop(self._notified, None)

    async def _unsubscribe(self, uri: str) -> None:
        """Unsubscribe from one resource; a failure is logged only."""
        try:
            await self._session.raw("resources/unsubscribe", {"uri": uri}, timeout=CLOSE)
        except McpError as error:
            self._session.connection.logger.debug("unsubscribing failed: %s", one_line(error))

    def _notified(self, method: str, params: Mapping[str, Json]) -> None:
        """Deliver a notification of the session if this subscription covers it."""
        kind = BY_METHOD.get(method)
        if kind is None or wants(self._wanted["notifications"], kind, params.get("uri")):
            self._deliver(method, params)

    # -- streams -------------------------------------------------------------------------------------------

    async def _stream(self, ready: asyncio.Future[None]) -> None:
        """Open a `subscriptions/listen` stream and read it to its end."""
        session = self._session

        def listener(method: str, params: Mapping[str, Json]) -> None:
            if method == ACKNOWLEDGED:
                self.honoured = params.get("notifications") or {}
                self._acknowledged(ready)
            else:
                self._deliver(method, params)

        session.protocol.engine.check_sendable(LISTEN)
        call = session.open(LISTEN, self._wanted, {"timeout": None}, None)
        await session.connection.wait(call, listener)

    def _deliver(self, method: str, params: Mapping[str, Json]) -> None:
        """Deliver the change that a notification reports."""
        task, change = params.get("taskId"), change_in(method, params)
        if change is not None:
            # Invalidate first: the receiver may send a request at once.
            self._session.server_cache.changed(change.what, change.uri)
            self._note(change)
        elif method in TASK_NOTIFICATIONS and isinstance(task, str) and task in self._tasks:
            self._note(Change(Changed.TASK, task=task))

    def _note(self, change: Change) -> None:
        if len(self._waiting) < WAITING or change.uri in (None, *self.uris):
            if change in self._waiting or self.on_note is None or self.on_note():
                self._waiting[change] = None
            self._news.set()

    def _finish(self, end: Exception) -> None:
        if self._end is None:
            self._end = end
            self._news.set()


def _closed() -> ConnectionLost:
    return ConnectionLost("the connection was closed", in_flight=False, retry_safe=False)
