"""The request handler of a bridge in front of several servers."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

from mcprev.bridge.introduction import (
    DISCOVER,
    INITIALIZE,
    ClientIntroduction,
    Sender,
    sender_of,
    versions_of,
)
from mcprev.bridge.opening import process_behind
from mcprev.bridge.relay import Exchange, Outlet, Serve, Within, wire_error
from mcprev.bridge.several.hub import Hub
from mcprev.bridge.several.session import SeveralSession
from mcprev.bridge.several.view import StatelessView
from mcprev.bridge.upstreams import Busy
from mcprev.convert.rules import JsonObject
from mcprev.core.connection import Connection
from mcprev.errors import ConversionError, McpError
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.revisions import Revision

if TYPE_CHECKING:
    from mcprev.bridge.shared_sessions import BridgedSessions

VIEWS: Final = 256
"""The senders among stateless clients whose lists are remembered."""


class SeveralClients:
    """Serves the requests of every client."""

    def __init__(self, around: Within | None) -> None:
        self._around = around
        self._hub: Hub | None = None
        self._shared: BridgedSessions[SeveralSession] | None = None
        self._views: OrderedDict[tuple[Sender | None, str], StatelessView] = OrderedDict()
        self._names = 0

    def begin(self, hub: Hub) -> None:
        """Serve from now on."""
        self._hub = hub
        if hub.store is not None and hub.peers is not None:
            from mcprev.bridge.shared_sessions import BridgedSessions

            self._shared = BridgedSessions(hub.store, hub.peers, hub, SeveralSession, self._make_session)

    async def end(self) -> None:
        """Serve nothing any more."""
        hub, self._hub, self._shared = self._hub, None, None
        self._views.clear()
        if hub is not None and hub.peers is not None:
            await hub.peers.aclose()

    async def handle_request(self, incoming: IncomingRequest, connection: Connection, /) -> None:
        """Answer a request of a client."""
        hub = self._hub
        if hub is None:
            incoming.fail(Busy("the bridge is not running"))
            await process_behind(connection)
            return
        exchange: Exchange | None = None
        try:
            if hub.prepare is not None:
                await hub.prepare()
            if incoming.revision.handshake and self._shared is not None and connection.session_id is not None:
                name = self._name()
                outlet = Outlet(hub, connection, incoming.engine, name)
                exchange = Exchange(hub, incoming, connection, name, outlet)
                serve: Serve = self._shared.serve
            elif incoming.revision.handshake:
                session = self._session(incoming, connection)
                exchange = Exchange(hub, incoming, connection, session.name, session.outlet)
                serve = session.serve
            else:
                name = self._name()
                outlet = Outlet(hub, connection, incoming.engine, name)
                exchange = Exchange(hub, incoming, connection, name, outlet)
                view = self._view(hub, sender_of(incoming), incoming.revision)
                if incoming.method == DISCOVER:
                    serve = partial(view.discover, versions=versions_of(hub.revisions))
                else:
                    serve = view.serve
            await (serve(exchange) if self._around is None else self._around(exchange, serve))
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

    def _session(self, incoming: IncomingRequest, connection: Connection) -> SeveralSession:
        """Return the client of a session's connection; it is known from its first request on."""
        session = connection.peer_context
        if not isinstance(session, SeveralSession) or incoming.method == INITIALIZE:
            params = incoming.params if incoming.method == INITIALIZE else None
            session = connection.peer_context = self._make_session(connection, incoming, params)
        return session

    def _make_session(
        self, connection: Connection, incoming: IncomingRequest, params: JsonObject | None
    ) -> SeveralSession:
        """Return the client of a session, which has sent these params with `initialize`."""
        assert self._hub is not None
        client = ClientIntroduction.of_session(incoming, params, sender_of(incoming))
        name = self._name()
        outlet = Outlet(self._hub, connection, incoming.engine, name)
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

    def _name(self) -> str:
        """Return the name of a session in recordings."""
        self._names += 1
        return f"client-{self._names}"

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
