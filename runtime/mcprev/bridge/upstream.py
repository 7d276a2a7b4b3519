"""One connection of a bridge to its server, and what uses it (SEC-6, TIME-1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from mcprev.bridge.introduction import ServerIntroduction
from mcprev.bridge.outages import Outage
from mcprev.client.opener import LAST_WORDS, Opener
from mcprev.conversion.rules import as_object
from mcprev.core.connection import Connection
from mcprev.errors import (
    ConnectionLost,
    ConversionError,
    Json,
    SessionExpired,
    one_line,
)
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.subscriptions import ACKNOWLEDGED, BY_METHOD, LISTEN, Changed
from mcprev.protocol.tasks import TASK_NOTIFICATION
from mcprev.revisions import Revision
from mcprev.wire.meta_keys import SUBSCRIPTION_ID

logger: Final = logging.getLogger("mcprev.bridge")
_OF_LISTEN: Final = frozenset({ACKNOWLEDGED, TASK_NOTIFICATION, *BY_METHOD})
"""The notifications that only listen streams carry."""


class Receiver(Protocol):
    """Takes what the server of an upstream sends outside of responses and progress."""

    @property
    def serving(self) -> int | None:
        """The requests in progress of the session that has the upstream; None if it is not that of a session."""
        ...

    def notified(self, notified: NotificationReceived) -> None:
        """Take a notification, in the order of the wire."""
        ...

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Answer a request of the server."""
        ...

    def lost(self, upstream: Upstream) -> None:
        """Take note that a connection was lost."""
        ...


class Caller(Protocol):
    """For whom a call is made."""

    @property
    def request(self) -> IncomingRequest | None:
        """The request of the client that waits for the call now, if one does."""
        ...

    @property
    def suspended_since(self) -> float | None:
        """The time of the loop since which the call waits for a user while no request of the client does; None if not."""
        ...

    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send the client a notification of its revision about its request, if it waits for it."""
        ...

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Answer a request that the server made during the call."""
        ...


def _ignored(_kind: Changed, _uri: str | None) -> None:
    """Do nothing."""


class ServerMessages:
    """The request handler of an upstream's connection."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def handle_request(self, incoming: IncomingRequest, _connection: Connection, /) -> None:
        """Pass a request of the server to the receiver of the upstream."""
        await self._upstream.receiver.asked(incoming)

    def notified(self, notified: NotificationReceived, _connection: Connection, /) -> bool:
        """Pass a notification of the server to the receiver of the upstream."""
        self._upstream.heard(notified.method, notified.params)
        try:
            self._upstream.receiver.notified(notified)
        except ConversionError as error:
            logger.warning("'%s' of the server is dropped: %s", one_line(notified.method), one_line(error))
        return False

    async def handle_notification(self, _notified: NotificationReceived, _connection: Connection, /) -> None:
        """Do nothing: `notified` has taken it."""


@dataclass(eq=False)
class Upstream:
    """One connection to the server, from its opening to its end."""

    key: Hashable
    receiver: Receiver
    changed: Callable[[Changed, str | None], None] = _ignored
    """Takes the changes that the server tells of, before a client does."""
    owner: Hashable = None
    """The client for whose share it counts; None for one that all clients use."""
    outage: Outage = field(default_factory=Outage)
    """Whether those that listen hear of the server's changes."""
    opening: asyncio.Task[None] | None = None
    users: int = 0
    """The calls and sessions that use it."""
    holder: Caller | None = None
    """The call that holds it exclusively."""
    level: str | None = None
    """The log level that was set at the server."""
    closed: bool = False
    expired: bool = False
    """Whether the server has forgotten the session."""
    settling: bool = False
    """Whether it will be free in a moment: its server still reads that a call was cancelled."""
    retired: bool = False
    """Whether it ends with those who use it now."""
    opener: Opener | None = None
    link: Connection | None = None
    """Its connection; None before it is open."""
    server: ServerIntroduction | None = None
    calls: dict[Call, Caller | None] = field(default_factory=dict[Call, "Caller | None"])
    """The open calls, and for whom they are made."""
    related: dict[object, Caller] = field(default_factory=dict[object, "Caller"])
    """For whom the tasks of the server run that the bridge follows, by id."""
    unused_since: float = 0.0
    """The time of the loop since which nobody uses it, or the session that uses it has made no call."""

    @property
    def alive(self) -> bool:
        """Whether it can be used: it is open, or being opened."""
        connection = self.link
        return not (self.closed or self.expired or self.retired) and (
            connection is None or connection.error is None
        )

    @property
    def rests(self) -> bool:
        """Whether it is used by nothing but a session without a request in progress, which can do without it."""
        return (
            self.receiver.serving == 0
            and self.users == 1
            and not any(self.calls.values())
            and not self.related
        )

    @property
    def connection(self) -> Connection:
        """Its connection. Raises `ConnectionLost` before it is open."""
        if self.link is None:
            raise ConnectionLost("the server is not connected", in_flight=False, retry_safe=True)
        return self.link

    @property
    def protocol(self) -> ClientProtocol:
        """The protocol of its connection."""
        found = self.connection.protocol
        assert isinstance(found, ClientProtocol)
        return found

    @property
    def introduction(self) -> ServerIntroduction:
        """What the server says of itself."""
        if self.server is None:
            raise ConnectionLost("the server is not connected", in_flight=False, retry_safe=True)
        return self.server

    @property
    def revision(self) -> Revision:
        """The revision that the server speaks."""
        return self.introduction.revision

    @property
    def attributes(self) -> bool:
        """Whether everything that a server sends during a call names the call."""
        return self.protocol.connection.streams

    async def call(
        self,
        method: str,
        params: dict[str, Json] | None,
        *,
        total: float | None,
        listener: Callable[[str, dict[str, Json]], None] | None = None,
        progress: bool = False,
        caller: Caller | None = None,
    ) -> dict[str, Json]:
        """Call the server with JSON of its revision, and return its result. Raises `McpError`."""
        connection = self.connection
        if connection.error is not None:
            raise ConnectionLost(str(connection.error), in_flight=False, retry_safe=True)
        if method == LISTEN and listener is not None:
            listener = self._hearing(listener)
        protocol = connection.protocol  # not by the properties: every call of a client passes here
        assert isinstance(protocol, ClientProtocol)
        self.unused_since = now = connection.now()
        call = protocol.engine.call(
            method, params, now, idle=None, total=total, progress=progress, unchecked=True
        )
        self.calls[call] = caller
        try:
            result = await connection.wait(call, listener, lambda: _why_cancelled(caller))
            if self.outage.waiting and method != LISTEN:
                self.outage.reached()
            return (
                result if caller is None or "_meta" not in result else with_client_ids(result, call, caller)
            )
        except SessionExpired:
            self.expired = True
            raise
        finally:
            del self.calls[call]

    def heard(self, method: str, params: Mapping[str, Json] | None) -> None:
        """Take note of a change, if a notification tells of one."""
        kind = BY_METHOD.get(method)
        if kind is not None:
            uri = (params or {}).get("uri")
            self.changed(kind, uri if isinstance(uri, str) else None)

    def _hearing(self, listener: Callable[[str, dict[str, Json]], None]) -> Callable[..., None]:
        def hear(method: str, params: dict[str, Json]) -> None:
            self.heard(method, params)
            listener(method, params)

        return hear

    def caller_of(self, origin: object) -> Caller | None:
        """Return whose call a message of the server belongs to, or None if nothing says so."""
        call = getattr(origin, "call", None)
        if call is not None:
            return self.calls.get(call)
        # What belongs to a listen stream names its subscription.
        callers = [each for call, each in self.calls.items() if each is not None and call.method != LISTEN]
        return callers[0] if len(callers) == 1 and not self.attributes else None

    def stream_of(self, params: Mapping[str, Json] | None) -> Call | None:
        """Return the open call whose stream a notification names as its own, or None."""
        named = _subscription(params)
        return None if named is None else self.protocol.connection.calls.find(named)

    def in_listen_stream(self, notified: NotificationReceived) -> bool:
        """Return whether a notification belongs to a listen stream, with which it has come already, or which has ended."""
        if not self.revision.listens or _subscription(notified.params) is None:
            return False
        call = self.stream_of(notified.params)
        return notified.method in _OF_LISTEN if call is None else call.method == LISTEN

    def requests(self) -> list[IncomingRequest]:
        """Return the requests of clients whose calls are in progress."""
        found = [caller.request for caller in self.calls.values() if caller is not None]
        return [each for each in found if each is not None and each.open]

    def notify(self, method: str, params: dict[str, Json] | None) -> None:
        """Send a notification in JSON of the server's revision."""
        self.protocol.notify(method, params)
        self.connection.process_events()

    async def _last_words(self) -> None:
        """Let the other calls of an expired session fail by themselves: they have not been executed either."""
        waited = 0.0
        while self.expired and self.calls and waited < LAST_WORDS:
            await asyncio.sleep(0.01)
            waited += 0.01

    async def end(self) -> None:
        """Close the connection and what the target holds of it; may be called again."""
        self.closed = True
        opening = self.opening
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait({opening})
        if self.link is not None:
            await self._last_words()
            await self.link.aclose()
        if self.opener is not None:
            await self.opener.close()


def with_client_ids(found: dict[str, Json], call: Call, caller: Caller) -> dict[str, Json]:
    """Return a result or params that name the stream of a call as they do for the client, by the id of its request."""
    request = caller.request
    if request is None or str(_subscription(found)) != str(call.id):
        return found
    return {**found, "_meta": {**as_object(found["_meta"]), SUBSCRIPTION_ID: request.id}}


def _subscription(found: Mapping[str, Json] | None) -> Json:
    """Return the id of the stream that a result or params name, or None."""
    return as_object((found or {}).get("_meta")).get(SUBSCRIPTION_ID)


def _why_cancelled(caller: Caller | None) -> str | None:
    """Return why the client cancelled the request that waits for a call."""
    request = None if caller is None else caller.request
    return None if request is None else request.cancel_reason
