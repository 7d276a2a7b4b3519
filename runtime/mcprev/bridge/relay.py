"""What the parts of one running bridge share, and the exchange of one request (PROG-2, CANC-7, SEC-6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias, TypedDict, TypeVar

from typing_extensions import override

from mcprev.bridge.last_words import line_behind, with_last_line
from mcprev.bridge.pair import Pair, Policy, Rule
from mcprev.bridge.refusals import refusal_of
from mcprev.bridge.results import KeptResults
from mcprev.bridge.upstream import Upstream
from mcprev.bridge.upstreams import Bounds, Upstreams
from mcprev.conversion import PayloadKind
from mcprev.conversion.rules import as_object, without
from mcprev.core.background import Background
from mcprev.core.connection import Connection
from mcprev.error_text import internal_error
from mcprev.errors import (
    METHOD_NOT_FOUND,
    ConversionError,
    InternalError,
    InvalidParams,
    Json,
    McpError,
    MethodNotFound,
    RpcError,
    StoreError,
    one_line,
)
from mcprev.protocol.cache import ResultCache
from mcprev.protocol.connection_state import PROGRESS, IncomingRequest, Responder
from mcprev.protocol.engine import declares
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import Revision
from mcprev.wire.jsonrpc import Request
from mcprev.wire.payloads import mask_text
from mcprev_types import Direction

logger: Final = logging.getLogger("mcprev.bridge")
T = TypeVar("T")
Serve: TypeAlias = "Callable[[Exchange], Awaitable[None]]"
"""Answers a request. Raises `McpError`."""
Within: TypeAlias = "Callable[[Exchange, Serve], Awaitable[None]]"
"""Answers a request by a function, with something around that. Raises `McpError`."""
Record: TypeAlias = Callable[[str, Direction, dict[str, Json]], None]
LOG: Final = "notifications/message"
UNREAD: Final = 256 * 1024
"""The bytes of notifications that may wait for a client that does not read; more is not read from its server for a while."""
MOST: Final = 4 * UNREAD
"""The bytes of notifications that wait at most; further progress and logs are dropped."""
HOLD: Final = 5.0
"""Seconds for which a server is not read: others may use the same connection."""
LATER: Final = 1_000
"""The notifications of changes that may wait for such a client."""


class BridgeOptions(TypedDict):
    """What is the same for a running bridge and for each of its servers; `BridgeState` describes them."""

    bounds: Bounds
    policy: Policy
    states: RequestStateSealer
    own: Mapping[str, Json]
    revisions: tuple[Revision, ...]
    shared: bool
    reads_stderr: bool
    record: Record | None
    prepare: Callable[[], Awaitable[None]] | None
    cache: ResultCache | None
    forget: Sequence[Callable[[Changed, str | None], object]]


@dataclass(eq=False, kw_only=True)
class BridgeState:
    """What the parts of one running bridge share."""

    bounds: Bounds
    policy: Policy
    states: RequestStateSealer
    own: Mapping[str, Json]
    """The info of the bridge."""
    revisions: tuple[Revision, ...]
    """The revisions that clients may speak."""
    shared: bool
    """Whether clients over HTTP without authentication share connections to a server with sessions."""
    reads_stderr: bool = False
    """Whether the client has started the bridge, and so may read what a server writes to stderr."""
    record: Record | None = None
    prepare: Callable[[], Awaitable[None]] | None = None
    """Reads what processes share before a request is served; None if they share nothing."""
    shows_tasks: ClassVar[bool] = True
    """Whether clients see tasks of the bridge."""
    name: str = ""
    """The name of the server in the configuration; empty for the only server of a bridge."""
    cache: ResultCache | None = None
    """Keeps results of stateless servers; None if none are kept."""
    forget: Sequence[Callable[[Changed, str | None], object]] = ()
    """Told of changes, because they keep results themselves."""
    _pairs: dict[tuple[str, str], Pair] = field(default_factory=dict[tuple[str, str], Pair])
    background: Background = field(default_factory=lambda: Background(logger, "work in the background"))
    """What runs until the bridge stops."""

    @property
    def server_name(self) -> str:
        """The name of the server."""
        return self.name

    def pair(self, client: Revision, server: Revision) -> Pair:
        """Return the pair of two revisions."""
        found = self._pairs.get((client.name, server.name))
        if found is None:
            found = self._pairs[client.name, server.name] = Pair(
                client, server, self.policy, shows_tasks=self.shows_tasks
            )
        return found

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in the background until it or the bridge ends; what it raises is logged."""
        return self.background.start(work)

    def recorded(self, session: str, direction: Direction, message: dict[str, Json]) -> None:
        """Record a message between a client and the bridge."""
        if self.record is not None:
            self.record(session, direction, {"jsonrpc": "2.0", **message})

    async def aclose(self) -> None:
        """End what runs in the background."""
        await self.background.aclose()


@dataclass(eq=False, kw_only=True)
class Relay(BridgeState):
    """What the parts of a running bridge share that are about one server."""

    upstreams: Upstreams
    per_principal: bool = False
    """Whether principals have connections of their own also to a server without sessions."""

    def __post_init__(self) -> None:
        """Take note of what changes at the server."""
        self.results: KeptResults | None = (
            None if self.cache is None else KeptResults(self.cache, self.bounds.max_ttl)
        )
        """The results that are returned again; None if none are kept."""
        self.upstreams.changed, self.upstreams.replaced = self._changed, self._replaced
        self._said = False

    def nobody(self) -> object:
        """Return the owner of a connection that is for one call; the first time, say in the log why there is one for each."""
        if not self._said and self.upstreams.introduction is not None:
            self._said = True
            logger.warning(
                "the server%s requires a session, and a client that is not authenticated has none: each of its calls gets a new "
                "connection, and a server on stdio a new process. `shared` (--shared) lets such clients share them, and their state",
                f" '{one_line(self.name)}'" if self.name else "",
            )
        return object()

    def _changed(self, kind: Changed, uri: str | None) -> None:
        if self.results is not None:
            self.results.changed(kind, uri)
        for forget in self.forget:  # clients of several servers know its resources by other names
            forget(kind, None if self.name else uri)

    def _replaced(self) -> None:
        if self.results is not None:
            self.results.forget()

    @property
    @override
    def server_name(self) -> str:
        """The name of the server in the configuration, or else the one that it gives itself."""
        known = self.upstreams.introduction
        return self.name or ("" if known is None else str(known.info.get("name", "")))

    @override
    async def aclose(self) -> None:
        """End what runs in the background, and every connection to the server."""
        await super().aclose()
        await self.upstreams.aclose()
        self._replaced()


class Outlet:
    """Sends notifications to one client, and bounds what waits while the client does not read."""

    def __init__(self, relay: BridgeState, connection: Connection, engine: Responder, session: str) -> None:
        self._relay = relay
        self._connection = connection
        self._engine = engine
        self._session = session
        self.source: Upstream | None = None
        """Where the notifications come from."""
        self._held: asyncio.TimerHandle | None = None
        """When the server is read again at the latest; None until it was held since the client has read everything."""
        self._release: Callable[[], None] | None = None
        """Lets the server be read again; None if it is read."""
        self._unread = 0
        self._dropped = 0
        self._later: dict[str, tuple[str, dict[str, Json] | None]] = {}
        self._draining: asyncio.Task[None] | None = None

    def send(self, method: str, params: dict[str, Json] | None, request: IncomingRequest | None) -> None:
        """Send a notification on the channel of a request, or outside of all."""
        if self._unread > (MOST if self._held is not None else UNREAD):
            if method in (PROGRESS, LOG) or len(self._later) >= LATER:
                self._dropped += 1
            else:
                self._later[f"{method} {(params or {}).get('uri')}"] = method, params
            return
        message: dict[str, Json] = {"method": method} | ({} if params is None else {"params": params})
        self._relay.recorded(self._session, Direction.SERVER_TO_CLIENT, message)
        state = self._connection.protocol.connection
        sends, before = state.sends, len(state.sends)
        self._engine.send_notification(method, params, request)
        self._unread += sum(len(data) for _, data in sends[before:])
        self._connection.process_events()
        if self._unread > UNREAD and self._held is None and self.source is not None:
            self._hold(self.source.connection)
        if self._draining is None:
            self._draining = self._relay.start(self._drain(request))

    def _hold(self, connection: Connection) -> None:
        """Do not read from the server until the client has read, or some time has passed."""

        def release() -> None:
            connection.release_reading()
            self._release = None

        connection.hold_reading()
        self._release = release
        self._held = asyncio.get_running_loop().call_later(HOLD, release)

    async def _drain(self, request: IncomingRequest | None) -> None:
        """Wait until the client has read what was sent, then send what had to wait."""
        try:
            await self._connection.drain(request)
        finally:
            if self._held is not None:
                self._held.cancel()
                if self._release is not None:
                    self._release()
            self._unread, self._draining, self._held = 0, None, None
        if self._dropped:
            logger.warning(
                "%d notifications were dropped, because the client does not read its stream", self._dropped
            )
            self._dropped = 0
        later, self._later = self._later, {}
        for method, params in later.values():
            self.send(method, params, None)


class Exchange:
    """One request of a client, until it is answered."""

    def __init__(
        self,
        relay: BridgeState,
        incoming: IncomingRequest,
        connection: Connection,
        session: str,
        outlet: Outlet,
    ) -> None:
        self.relay = relay
        self.incoming = incoming
        self.connection = connection
        self.session = session
        """The name of the client's session in recordings."""
        self._outlet: Outlet | None = outlet
        if relay.record is not None:
            message: dict[str, Json] = {"id": incoming.id, "method": incoming.method}
            if incoming.params is not None:
                message["params"] = incoming.params
            relay.recorded(session, Direction.CLIENT_TO_SERVER, message)

    @property
    def outlet(self) -> Outlet | None:
        """Sends notifications to the client; None if another worker does."""
        return self._outlet

    def reads(self, upstream: Upstream) -> None:
        """Say which server's notifications the client is sent."""
        if self._outlet is not None:
            self._outlet.source = upstream

    @property
    def request(self) -> IncomingRequest | None:
        """The request of the client."""
        return self.incoming

    @property
    def suspended_since(self) -> float | None:
        """None: the client waits."""
        return None

    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send the client a notification about its request, while that is open."""
        outlet, incoming = self._outlet, self.incoming
        if outlet is not None and incoming.open:
            outlet.send(method, params, incoming)
        elif outlet is not None and incoming.reports_progress and method == PROGRESS:
            outlet.send(method, params, None)  # PROG-4

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Refuse a question: the client did not declare that it answers any."""
        refuse_question(asked, self.incoming)

    def has_asked(self) -> None:
        """Take note that the client was asked during the request."""

    def reaches(self, _relay: BridgeState, _revision: str) -> None:
        """Take note that the request is passed on to a server."""

    def recorded(self, message: dict[str, Json]) -> None:
        """Record an answer that was given elsewhere."""
        self.relay.recorded(self.session, Direction.SERVER_TO_CLIENT, message)

    def answer(self, result: dict[str, Json]) -> None:
        """Answer the request."""
        if self.relay.record is not None and self.incoming.open:
            self.recorded({"id": self.incoming.id, "result": result})
        self.incoming.respond(result)

    def fail(self, error: BaseException, pair: Pair | None) -> None:
        """Answer the request with an error of the client's revision."""
        own = not isinstance(error, RpcError) or error.raw is None
        wire = wire_error(error, self.incoming.method, pair, reads_stderr=self.relay.reads_stderr)
        self.refuse(wire, own=own)

    def refuse(self, wire: dict[str, Json], *, own: bool = False) -> None:
        """Answer the request with an error object; `own` is one that no server has sent."""
        if self.incoming.open:
            self.recorded({"id": self.incoming.id, "error": wire})
        incoming = self.incoming
        unserved = own or incoming.method not in incoming.revision.methods
        if (
            wire["code"] == METHOD_NOT_FOUND
            and unserved
            and incoming.open
            and not incoming.revision.handshake
        ):
            self._refuse(wire)
        else:
            incoming.fail(wire)

    def _refuse(self, wire: Mapping[str, Json]) -> None:
        """Answer with an error as the engine does that serves no such method: over HTTP, with its status."""  # ERR-6
        incoming = self.incoming
        incoming.respond(None)
        refused = Request(incoming.id, incoming.method, None, incoming.origin)
        incoming.engine.connection.refuse(refused, RpcError.from_wire(wire), None)

    def params(self, pair: Pair, meta: Mapping[str, Json] | None) -> dict[str, Json] | None:
        """Return the params for the server, without the client's progress token. Raises `RpcError`."""
        incoming = self.incoming
        if pair.same:
            return without_token(incoming)
        if not pair.has(incoming.method):
            raise unknown_between(incoming.method, pair)
        params = without_token(incoming)
        try:
            found: dict[str, Json] | None
            found = pair.to_server(params, incoming.method, PayloadKind.PARAMS, meta)
        except ConversionError as error:
            raise InvalidParams(f"Invalid params: {error}") from error
        return found


def without_token(request: IncomingRequest) -> dict[str, Json] | None:
    """Return the params of a request without its progress token, which is one of its own connection."""
    params = request.params
    if params is None or request.token is None:
        return params
    return {**params, "_meta": without(as_object(params.get("_meta")), "progressToken")}


def unknown_between(method: str, pair: Pair) -> MethodNotFound:
    """Return the error for a method that only one of two revisions has."""
    return MethodNotFound(
        f"Method not found: {method} (nothing converts it between {pair.client.name} and {pair.server.name}: {Rule.METHOD})"
    )


def undeclared(asked: IncomingRequest, call: IncomingRequest | None) -> str | None:
    """Return the capability that a question of a server needs and the client whose call is in progress has not declared."""
    spec = asked.revision.methods.get(asked.method)
    needs = None if spec is None else spec.capability
    return None if needs is None or call is None or declares(call.capabilities, needs) else needs


def refuse_question(asked: IncomingRequest, call: IncomingRequest | None = None) -> None:
    """Refuse a question of a server, which belongs to no request of a client, or to a `call` whose client takes none."""
    why = f"Method not found: {asked.method} outside of a client's request ({Rule.UNASKED})"
    if missing := undeclared(asked, call):
        why = f"{asked.method}: the client has not declared the capability {missing}"
    asked.fail(MethodNotFound(why))


def wire_error(
    error: BaseException,
    method: str,
    pair: Pair | None,
    *,
    to_client: bool = True,
    server: str = "the server",
    reads_stderr: bool = False,
) -> dict[str, Json]:
    """Return the error object for one side of a pair; what is no error of the protocol is only logged.

    A client that `reads_stderr` is told the last line that a process wrote there before it ended; others are told of the log.
    """
    if isinstance(error, RpcError):
        if error.raw is None or pair is None:
            return error.to_wire()
        try:
            return pair.error(error.raw, method, to_client=to_client)
        except ConversionError as wrong:
            error = wrong
    if isinstance(error, ConversionError):
        return InternalError(f"the message of the other side cannot be converted: {error}").to_wire()
    if isinstance(error, McpError) and not isinstance(error, StoreError):
        told, line = one_line(error), line_behind(error)
        failed = one_line(f"'{method}' of {server} failed")
        logger.warning("%s: %s", failed, told if line in told else f"{told} ... {line}")
        if (refused := refusal_of(error)) is not None:
            return InternalError(f"{server} behind the bridge requires authorization: {refused}").to_wire()
        first = mask_text(str(error).partition("\n")[0])[:300]
        why = with_last_line(first, error, reads_stderr=reads_stderr)
        return InternalError(f"{server} behind the bridge did not respond: {why}").to_wire()
    logger.error("'%s' failed", one_line(method), exc_info=error)
    return internal_error(error, may_have_run=True).to_wire()
