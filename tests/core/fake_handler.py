"""A handler's side for driver tests, and connections over the memory transport."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from engine.fakes import FakeClient, FakeServer
from mcprev.core.connection import Connection
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.endpoint import ClientProtocol, ServerProtocol
from mcprev.transports.lines import LineConnection
from mcprev.transports.memory import connect_pair


class FakeHandler:
    """Serves `tools/call`: the name says how."""

    def __init__(self) -> None:
        self.heard: list[NotificationReceived] = []
        self.running = 0
        self.most = 0
        self.cancelled = 0
        self.gate = asyncio.Event()

    async def handle_request(self, incoming: IncomingRequest, connection: Connection, /) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            name = (incoming.params or {}).get("name")
            if name == "wait":
                await self.gate.wait()
            incoming.respond({"name": name, "size": "x" * (100_000 if name == "big" else 1)})
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    def notified(self, _notified: NotificationReceived, _connection: Connection, /) -> bool:
        return True

    async def handle_notification(self, notified: NotificationReceived, connection: Connection, /) -> None:
        self.heard.append(notified)


class RawPeer(asyncio.Protocol):
    """The other end, by hand."""

    def __init__(self) -> None:
        self.data = b""
        self.eof = False
        self.lost = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.eof = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def send(self, *messages: object) -> None:
        self.transport.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    @property
    def messages(self) -> list[Any]:
        return [json.loads(line) for line in self.data.splitlines()]


def server(**bounds: Any) -> tuple[LineConnection, FakeHandler, RawPeer]:
    """A server's connection, with a peer by hand."""
    handler, peer = FakeHandler(), RawPeer()
    connection = LineConnection(
        ServerProtocol(FakeServer()), handler, logging.getLogger("mcprev.test"), **bounds
    )
    connect_pair(connection, peer)
    return connection, handler, peer


def client(**bounds: Any) -> tuple[LineConnection, ClientProtocol, RawPeer]:
    """A client's connection, with a peer by hand."""
    handler, peer, side = FakeHandler(), RawPeer(), ClientProtocol(FakeClient())
    connection = LineConnection(side, handler, logging.getLogger("mcprev.test"), linger=0, **bounds)
    connect_pair(connection, peer)
    return connection, side, peer
