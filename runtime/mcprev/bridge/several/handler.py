"""The request handler of a bridge in front of several servers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
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
from mcprev.bridge.several.one_process import OneProcess
from mcprev.bridge.several.session import SeveralSession
from mcprev.bridge.several.view import StatelessView
from mcprev.bridge.upstreams import Busy
from mcprev.core.connection import Connection
from mcprev.errors import ConversionError, McpError
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.revisions import Revision

if TYPE_CHECKING:
    from mcprev.core.store import Store

VIEWS: Final = 256
"""The senders among stateless clients whose lists are remembered."""


class SeveralClients:
    """Serves the requests of every client."""

    def __init__(self, shared_store: Callable[[], Store | None], around: Within | None) -> None:
        """`shared_store` returns the store that processes of the bridge share, if there is one."""
        self._shared_store = shared_store
        self._around = around
        self._hub: Hub | None = None
        self._process: OneProcess | None = None
        self._views: OrderedDict[tuple[Sender | None, str], StatelessView] = OrderedDict()
        self._names = 0

    def begin(self, hub: Hub) -> None:
        """Serve from now on."""
        self._hub = hub
        store = self._shared_store()
        self._process = None if store is None else OneProcess(store)

    async def end(self) -> None:
        """Serve nothing any more."""
        process, self._hub, self._process = self._process, None, None
        self._views.clear()
        if process is not None:
            await process.aclose()

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
            if incoming.revision.handshake:
                if self._process is not None and connection.session_id is not None:
                    await self._process.claim(incoming, connection)
                session = self._session(hub, incoming, connection)
                exchange = Exchange(hub, incoming, connection, session.name, session.outlet)
                serve: Serve = session.introduce if incoming.method == INITIALIZE else session.serve
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

    def _session(self, hub: Hub, incoming: IncomingRequest, connection: Connection) -> SeveralSession:
        """Return the client of a session's connection; it is known from its first request on."""
        session = connection.peer_context
        if not isinstance(session, SeveralSession) or incoming.method == INITIALIZE:
            params = incoming.params if incoming.method == INITIALIZE else None
            client = ClientIntroduction.of_session(incoming, params, sender_of(incoming))
            name = self._name()
            outlet = Outlet(hub, connection, incoming.engine, name)
            session = connection.peer_context = SeveralSession(hub, connection, client, name, outlet)
        return session

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
        """Pass a notification of a client with a session to the servers."""
        session = connection.peer_context
        if isinstance(session, SeveralSession):
            session.notified_by_client(notified)
        return False

    async def handle_notification(self, _notified: NotificationReceived, _connection: Connection, /) -> None:
        """Do nothing: `notified` has taken it."""
