"""The front of a bridge with several servers."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

from mcprev.bridge.introduction import DISCOVER, ClientIntroduction, Sender, sender_of, versions_of
from mcprev.bridge.relay import Exchange, Outlet, Serve
from mcprev.bridge.several.client import SeveralClient
from mcprev.bridge.several.hub import Hub
from mcprev.bridge.several.session import SeveralSession
from mcprev.bridge.several.view import StatelessView
from mcprev.core.connection import Connection
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.revisions import Revision

if TYPE_CHECKING:
    from mcprev.bridge.peers import Peers
    from mcprev.core.store import Store

VIEWS: Final = 256
"""The senders among stateless clients whose lists are remembered."""


class SeveralServers:
    """Serves the clients of a bridge with several servers."""

    finds_names: bool = True
    kind: type[SeveralSession] = SeveralSession

    def __init__(self, hub: Hub) -> None:
        self.state: Hub = hub
        self.store: Store | None = hub.store
        self.peers: Peers | None = hub.peers
        self._views: OrderedDict[tuple[Sender | None, str], StatelessView] = OrderedDict()

    def session(self, connection: Connection, client: ClientIntroduction, name: str) -> SeveralSession:
        """Return the client of a session, which has said this of itself."""
        protocol = connection.protocol
        assert isinstance(protocol, ServerProtocol)
        outlet = Outlet(self.state, connection, protocol.session, name)
        return SeveralSession(self.state, connection, client, name, outlet)

    def stateless(self, incoming: IncomingRequest) -> Serve:
        """Return what serves a request of a client without a session."""
        view = self._view(sender_of(incoming), incoming.revision)
        if incoming.method == DISCOVER:
            return partial(view.discover, versions=versions_of(self.state.revisions))
        return view.serve

    async def find_name(self, exchange: Exchange) -> None:
        """Give a request the names under which lists have what it is about. Raises `McpError`."""
        incoming, client = exchange.incoming, exchange.connection.peer_context
        if not incoming.revision.handshake:
            client = self._view(sender_of(incoming), incoming.revision)
        if isinstance(client, SeveralClient):
            await client.canonical(exchange)

    def _view(self, sender: Sender | None, revision: Revision) -> StatelessView:
        """Return what the stateless clients of a sender see."""
        key = sender, revision.name
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = StatelessView(self.state, revision)
            if len(self._views) > VIEWS:
                self._views.popitem(last=False)
        self._views.move_to_end(key)
        return found
