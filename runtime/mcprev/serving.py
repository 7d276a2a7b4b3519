"""The other half of a client: serving what its server sends, and exact types for what it is sent.

SEAM-1, SEAM-9, SUB-7, ROOT-2, SAMP-1, ELIC-1, ERR-9.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from mcprev.context import ClientContext
from mcprev.errors import InternalError, RemoteProtocolError
from mcprev.identity import ClientIdentity
from mcprev.protocol.link import Inbound, Notified
from mcprev.protocol.subscriptions import BY_METHOD
from mcprev.seam import Routes, answer_failure, reader, to_wire

if TYPE_CHECKING:
    from mcprev.client import Client
    from mcprev.driver import Connection
    from mcprev_types import MethodSpec

logger: Final = logging.getLogger("mcprev.client")


class ClientDesk:
    """Serves what a server sends, with a client's handler."""

    def __init__(self, identity: ClientIdentity) -> None:
        self._identity = identity
        self._routes = Routes(identity, "ClientHandler")
        self.client: Client | None = None

    async def serve(self, inbound: Inbound, connection: Connection, /) -> None:
        """Answer a request of the server's."""
        client = self.client
        if client is None:
            inbound.peer.fail(inbound, InternalError("the client is not ready"))
            return
        try:
            route = self._routes.find(inbound.row, inbound.method)
            params = route.params(inbound.params, None)
            wire = to_wire(await route.stub(ClientContext(client, connection, inbound), params))
            inbound.peer.finish(inbound, route.result(wire))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is answered
            answer_failure(error, inbound, self._identity.handler_at(inbound.row)[1], logger)

    async def hear(self, notified: Notified, connection: Connection, /) -> None:
        """Take a notification: for whoever listens, and for the handler."""
        client, row = self.client, notified.row
        if client is None:
            return
        if row.handshake and notified.method in BY_METHOD:
            for subscription in tuple(client.subscriptions):
                subscription.heard(notified.method, notified.params or {})
        if not self._identity.hears(row, notified.method):
            return
        try:
            route = self._routes.find(row, notified.method)
            await route.stub(ClientContext(client, connection, None), route.params(notified.params, None))
        except Exception:
            logger.exception("the handler of '%s' raised", notified.method)


class Exact:
    """Sends what an exact revision's callers send."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a request or notification, and read the result as one of its types."""
        client, row = self._client, self._client.row
        wire = None if params is None else to_wire(params)
        if method.result is None:
            client.connection.side.notify(method.method, wire)
            client.connection.pump()
            return None
        result = await client.raw(method.method, wire)
        for name in method.alternate_results:
            try:
                return reader(row, name)(result)
            except ValidationError:
                continue
        try:
            return reader(row, method.result)(result)
        except ValidationError as error:
            raise RemoteProtocolError(f"the result is not valid: {error}", raw=result) from None
