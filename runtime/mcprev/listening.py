"""Hearing of changes, in one way for both eras (SUB-2..7, CONV-38, AMB-1).

A change says only that something is to be fetched anew, so that several of the same kind are one: what waits to
be read is a set, and a reader who is slow misses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from mcprev.convert import listens_to, subscribed_resources
from mcprev.errors import Json, McpError
from mcprev.protocol.link import Streamed
from mcprev.protocol.subscriptions import ACKNOWLEDGED, BY_METHOD, LISTEN, Changed

if TYPE_CHECKING:
    from types import TracebackType

    from mcprev.client import Client

OPEN: Final = 30.0
"""Seconds that a server gets to acknowledge a stream."""
CLOSE: Final = 2.0
"""Seconds that a server gets to take back each subscription."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something changed and may be fetched anew."""

    what: Changed
    uri: str | None = None
    """Which resource, for a single one."""


class Subscription:
    """A stream of changes: an async context manager that is iterated over."""

    def __init__(self, client: Client, wanted: Mapping[str, Json]) -> None:
        self.honoured: Mapping[str, Json] = wanted
        """What the server will tell of, in the words of a listen filter; all that was wanted before it has said."""
        self._client = client
        self._wanted = {"notifications": dict(wanted)}
        self._waiting: dict[Change, None] = {}
        self._news = asyncio.Event()
        self._ended = False
        self._error: McpError | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Subscribe. Raises what a call raises."""
        if self._client.row.listens:
            await self._open_stream()
        else:
            await self._subscribe()
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
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        elif self in self._client.subscriptions:
            self._client.subscriptions.discard(self)
            others = {uri for other in self._client.subscriptions for uri in other.uris}
            for uri in self.uris:
                if uri not in others:
                    await self._unsubscribe(uri)
        self._end(None)

    @property
    def uris(self) -> tuple[str, ...]:
        """The resources that are listened to by name."""
        return subscribed_resources(self._wanted)

    # -- sessions ------------------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        client = self._client
        if self.uris:
            client.check("resources/subscribe")
        client.subscriptions.add(self)
        client.connection.closed.add_done_callback(lambda _: self._end(client.connection.error))
        try:
            for uri in self.uris:
                await client.raw("resources/subscribe", {"uri": uri})
        except BaseException:
            client.subscriptions.discard(self)
            raise

    async def _unsubscribe(self, uri: str) -> None:
        """Take a subscription back; a server that cannot be told has nothing more to tell either."""
        try:
            await self._client.raw("resources/unsubscribe", {"uri": uri}, timeout=CLOSE)
        except McpError as error:
            self._client.connection.logger.debug("unsubscribing failed: %s", error)

    def heard(self, method: str, params: Mapping[str, Json]) -> None:
        """A session's notification of a change came."""
        if listens_to(self._wanted, method, params):
            self._add(method, params)

    # -- streams -------------------------------------------------------------------------------------------

    async def _open_stream(self) -> None:
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = self._client.connection.start(self._listen(acknowledged))
        try:
            async with asyncio.timeout(OPEN):
                await acknowledged
        except BaseException:
            await self.aclose()
            raise

    async def _listen(self, acknowledged: asyncio.Future[None]) -> None:
        client = self._client

        def stream(event: Streamed) -> None:
            if event.method != ACKNOWLEDGED:
                self._add(event.method, event.params)
            elif not acknowledged.done():
                self.honoured = event.params.get("notifications") or {}
                acknowledged.set_result(None)

        try:
            call = client.open(LISTEN, self._wanted, idle=None, total=None)
            await client.connection.wait(call, stream=stream)
            self._end(None)
        except McpError as error:
            self._end(error)
            if not acknowledged.done():
                acknowledged.set_exception(error)
        finally:
            if not acknowledged.done():
                acknowledged.set_result(None)

    def _add(self, method: str, params: Mapping[str, Json]) -> None:
        kind, uri = BY_METHOD.get(method), params.get("uri")
        if kind is not None:
            self._waiting[Change(kind, uri if isinstance(uri, str) else None)] = None
            self._news.set()

    def _end(self, error: McpError | None) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self._news.set()
