"""The state that the engines of one connection share: tables, events and requests in progress (BASE-5, CANC-2).

Each connection has one `ConnectionState`. On a pipe that serves both eras two engines share it, so that an id means
one request for both engines and a cancellation finds its request.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field
from enum import IntEnum, StrEnum, auto
from functools import cached_property
from secrets import token_urlsafe
from typing import Final, Protocol, TypeAlias

from mcprev.errors import ConnectionLost, InvalidRequest, Json, McpError, RemoteProtocolError, RpcError
from mcprev.protocol.pending_calls import Call, PendingCalls
from mcprev.protocol.uris import ComparedUris
from mcprev.revisions import Revision
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import Notification, Request, RequestId, record

PROGRESS: Final = "notifications/progress"


class RequestKind(IntEnum):  # whose hash, unlike that of Enum, is not computed in Python
    """How an engine handles a request."""

    SERVED = auto()
    """The handler serves it."""
    UNKNOWN = auto()
    INITIALIZE = auto()
    PING = auto()
    SET_LEVEL = auto()
    SUBSCRIBE = auto()
    """Subscribes to a resource, or unsubscribes from it."""
    DISCOVER = auto()
    LISTEN = auto()


class LocalInfo(Protocol):
    """What this peer declares and serves, as a pure function of the revision."""

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The configured revisions, oldest first."""
        ...

    @property
    def relays(self) -> bool:
        """Whether this peer passes on messages of others: methods that `kinds` does not list are served, `initialize` is
        answered by the handler, and requests and results keep what they say of their sender.
        """
        ...

    def kinds(self, revision: Revision, /) -> Mapping[str, RequestKind]:
        """Return the requests served at a revision; any other method is unknown."""  # SEAM-2
        ...

    def notifications(self, revision: Revision) -> Container[str]:
        """Return the notifications that the handler receives at a revision."""
        ...

    def capabilities(self, revision: Revision, /) -> dict[str, Json]:
        """Return the capabilities at a revision."""  # SEAM-3
        ...

    def introduction(self, revision: Revision, /) -> dict[str, Json]:
        """Return the declaration of info and capabilities: the params or result of `initialize`, the result of
        `server/discover`, or the `_meta` members of a request.
        """
        ...

    def requirements(self, method: str) -> Mapping[str, Json]:
        """Return the client capabilities that a method requires, in the shape of ClientCapabilities."""
        ...


class ToleratedViolation(StrEnum):
    """A violation of the protocol by the peer that is logged and tolerated."""

    NOISE = "lines that are no messages"
    IDS = "ids of another type than they were sent with"
    UNNAMED_TASKS = "requests about tasks without Mcp-Name"


class Responder:
    """The part of an engine that answers requests of the peer."""

    completes_results = False
    """Whether the era requires members of every result."""

    def __init__(self, connection: ConnectionState) -> None:
        self.connection = connection

    def complete_result(self, request: IncomingRequest, result: dict[str, Json]) -> None:
        """Add the members that every result of the era has."""
        raise NotImplementedError

    def progress(self, request: IncomingRequest, params: dict[str, Json]) -> bool:
        """Report progress of a request, if it is open, has a progress token and the progress increased."""  # PROG-2
        if not (request.open or request.reports_progress) or request.token is None:
            return False
        if not params["progress"] > request.progress:
            return False
        request.progress = params["progress"]
        channel = request if request.open else None
        if PROGRESS not in request.revision.methods:
            return False
        self.send_notification(PROGRESS, {"progressToken": request.token, **params}, channel)
        return True

    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:  # noqa: ARG002 - of servers
        """Return whether a log message of a level is to be sent; clients send none."""  # LOG-2, LOG-3
        return False

    def send_notification(self, method: str, params: dict[str, Json] | None, channel: Channel = None) -> None:
        """Send a notification without checking whether it may be sent; no effect after the connection was lost."""
        if not self.connection.closed:
            message = jsonrpc.encode_notification(method, params)
            self.connection.sends.append((channel or Notification(method, params), message))


class IncomingRequest:
    """A request of the peer that is being served. As an event: serve it. Also the channel of its progress, log
    messages and response.
    """

    def __init__(
        self,
        engine: Responder,
        revision: Revision,
        request: Request,
        batch: BatchResponse | None,
        capabilities: dict[str, Json],
    ) -> None:
        self.engine: Responder = engine
        self.revision: Revision = revision
        self.id: RequestId = request.id
        self.method: str = request.method
        self.params: dict[str, Json] | None = request.params
        self.batch: BatchResponse | None = batch
        self.origin: object = request.origin
        """The transport's own reference to the source of the request, for transports that carry several streams."""
        self.key: object = request.id
        """The key of the request in the table of requests in progress."""
        self.capabilities: dict[str, Json] = capabilities
        """The client capabilities, at the revision of the request."""
        self.client_info: dict[str, Json] | None = None
        self.level: str | None = None
        """The requested log level, if the revision sends one with each request."""
        self.listen: dict[str, Json] | None = None
        """The notifications that a listen stream carries; None for every other request."""
        self.resources: ComparedUris | None = None
        """The resources of which a listen stream carries the changes."""
        self.open: bool = True
        self.reports_progress: bool = False
        """Whether progress is reported after the response, for a request whose result is a task."""  # PROG-4
        self.progress: float = float("-inf")
        self.token: RequestId | None = None
        meta: Json = None if self.params is None else self.params.get("_meta")
        if meta.__class__ is dict and "progressToken" in meta:
            self.token = _token(meta.get("progressToken"))
        self.response: bytes | None = None
        """The encoded response; the transport recognises it among the messages that are sent for the request."""
        self.code: int | None = None
        """The error code of the response; None before the response and for a result."""
        self.failure: Exception | None = None
        """The error of its handler that the response tells, if any."""
        self.unserved: bool = False
        """Whether it failed before it had any effect, so that it may be sent again: over HTTP, status 503."""
        self.cancel_reason: str | None = None
        """Why it was cancelled, in the words of the peer or of its transport; None unless it was."""

    def respond(self, result: dict[str, Json] | None, error: dict[str, Json] | None = None) -> None:
        """Close the request and send its result or error object, or nothing without either; no effect if it is closed.

        The response to a member of a batch is held until the batch is complete.
        """  # CANC-2
        if not self.open:
            return
        answer = None
        if result is not None:
            if self.engine.completes_results:
                self.engine.complete_result(self, result)
            answer = jsonrpc.encode_result(self.id, result)
        elif error is not None:
            self.code = error["code"]
            answer = jsonrpc.encode_error(self.id, error, null_id=False)
        self.open, self.response = False, answer
        state, batch = self.engine.connection, self.batch
        del state.incoming[self.key]
        if batch is None:
            if answer is not None:
                state.sends.append((self, answer))
        else:
            if answer is not None:
                batch.answers.append(answer)
            state.settle(batch)

    def fail(self, error: RpcError | dict[str, Json]) -> None:
        """Send an error response, an error object at the request's revision; no effect if the request is closed."""
        self.respond(None, error.to_wire() if isinstance(error, RpcError) else error)

    def cancel(self, reason: str) -> None:
        """Cancel the request, which gets no response then; no effect if it is closed."""  # CANC-2, HTTPM-6
        if self.open:
            self.cancel_reason = reason
            self.respond(None)
            self.engine.connection.events.append(RequestCancelled(self, reason))


def _token(value: object) -> RequestId | None:
    """Return a valid progress token, or None."""  # PROG-1
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


class BatchResponse:
    """The responses to a batch, which are sent together."""  # BATCH-2

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.waiting: int = 1


Channel: TypeAlias = IncomingRequest | Request | Call | BatchResponse | Notification | None
"""The request, call or batch that a message belongs to (a `Request` if it was refused before it was accepted); an
independent notification itself; None for any other independent message. A pipe has one stream for all messages. A
transport with several streams selects one by the channel and refuses a message without a stream.
"""


@record
class NotificationReceived:
    """The peer sent a notification."""

    revision: Revision
    method: str
    params: dict[str, Json] | None
    origin: object = field(default=None, compare=False, repr=False)
    """The transport's own reference to the source of the notification."""


@record
class CallNotification:
    """A notification about a pending call arrived: its progress, or one on its stream."""

    call: Call
    method: str
    params: dict[str, Json]


@record
class RequestCancelled:
    """A request needs no response any more: the peer cancelled it or disconnected."""

    request: IncomingRequest
    reason: str


@record
class CallCompleted:
    """A call has its result."""

    call: Call
    result: dict[str, Json]


@record
class CallFailed:
    """A call failed, or reached one of its timeouts."""

    call: Call
    error: McpError


@record
class CallCancelled:
    """A call was cancelled; reported only on transports with a stream per call, which close it now."""

    call: Call


@record
class SessionOpened:
    """A session is open at a revision."""

    revision: Revision


@record
class SessionChanged:
    """A message changed what the client has set in its session: other copies of the session need to know it."""

    member: str
    """The member of `HandshakeServer.record`."""
    value: Json
    removed: bool = False
    """Whether the value is removed from the member, which is a list, and not added to it or in its place."""


@record
class Unplaced:
    """A response, progress or cancellation of no request of this connection; another connection may have the request."""

    message: Notification | jsonrpc.Response | jsonrpc.ErrorResponse | jsonrpc.Malformed
    text: str
    """For the log, if nobody else takes the message; empty if the message has an effect here too."""


@record
class Diagnostic:
    """A message without effect, for the log."""

    text: str
    warn: bool = False
    """Whether to log a warning: the first time on a connection."""


Event: TypeAlias = (
    IncomingRequest
    | NotificationReceived
    | CallNotification
    | RequestCancelled
    | CallCompleted
    | CallFailed
    | CallCancelled
    | SessionOpened
    | SessionChanged
    | Unplaced
    | Diagnostic
)


class ConnectionState:
    """The state that the engines of one connection share."""

    def __init__(self) -> None:
        self.shared: bool = False
        """Whether several clients share the connection: their ids may collide, so requests are identified by origin."""
        self.streams: bool = False
        """Whether each request has a stream of its own, whose end cancels the request."""  # HTTPM-6
        self.accepts_batch: bool = False
        """Whether arrays are accepted as messages now."""  # BATCH-6, AMB-16
        self.closed: bool = False
        """Whether the connection is lost."""
        self.calls: PendingCalls = PendingCalls()
        self.incoming: dict[object, IncomingRequest] = {}
        self.events: list[Event] = []
        self.sends: list[tuple[Channel, bytes]] = []
        self.violations: dict[ToleratedViolation, int] = {}
        """How often each tolerated violation has occurred."""

    @cached_property
    def key(self) -> str:
        """A random key of the connection, made when it is first needed: no process, forked or not, has the same."""
        return token_urlsafe(16)

    def tolerate(self, what: ToleratedViolation, example: str) -> None:
        """Count a violation, and log a warning the first time."""
        times = self.violations[what] = self.violations.get(what, 0) + 1
        self.events.append(Diagnostic(f"the peer sends {what}: {example}", warn=times == 1))

    def diagnose(self, what: str) -> None:
        """Add a diagnostic event for the log."""
        self.events.append(Diagnostic(what))

    def accept(
        self,
        engine: Responder,
        revision: Revision,
        request: Request,
        batch: BatchResponse | None,
        capabilities: dict[str, Json],
    ) -> IncomingRequest | None:
        """Accept a request; refuse it and return None if a request with the same id is in progress."""
        incoming = IncomingRequest(engine, revision, request, batch, capabilities)
        if self.shared:
            incoming.key = request.origin
        if incoming.key in self.incoming:
            self.refuse(request, InvalidRequest("a request with this id is in progress"), batch)
            return None
        self.incoming[incoming.key] = incoming
        if batch is not None:
            batch.waiting += 1
        return incoming

    def take_request(self, origin: object) -> IncomingRequest | None:
        """Return the request that was accepted last, instead of as an event, if it came from `origin`."""
        last = self.events[-1] if self.events else None
        if not isinstance(last, IncomingRequest) or last.origin is not origin:
            return None
        self.events.pop()
        return last

    def refuse(self, request: Request, error: RpcError, batch: BatchResponse | None) -> None:
        """Send an error response to a request that was not accepted."""
        self.reply(request, batch, jsonrpc.encode_error(request.id, error.to_wire(), null_id=False))

    def reply(self, channel: Channel, batch: BatchResponse | None, message: bytes) -> None:
        """Send a response, or hold it until its batch is complete."""
        if batch is None:
            self.sends.append((channel, message))
        else:
            batch.answers.append(message)

    def settle(self, batch: BatchResponse) -> None:
        """Count a finished member of a batch; after the last one, send the responses."""
        batch.waiting -= 1
        if not batch.waiting and batch.answers:
            self.sends.append((None, jsonrpc.encode_batch(batch.answers)))

    def fail_malformed(self, message: jsonrpc.Malformed) -> bool:
        """Fail the call that a malformed response belongs to. Returns whether there was one."""  # BASE-6
        meant = message.shape is jsonrpc.Shape.RESPONSE or message.shape is jsonrpc.Shape.ID_ONLY
        call = self.calls.close(message.id) if meant else None
        if call is None:
            if meant:
                self.events.append(Unplaced(message, ""))
            return False
        self.events.append(CallFailed(call, RemoteProtocolError(message.message, raw=message.excerpt)))
        return True

    def fail_calls(self, error: ConnectionLost) -> None:
        """Fail every pending call."""
        self.events.extend(CallFailed(call, error) for call in self.calls.drain())

    def lost(self, error: ConnectionLost) -> None:
        """The connection is lost: fail every call and cancel every request."""
        self.closed = True
        self.fail_calls(error)
        while self.incoming:
            incoming = self.incoming.popitem()[1]
            incoming.open = False
            self.events.append(RequestCancelled(incoming, "the connection ended"))
