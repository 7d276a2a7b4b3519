"""What both engines are made of: a connection's shared tables, its events, and requests in both directions.

BASE-5, BASE-8, BASE-9, CANC-1..6, PROG-1..3, LIFE-18. Engines are pure: messages and the time go in, events
and sends come out and are drained; nothing here waits, calls back or looks at a clock.

One connection has one `Link`. On a pipe that serves both eras two engines share it, so that an id means one
request whichever engine speaks, and a cancellation finds what it cancels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Protocol, TypeAlias, cast

from mcprev.errors import (
    ConnectionLost,
    InvalidRequest,
    Json,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    RemoteProtocolError,
    RpcError,
)
from mcprev.protocol.correlate import Call, Calls
from mcprev.revisions import Revision
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import ErrorResponse, Notification, Request, RequestId, Response

PROGRESS: Final = "notifications/progress"
CANCELLED: Final = "notifications/cancelled"
_NEVER_CANCELLED: Final = frozenset({"initialize", "server/discover"})
"""A session is not open while the first is out, and the second asks a server that may know neither of them."""


class Kind(Enum):
    """What an engine does with a request."""

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


class Local(Protocol):
    """What this side says of itself, a pure function of the revision."""

    @property
    def rows(self) -> tuple[Revision, ...]:
        """The revisions that configuration allows, oldest first."""
        ...

    def kinds(self, row: Revision) -> Mapping[str, Kind]:
        """The requests it serves at a revision; any other is unknown there (SEAM-2)."""
        ...

    def notifications(self, row: Revision) -> frozenset[str]:
        """The notifications its handler wants to hear of at a revision."""
        ...

    def capabilities(self, row: Revision) -> dict[str, Json]:
        """Its capabilities in the words of a revision (SEAM-3)."""
        ...

    def hello(self, row: Revision) -> dict[str, Json]:
        """How it introduces itself: params or result of `initialize`, result of `server/discover`, or the
        members of a request's `_meta`.
        """
        ...

    def requirements(self, method: str) -> Mapping[str, Json]:
        """The client capabilities without which it refuses a method, in the shape of ClientCapabilities."""
        ...


class Inbound:
    """A request of the peer's that is being served; as an event: serve it. It is also the channel of whatever
    belongs to it (progress, log messages, its answer).
    """

    __slots__ = (
        "batch", "capabilities", "client_info", "handle", "id", "level", "listen", "method", "open", "params",
        "peer", "progress", "row", "token",
    )  # fmt: skip

    def __init__(
        self, peer: Peer, row: Revision, request: Request, batch: Bundle | None, capabilities: dict[str, Json]
    ) -> None:
        self.peer = peer
        self.row = row
        self.id = request.id
        self.method = request.method
        self.params = request.params
        self.batch = batch
        self.capabilities = capabilities
        """What the peer declared, in the words of its revision."""
        self.client_info: dict[str, Json] | None = None
        self.level: str | None = None
        """The log level it asked for, where that is told with each request."""
        self.listen: dict[str, Json] | None = None
        """The notifications that a listen stream carries; None for every other request."""
        self.open = True
        self.progress = float("-inf")
        self.token: RequestId | None = None
        meta = None if self.params is None else self.params.get("_meta")
        if meta.__class__ is dict:
            self.token = _token(cast("dict[str, Json]", meta).get("progressToken"))
        self.handle: object = None
        """Whatever the driver has running for it."""


def _token(value: object) -> RequestId | None:
    """A progress token, if it is one (PROG-1)."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


class Bundle:
    """The answers to an array of messages, which go out together (BATCH-2)."""

    __slots__ = ("answers", "waiting")

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.waiting = 1


Channel: TypeAlias = Inbound | None
"""The inbound request whose stream a message belongs to; None for one that stands alone. A transport that has
no such channel refuses the message instead of losing it."""


@dataclass(frozen=True, slots=True)
class Notified:
    """The peer sent a notification."""

    row: Revision
    method: str
    params: dict[str, Json] | None


@dataclass(frozen=True, slots=True)
class Streamed:
    """A notification came on the stream that a call of ours opened."""

    call: Call
    row: Revision
    method: str
    params: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Aborted:
    """A request will not be answered: the peer cancelled it, or is gone."""

    inbound: Inbound
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A call of ours has its result."""

    call: Call
    result: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Failed:
    """A call of ours will have no result."""

    call: Call
    error: McpError


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A call of ours reached one of its bounds and was given up."""

    call: Call
    kind: str
    elapsed: float


@dataclass(frozen=True, slots=True)
class Progressed:
    """The peer reports on a call of ours."""

    call: Call
    params: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Opened:
    """A session is open at a revision."""

    row: Revision


@dataclass(frozen=True, slots=True)
class Noted:
    """The peer sent something that has no effect, for the log."""

    what: str


Event: TypeAlias = (
    Inbound | Notified | Streamed | Aborted | Answered | Failed | TimedOut | Progressed | Opened | Noted
)


class Link:
    """What the engines of one connection share."""

    __slots__ = ("accepts_batch", "calls", "events", "inbound", "sends")

    def __init__(self) -> None:
        self.accepts_batch = False
        """Whether an array is a message now (BATCH-6, AMB-16)."""
        self.calls = Calls()
        self.inbound: dict[RequestId, Inbound] = {}
        self.events: list[Event] = []
        self.sends: list[tuple[Channel, bytes]] = []

    def note(self, what: str) -> None:
        """Tell the log."""
        self.events.append(Noted(what))

    def refuse(self, request: Request, error: RpcError, batch: Bundle | None) -> None:
        """Answer a request that is not taken in."""
        self.reply(None, batch, jsonrpc.encode_error(request.id, error.to_wire(), null_id=False))

    def reply(self, channel: Channel, batch: Bundle | None, message: bytes) -> None:
        """Send an answer, or keep it until its batch is complete."""
        if batch is None:
            self.sends.append((channel, message))
        else:
            batch.answers.append(message)

    def settle(self, batch: Bundle) -> None:
        """One more member of a batch is done; after the last one the answers go out."""
        batch.waiting -= 1
        if not batch.waiting and batch.answers:
            self.sends.append((None, jsonrpc.encode_batch(batch.answers)))

    def lost(self, error: ConnectionLost) -> None:
        """The connection is gone: every call fails, every request is dropped."""
        self.events.extend(Failed(call, error) for call in self.calls.drain())
        while self.inbound:
            inbound = self.inbound.popitem()[1]
            inbound.open = False
            self.events.append(Aborted(inbound, "the connection ended"))


class Peer:
    """The part of an engine that both eras and both roles have."""

    def __init__(self, link: Link, local: Local) -> None:
        self.link = link
        self.local = local
        self.peer_capabilities: dict[str, Json] | None = None
        """What the other side declared for the whole connection; None before it has."""

    # -- requests of the peer's ----------------------------------------------------------------------------

    def take(
        self, row: Revision, request: Request, batch: Bundle | None, capabilities: dict[str, Json]
    ) -> Inbound | None:
        """Take a request in; None when one of that id is being served, which is refused."""
        table = self.link.inbound
        if request.id in table:
            self.link.refuse(request, InvalidRequest("a request with this id is in progress"), batch)
            return None
        inbound = Inbound(self, row, request, batch, capabilities)
        table[request.id] = inbound
        if batch is not None:
            batch.waiting += 1
        return inbound

    def finish(self, inbound: Inbound, result: dict[str, Json]) -> None:
        """Answer a request; one that is no longer open is not answered (CANC-2)."""
        if inbound.open:
            self._close(inbound, jsonrpc.encode_result(inbound.id, result))

    def fail(self, inbound: Inbound, error: RpcError | dict[str, Json]) -> None:
        """Answer a request with an error, which is in the words of its revision."""
        if inbound.open:
            wire = error.to_wire() if isinstance(error, RpcError) else error
            self._close(inbound, jsonrpc.encode_error(inbound.id, wire, null_id=False))

    def _close(self, inbound: Inbound, message: bytes) -> None:
        inbound.open = False
        link = self.link
        del link.inbound[inbound.id]
        if inbound.batch is None:
            link.sends.append((inbound, message))
        else:
            link.reply(inbound, inbound.batch, message)
            link.settle(inbound.batch)

    def abort(self, params: Mapping[str, Json] | None) -> None:
        """The peer cancels one of its requests; what is unknown, finished or malformed has no effect (CANC-3)."""
        id_ = (params or {}).get("requestId")
        inbound = self.link.inbound.get(id_) if isinstance(id_, str | int | float) else None
        if inbound is None or isinstance(id_, bool):
            self.link.note(f"cancelled a request that is not in progress: {id_!r}")
            return
        del self.link.inbound[inbound.id]
        inbound.open = False
        if inbound.batch is not None:
            self.link.settle(inbound.batch)
        reason = (params or {}).get("reason")
        self.link.events.append(Aborted(inbound, reason if isinstance(reason, str) else "no reason given"))

    def progress(self, inbound: Inbound, params: dict[str, Json]) -> bool:
        """Report on a request; only while it is open, if it asked, and if it got further (PROG-2)."""
        if not inbound.open or inbound.token is None or not params["progress"] > inbound.progress:
            return False
        inbound.progress = params["progress"]
        self.send_notification(PROGRESS, {"progressToken": inbound.token, **params}, inbound)
        return True

    def allows_log(self, inbound: Inbound | None, level: str) -> bool:
        """Whether a log message of a level is to be sent (LOG-2, LOG-3)."""
        raise NotImplementedError

    # -- requests of our own -------------------------------------------------------------------------------

    def send_request(
        self,
        method: str,
        params: dict[str, Json] | None,
        now: float,
        *,
        idle: float | None,
        total: float | None,
        progress: bool = False,
        channel: Channel = None,
    ) -> Call:
        """Send a request without asking whether it may be sent."""
        call = self.link.calls.open(method, now, idle, total)
        if progress:
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), "progressToken": call.id}
        self.link.sends.append((channel, jsonrpc.encode_request(call.id, method, params)))
        return call

    def send_notification(self, method: str, params: dict[str, Json] | None, channel: Channel = None) -> None:
        """Send a notification without asking whether it may be sent."""
        self.link.sends.append((channel, jsonrpc.encode_notification(method, params)))

    def cancel(self, call: Call, reason: str) -> None:
        """Give up a call and tell the peer (CANC-7); one that is answered already is left alone."""
        if call in self.link.calls:
            self.link.calls.close(call.id)
            self.announce_cancel(call, reason)

    def announce_cancel(self, call: Call, reason: str) -> None:
        """Tell the peer that a call was given up; not while it is open how to speak (LIFE-17, CANC-7)."""
        if call.method not in _NEVER_CANCELLED:
            self.send_notification(CANCELLED, {"requestId": call.id, "reason": reason})

    def tick(self, now: float) -> None:
        """Give up what has waited too long (LIFE-18, TIME-1)."""
        for call in self.link.calls.due(now):
            kind = call.timed_out(now)
            self.announce_cancel(call, f"timeout ({kind})")
            self.link.events.append(TimedOut(call, kind, now - call.sent_at))

    def answered(self, message: Response | ErrorResponse) -> None:
        """An answer came; a late one, or one to nothing we asked, has no effect (CANC-3)."""
        call = self.link.calls.close(message.id)
        if call is None:
            self.link.note(f"an answer to no open request: {message.id!r}")
        elif isinstance(message, ErrorResponse):
            self.link.events.append(Failed(call, RpcError.from_wire(message.error)))
        elif message.result.__class__ is dict:
            self.accept(call, message.result)
        else:
            error = RemoteProtocolError("the result is no object", raw=message.result)
            self.link.events.append(Failed(call, error))

    def accept(self, call: Call, result: dict[str, Json]) -> None:
        """A call has its result."""
        self.link.events.append(Answered(call, result))

    def progressed(self, params: Mapping[str, Json] | None, now: float) -> None:
        """The peer reports on a call of ours; a report on none has no effect."""
        token = (params or {}).get("progressToken")
        call = self.link.calls.progressed(token, now) if isinstance(token, str | int | float) else None
        if call is None:
            self.link.note(f"progress of no open request: {token!r}")
        else:
            self.link.events.append(Progressed(call, dict(params or {})))

    # -- rules ---------------------------------------------------------------------------------------------

    def check_sendable(self, row: Revision, method: str, capabilities: Mapping[str, Json] | None) -> None:
        """Raise `LocalProtocolError` for a request that the revision or the peer does not have (LIFE-9, LIFE-10).

        Capabilities that are not known are not held against it.
        """
        spec = row.methods.get(method)
        if spec is None or spec.result is None:
            raise LocalProtocolError(f"'{method}' is no request of {row.name}")
        needs = spec.capability
        if capabilities is not None and needs is not None and not declares(capabilities, needs):
            raise LocalProtocolError(
                f"'{method}' needs the capability '{needs}', which the peer has not declared"
            )

    def known(self, row: Revision, notification: Notification) -> None:
        """Pass on a notification that the handler wants to hear of; any other has no effect (BASE-9)."""
        if notification.method in self.local.notifications(row):
            self.link.events.append(Notified(row, notification.method, notification.params))
        else:
            self.link.note(f"a notification nobody listens for: {notification.method}")


def declares(capabilities: Mapping[str, Json], path: str) -> bool:
    """Whether capabilities hold what a dotted path names."""
    value: Any = capabilities
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return False
        value = cast("Mapping[str, Json]", value).get(name)
    return value is not None and value is not False


def unknown_method(method: str) -> MethodNotFound:
    """The answer to a method that is not served (BASE-9)."""
    return MethodNotFound(f"Method not found: {method}")
