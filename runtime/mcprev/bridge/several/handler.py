"""The request handler of a bridge in front of several servers."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from mcprev.bridge.client_requests import ClientRequests
from mcprev.bridge.introduction import (
    DISCOVER,
    INITIALIZE,
    ClientIntroduction,
    Sender,
    sender_of,
    versions_of,
)
from mcprev.bridge.relay import Exchange, Outlet, Serve, Within
from mcprev.bridge.several.client import SeveralClient
from mcprev.bridge.several.hub import Hub
from mcprev.bridge.several.session import SeveralSession
from mcprev.bridge.several.view import StatelessView
from mcprev.core.connection import Connection
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.revisions import Revision

if TYPE_CHECKING:
    from mcprev.bridge.shared_sessions import BridgedSessions

VIEWS: Final = 256
"""The senders among stateless clients whose lists are remembered."""


class SeveralClients(ClientRequests):
    """Serves the requests of every client."""

    finds_names = True

    def __init__(self, around: Within | None) -> None:
        super().__init__(around)
        self._hub: Hub | None = None
        self._shared: BridgedSessions[SeveralSession] | None = None
        self._views: OrderedDict[tuple[Sender | None, str], StatelessView] = OrderedDict()

    def begin(self, hub: Hub) -> None:
        """Serve from now on."""
        self._hub = self._state = hub
        if hub.store is not None and hub.peers is not None:
            from mcprev.bridge.shared_sessions import BridgedSessions

            self._shared = BridgedSessions(hub.store, hub.peers, hub, SeveralSession, self._make_session)

    async def end(self) -> None:
        """Serve nothing any more."""
        hub = self._hub
        self._hub = self._state = self._shared = None
        self._views.clear()
        if hub is not None and hub.peers is not None:
            await hub.peers.aclose()

    @override
    def _choose(self, incoming: IncomingRequest, connection: Connection) -> tuple[Exchange, Serve]:
        hub, shared, in_session = self._hub, self._shared, incoming.revision.handshake
        assert hub is not None
        if in_session and (shared is None or connection.session_id is None):
            session = self._session(incoming, connection)
            return Exchange(hub, incoming, connection, session.name, session.outlet), session.serve
        exchange = self._exchange(hub, incoming, connection)
        if in_session and shared is not None:
            return exchange, shared.serve
        view = self._view(hub, sender_of(incoming), incoming.revision)
        if incoming.method == DISCOVER:
            return exchange, partial(view.discover, versions=versions_of(hub.revisions))
        return exchange, view.serve

    @override
    async def _find_name(self, exchange: Exchange) -> None:
        incoming, connection = exchange.incoming, exchange.connection
        hub, shared, client = self._hub, self._shared, connection.peer_context
        if not incoming.revision.handshake and hub is not None:
            client = self._view(hub, sender_of(incoming), incoming.revision)
        elif shared is not None and connection.session_id is not None and not shared.holds(connection):
            return  # the process that has the session serves no other name than those of its lists
        if isinstance(client, SeveralClient):
            await client.canonical(exchange)

    def _session(self, incoming: IncomingRequest, connection: Connection) -> SeveralSession:
        """Return the client of a session's connection; it is known from its first request on."""
        session = connection.peer_context
        if not isinstance(session, SeveralSession) or incoming.method == INITIALIZE:
            params = incoming.params if incoming.method == INITIALIZE else None
            client = ClientIntroduction.of_session(incoming, params, sender_of(incoming))
            session = connection.peer_context = self._make_session(connection, client)
        return session

    def _make_session(self, connection: Connection, client: ClientIntroduction) -> SeveralSession:
        """Return the client of a session, which has said this of itself."""
        assert self._hub is not None
        name = self._name(connection)
        outlet = Outlet(self._hub, connection, cast("ServerProtocol", connection.protocol).session, name)
        return SeveralSession(self._hub, connection, client, name, outlet)

    def _view(self, hub: Hub, sender: Sender | None, revision: Revision) -> StatelessView:
        """Return what the stateless clients of a sender see."""
        key = sender, revision.name
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = StatelessView(hub, revision)
            if len(self._views) > VIEWS:
                self._views.popitem(last=False)
        self._views.move_to_end(key)
        return found

    def notified(self, notified: NotificationReceived, connection: Connection, /) -> bool:
        """Pass a notification of a client with a session to the servers; return whether another process has to."""
        session, shared = connection.peer_context, self._shared
        if shared is not None and connection.session_id is not None and not shared.holds(connection):
            return True
        if isinstance(session, SeveralSession):
            session.notified_by_client(notified)
        return False

    async def handle_notification(self, notified: NotificationReceived, connection: Connection, /) -> None:
        """Pass a notification to the process that holds its session."""
        if self._shared is not None:
            await self._shared.notify(notified, connection)
