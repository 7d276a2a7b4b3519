"""The engine of the handshake era, for both roles (LIFE-*, PING-1, LOG-2, SUB-1, BATCH-1..7, CANC-*, PROG-*).

A session is in one of the states of `State`. The tables at the end of this module give the action for each state and
kind of message. The methods come from the generated table of the revision and from the served handlers. The engine
itself answers `initialize`, `ping`, `logging/setLevel` and the two subscription methods, which only change the session
(SEAM-1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum, auto
from typing import Any, ClassVar, Final, TypeAlias

from typing_extensions import override

from mcprev.errors import InvalidParams, InvalidRequest, Json, LocalProtocolError, UnsupportedProtocolVersion
from mcprev.protocol.connection_state import (
    PROGRESS,
    BatchResponse,
    Channel,
    ConnectionState,
    IncomingRequest,
    LocalInfo,
    NotificationReceived,
    RequestKind,
    SessionChanged,
    SessionOpened,
)
from mcprev.protocol.engine import (
    CANCELLED,
    DEFAULT_LEVEL,
    SEVERITY,
    Engine,
    declares,
    unknown_method,
)
from mcprev.protocol.negotiation.versions import answer_initialize, of_era
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.subscriptions import CHANGES, MAX_RESOURCES, Changed, resource_error
from mcprev.protocol.uris import ComparedUris
from mcprev.revisions import Era, Revision
from mcprev.wire import jsonrpc
from mcprev.wire.json_values import json_object
from mcprev.wire.jsonrpc import Notification, Request

INITIALIZED: Final = "notifications/initialized"
SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
_SUBSCRIPTIONS: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE})
_OPENERS: Final = {"initialize": RequestKind.INITIALIZE, "ping": RequestKind.PING}
RequestActions: TypeAlias = Mapping[RequestKind, Callable[[Any, Request, BatchResponse | None], None]]
NotificationActions: TypeAlias = Mapping[str, Callable[[Any, Notification, float], None]]


class State(IntEnum):  # whose hash, unlike that of Enum, is not computed in Python
    """The progress of a session's negotiation."""

    NEW = auto()
    """No revision is negotiated."""
    OPENING = auto()
    """Client: `initialize` is sent. Server: it is answered, and the client has not confirmed yet."""
    READY = auto()


class Handshake(Engine):
    """The part shared by both roles: the state, the negotiated revision and `ping`."""

    request_actions: ClassVar[Mapping[State, RequestActions]]
    """The action for each state and kind of request."""
    notification_actions: ClassVar[Mapping[State, NotificationActions]]
    """The action for each state and notification; the handler takes others, and no state without actions takes any."""
    answers_malformed: ClassVar[bool]
    """Whether malformed members of a batch get error responses."""
    advice: ClassVar[str] = ""
    """What the refusal of an early request tells the peer to do."""

    def __init__(self, connection: ConnectionState, local: LocalInfo) -> None:
        super().__init__(connection, local)
        self.state: State = State.NEW
        self._kinds: Mapping[str, RequestKind] = _OPENERS
        self._asked_for: dict[str, None] = {}
        """The URIs of the resources that the peer was asked to tell of."""
        self._unlisted = RequestKind.SERVED if local.relays else RequestKind.UNKNOWN

    def _agree(self, revision: Revision, capabilities: object, state: State) -> None:
        self.negotiated: Revision | None = revision
        self.connection.accepts_batch = revision.accepts_batch
        self._kinds = {**_OPENERS, **self.local.kinds(revision)}
        self.peer_capabilities: dict[str, Json] | None = json_object(capabilities)
        self.state = state
        self.connection.events.append(SessionOpened(revision))

    # -- in ------------------------------------------------------------------------------------------------

    def request(self, message: Request, batch: BatchResponse | None = None) -> None:
        """Process a request: look up the action for its kind in this state.

        Before a revision is negotiated, a method of any configured one counts as served.
        """  # LIFE-8
        if self._kinds is _OPENERS and message.method not in _OPENERS:
            revisions = of_era(self.local.revisions, Era.HANDSHAKE)
            kinds = {method: kind for each in revisions for method, kind in self.local.kinds(each).items()}
            self._kinds = {**_OPENERS, **kinds}
        if self.connection.closed:
            self.connection.diagnose(f"a request after the connection was lost: {message.method}")
            return
        kind = self._kinds.get(message.method, self._unlisted)
        self.request_actions[self.state][kind](self, message, batch)

    def notification(self, message: Notification, now: float) -> None:
        """Process a notification: look up the action for its method in this state."""
        actions = None if self.connection.closed else self.notification_actions.get(self.state)
        action = Handshake.ignore if actions is None else actions.get(message.method, Handshake.deliver)
        action(self, message, now)

    def batch(self, messages: tuple[jsonrpc.Message, ...], now: float) -> None:
        """Process the members of a batch one by one; the responses are sent together."""  # BATCH-1, BATCH-7
        responses = BatchResponse()
        for message in messages:
            if isinstance(message, Request):
                self.request(message, responses)
            elif isinstance(message, Notification):
                self.notification(message, now)
            elif isinstance(message, jsonrpc.Malformed):
                answer = message.answer if self.answers_malformed else None
                if not self.connection.fail_malformed(message) and answer is not None:
                    # JSON-RPC requires the null id here, and so does every revision with batches (BATCH-5).
                    responses.answers.append(jsonrpc.encode_error(answer.id, answer.error, null_id=True))
            else:
                self.answered(message)
        self.connection.settle(responses)

    def pong(self, message: Request, batch: BatchResponse | None) -> None:
        """Answer `ping` immediately."""  # PING-1
        self.connection.reply(message, batch, jsonrpc.encode_result(message.id, {}))

    def serve(self, message: Request, batch: BatchResponse | None) -> None:
        """Pass a request to the handler."""
        incoming = self.connection.accept(
            self, self.negotiated or self.revision, message, batch, self.peer_capabilities or {}
        )
        if incoming is not None:
            self.connection.events.append(incoming)

    def refuse_early(self, message: Request, batch: BatchResponse | None) -> None:
        """Refuse a request before the session is open."""  # LIFE-8
        error = InvalidRequest(f"'{message.method}' came before the session was open{self.advice}")
        self.connection.refuse(message, error, batch)

    def unknown(self, message: Request, batch: BatchResponse | None) -> None:
        """Refuse an unknown method."""  # BASE-9
        self.connection.refuse(message, unknown_method(message.method), batch)

    def ignore(self, message: Notification, _now: float) -> None:
        """Ignore a notification that has no effect in this state."""
        self.connection.diagnose(f"an unexpected notification: {message.method}")

    def on_cancelled(self, message: Notification, _now: float) -> None:
        """Cancel a request on behalf of the peer."""  # CANC-2
        self.cancel_incoming(message.params)

    def on_progress(self, message: Notification, now: float) -> None:
        """Process progress of a call."""
        self.progressed(message.params, now)

    def deliver(self, message: Notification, _now: float) -> None:
        """Pass a notification to the handler, if it receives the method."""  # BASE-9
        revision = self.revision
        if message.method in self.local.notifications(revision):
            self.connection.events.append(
                NotificationReceived(revision, message.method, message.params, message.origin)
            )
        else:
            self.connection.diagnose(f"a notification without a handler: {message.method}")

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def prepare(self, method: str, params: dict[str, Json] | None, *, check: bool) -> dict[str, Json] | None:
        """Return the params of a request to send. Raises `LocalProtocolError` before a revision is negotiated."""
        if method not in _OPENERS:
            if self.negotiated is None:
                raise LocalProtocolError(
                    f"'{method}' cannot be sent: the session is {self.state.name.lower()}"
                )
            if check:
                self.check_sendable(method)
            if method in _SUBSCRIPTIONS:
                self._note_subscription(method, str((params or {}).get("uri")))
        return params

    def _note_subscription(self, method: str, uri: str) -> None:
        if method == UNSUBSCRIBE:
            self._asked_for.pop(uri, None)
        elif len(self._asked_for) < MAX_RESOURCES:
            self._asked_for[uri] = None


class HandshakeServer(Handshake):
    """The server side of a session."""

    answers_malformed = True
    advice = ": initialize first"

    def __init__(self, connection: ConnectionState, local: LocalInfo) -> None:
        super().__init__(connection, local)
        self.level: str = DEFAULT_LEVEL
        self.subscribed: ComparedUris = ComparedUris()
        """The URIs of the subscribed resources."""
        self.subscriber: Request | None = None
        """The last request that subscribed to one."""
        self.client_info: dict[str, Json] = {}
        self._opening: IncomingRequest | None = None
        """The `initialize` that the handler answers."""

    def on_initialize(self, message: Request, batch: BatchResponse | None) -> None:
        """Negotiate: accept the requested revision, or offer the latest configured one."""  # LIFE-3, AMB-2
        if self._opening is not None and self._opening.open:
            self.refuse_again(message, batch)
            return
        params = message.params or {}
        asked = params.get("protocolVersion")
        if batch is not None:
            self.connection.refuse(message, InvalidRequest("initialize cannot be part of a batch"), batch)
            return
        if not isinstance(asked, str):
            self.connection.refuse(message, InvalidParams("Invalid params: protocolVersion is missing"), None)
            return
        revision = answer_initialize(asked, self.local.revisions)
        if isinstance(revision, UnsupportedProtocolVersion):
            self.connection.refuse(message, revision, None)
            return
        info = params.get("clientInfo")
        self.client_info = json_object(info)
        capabilities = params.get("capabilities")
        if self.local.relays:
            given = json_object(capabilities)
            self._opening = self.connection.accept(self, revision, message, None, given)
            if self._opening is not None:
                self.connection.events.append(self._opening)
            return
        self._begin(revision, capabilities)
        self.connection.reply(
            message, None, jsonrpc.encode_result(message.id, self.local.introduction(revision))
        )

    def open_with(self, incoming: IncomingRequest, result: dict[str, Json]) -> None:
        """Open the session, and answer its `initialize` with a result of the handler; no effect if it was cancelled."""
        if incoming.open:
            self._begin(incoming.revision, incoming.capabilities)
            incoming.respond(result)

    def _begin(self, revision: Revision, capabilities: object) -> None:
        self._agree(revision, capabilities, State.OPENING)
        self.delayed: dict[int, tuple[Channel, bytes]] | None = {}

    def assume(self, revision: Revision) -> None:
        """Open a session without `initialize`, at a revision, for an unknown client."""  # AMB-15
        self._agree(revision, None, State.READY)

    def record(self) -> dict[str, Json]:
        """Return the state of the session as JSON, for `restore`."""
        return {
            "revision": self.revision.name,
            "capabilities": self.peer_capabilities,
            "clientInfo": self.client_info,
            "ready": self.state is State.READY,
            "level": self.level,
            "subscribed": sorted(self.subscribed),
        }

    def restore(self, record: Mapping[str, Json]) -> bool:
        """Take the state of another copy of the session, first to open it here, then whenever it has changed.

        Returns False if its revision is not served here.
        """
        if self.negotiated is None:
            revisions = of_era(self.local.revisions, Era.HANDSHAKE)
            found = [revision for revision in revisions if revision.name == record["revision"]]
            if not found:
                return False
            self._agree(found[0], record["capabilities"], State.OPENING)
            self.client_info, self.delayed = record["clientInfo"], {}
        if record["ready"] and self.state is not State.READY:
            self._confirm()
        self.level, self.subscribed = record["level"], ComparedUris(record["subscribed"])
        return True

    def refuse_again(self, message: Request, batch: BatchResponse | None) -> None:
        """Refuse a second `initialize`."""  # LIFE-15
        self.connection.refuse(message, InvalidRequest("the session is initialized already"), batch)

    def set_level(self, message: Request, batch: BatchResponse | None) -> None:
        """Set the minimum log level of the session."""  # LOG-2
        level = (message.params or {}).get("level")
        if not (isinstance(level, str) and level in SEVERITY):
            self.connection.refuse(
                message, InvalidParams(f"Invalid params: not a log level: {level!r:.40}"), batch
            )
            return
        self.level = level
        self.connection.events.append(SessionChanged("level", level))
        self.pong(message, batch)

    def change_subscription(self, message: Request, batch: BatchResponse | None) -> None:
        """Subscribe to a resource, or unsubscribe from it."""  # SUB-1
        uri: Json = (message.params or {}).get("uri")
        error = resource_error(uri, self.subscribed)
        if error is not None:
            self.connection.refuse(message, error, batch)
            return
        removed = message.method != "resources/subscribe"
        if removed:
            self.subscribed.discard(uri)
        else:
            self.subscribed.add(uri)
            self.subscriber = message
        self.connection.events.append(SessionChanged("subscribed", uri, removed))
        self.pong(message, batch)

    def on_initialized(self, message: Notification, now: float) -> None:
        """Process `notifications/initialized`: the session is ready."""
        self._confirm()
        self.connection.events.append(SessionChanged("ready", value=True))
        if self.local.relays:
            self.deliver(message, now)

    def _confirm(self) -> None:
        self.state = State.READY
        self.connection.sends.extend((self.delayed or {}).values())
        self.delayed = None

    @override
    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:
        """Return whether the session logs a level; sessions begin with `initialize`."""  # LOG-2
        del request
        return self.agreed and SEVERITY[level] >= SEVERITY[self.level]

    def changed(self, kind: Changed, uri: str | None) -> None:
        """Notify the client of a change: of lists if declared, of resources if subscribed."""  # SUB-1
        change = CHANGES[kind]
        if (
            self.state is not State.READY
            or not declares(self.local.capabilities(self.revision), change.capability)
            or change.method not in self.revision.methods
        ):
            return
        if uri is None:
            self.send_notification(change.method, None)
        elif (spelled := self.subscribed.spelled(uri)) is not None:
            self.send_notification(change.method, {"uri": spelled})

    def subscribers(self, uri: str) -> Iterator[IncomingRequest]:
        """Yield a substitute for the request that subscribed to a resource, if there is one."""
        if uri in self.subscribed and self.subscriber is not None:
            incoming = IncomingRequest(
                self, self.revision, self.subscriber, None, self.peer_capabilities or {}
            )
            incoming.open = False
            yield incoming

    def updated(self, _incoming: IncomingRequest, uri: str) -> None:
        """Notify a subscriber of a change of a resource."""
        self.changed(Changed.RESOURCE, uri)


class HandshakeClient(Handshake):
    """The client side of a session. The negotiation evaluates the response to `initialize`."""

    answers_malformed = False

    def missed(self) -> None:
        """Let everything that the server tells of count as changed: notifications may have been lost."""  # SUB-5
        capabilities = self.peer_capabilities or {}
        for kind, change in CHANGES.items():
            if kind is Changed.RESOURCE:
                for uri in self._asked_for:
                    self.deliver(Notification(change.method, {"uri": uri}), 0)
            elif declares(capabilities, change.capability):
                self.deliver(Notification(change.method, None), 0)

    def initialize(
        self, revision: Revision, now: float, *, timeout: float | None, meta: Mapping[str, Json] | None = None
    ) -> Call:
        """Request a session at a revision; a second time if the response asks for another one."""  # AMB-2
        if self.state is State.READY:
            raise LocalProtocolError("initialize cannot be sent: the session is ready")
        self.state = State.OPENING
        params = self.local.introduction(revision)
        if meta:
            params = {**params, "_meta": {**meta}}
        return self.call("initialize", params, now, idle=timeout, total=timeout)

    def opened(self, revision: Revision, capabilities: object) -> None:
        """Accept the response to `initialize` and confirm it."""  # LIFE-5
        self._agree(revision, capabilities, State.READY)
        self.send_notification(INITIALIZED, None)


_S: Final = HandshakeServer
_C: Final = HandshakeClient

# In the state OPENING, a server has answered `initialize`. It serves requests from then on, before `initialized`
# arrives: existing clients do not wait (LIFE-8).
_SERVED: Final[RequestActions] = {
    RequestKind.INITIALIZE: _S.refuse_again,
    RequestKind.PING: _S.pong,
    RequestKind.SERVED: _S.serve,
    RequestKind.SET_LEVEL: _S.set_level,
    RequestKind.SUBSCRIBE: _S.change_subscription,
    RequestKind.UNKNOWN: _S.unknown,
}
_WAITING: Final[RequestActions] = {
    RequestKind.INITIALIZE: _C.unknown,
    RequestKind.PING: _C.pong,
    RequestKind.SERVED: Handshake.refuse_early,
    RequestKind.UNKNOWN: _C.unknown,
}
_READY: Final[NotificationActions] = {
    INITIALIZED: Handshake.ignore,
    CANCELLED: Handshake.on_cancelled,
    PROGRESS: Handshake.on_progress,
}
HandshakeServer.request_actions = {
    State.NEW: {
        **dict.fromkeys(_SERVED, Handshake.refuse_early),
        RequestKind.INITIALIZE: _S.on_initialize,
        RequestKind.PING: _S.pong,
        RequestKind.UNKNOWN: _S.unknown,
    },
    State.OPENING: _SERVED,
    State.READY: _SERVED,
}
HandshakeServer.notification_actions = {
    State.OPENING: {**_READY, INITIALIZED: _S.on_initialized},
    State.READY: _READY,
}
HandshakeClient.request_actions = {
    State.NEW: _WAITING,
    State.OPENING: _WAITING,
    State.READY: {**_WAITING, RequestKind.SERVED: _C.serve},
}
# A client ignores what arrives before the session is open, such as a log message (LIFE-7).
HandshakeClient.notification_actions = {State.READY: _READY}
