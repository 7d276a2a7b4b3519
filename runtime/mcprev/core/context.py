"""The base of the contexts of both roles' handlers: the request's id and metadata, and progress (SEAM-1, PROG-2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from mcprev.conversion import PayloadKind, convert
from mcprev.errors import Json
from mcprev.protocol.connection_state import PROGRESS, IncomingRequest
from mcprev.revisions import LATEST

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.wire.jsonrpc import RequestId


Incoming = TypeVar("Incoming", bound=IncomingRequest | None)


@dataclass(eq=False, repr=False)
class BaseContext(Generic[Incoming]):
    """The base class of the contexts of both roles."""

    _connection: Connection
    request: Incoming
    """The request in the protocol engine. In a handler of a notification: a substitute on servers, None on clients."""

    @property
    def request_id(self) -> RequestId | None:
        """The JSON-RPC id of the request; None in a handler of a notification."""
        return None if self.request is None else self.request.id

    @property
    def connection(self) -> Connection:
        """The connection that received the request."""
        return self._connection

    @property
    def meta(self) -> Mapping[str, Json]:
        """The `_meta` of the request or notification, as JSON of the peer's revision; empty if it has none."""
        params = None if self.request is None else self.request.params
        meta: Mapping[str, Json] = (params or {}).get("_meta") or {}
        return meta

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the peer requested progress; otherwise do nothing.

        `progress` is the progress so far, in any unit, and `total` its value at the end, if that is known. A value that
        is not larger than the last one is not sent, and neither is any value after the request has ended. See
        https://modelcontextprotocol.io/specification/latest/basic/utilities/progress.
        """
        incoming = self.request
        if incoming is not None and incoming.token is not None:
            params: dict[str, Json] = {"progress": progress, "progressToken": incoming.token}
            if total is not None:
                params["total"] = total
            if message is not None:
                params["message"] = message
            params = convert(params, PROGRESS, PayloadKind.PARAMS, from_=LATEST, to=incoming.revision)
            if incoming.engine.progress(incoming, params):
                self._connection.process_events()
        await self._connection.drain(incoming)
