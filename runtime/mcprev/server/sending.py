"""The part of a context that sends messages to the client in the types of its revision (SEAM-9), and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

from mcprev.conversion import OnDowngrade
from mcprev.core.capabilities import ServerCapabilities
from mcprev.core.context import BaseContext
from mcprev.errors import Json, LocalProtocolError
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.handshake import HandshakeServer
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.uris import Spell

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.core.exact import Package
    from mcprev.core.store import Records
    from mcprev.protocol.pending_calls import Call
    from mcprev.server.lifespan import LifespanRunner
    from mcprev.server.session_state import SessionStates

T = TypeVar("T")
ASK_TIMEOUT = 600.0
"""Seconds that a client gets to answer: a person may have to read and decide."""
SendRequest: TypeAlias = "Callable[[dict[str, Json] | None], Call]"
"""Sends a request to the client with these params, without waiting for its result."""


@runtime_checkable
class Observer(Protocol):
    """A middleware that also sees connections, and the requests that the server sends to clients."""

    def connected(self, connection: Connection, /) -> None:
        """Take a new connection."""
        ...

    async def ask(
        self, ctx: SendingContext, method: str, params: Json, send: SendRequest, /
    ) -> dict[str, Json]:
        """Send a request to a client and return its result."""
        ...


class ServerHooks(Protocol):
    """The part of a server that a context uses."""

    on_downgrade: OnDowngrade | None
    """Replaces values that the client's revision cannot represent; None to use the default replacements."""
    lifespan: LifespanRunner | None
    """Holds the values of the lifespan; None for a server without one."""
    observer: Observer | None
    """Sees the requests to clients; None if nothing does."""
    identity: ServerCapabilities
    """What the server declares."""
    store: Records | None
    """The records of the server, which its processes share; None if it has no store."""

    canonical_uri: Spell
    """Returns the spelling of a URI for which requests are served, and by which policies decide."""

    @property
    def session_states(self) -> SessionStates:
        """What handlers keep between requests."""
        ...

    def changed(self, what: Changed | str, uri: str | None = None) -> None:
        """Notify every client that is to know of a change."""
        ...


@dataclass(eq=False, repr=False)
class SendingContext(BaseContext[IncomingRequest]):
    """The base class of the context of a server's handler."""

    _server: ServerHooks

    @property
    def revision(self) -> str:
        """The name of the revision that the client speaks. The handler gets the types of the latest revision anyway."""
        return self.request.revision.name

    async def raw(
        self,
        method: str,
        params: dict[str, Json] | None = None,
        *,
        timeout: float | None = ASK_TIMEOUT,
        unchecked: bool = False,
    ) -> dict[str, Json]:
        """Send a request to the client, with params and result as JSON of its revision, without conversion.

        `timeout` is in seconds, as for `ask`. Raises `LocalProtocolError` at a revision whose servers send no requests,
        and unless `unchecked` for a request that the revision does not have or the client does not support; `RpcError`,
        `RequestTimeout` and `ConnectionLost` as `ask`.
        """
        incoming, connection = self.request, self._connection
        engine = incoming.engine
        if not isinstance(engine, HandshakeServer):
            raise LocalProtocolError(
                f"'{method}' cannot be sent: servers of {self.revision} send no requests"
            )
        if (refusal := connection.refuses(incoming)) is not None:
            raise refusal

        def send(params: dict[str, Json] | None) -> Call:
            return engine.call(
                method,
                params,
                connection.now(),
                idle=timeout,
                total=timeout,
                channel=incoming,
                unchecked=unchecked,
            )

        observer = self._server.observer
        sending = None if observer is None else observer.ask(self, method, params, send)
        return await (sending or connection.wait(send(params)))

    async def notify(self, method: str, params: dict[str, Json] | None = None) -> None:
        """Send a notification to the client, with params as JSON of its revision, on the stream of the request."""
        incoming = self.request
        incoming.engine.send_notification(method, params, incoming if incoming.open else None)
        self._connection.process_events()
        await self._connection.drain(incoming)

    def exact(self, package: Package[object, T], *, timeout: float | None = ASK_TIMEOUT) -> T:
        """Return the methods that servers send in the types of the client's revision, without conversion.

        `package` is the generated package of that revision or one that extends it, for a handler in `exact` of `Server`:
        `await ctx.exact(acme_types.latest).acme_alert(params)`. `timeout` is the time in seconds that the client has to
        answer a request. Raises `LocalProtocolError` if the client speaks another revision; a request raises the errors
        of `raw`.
        """
        from mcprev.core.exact import ExactSender, row_of

        row = row_of(package, self.revision)
        return package.ServerCalls(ExactSender(row, partial(self.raw, timeout=timeout), self.notify))
