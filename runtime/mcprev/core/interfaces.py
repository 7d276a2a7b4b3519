"""The interfaces between transports and what they serve (SEAM-1).

They are generic in the connection, so that connections can import them.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from mcprev.core.tool_schemas import ToolSchemas
from mcprev.protocol.connection_state import IncomingRequest, LocalInfo, NotificationReceived

Connection_contra = TypeVar("Connection_contra", contravariant=True)


class RequestHandler(Protocol[Connection_contra]):
    """Serves what a connection receives. Neither method raises, except for cancellation."""

    async def handle_request(self, incoming: IncomingRequest, connection: Connection_contra, /) -> None:
        """Answer a request."""
        ...

    async def handle_notification(
        self, notified: NotificationReceived, connection: Connection_contra, /
    ) -> None:
        """Take a notification."""
        ...


class ToolLookup(Protocol[Connection_contra]):
    """Finds the schemas of the handler's tools."""

    @property
    def generation(self) -> int:
        """Changes when the tools that were listed are forgotten."""
        ...

    def forget(self) -> None:
        """Forget the tools that were listed."""
        ...

    async def lookup(self, incoming: IncomingRequest, connection: Connection_contra, /) -> ToolSchemas | None:
        """The tool that a call of a stateless revision names; None for one that is not listed.

        Raises what the handler raises.
        """
        ...


class ServerApp(Protocol[Connection_contra]):
    """What a transport needs of a server."""

    @property
    def identity(self) -> LocalInfo:
        """The server's revisions, name and capabilities."""
        ...

    @property
    def request_handler(self) -> RequestHandler[Connection_contra]:
        """Serves the requests of every connection."""
        ...

    @property
    def tool_lookup(self) -> ToolLookup[Connection_contra]:
        """Finds the schemas of the handler's tools."""
        ...

    @property
    def max_handlers(self) -> int:
        """How many requests of one connection are served at a time."""
        ...

    def keep(self, connection: Connection_contra, /) -> None:
        """Notify a connection of changes for as long as it lasts."""
        ...
