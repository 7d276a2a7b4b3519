"""The interfaces between transports and what they serve (SEAM-1).

They are generic in the connection, so that connections can import them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from mcprev.core.capabilities import ServerCapabilities
from mcprev.core.store import Records
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.uris import Spell
from mcprev.wire.headers import Headers

Connection_contra = TypeVar("Connection_contra", contravariant=True)


class RequestHandler(Protocol[Connection_contra]):
    """Serves what a connection receives. Neither method raises, except for cancellation."""

    async def handle_request(self, incoming: IncomingRequest, connection: Connection_contra, /) -> None:
        """Answer a request."""
        ...

    def notified(self, notified: NotificationReceived, connection: Connection_contra, /) -> bool:
        """Take a notification, in the order of the wire; return whether `handle_notification` is to be called for it,
        in a task of its own.
        """
        ...

    async def handle_notification(
        self, notified: NotificationReceived, connection: Connection_contra, /
    ) -> None:
        """Take a notification."""
        ...


class Share(Protocol):
    """The memory of a message's body, which counts towards a limit of several connections together."""

    def hold(self) -> None:
        """Add a holder."""
        ...

    def release(self) -> None:
        """Remove a holder; the last one releases the memory."""
        ...


class MessageOrigin(Protocol):
    """What a transport that serves several clients knows of the source of a message: the HTTP request."""

    share: Share | None
    headers: Headers
    checking: bool
    """Whether `headers` are still being checked, so that a refusal needs the HTTP status: no stream begins."""

    @property
    def principal(self) -> object:
        """The sender as authenticated by the transport; anything but a string is no one."""
        ...

    @property
    def client(self) -> str | None:
        """Whose share of a bound it counts for: the principal, else the network address; None if neither is known."""
        ...

    @property
    def access(self) -> object:
        """The content of the sender's token, if the transport requires one."""
        ...


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """The source of a server's message that arrived on the stream of the response to a call."""

    call: Call
    share: None = None
    headers: Headers = field(default_factory=lambda: Headers({}))
    checking: bool = False
    principal: None = None
    client: None = None
    access: None = None


def message_origin(message: IncomingRequest | NotificationReceived) -> MessageOrigin | None:
    """Return the source of a message; None on a pipe."""
    return cast("MessageOrigin | None", message.origin)


def held_share(message: IncomingRequest | NotificationReceived) -> Share | None:
    """Return the memory of a message's body, if its transport limits that."""
    origin = message_origin(message)
    return None if origin is None else origin.share


def principal_of(incoming: IncomingRequest) -> str | None:
    """Return the sender as authenticated by the transport; None without authentication, as on a pipe."""
    origin: Any = incoming.origin
    return origin.principal if origin is not None and isinstance(origin.principal, str) else None


def client_of(message: IncomingRequest | NotificationReceived) -> str | None:
    """Return whose share of a bound a message counts for; None on a pipe, which has one client."""
    return client_at(message.origin)


def client_at(origin: object) -> str | None:
    """Return whose share of a bound the messages of a source count for."""
    client, principal = getattr(origin, "client", None), getattr(origin, "principal", None)
    if isinstance(client, str):
        return client
    return f"principal {principal}" if isinstance(principal, str) else None


class LifespanHold(Protocol):
    """The lifespan of a server, for what serves it."""

    async def hold(self, owner: object) -> None:
        """Enter the lifespan unless it runs already. Raises what the author's code raises."""
        ...

    async def release(self, owner: object) -> None:
        """Leave the lifespan if nobody else holds it."""
        ...


class TaskRunner(Protocol):
    """What runs the tasks of a server."""

    @property
    def running(self) -> Mapping[str, object]:
        """The tasks that run, by id."""
        ...

    async def aclose(self) -> None:
        """End them, and log how many."""
        ...


class ServerApp(Protocol[Connection_contra]):
    """What transports, and what serves over them or shares between processes, need of a server: `server/service.py` has it."""

    @property
    def identity(self) -> ServerCapabilities:
        """The server's revisions, name and capabilities."""
        ...

    @property
    def request_handler(self) -> RequestHandler[Connection_contra]:
        """Serves the requests of every connection."""
        ...

    @property
    def lifespan(self) -> LifespanHold | None:
        """What has to be held while requests are served; None for a server without a lifespan."""
        ...

    @property
    def tasks(self) -> TaskRunner | None:
        """Runs the tasks, which go on after the requests that began them; None for a server without tasks."""
        ...

    @property
    def max_handlers(self) -> int:
        """How many requests of one connection are served at a time."""
        ...

    @property
    def records(self) -> Records | None:
        """The store that other processes share; None for a server without one."""
        ...

    @property
    def store(self) -> Records | None:
        """The records of this server alone in that store, for all its processes."""
        ...

    @property
    def canonical_uri(self) -> Spell:
        """Returns the spelling of a URI for which requests are served, and by which policies decide."""
        ...

    def keep(self, connection: Connection_contra, /) -> None:
        """Notify a connection of changes for as long as it lasts."""
        ...

    def tell_change(
        self, connection: Connection_contra, kind: Changed, uri: str | None
    ) -> list[asyncio.Task[None]]:
        """Notify one client of a change, if it is to know; return the checks that find out whether it is."""
        ...
