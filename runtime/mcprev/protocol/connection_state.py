"""What the engines of one connection share: its tables, its events, and what is being served (BASE-5, CANC-2).

One connection has one `ConnectionState`. On a pipe that serves both eras two engines share it, so that an id means one
request whichever engine speaks, and a cancellation finds what it cancels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum, StrEnum, auto
from itertools import count
from typing import Final, Protocol, TypeAlias

from mcprev.errors import ConnectionLost, Json, McpError, RemoteProtocolError, RpcError
from mcprev.protocol.pending_calls import Call, PendingCalls
from mcprev.revisions import Revision
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import Request, RequestId, record


class RequestKind(Enum):
    """What an engine does with a request."""

    __hash__ = object.__hash__  # looked up for each message; that of Enum runs in Python

    SERVED = auto()
    """It is for the handler."""
    UNKNOWN = auto()
    INITIALIZE = auto()
    PING = auto()
    SET_LEVEL = auto()
    SUBSCRIBE = auto()
    UNSUBSCRIBE = auto()
    DISCOVER = auto()
    LISTEN = auto()


class LocalInfo(Protocol):
    """What this side says of itself, a pure function of the revision."""

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions that configuration allows, oldest first."""
        ...

    def kinds(self, revision: Revision) -> Mapping[str, RequestKind]:
        """The requests it serves at a revision; any other is unknown there (SEAM-2)."""
        ...

    def notifications(self, revision: Revision) -> frozenset[str]:
        """The notifications its handler wants to hear of at a revision."""
        ...

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """Its capabilities in the words of a revision (SEAM-3)."""
        ...

    def introduction(self, revision: Revision) -> dict[str, Json]:
        """How it introduces itself: params or result of `initialize`, result of `server/discover`, or the
        members of a request's `_meta`.
        """
        ...

    def requirements(self, method: str) -> Mapping[str, Json]:
        """The client capabilities without which it refuses a method, in the shape of ClientCapabilities."""
        ...


class ToleratedViolation(StrEnum):
    """What a peer gets wrong and is understood all the same."""

    NOISE = "lines that are no messages"
    IDS = "ids of another type than they were sent with"


class Responder(Protocol):
    """What a request needs of the engine that took it."""

    @property
    def connection(self) -> ConnectionState:
        """What the engines of the connection share."""
        ...

    @property
    def completes_results(self) -> bool:
        """Whether results need `complete_result`."""
        ...

    def complete_result(self, request: IncomingRequest, result: dict[str, Json]) -> None:
        """Add the members that the era requires of every result."""
        ...

    def progress(self, request: IncomingRequest, params: dict[str, Json]) -> bool:
        """Report progress of a request; return whether the report is sent (PROG-2)."""
        ...

    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:
        """Whether a log message of a level is to be sent (LOG-2, LOG-3)."""
        ...

    def send_notification(self, method: str, params: dict[str, Json] | None, channel: Channel = None) -> None:
        """Send a notification."""
        ...


class IncomingRequest:
    """A request of the peer's that is being served; as an event: serve it. It is also the channel of whatever
    belongs to it (progress, log messages, its answer).
    """

    __slots__ = (
        "batch",
        "capabilities",
        "client_info",
        "code",
        "engine",
        "handle",
        "id",
        "key",
        "level",
        "listen",
        "method",
        "open",
        "origin",
        "params",
        "progress",
        "reports_progress",
        "response",
        "revision",
        "token",
    )  # fmt: skip

    def __init__(
        self,
        engine: Responder,
        revision: Revision,
        request: Request,
        batch: BatchResponse | None,
        capabilities: dict[str, Json],
    ) -> None:
        self.engine = engine
        self.revision = revision
        self.id = request.id
        self.method = request.method
        self.params = request.params
        self.batch = batch
        self.origin = request.origin
        """Whatever the transport knows it by, where one connection has several ways in."""
        self.key: object = request.id
        """What it is found by while it is in progress."""
        self.capabilities = capabilities
        """What the peer declared, in the words of its revision."""
        self.client_info: dict[str, Json] | None = None
        self.level: str | None = None
        """The log level it asked for, where that is told with each request."""
        self.listen: dict[str, Json] | None = None
        """The notifications that a listen stream carries; None for every other request."""
        self.open = True
        self.reports_progress = False
        """Whether progress is reported after the answer: of a task that it was answered with (PROG-4)."""
        self.progress = float("-inf")
        self.token: RequestId | None = None
        meta: Json = None if self.params is None else self.params.get("_meta")
        if meta.__class__ is dict and "progressToken" in meta:
            self.token = _token(meta.get("progressToken"))
        self.handle: object = None
        """Whatever the driver has running for it."""
        self.response: bytes | None = None
        """The message that answers it, by which a transport knows it among the others that are sent on its behalf."""
        self.code: int | None = None
        """The code of the error that it is answered with; None while it is not, and for a result."""

    @property
    def principal(self) -> str | None:
        """Who sends it, as the transport has made sure of; None where nobody is asked who they are, as on a pipe."""
        found = getattr(self.origin, "principal", None)
        return found if isinstance(found, str) else None

    def respond(self, result: dict[str, Json]) -> None:
        """Answer the request with a result; one that is no longer open is not answered (CANC-2)."""
        if self.open:
            if self.engine.completes_results:
                self.engine.complete_result(self, result)
            self.engine.connection.close(self, jsonrpc.encode_result(self.id, result))

    def fail(self, error: RpcError | dict[str, Json]) -> None:
        """Answer the request with an error in the words of its revision; no effect when it is no longer open."""
        if self.open:
            wire = error.to_wire() if isinstance(error, RpcError) else error
            self.code = wire["code"]
            self.engine.connection.close(self, jsonrpc.encode_error(self.id, wire, null_id=False))

    def cancel(self, reason: str) -> None:
        """Close the request without an answer (CANC-2, HTTPM-6); no effect when it is no longer open."""
        if self.open:
            state = self.engine.connection
            state.close(self, None)
            state.events.append(RequestCancelled(self, reason))


def _token(value: object) -> RequestId | None:
    """A progress token, if it is one (PROG-1)."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


class BatchResponse:
    """The answers to an array of messages, which go out together (BATCH-2)."""

    __slots__ = ("answers", "waiting")

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.waiting = 1


Channel: TypeAlias = IncomingRequest | Request | Call | BatchResponse | None
"""What a message belongs to: the request that it answers or serves (a `Request` where it was not taken in), the
call that it is, the batch that it answers; None for one that stands alone. A pipe has one stream for all of them;
a transport with several sends each message on one, and refuses one it has no stream for instead of losing it."""


@record
class NotificationReceived:
    """The peer sent a notification."""

    revision: Revision
    method: str
    params: dict[str, Json] | None
    origin: object = field(default=None, compare=False, repr=False)
    """Whatever the transport knows it by."""


@record
class StreamNotification:
    """A notification came on the stream that a call of ours opened."""

    call: Call
    revision: Revision
    method: str
    params: dict[str, Json]


@record
class RequestCancelled:
    """A request will not be answered: the peer cancelled it, or is gone."""

    request: IncomingRequest
    reason: str


@record
class CallCompleted:
    """A call of ours has its result."""

    call: Call
    result: dict[str, Json]


@record
class CallFailed:
    """A call of ours will have no result."""

    call: Call
    error: McpError


@record
class CallTimedOut:
    """A call of ours reached one of its bounds and was given up."""

    call: Call
    kind: str
    elapsed: float


@record
class CallCancelled:
    """A call of ours was given up; told only where a call has a stream of its own, to be closed now."""

    call: Call


@record
class ProgressReceived:
    """The peer reports on a call of ours."""

    call: Call
    params: dict[str, Json]


@record
class SessionOpened:
    """A session is open at a revision."""

    revision: Revision


@record
class Diagnostic:
    """The peer sent something that has no effect, for the log."""

    text: str
    warn: bool = False
    """Whether whoever runs this side should see it: the first time that a connection has such a thing."""


Event: TypeAlias = (
    IncomingRequest
    | NotificationReceived
    | StreamNotification
    | RequestCancelled
    | CallCompleted
    | CallFailed
    | CallTimedOut
    | CallCancelled
    | ProgressReceived
    | SessionOpened
    | Diagnostic
)


_NUMBERS: Final = count(1)


class ConnectionState:
    """What the engines of one connection share."""

    __slots__ = (
        "accepts_batch",
        "calls",
        "events",
        "incoming",
        "number",
        "sends",
        "shared",
        "streams",
        "violations",
    )

    def __init__(self) -> None:
        self.number = next(_NUMBERS)
        """Its own in this process."""
        self.shared = False
        """Whether several clients send over it: ids mean nothing across them, requests are known by their origin."""
        self.streams = False
        """Whether each request has a stream of its own, whose end gives it up (HTTPM-6)."""
        self.accepts_batch = False
        """Whether an array is a message now (BATCH-6, AMB-16)."""
        self.calls = PendingCalls()
        self.incoming: dict[object, IncomingRequest] = {}
        self.events: list[Event] = []
        self.sends: list[tuple[Channel, bytes]] = []
        self.violations: dict[ToleratedViolation, int] = {}
        """How many times the peer got something wrong that is put up with."""

    def tolerate(self, what: ToleratedViolation, example: str) -> None:
        """Count it, and warn of it the first time."""
        times = self.violations[what] = self.violations.get(what, 0) + 1
        self.events.append(Diagnostic(f"the peer sends {what}: {example}", warn=times == 1))

    def diagnose(self, what: str) -> None:
        """Tell the log."""
        self.events.append(Diagnostic(what))

    def close(self, request: IncomingRequest, answer: bytes | None) -> None:
        """Close a request: send its answer, if it has one, or keep it until its batch is complete."""
        request.open, request.response = False, answer
        del self.incoming[request.key]
        batch = request.batch
        if batch is None:
            if answer is not None:
                self.sends.append((request, answer))
        else:
            if answer is not None:
                batch.answers.append(answer)
            self.settle(batch)

    def refuse(self, request: Request, error: RpcError, batch: BatchResponse | None) -> None:
        """Answer a request that is not taken in."""
        self.reply(request, batch, jsonrpc.encode_error(request.id, error.to_wire(), null_id=False))

    def reply(self, channel: Channel, batch: BatchResponse | None, message: bytes) -> None:
        """Send an answer, or keep it until its batch is complete."""
        if batch is None:
            self.sends.append((channel, message))
        else:
            batch.answers.append(message)

    def settle(self, batch: BatchResponse) -> None:
        """One more member of a batch is done; after the last one the answers go out."""
        batch.waiting -= 1
        if not batch.waiting and batch.answers:
            self.sends.append((None, jsonrpc.encode_batch(batch.answers)))

    def broken(self, message: jsonrpc.Malformed) -> bool:
        """A broken answer to a call of ours fails that call (BASE-6); whether it was one."""
        meant = message.shape is jsonrpc.Shape.RESPONSE or message.shape is jsonrpc.Shape.ID_ONLY
        call = self.calls.close(message.id) if meant else None
        if call is None:
            return False
        self.events.append(CallFailed(call, RemoteProtocolError(message.message, raw=message.excerpt)))
        return True

    def lost(self, error: ConnectionLost) -> None:
        """The connection is gone: every call fails, every request is dropped."""
        self.events.extend(CallFailed(call, error) for call in self.calls.drain())
        while self.incoming:
            incoming = self.incoming.popitem()[1]
            incoming.open = False
            self.events.append(RequestCancelled(incoming, "the connection ended"))
