"""The interface through which a server authenticates HTTP requests: what `asgi(auth=...)` takes (AUTH-1, SEC-4).

The transport knows this interface only. `mcprev.Bearer` implements it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mcprev.core.store import Records
from mcprev.errors import Json
from mcprev.protocol.http_request_class import HttpError
from mcprev.protocol.uris import Spell, canonical_message
from mcprev.transports.http.server.access import Access
from mcprev.transports.http.server.request import App
from mcprev.transports.http.server.routes import Route
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Batch, Message


class Authentication(Protocol):
    """Finds out who sends a request to a server, and whether the sender may."""

    routes: Mapping[str, App | Route]
    """Routes that belong to the authentication, which an app serves beside its endpoint."""
    reached_at: Callable[[str | None], object]
    """Told of each name of the server: where it listens."""
    clock: Callable[[], float]
    """Returns the time in seconds since 1970, with which `Access.expires` is compared."""

    def check_place(self, path: str, root: str, /) -> None:
        """Check that clients find it where it is served: `path` below `root`, which a proxy removes. Raises `ValueError`."""
        ...

    def serve_for(self, info: Mapping[str, Json], store: Records | None, /) -> None:
        """Note what a server says of itself to clients, and its store, in which is kept what outlives a request."""
        ...

    def unshared(self, store: Records | None, /) -> str | None:
        """Return why several processes of a server with this store cannot serve its clients, and what to do; None: they can."""
        ...

    def at(self, root: str, /) -> Authentication:
        """Return the authentication of an app that is mounted at `root`."""
        ...

    async def admit(self, headers: Headers, query: bytes, /) -> Access | HttpError:
        """Return who sends a request, by its headers and query, or the error response if nobody may."""
        ...

    async def covers(self, access: Access, message: Message | Batch, /) -> HttpError | None:
        """Return the error response if the sender may not send a message, or a message of a batch."""
        ...


async def token_refusal(
    auth: Authentication, access: Access, message: Message | Batch, spell: Spell
) -> HttpError | None:
    """Return the error response if a sender may not send a message, as it is or with the URIs for which it is served."""
    reject = await auth.covers(access, message)
    served = message if reject is not None else canonical_message(message, spell)
    return reject if served is message else await auth.covers(access, served)
