"""Subscriptions to changes of the server, with one interface for all revisions (SUB-2..7, SUB-9, CONV-38, AMB-1).

A change only says that something must be fetched again, so equal changes are merged: the changes to deliver are a
set, and a slow reader misses none. A subscription outlives its stream, its connection and an outage of its server: it is
made again for as long as its client is open, unless the client opens no lost connection again (`restart=False`). Everything
subscribed then counts as changed, because notifications may have been missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import uniform
from typing import TYPE_CHECKING, Final, Self, cast

from mcprev.client.calls import until
from mcprev.client.session import ClientSession
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import (
    AuthError,
    ConnectionLost,
    HttpStatusError,
    Json,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    one_line,
)
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

if TYPE_CHECKING:
    from mcprev.core.connection import Connection

OPEN: Final = 30.0
"""Seconds to wait until the server acknowledges a stream."""
CLOSE: Final = 2.0
"""Seconds to wait for the response to each `resources/unsubscribe`."""
AGAIN: Final = ReconnectPolicy(limit=8, max_backoff=30)
"""How soon to subscribe again; how often, where a client opens no lost connection again."""
JITTER: Final = (0.75, 1.25)
"""What each of these times is multiplied by, so that the clients of a server that was away do not come at once."""
TOLD: Final = 3
"""Failed attempts in a row after which the log says that changes are not heard of."""
WAITING: Final = 1000
"""How many changes wait for a slow reader; above, a change of a resource that was not subscribed to is dropped."""
_SERVER_ERROR: Final = 500
"""HTTP statuses from here on are worth another attempt."""
_logger: Final = logging.getLogger("mcprev.client")


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

    Equal changes that have not been read yet are merged. When the stream, the connection or the server is lost, the client
    subscribes again until it closes, and everything subscribed counts as changed when the server is back.
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
        self._failed_first: asyncio.Future[None] | None = None
        """Done when an attempt failed that `begin` waits for."""
        self._task: asyncio.Task[None] | None = None
        self._tried = 0
        """Attempts to subscribe again, since the subscription was last stable."""
        self._since = 0.0
        """When it was acknowledged last."""
        self._told = False
        """Whether the log says that changes are not heard of."""

    async def __aenter__(self) -> Self:
        """Subscribe. Raises `RequestTimeout` if the server does not acknowledge it within 30 s, and other call errors."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        self._task = self._session.start(self._run(ready))
        try:
            clock = self._session.clock
            async with until(clock.now() + OPEN, f"the server did not acknowledge '{LISTEN}'", clock):
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
        """Return the next change. Stops if the server ends the stream in good order, or if it was closed.

        Raises the error that ended it: that of a closed client, or with `restart=False` that of a lost connection.
        """
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

    async def begin(self) -> None:
        """Subscribe in the background, and go on trying if the server is away now. Raises the error of a server that
        does not report changes.
        """
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = self._session.start(self._run(ready, lasting=True))
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._failed_first = failed
        await asyncio.wait({ready, failed}, timeout=OPEN, return_when=asyncio.FIRST_COMPLETED)
        failed.cancel()
        if ready.done():
            ready.result()

    async def _run(self, ready: asyncio.Future[None], *, lasting: bool = False) -> None:
        """Listen until the subscription ends; subscribe again whenever a stream or a connection is lost.

        Before the first acknowledgement, only a `lasting` one goes on trying, if the server may be away.
        """
        session, end = self._session, cast("Exception", _closed())
        try:
            while True:
                connection = session.connection
                try:
                    if connection.error is not None:
                        raise ConnectionLost(str(connection.error), in_flight=False, retry_safe=True)
                    await (self._stream(ready) if session.revision.listens else self._subscribe(ready))
                except McpError as error:
                    await self._recover(error, connection, ready, lasting=lasting)
                else:
                    if not (lasting and session.restarts and ready.done()):
                        end = StopAsyncIteration()
                        if not ready.done():
                            ready.set_exception(
                                RemoteProtocolError(f"the server ended '{LISTEN}' without acknowledging it")
                            )
                        return
                    await self._wait_again(_closed())
        except McpError as error:
            end = error
            if not ready.done():
                ready.set_exception(error)
        finally:
            self._finish(end)
            ready.cancel()

    async def _recover(
        self, error: McpError, connection: Connection, ready: asyncio.Future[None], *, lasting: bool
    ) -> None:
        """Wait until it is worth to subscribe again after an error; raise it if it ends the subscription."""
        session = self._session
        status = error.status if isinstance(error, HttpStatusError) else 0
        away = status >= _SERVER_ERROR or isinstance(error, ConnectionLost | RequestTimeout)
        if session.closing or not (ready.done() or away):
            raise error
        if connection.error is not None:
            try:
                await session.replace(connection, error, quiet=self._told)
            except McpError as failure:
                if not (session.restarts and (ready.done() or lasting)):
                    raise
                error = failure
            else:
                return
        elif not session.restarts:
            again = ready.done() and away and connection.protocol.connection.streams
            if not again or self._tried >= AGAIN.limit:
                raise error
        elif not (ready.done() or lasting):
            raise error
        await self._wait_again(error)

    async def _wait_again(self, error: McpError) -> None:
        """Wait before another attempt, or until another request has succeeded."""
        now = asyncio.get_running_loop().time()
        if self._since and now - self._since >= AGAIN.stable:
            self._tried = 0
        self._since = 0.0
        self._tried += 1
        if self._failed_first is not None and not self._failed_first.done():
            self._failed_first.set_result(None)
        if self._tried >= TOLD and not self._told:
            self._told = True
            _logger.warning("changes of the server are not heard of until it is back: %s", one_line(error))
        # A user is not asked to log in again for this: another request has to succeed first.
        jitter = uniform(*JITTER)  # noqa: S311 - no secret
        delay = None if isinstance(error, AuthError) else AGAIN.delay(self._tried - 1) * jitter
        await self._session.until_reached(delay)

    def _acknowledged(self, ready: asyncio.Future[None]) -> None:
        """The server has acknowledged the subscription. Changes before a renewed one are unknown: report everything.

        A task may have changed even before the first acknowledgement.
        """
        self._since = asyncio.get_running_loop().time()
        if self._told:
            self._told = False
            _logger.warning("changes of the server are heard of again; all may have changed in between")
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
