"""Sessions of a bridge in several processes: one of them holds the connection to the server (HTTP-9, LIFE-16, SEC-5).

The worker that a session begins at holds it. Another one that gets a request of the session passes it on, and takes
the session over if the holder has ended: the server is then told what it was told before, in a new session of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from mcprev.bridge.answers import Gone
from mcprev.bridge.forwarded import ForwardedExchange
from mcprev.bridge.introduction import INITIALIZE, ClientIntroduction, sender_at, sender_of
from mcprev.bridge.peers import Peers
from mcprev.bridge.relay import logger
from mcprev.bridge.sessions import SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE, SessionPeer
from mcprev.client.tasks import CALL
from mcprev.conversion.rules import JsonObject, as_object
from mcprev.core.interfaces import client_at
from mcprev.error_text import internal_error
from mcprev.errors import InternalError, McpError, RpcError, StoreError, one_line
from mcprev.protocol import tasks
from mcprev.revisions import REPEATABLE
from mcprev.sharing.record import key_of, log_ttl
from mcprev.sharing.session import Copy, copy_of
from mcprev.sharing.streams import LOST

if TYPE_CHECKING:
    from mcprev.bridge.relay import BridgeState, Exchange, Outlet
    from mcprev.core.connection import Connection
    from mcprev.core.store import Record, Store
    from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived

TTL: Final = 600.0
"""Seconds for which it is known who holds a session that has no time for which it may be idle."""
LOOKS: Final = 3
"""How often, in the time for which a session may be idle, its holder writes that again, and looks whether it is in use elsewhere."""
LOOK: Final = 1.0
"""Seconds between two rounds of such looks."""
TRIES: Final = 5
"""How often a request looks for the process that holds its session, while that changes."""
_REMEMBERED: Final = (SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE)


class HeldSession(Protocol):
    """The client of a session, with what is connected to servers for it."""

    watches: bool
    """Whether this process tells the client of changes at a server."""

    @property
    def connection(self) -> Connection:
        """The connection of the client."""
        ...

    @property
    def name(self) -> str:
        """The name of the session in recordings."""
        ...

    @property
    def outlet(self) -> Outlet:
        """Sends notifications to the client."""
        ...

    async def prepare(self) -> None:
        """Connect to servers for a session that begins. Raises `McpError`."""
        ...

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request. Raises `McpError`."""
        ...

    def notified_by_client(self, notified: NotificationReceived) -> None:
        """Take a notification of the client."""
        ...

    def remembered(self) -> JsonObject:
        """Return what another process has to know to continue the session."""
        ...

    def continue_as(self, remembered: JsonObject) -> None:
        """Continue the session of a process that has ended."""
        ...

    async def reconnect(self) -> None:
        """Connect to servers for a session that is continued without a request. Raises `McpError`."""
        ...

    def end(self) -> None:
        """Give the connections to servers back."""
        ...


MakeSession: TypeAlias = "Callable[[Connection, ClientIntroduction], HeldSession]"
"""Makes the client of a session, which has said this of itself."""


class BridgedSessions:
    """The sessions that the workers of one bridge share, as one of them sees them."""

    def __init__(
        self, store: Store, peers: Peers, state: BridgeState, kind: type[HeldSession], make: MakeSession
    ) -> None:
        """`make` makes the client of a session, which is of a `kind`."""
        self._store = store
        self._peers = peers
        self._state = state
        self._kind = kind
        self._make = make
        self._held: dict[str, HeldSession] = {}
        """The clients whose connections to servers are here, by key."""
        self._written: dict[str, float] = {}
        self._versions: dict[str, int] = {}
        """The versions of the records of the sessions that are held here."""
        self._looked: dict[str, tuple[float, float]] = {}
        """When it was last looked at a session that is held here, and when it had been used here last."""
        self._copies: WeakKeyDictionary[Copy, int] = WeakKeyDictionary()
        """The sessions with a copy here, and the worker that held each when it was last read; 0 before that."""
        self._taking: dict[str, asyncio.Event] = {}
        """The sessions that are being taken over, by key."""
        self._keeping: asyncio.Task[None] | None = None
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
                client = ClientIntroduction.of_session(incoming, incoming.params, sender_of(incoming))
                peer = self._peer(connection, client, anew=True)
                await peer.prepare()
                # Written before the answer, after which the client may send to any process.
                self._hold(key, peer, await self._write_record(key, peer, None) or 0)
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
        peer = await self._holding(key)
        if peer is not None:
            await self._serve_here(key, peer, exchange)
            return True
        found = await self._store.read(_name(key))
        record: JsonObject = {} if found is None else as_object(json.loads(found.value))
        holder = int(record.get("worker") or 0)
        if record.get("tasks") and _is_about_tasks(incoming):
            client = ClientIntroduction.of_session(incoming, record.get("params"), sender_of(incoming))
            peer = self._peer(connection, client, held=False)
            if isinstance(peer, SessionPeer):
                peer.follow(record)
            await peer.serve(exchange)
            return True
        if holder not in (0, self._peers.number) and await self._peers.is_alive(holder):
            try:
                target: JsonObject = {"kind": "session", "session": key}
                await self._peers.forward(holder, target, exchange)
            except Gone as gone:
                if gone.sent and incoming.method not in REPEATABLE:
                    raise RpcError.from_wire(LOST) from gone
                if gone.sent and await self._peers.is_alive(holder):
                    return False  # the message is lost, not the process
            else:
                return True
        client = ClientIntroduction.of_session(incoming, record.get("params"), sender_of(incoming))
        peer = await self._take_over(key, found, connection, client)
        if peer is None:
            return False
        await self._serve_here(key, peer, exchange)
        return True

    async def _take_over(
        self, key: str, found: Record | None, connection: Connection, client: ClientIntroduction
    ) -> HeldSession | None:
        """Hold a session whose holder has ended; return None if somebody else does, or is about to."""
        if key in self._taking:
            return None
        self._taking[key] = asyncio.Event()
        try:
            record: JsonObject = {} if found is None else as_object(json.loads(found.value))
            value = json.dumps({**record, "worker": self._peers.number}).encode()
            seen = 0 if found is None else found.version
            version = await self._store.write(_name(key), value, seen=seen, ttl=_ttl(connection))
            if version is None:
                return None
            peer = self._peer(connection, client)
            peer.continue_as(record)
            self._hold(key, peer, version)
            return peer
        finally:
            self._taking.pop(key).set()

    async def _holding(self, key: str) -> HeldSession | None:
        """Return the client of a session that is held here, as others believe too; None if there is none."""
        while (taking := self._taking.get(key)) is not None:
            await taking.wait()
        peer = self._held.get(key)
        if peer is None or self._peers.has_lease:
            return peer
        # This process was suspended: another one may have taken the session over.
        found = await self._store.read(_name(key))
        if found is not None and as_object(json.loads(found.value)).get("worker") == self._peers.number:
            return peer
        if self._held.get(key) is peer:
            self._let_go(key, peer)
        return None

    async def _serve_here(self, key: str, peer: HeldSession, exchange: Exchange) -> None:
        await peer.serve(exchange)
        if self._held.get(key) is not peer:
            return  # the client has gone, or another process has the session
        if exchange.incoming.method in _REMEMBERED:
            try:
                await self._write(key, peer)
            except StoreError as error:
                logger.warning("what a session is to be told again is stored later: %s", one_line(error))
                self._written[key] = float("-inf")

    async def _write(self, key: str, peer: HeldSession) -> None:
        """Store what is remembered of a session that is held here; let go of one that another worker has taken over."""
        seen, self._written[key] = self._versions[key], _now()
        version = await self._write_record(key, peer, seen)
        if self._held.get(key) is not peer:
            return
        if version is None and self._versions[key] == seen:
            self._let_go(key, peer)
        elif version is not None:
            self._versions[key] = max(version, self._versions[key])

    async def _write_record(self, key: str, peer: HeldSession, seen: int | None) -> int | None:
        record: JsonObject = {**peer.remembered(), "worker": self._peers.number}
        value = json.dumps(record).encode()
        return await self._store.write(_name(key), value, seen=seen, ttl=_ttl(peer.connection))

    def _peer(
        self, connection: Connection, client: ClientIntroduction, *, anew: bool = False, held: bool = True
    ) -> HeldSession:
        """Return the client of a connection, which has said this of itself."""
        known = connection.peer_context
        if isinstance(known, self._kind) and not anew:
            known.watches = held
            return known
        peer = connection.peer_context = self._make(connection, client)
        peer.watches = held
        return peer

    def _hold(self, key: str, peer: HeldSession, version: int) -> None:
        self._held[key], self._written[key], self._versions[key] = peer, _now(), version
        self._keep_soon()

        def ended(_: object) -> None:
            if self._held.get(key) is peer:
                for known in (self._held, self._written, self._versions, self._looked):
                    known.pop(key, None)
                if _has_ended(peer.connection):
                    self._state.start(self._forget(key))

        peer.connection.closed.add_done_callback(ended)

    async def _forget_if_left(self, key: str) -> None:
        """Remove the record of a session that has ended, if its holder has ended before and so cannot do it."""
        try:
            found = await self._store.read(_name(key))
            holder = 0 if found is None else int(as_object(json.loads(found.value)).get("worker") or 0)
            if holder and holder != self._peers.number and not await self._peers.is_alive(holder):
                await self._forget(key)
        except StoreError as error:
            logger.warning("the record of a session that has ended stays in the store: %s", one_line(error))

    async def _forget(self, key: str) -> None:
        """Remove the record of a session that has ended."""
        try:
            await self._store.remove(_name(key))
        except StoreError as error:
            logger.warning("the record of a session that has ended stays in the store: %s", one_line(error))

    # -- while a session lasts -------------------------------------------------------------------------------

    def watch(self, connection: Connection) -> None:
        """Take over the session of a connection if its holder ends while the client only listens here."""
        copy = copy_of(connection)
        if copy is None:
            return
        self._copies[copy] = 0
        self._keep_soon()
        key = copy.record.key

        def ended(_: object) -> None:
            if key not in self._held and _has_ended(connection):
                self._state.start(self._forget_if_left(key))

        connection.closed.add_done_callback(ended)

    def shares(self, connection: Connection) -> bool:
        """Return whether other processes may have the session of a connection."""
        return copy_of(connection) is not None

    def _keep_soon(self) -> None:
        if self._keeping is None:
            self._keeping = self._state.start(self._keep())

    async def _continue_for_listener(self, copy: Copy) -> None:
        """Take over the session of a client that listens here, if its holder has ended."""  # SUB-5, LIFE-16
        key, session = copy.record.key, copy.session
        streams = tuple(session.response_streams)
        if key in self._held or not streams:
            return
        holder = self._copies[copy]
        if holder and await self._peers.is_alive(holder):
            return
        found = await self._store.read(_name(key))
        record: JsonObject = {} if found is None else as_object(json.loads(found.value))
        holder = self._copies[copy] = int(record.get("worker") or 0)
        if not holder or await self._peers.is_alive(holder):
            return
        await self._peers.start()
        client = ClientIntroduction.of_session(
            session.protocol.session, record.get("params"), sender_at(streams[0]), client_at(streams[0])
        )
        peer = await self._take_over(key, found, session, client)
        if peer is not None:
            self._state.start(self._reconnect(peer))

    async def _reconnect(self, peer: HeldSession) -> None:
        try:
            await peer.reconnect()
        except McpError as error:
            logger.warning("a session is continued without its server: %s", one_line(error))

    async def _keep(self) -> None:
        """Hold sessions as long as they last, wherever their clients send requests and listen."""
        while True:
            await asyncio.sleep(LOOK)
            for listening in tuple(self._copies):
                try:
                    await self._continue_for_listener(listening)
                except McpError as error:
                    logger.warning(
                        "the session of a listening client cannot be continued: %s", one_line(error)
                    )
                    break
            for key, peer in tuple(self._held.items()):
                try:
                    copy = copy_of(peer.connection)
                    if copy is not None:
                        await self._look(key, copy)
                    written = self._written.get(key)
                    if written is not None and _now() - written > _ttl(peer.connection) / LOOKS / 2:
                        await self._write(key, peer)
                except StoreError as error:
                    logger.warning("a session cannot be kept: %s", one_line(error))
                    break

    async def _look(self, key: str, copy: Copy) -> None:
        """End a session that has ended everywhere; one that is used elsewhere does not count as idle here."""
        now = _now()
        session = copy.session
        at, seen = self._looked.get(key, (now, session.seen))
        if key in self._looked and now - at < copy.record.ttl / LOOKS:
            return
        if key in self._looked and not session.in_use and session.seen == seen:
            if not await copy.record.refresh():
                session.conclude("the session has ended")
                return
            copy.used_elsewhere()
        if key in self._held:
            self._looked[key] = now, session.seen

    async def _serve_forwarded(self, exchange: ForwardedExchange, key: str) -> bool:
        """Serve a request that another worker has passed on; return False if its session is not held here."""
        peer = await self._holding(key)
        if peer is None:
            return False
        exchange.connection = peer.connection
        await self._serve_here(key, peer, exchange)
        return True

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
        for key, peer in tuple(self._held.items()):
            self._let_go(key, peer)

    def _let_go(self, key: str, peer: HeldSession) -> None:
        for known in (self._held, self._written, self._versions, self._looked):
            known.pop(key, None)
        peer.connection.peer_context = None
        peer.end()


def _name(key: str) -> str:
    return f"bridged/{key}"


def _now() -> float:
    return asyncio.get_running_loop().time()


def _ttl(connection: Connection) -> float:
    """Return the time to live of the record of a session, whose holder renews it: it outlives the session by little."""
    copy = copy_of(connection)
    return TTL if copy is None else log_ttl(copy.record.ttl)


def _has_ended(connection: Connection) -> bool:
    """Return whether the session of a connection that has ended is over everywhere, or was never open."""
    copy = copy_of(connection)
    return copy is not None and not (connection.lives_on and copy.stored)


def _is_about_tasks(incoming: IncomingRequest) -> bool:
    """Return whether a request is about tasks of the bridge, which any worker can serve."""
    methods = tasks.METHODS[incoming.revision.tasks]
    return incoming.method in methods or (
        incoming.method == CALL and isinstance((incoming.params or {}).get(tasks.TASK), dict)
    )
