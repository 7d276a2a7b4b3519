"""Answers the requests of clients, of a bridge with one server and of one with several (SEAM-10)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from mcprev.bridge.introduction import INITIALIZE, ClientIntroduction, sender_of
from mcprev.bridge.opening import process_behind
from mcprev.bridge.relay import BridgeState, Exchange, Outlet, Serve, Within, wire_error
from mcprev.bridge.upstreams import Busy
from mcprev.core.connection import Connection
from mcprev.errors import ConversionError, McpError
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived

if TYPE_CHECKING:
    from mcprev.bridge.peers import Peers
    from mcprev.bridge.shared_sessions import BridgedSessions, HeldSession
    from mcprev.core.store import Store


class Front(Protocol):
    """What the clients of a running bridge are served with: one server, or several."""

    finds_names: bool
    """Whether clients may write other names than those of the lists; `find_name` is called only then."""

    @property
    def state(self) -> BridgeState:
        """What the parts of the bridge share."""
        ...

    @property
    def store(self) -> Store | None:
        """What the processes of the bridge share; None if there is only this one."""
        ...

    @property
    def peers(self) -> Peers | None:
        """The processes of the bridge; None if there is only this one."""
        ...

    @property
    def kind(self) -> type[HeldSession]:
        """The type of the clients with a session."""
        ...

    def session(self, connection: Connection, client: ClientIntroduction, name: str) -> HeldSession:
        """Return the client of a session, which has said this of itself; `name` is that in recordings."""
        ...

    def stateless(self, incoming: IncomingRequest) -> Serve:
        """Return what serves a request of a client without a session."""
        ...

    async def find_name(self, exchange: Exchange) -> None:
        """Give a request the names under which lists have what it is about. Raises `McpError`."""
        ...


class BridgedClients:
    """Serves the requests of every client: the request handler of a bridge."""

    def __init__(self, around: Within | None) -> None:
        """`around` is what each request is answered within."""
        self._around = around
        self.front: Front | None = None
        """What clients are served with; None while the bridge does not run."""
        self.shared: BridgedSessions | None = None
        """The sessions that this process shares with others; None without a store."""
        self._numbers = count(1)
        """Those of clients, for their names in recordings."""
        self._names = WeakKeyDictionary[Connection, str]()
        """The names of the sessions over HTTP."""

    def begin(self, front: Front) -> None:
        """Serve from now on."""
        self.front = front
        if front.store is not None and front.peers is not None:
            from mcprev.bridge.shared_sessions import BridgedSessions

            self.shared = BridgedSessions(front.store, front.peers, front.state, front.kind, self._make)

    async def end(self) -> None:
        """Serve nothing any more."""
        front, self.front, self.shared = self.front, None, None
        if front is not None and front.peers is not None:
            await front.peers.aclose()

    def watch(self, connection: Connection) -> None:
        """Take over the session of a connection if the process that has it ends."""
        if self.shared is not None:
            self.shared.watch(connection)

    async def handle_request(self, incoming: IncomingRequest, connection: Connection, /) -> None:
        """Answer a request of a client."""
        front, around = self.front, self._around
        exchange: Exchange | None = None
        try:
            if front is None:
                incoming.fail(Busy("the bridge is not running"))
                return
            if front.state.prepare is not None:
                await front.state.prepare()
            exchange, serve = self._choose(front, incoming, connection)
            if front.finds_names and not (incoming.revision.handshake and self._is_elsewhere(connection)):
                await front.find_name(exchange)
            await (serve(exchange) if around is None else around(exchange, serve))
        except (McpError, ConversionError) as error:
            if exchange is None:
                incoming.fail(wire_error(error, incoming.method, None))
            else:
                exchange.fail(error, None)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is answered
            incoming.fail(wire_error(error, incoming.method, None))
        finally:
            if incoming.method == INITIALIZE:
                await process_behind(connection)

    def _choose(
        self, front: Front, incoming: IncomingRequest, connection: Connection
    ) -> tuple[Exchange, Serve]:
        """Return the exchange of a request, and what serves it."""
        state, in_session = front.state, incoming.revision.handshake
        shared = self._shared_with(connection)
        if in_session and shared is None:
            session = connection.peer_context
            if not isinstance(session, front.kind) or incoming.method == INITIALIZE:
                session = self._begin_session(incoming, connection)
            return Exchange(state, incoming, connection, session.name, session.outlet), session.serve
        # The client is known by its session over HTTP, or by nothing but this request.
        name = self._name(connection)
        outlet = Outlet(state, connection, incoming.engine, name)
        exchange = Exchange(state, incoming, connection, name, outlet)
        if in_session and shared is not None:
            return exchange, shared.serve
        return exchange, front.stateless(incoming)

    def _begin_session(self, incoming: IncomingRequest, connection: Connection) -> HeldSession:
        """Return the client of a connection's session, which is known from its first request on."""
        params = incoming.params if incoming.method == INITIALIZE else None
        client = ClientIntroduction.of_session(incoming, params, sender_of(incoming))
        session = connection.peer_context = self._make(connection, client)
        return session

    def _make(self, connection: Connection, client: ClientIntroduction) -> HeldSession:
        """Return the client of a session, which has said this of itself."""
        assert self.front is not None
        return self.front.session(connection, client, self._name(connection))

    def _name(self, connection: Connection) -> str:
        """Return the name of a client in recordings: that of its session over HTTP, or a new one."""
        name = self._names.get(connection)
        if name is None or connection.session_id is None:
            name = f"client-{next(self._numbers)}"
        if connection.session_id is not None:
            self._names[connection] = name
        return name

    def _shared_with(self, connection: Connection) -> BridgedSessions | None:
        """Return the sessions of all processes, if that of a connection is one of them."""
        return self.shared if self.shared is not None and self.shared.shares(connection) else None

    def _is_elsewhere(self, connection: Connection) -> bool:
        """Return whether another process has, or may have, the session of a connection."""
        shared = self._shared_with(connection)
        return shared is not None and not shared.holds(connection)

    def notified(self, notified: NotificationReceived, connection: Connection, /) -> bool:
        """Pass a notification of a client with a session to its server; return whether another process has to."""
        front, session = self.front, connection.peer_context
        if self._is_elsewhere(connection):
            return True
        if front is not None and isinstance(session, front.kind):
            session.notified_by_client(notified)
        return False

    async def handle_notification(self, notified: NotificationReceived, connection: Connection, /) -> None:
        """Pass a notification to the process that holds its session."""
        if self.shared is not None:
            await self.shared.notify(notified, connection)
