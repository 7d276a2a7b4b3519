"""What a running bridge serves its clients with, for tests of what it keeps."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from mcprev.bridge.bridge import Bridge
from mcprev.bridge.several.hub import Hub
from mcprev.bridge.several.several_servers import SeveralServers
from mcprev.bridge.single_server import SingleServer
from mcprev.bridge.stateless import StatelessClients


def front_of(bridge: Bridge) -> SingleServer:
    """The front of a bridge with one server, which runs."""
    front = bridge._clients.front
    assert isinstance(front, SingleServer)
    return front


def stateless_of(bridge: Bridge) -> StatelessClients:
    """The clients without a session of such a bridge."""
    return front_of(bridge).clients


def hub_of(bridge: Bridge) -> Hub:
    """The servers of a bridge with several, which runs."""
    front = bridge._clients.front
    assert isinstance(front, SeveralServers)
    return front.state
