"""The front of a bridge with one server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mcprev.bridge.introduction import DISCOVER, ClientIntroduction, versions_of
from mcprev.bridge.own_tasks import BridgedTasks
from mcprev.bridge.sessions import SessionPeer
from mcprev.bridge.stateless import StatelessClients

if TYPE_CHECKING:
    from mcprev.bridge.peers import Peers
    from mcprev.bridge.relay import Exchange, Relay, Serve
    from mcprev.core.connection import Connection
    from mcprev.core.store import Store
    from mcprev.protocol.connection_state import IncomingRequest
    from mcprev.server.service import Service


class SingleServer:
    """Serves the clients of a bridge with one server."""

    finds_names: bool = False
    kind: type[SessionPeer] = SessionPeer

    def __init__(self, relay: Relay, bridge: Service, store: Store | None) -> None:
        """`bridge` keeps the tasks that clients see."""
        self.state: Relay = relay
        self.store = store
        self._tasks = BridgedTasks(bridge)
        self.peers: Peers | None = None
        if store is not None:
            from mcprev.bridge.peers import Peers

            self.peers = Peers(store, relay)
        self.clients: StatelessClients = StatelessClients(relay, self._tasks, self.peers)
        """Serves the clients without a session."""
        if self.peers is not None:
            self.peers.continue_held = self.clients.continue_for_peer

    def session(self, connection: Connection, client: ClientIntroduction, name: str) -> SessionPeer:
        """Return the client of a session, which has said this of itself."""
        return SessionPeer(self.state, self._tasks, connection, client, name)

    def stateless(self, incoming: IncomingRequest) -> Serve:
        """Return what serves a request of a client without a session."""
        client = ClientIntroduction(incoming.revision, incoming.capabilities, incoming.client_info)
        if incoming.method == DISCOVER:
            versions = versions_of(self.state.revisions)
            return partial(self.clients.discover, client=client, versions=versions)
        return partial(self.clients.serve, client=client)

    async def find_name(self, exchange: Exchange) -> None:
        """Do nothing: one server knows its own names."""
