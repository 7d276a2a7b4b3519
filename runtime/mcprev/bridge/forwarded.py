"""Requests that another process of a bridge has passed on to this one (SEC-6, MRTR-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from mcprev.bridge.notes import Notes, Tell
from mcprev.bridge.progress import Listener
from mcprev.bridge.relay import BridgeState, Exchange, wire_error
from mcprev.bridge.upstream import Upstream
from mcprev.conversion.rules import JsonObject, as_object
from mcprev.errors import Json
from mcprev.protocol.connection_state import ConnectionState, IncomingRequest, Responder
from mcprev.revisions import revision_named
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Request

if TYPE_CHECKING:
    from mcprev.bridge.pair import Pair


class Ask(Protocol):
    """Asks a client of another worker on behalf of its request. Raises `McpError`."""

    def __call__(
        self, method: str, params: Json, cancelled: Callable[[], str | None], progress: Listener | None, /
    ) -> Awaitable[dict[str, Json]]:
        """`cancelled` says why the server has cancelled its question, `progress` takes the progress of the client."""
        ...


@dataclass(frozen=True, slots=True)
class ForwardedAccess:
    """What is told of the token of a request of another worker."""

    client_id: Json


@dataclass(frozen=True, slots=True)
class ForwardedOrigin:
    """Who has sent a request to another worker, as that one has authenticated it."""

    principal: object
    access: ForwardedAccess
    client: str | None
    share: None = None
    headers: Headers = field(default_factory=lambda: Headers({}))
    checking: bool = False


class ForwardedRequest(IncomingRequest):
    """A request of a client of another worker."""

    def __init__(self, told: JsonObject, answered: asyncio.Future[JsonObject], ask: Ask) -> None:
        params = told.get("params")
        request = Request(
            told["id"],
            str(told["method"]),
            None if params is None else as_object(params),
            ForwardedOrigin(told.get("principal"), ForwardedAccess(told.get("client")), told.get("from")),
        )
        responder = Responder(ConnectionState())
        revision = revision_named(str(told["revision"]))
        super().__init__(responder, revision, request, None, as_object(told.get("capabilities")))
        self.level: str | None = told.get("level")
        self._answered = answered
        self.ask: Ask = ask
        """Asks the client, by the worker that has the request."""

    @override
    def respond(self, result: dict[str, Json] | None, error: dict[str, Json] | None = None) -> None:
        """Hand over the result or the error, once."""
        if self.open:
            self.open = False
            if not self._answered.done():
                self._answered.set_result({"result": result} if error is None else {"error": error})


class ForwardedExchange(Exchange):
    """The exchange of a request of a client of another worker, where also its messages are recorded."""

    def __init__(
        self,
        state: BridgeState,
        incoming: ForwardedRequest,
        tell: Tell,
    ) -> None:
        self.relay = state
        self.incoming: IncomingRequest = incoming
        self.session = ""
        self._outlet = None
        self._notes = Notes(state, tell)

    @override
    def reads(self, upstream: Upstream) -> None:
        """Say which server's notifications the client is sent."""
        self._notes.source = upstream

    @override
    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send the client a notification by its worker, after those before it."""
        if self.incoming.open:
            self._notes.send(method, params)

    async def sent(self) -> None:
        """Wait until every notification is on its way."""
        await self._notes.sent()

    @override
    def answer(self, result: dict[str, Json]) -> None:
        """Answer the request."""
        self.incoming.respond(result)

    @override
    def fail(self, error: BaseException, pair: Pair | None) -> None:
        """Answer the request with an error of the client's revision."""
        self.incoming.fail(wire_error(error, self.incoming.method, pair))
