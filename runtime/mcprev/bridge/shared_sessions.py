"""Sessions of a bridge in several processes: one of them holds the connection to the server (HTTP-9, LIFE-16, SEC-5).

The worker that a session begins at holds it. Another one that gets a request of the session passes it on, and takes
the session over if the holder has ended: the server is then told what it was told before, in a new session of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from mcprev.bridge.introduction import INITIALIZE
from mcprev.bridge.peers import ForwardedExchange, Gone, Peers
from mcprev.bridge.sessions import SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE, SessionPeer
from mcprev.client.tasks import CALL
from mcprev.convert.rules import JsonObject, as_object
from mcprev.core.interfaces import principal_of
from mcprev.error_text import internal_error
from mcprev.errors import InternalError, RpcError, StoreError, one_line
from mcprev.protocol import tasks
from mcprev.revisions import REPEATABLE
from mcprev.workers.record import key_of
from mcprev.workers.streams import LOST

if TYPE_CHECKING:
    from mcprev.bridge.relay import Exchange
    from mcprev.core.connection import Connection
    from mcprev.core.store import Store
    from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived

TTL: Final = 7 * 86_400.0
"""Seconds for which it is known who holds a session; without that, it is taken over."""
RENEW: Final = 3_600.0
"""Seconds after which the holder writes it again, if the session is in use."""
TRIES: Final = 5
"""How often a request looks for the process that holds its session, while that changes."""
_REMEMBERED: Final = (SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE)
MakePeer: TypeAlias = "Callable[[Connection, IncomingRequest, JsonObject | None], SessionPeer]"
"""Makes the client of a session, which has sent these params with `initialize`."""


class BridgedSessions:
    """The sessions that the workers of one bridge share, as one of them sees them."""

    def __init__(self, store: Store, peers: Peers, make_peer: MakePeer) -> None:
        self._store = store
        self._peers = peers
        self._make = make_peer
        self._held: dict[str, SessionPeer] = {}
        """The clients whose connection to the server is here, by key."""
        self._written: dict[str, float] = {}
        peers.sessions = self._serve_forwarded
        peers.take_notification = self._take_notification
        peers.lapsed = self._drop

    async def serve(self, exchange: Exchange) -> None:
        """Serve a request of a session, here or by the worker that holds it. Raises `McpError`."""
        incoming, connection = exchange.incoming, exchange.connection
        key = key_of(str(connection.session_id))
        await self._peers.start()
        try:
            if incoming.method == INITIALIZE:
                peer = self._peer(connection, incoming, incoming.params)
                await peer.upstream()
                # Written before the answer, after which the client may send to any process.
                await self._store.write(_name(key), self._record(peer), ttl=TTL)
                self._hold(key, peer)
                await peer.serve(exchange)
                return
            for _ in range(TRIES):
                if await self._try(key, exchange):
                    return
        except StoreError as error:
            raise internal_error(error, may_have_run=incoming.method not in REPEATABLE) from error
        raise InternalError("the session moves between the workers of this bridge; send the request again")

    async def _try(self, key: str, exchange: Exchange) -> bool:
        """Serve a request by whoever holds its session; return False if another worker has taken that over."""
        incoming, connection = exchange.incoming, exchange.connection
        peer = self._held.get(key)
        if peer is not None:
            await self._serve_here(key, peer, exchange)
            return True
        found = await self._store.read(_name(key))
        record: JsonObject = {} if found is None else as_object(json.loads(found.value))
        holder = int(record.get("worker") or 0)
        if record.get("tasks") and _is_about_tasks(incoming):
            await self._peer(connection, incoming, record.get("params"), held=False).serve(exchange)
            return True
        if holder not in (0, self._peers.number) and await self._peers.is_alive(holder):
            try:
                target: JsonObject = {"kind": "session", "session": key}
                await self._peers.forward(holder, target, exchange, principal_of(incoming))
            except Gone as gone:
                if gone.sent:
                    raise RpcError.from_wire(LOST) from gone
            else:
                return True
        peer = self._peer(connection, incoming, record.get("params"))
        peer.continue_as(record.get("level"), record.get("subscribed") or [])
        seen = 0 if found is None else found.version
        if await self._store.write(_name(key), self._record(peer), seen=seen, ttl=TTL) is None:
            connection.peer_context = None
            return False
        self._hold(key, peer)
        await self._serve_here(key, peer, exchange)
        return True

    async def _serve_here(self, key: str, peer: SessionPeer, exchange: Exchange) -> None:
        await peer.serve(exchange)
        if self._held.get(key) is not peer:
            return  # the client has gone, or another process has the session
        changed = exchange.incoming.method in _REMEMBERED
        if changed or time.monotonic() - self._written[key] > RENEW:
            self._written[key] = time.monotonic()
            await self._store.write(_name(key), self._record(peer), ttl=TTL)

    def _peer(
        self,
        connection: Connection,
        incoming: IncomingRequest,
        params: JsonObject | None,
        *,
        held: bool = True,
    ) -> SessionPeer:
        """Return the client of a connection, which has sent these params with `initialize`."""
        known = connection.peer_context
        if isinstance(known, SessionPeer) and incoming.method != INITIALIZE:
            known.watches = held
            return known
        peer = connection.peer_context = self._make(connection, incoming, params)
        peer.watches = held
        return peer

    def _hold(self, key: str, peer: SessionPeer) -> None:
        self._held[key], self._written[key] = peer, time.monotonic()

        def ended(_: object) -> None:
            if self._held.get(key) is peer:
                del self._held[key], self._written[key]

        peer.connection.closed.add_done_callback(ended)

    def _record(self, peer: SessionPeer) -> bytes:
        return json.dumps({"worker": self._peers.number, **peer.remembered()}).encode()

    async def _serve_forwarded(self, exchange: ForwardedExchange, key: str) -> bool:
        """Serve a request that another worker has passed on; return False if its session is not held here."""
        peer = self._held.get(key)
        if peer is None:
            return False
        exchange.connection = peer.connection
        await self._serve_here(key, peer, exchange)
        return True

    def asker(self, exchange: Exchange) -> SessionPeer:
        """Return what asks the client of a request that another worker serves."""
        return self._peer(exchange.connection, exchange.incoming, None, held=False)

    # -- notifications of clients ----------------------------------------------------------------------------

    def holds(self, connection: Connection) -> bool:
        """Return whether the session of a connection is held here."""
        peer = self._held.get(key_of(str(connection.session_id)))
        return peer is not None and peer is connection.peer_context

    async def notify(self, notified: NotificationReceived, connection: Connection) -> None:
        """Pass a notification of a client on to the worker that holds its session."""
        key = key_of(str(connection.session_id))
        try:
            found = await self._store.read(_name(key))
            holder = 0 if found is None else int(as_object(json.loads(found.value)).get("worker") or 0)
            if holder:
                await self._peers.notify(holder, key, notified)
        except StoreError as error:
            connection.logger.warning("a notification of a client is dropped: %s", one_line(error))

    def _take_notification(self, key: str, notified: NotificationReceived) -> None:
        peer = self._held.get(key)
        if peer is not None:
            peer.notified_by_client(notified)

    def _drop(self) -> None:
        """Hold nothing any more: others may have taken the sessions over."""
        held, self._held = self._held, {}
        self._written.clear()
        for peer in held.values():
            peer.connection.peer_context = None
            peer.end()


def _name(key: str) -> str:
    return f"bridged/{key}"


def _is_about_tasks(incoming: IncomingRequest) -> bool:
    """Return whether a request is about tasks of the bridge, which any worker can serve."""
    methods = tasks.METHODS[incoming.revision.tasks]
    return incoming.method in methods or (
        incoming.method == CALL and isinstance((incoming.params or {}).get(tasks.TASK), dict)
    )
