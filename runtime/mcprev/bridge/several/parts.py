"""The part of a client's request that one of several servers gets: with its own names, and an answer that gets prefixes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from typing_extensions import override

from mcprev.bridge.pair import Pair
from mcprev.bridge.relay import BridgeState, Exchange, wire_error
from mcprev.bridge.upstream import Upstream
from mcprev.errors import Json
from mcprev.protocol.connection_state import PROGRESS, IncomingRequest
from mcprev.wire.jsonrpc import Request

Answered: TypeAlias = Callable[
    ["dict[str, Json] | None", "dict[str, Json] | None", "BaseException | None"], None
]
"""Takes the result or the error of a part, and that of the bridge itself, if it was that."""
Send: TypeAlias = Callable[[str, "dict[str, Json] | None"], None]


class Part(IncomingRequest):
    """A request of a client as one server gets it. Its answer goes to a function."""

    def __init__(
        self,
        original: IncomingRequest,
        answered: Answered,
        params: dict[str, Json] | None,
        method: str | None = None,
    ) -> None:
        request = Request(original.id, method or original.method, params, original.origin)
        super().__init__(original.engine, original.revision, request, None, original.capabilities)
        self.original: IncomingRequest = original
        """The request of the client."""
        self.client_info: dict[str, Json] | None = original.client_info
        self.level: str | None = original.level
        self.refusal: BaseException | None = None
        """The error of the bridge itself with which it was answered, if it was."""
        self._answered = answered

    @override
    def respond(self, result: dict[str, Json] | None, error: dict[str, Json] | None = None) -> None:
        """Hand over the result or the error, once."""
        if self.open:
            self.open = False
            self._answered(result, error, self.refusal)


class PartExchange(Exchange):
    """The exchange of a part. Messages of it are recorded where the client's request is, and not again."""

    def __init__(self, relay: BridgeState, part: Part, outer: Exchange, send: Send) -> None:
        connection, session = outer.connection, outer.session
        self.relay = relay
        self._part = part
        self.incoming: IncomingRequest = part
        self.connection = connection
        self.session = session
        self.server = "the server"
        """What errors of the bridge call the server."""
        self._outlet = None
        self._outer = outer
        self._send_part = send

    @property
    @override
    def request(self) -> IncomingRequest | None:
        """The request of the client."""
        return self._outer.request

    @override
    def reads(self, upstream: Upstream) -> None:
        """Say which server's notifications the client is sent."""
        self._outer.reads(upstream)

    @override
    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send the client a notification about its request, while that is open, or later about the progress of its task."""
        request = self.request
        if (request is not None and request.open) or (self.incoming.reports_progress and method == PROGRESS):
            self._send_part(method, params)

    @override
    def params(self, pair: Pair, meta: Mapping[str, Json] | None) -> dict[str, Json] | None:
        """Return the params for the server, without the client's progress token. Raises `RpcError`."""
        self.reaches(self.relay, pair.server.name)
        return super().params(pair, meta)

    @override
    def has_asked(self) -> None:
        """Take note that the client was asked during the request."""
        self._outer.has_asked()

    @override
    def reaches(self, relay: BridgeState, revision: str) -> None:
        """Take note that the request is passed on to a server."""
        self._outer.reaches(relay, revision)

    @override
    def answer(self, result: dict[str, Json]) -> None:
        """Answer the part."""
        self.incoming.respond(result)

    @override
    def fail(self, error: BaseException, pair: Pair | None) -> None:
        """Answer the part with an error of the client's revision."""
        self._part.refusal = error
        told = self.relay.reads_stderr
        self.incoming.fail(
            wire_error(error, self.incoming.method, pair, server=self.server, reads_stderr=told)
        )


@dataclass(slots=True)
class Outcome:
    """The answer to a part that is waited for."""

    result: dict[str, Json] | None = None
    error: dict[str, Json] | None = None
    refusal: BaseException | None = None
    """The error of the bridge itself, if it was that."""

    def take(
        self, result: dict[str, Json] | None, error: dict[str, Json] | None, refusal: BaseException | None
    ) -> None:
        """Take the answer."""
        self.result, self.error, self.refusal = result, error, refusal
