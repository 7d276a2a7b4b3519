"""The context of a client's handler: what the server sent, and by which client (SEAM-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from mcprev.core.context import BaseContext

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.core.connection import Connection
    from mcprev.protocol.connection_state import IncomingRequest


class ClientContext(BaseContext):
    """The context of a request or notification of the server, for a client's handler."""

    def __init__(self, client: Client, connection: Connection, incoming: IncomingRequest | None) -> None:
        self._client, self._connection, self._incoming = client, connection, incoming

    @property
    def client(self) -> Client:
        """The client that received the message."""
        return self._client

    @property
    def revision(self) -> str:
        """The name of the revision that client and server speak, such as `2025-11-25`."""
        return self._client.revision

    @override
    def __repr__(self) -> str:
        return f"<ClientContext {self.request_id!r}>"
