"""The engine of the handshake era, both roles (LIFE-*, PING-1, LOG-2, SUB-1, BATCH-1..7, CANC-*, PROG-*).

A session is in one of the states of `State`; what a message does is looked up by state and kind in the tables
below, which are all there is to know. Methods come from the revision's generated table and from what this side
serves. `initialize`, `ping`, `logging/setLevel` and the two for subscriptions are answered here: they change
the session and nothing else (SEAM-1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from typing_extensions import override

from mcprev.errors import InvalidParams, InvalidRequest, Json, LocalProtocolError
from mcprev.protocol.connection_state import (
    BatchResponse,
    Channel,
    ConnectionState,
    IncomingRequest,
    LocalInfo,
    RequestKind,
    SessionOpened,
)
from mcprev.protocol.engine import CANCELLED, PROGRESS, Engine, declares, unknown_method
from mcprev.protocol.negotiation.versions import RevisionRefused, answer_initialize
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.session_state import DEFAULT_LEVEL, SEVERITY, NotificationKind, State
from mcprev.protocol.subscriptions import CHANGES, Changed, resource_error
from mcprev.revisions import Revision
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import Notification, Request

INITIALIZED: Final = "notifications/initialized"


_NOTIFICATION_KINDS: Final = {
    INITIALIZED: NotificationKind.INITIALIZED,
    CANCELLED: NotificationKind.CANCELLED,
    PROGRESS: NotificationKind.PROGRESS,
}


class Handshake(Engine):
    """What both roles have in common: a state, the revision that was agreed on, and `ping`."""

    def __init__(self, connection: ConnectionState, local: LocalInfo) -> None:
        super().__init__(connection, local)
        self.state = State.NEW
        self._revision: Revision | None = None
        self._kinds: Mapping[str, RequestKind] | None = None
        self._held: dict[int, tuple[Channel, bytes]] = {}

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions of this era that configuration allows."""
        return tuple(revision for revision in self.local.revisions if revision.handshake)

    @property
    def revision(self) -> Revision:
        """The revision of the session. Raises `LocalProtocolError` before there is one."""
        if self._revision is None:
            raise LocalProtocolError("the session is not open: no revision has been agreed on")
        return self._revision

    def kind(self, method: str) -> RequestKind:
        """What a request is here: of the session's revision, or of any that may still be agreed on (LIFE-8)."""
        kinds = self._kinds
        if kinds is None:
            if method in _OPENERS:
                return _OPENERS[method]
            kinds = self._kinds = {
                m: k for revision in self.revisions for m, k in self.local.kinds(revision).items()
            }
        return kinds.get(method) or _OPENERS.get(method, RequestKind.UNKNOWN)

    @property
    def agreed(self) -> bool:
        """Whether a revision has been agreed on."""
        return self._revision is not None

    def _agree(self, revision: Revision, capabilities: object, state: State) -> None:
        self._revision = revision
        self.connection.accepts_batch = revision.accepts_batch
        self._kinds = self.local.kinds(revision)
        self.peer_capabilities = (
            cast("dict[str, Json]", capabilities) if isinstance(capabilities, dict) else {}
        )
        self.state = state
        self.connection.events.append(SessionOpened(revision))

    def close(self) -> None:
        """Nothing that comes from now on has an effect."""
        self.state = State.CLOSED

    # -- in ------------------------------------------------------------------------------------------------

    def request(self, message: Request, batch: BatchResponse | None = None) -> None:
        """Take a request."""
        raise NotImplementedError

    def pong(self, message: Request, batch: BatchResponse | None) -> None:
        """Answered here and now, whatever else goes on (PING-1)."""
        self.connection.reply(message, batch, jsonrpc.encode_result(message.id, {}))

    def serve(self, message: Request, batch: BatchResponse | None) -> None:
        """For the handler."""
        incoming = self.take(self._revision or self.revision, message, batch, self.peer_capabilities or {})
        if incoming is not None:
            self.connection.events.append(incoming)

    def unknown(self, message: Request, batch: BatchResponse | None) -> None:
        """No such method here (BASE-9)."""
        self.connection.refuse(message, unknown_method(message.method), batch)

    def drop(self, message: Request, batch: BatchResponse | None) -> None:
        """Nothing is answered after the end."""
        del batch
        self.connection.diagnose(f"a request after the end: {message.method}")

    def ignore(self, message: Notification, now: float) -> None:
        """It has no effect in this state."""
        del now
        self.connection.diagnose(f"a notification out of place: {message.method}")

    def on_cancelled(self, message: Notification, now: float) -> None:
        """The peer gives up a request (CANC-2)."""
        del now
        self.cancel_incoming(message.params)

    def on_progressed(self, message: Notification, now: float) -> None:
        """The peer reports on a request of ours."""
        self.progressed(message.params, now)

    def heard(self, message: Notification, now: float) -> None:
        """For the handler."""
        del now
        self.pass_on(self.revision, message)

    # -- out -----------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        params: dict[str, Json] | None,
        now: float,
        *,
        idle: float | None,
        total: float | None,
        progress: bool = False,
        channel: Channel = None,
        unchecked: bool = False,
    ) -> Call:
        """Send a request. Raises `LocalProtocolError` where state, revision or capabilities forbid it."""
        if self.state not in _MAY_CALL and method != "ping":
            raise LocalProtocolError(f"'{method}' cannot be sent: the session is {self.state.name.lower()}")
        if self.state is State.CLOSED:
            raise LocalProtocolError("the session is closed")
        if not unchecked and method != "ping":
            self.check_sendable(self.revision, method, self.peer_capabilities)
        call = self.send_request(
            method, params, now, idle=idle, total=total, progress=progress, channel=channel
        )
        if self.state is State.OPENING and method != "ping":
            self._held[call.id] = self.connection.sends.pop()  # until the client has confirmed (LIFE-7)
        return call

    @override
    def announce_cancel(self, call: Call, reason: str) -> None:
        if self._held.pop(call.id, None) is None:
            super().announce_cancel(call, reason)


_MAY_CALL: Final = frozenset({State.OPENING, State.READY})


class HandshakeServer(Handshake):
    """A session as its server sees it."""

    def __init__(self, connection: ConnectionState, local: LocalInfo) -> None:
        super().__init__(connection, local)
        self.level = DEFAULT_LEVEL
        self.subscribed: set[str] = set()
        """The URIs whose changes the client wants to hear of."""
        self.client_info: dict[str, Json] = {}
        self.peer_context: object = None
        """Whatever the handler's side keeps for the session."""

    @override
    def request(self, message: Request, batch: BatchResponse | None = None) -> None:
        """Take a request: look up what its kind means in this state."""
        _SERVER[self.state][self.kind(message.method)](self, message, batch)

    def notification(self, message: Notification, now: float) -> None:
        """Take a notification: look up what its kind means in this state."""
        _SERVER_HEARS[self.state][_NOTIFICATION_KINDS.get(message.method, NotificationKind.OTHER)](
            self, message, now
        )

    def batch(self, messages: tuple[jsonrpc.Message, ...], now: float) -> None:
        """Take the members of an array, each by itself; their answers go out together (BATCH-1, BATCH-7)."""
        bundle = BatchResponse()
        for message in messages:
            if isinstance(message, Request):
                self.request(message, bundle)
            elif isinstance(message, Notification):
                self.notification(message, now)
            elif isinstance(message, jsonrpc.Malformed):
                answer = message.answer
                if not self.connection.broken(message) and answer is not None:
                    # JSON-RPC wants the null here, and so does every revision that has batches (BATCH-5).
                    bundle.answers.append(jsonrpc.encode_error(answer.id, answer.error, null_id=True))
            else:
                self.answered(message)
        self.connection.settle(bundle)

    def on_open(self, message: Request, batch: BatchResponse | None) -> None:
        """Agree on the revision that was asked for, or offer the latest of ours (LIFE-3, AMB-2)."""
        params = message.params or {}
        asked = params.get("protocolVersion")
        if batch is not None:
            self.connection.refuse(message, InvalidRequest("initialize cannot be part of a batch"), batch)
            return
        if not isinstance(asked, str):
            self.connection.refuse(message, InvalidParams("Invalid params: protocolVersion is missing"), None)
            return
        revision = answer_initialize(asked, self.revisions)
        if isinstance(revision, RevisionRefused):
            self.connection.refuse(message, revision.error, None)
            return
        info = params.get("clientInfo")
        self.client_info = cast("dict[str, Json]", info) if isinstance(info, dict) else {}
        self._agree(revision, params.get("capabilities"), State.OPENING)
        self.connection.reply(
            message, None, jsonrpc.encode_result(message.id, self.local.introduction(revision))
        )

    def assume(self, revision: Revision) -> None:
        """Serve what was never opened, as if it had been: a client that is not known, at a revision (AMB-15)."""
        self._agree(revision, None, State.READY)

    def again(self, message: Request, batch: BatchResponse | None) -> None:
        """A session is opened once (LIFE-15)."""
        self.connection.refuse(message, InvalidRequest("the session is initialized already"), batch)

    def too_early(self, message: Request, batch: BatchResponse | None) -> None:
        """Requests come after `initialize` (LIFE-8)."""
        self.connection.refuse(message, InvalidRequest(f"initialize first, before '{message.method}'"), batch)

    def set_level(self, message: Request, batch: BatchResponse | None) -> None:
        """From now on the session logs from this level up (LOG-2)."""
        level = (message.params or {}).get("level")
        if not (isinstance(level, str) and level in SEVERITY):
            self.connection.refuse(
                message, InvalidParams(f"Invalid params: no log level: {level!r:.40}"), batch
            )
            return
        self.level = level
        self.pong(message, batch)

    def subscribe(self, message: Request, batch: BatchResponse | None) -> None:
        """Changes of this resource are told from now on (SUB-1)."""
        self._watch(message, batch, self.subscribed.add)

    def unsubscribe(self, message: Request, batch: BatchResponse | None) -> None:
        """Changes of this resource are told no longer."""
        self._watch(message, batch, self.subscribed.discard)

    def _watch(self, message: Request, batch: BatchResponse | None, change: Callable[[str], None]) -> None:
        uri: Json = (message.params or {}).get("uri")
        error = resource_error(uri, self.subscribed)
        if error is None:
            change(uri)
            self.pong(message, batch)
        else:
            self.connection.refuse(message, error, batch)

    def confirmed(self, message: Notification, now: float) -> None:
        """The client has seen the answer to `initialize`."""
        del message, now
        self.state = State.READY
        self.connection.sends.extend(self._held.values())
        self._held.clear()

    @override
    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:
        """The level is one for the session, and a session begins with `initialize` (LOG-2)."""
        del request
        return self.state in _MAY_CALL and SEVERITY[level] >= SEVERITY[self.level]

    def changed(self, kind: Changed, uri: str | None) -> None:
        """Tell the client of a change: of lists if that was declared, of resources it subscribed to (SUB-1)."""
        change = CHANGES[kind]
        if self.state is not State.READY or not declares(
            self.local.capabilities(self.revision), change.capability
        ):
            return
        if uri is None:
            self.send_notification(change.method, None)
        elif uri in self.subscribed:
            self.send_notification(change.method, {"uri": uri})


class HandshakeClient(Handshake):
    """A session as its client sees it. What to make of the answer to `initialize` is for `negotiate` to say."""

    @override
    def request(self, message: Request, batch: BatchResponse | None = None) -> None:
        """Take a request: look up what its kind means in this state."""
        _CLIENT[self.state][self.kind(message.method)](self, message, batch)

    def notification(self, message: Notification, now: float) -> None:
        """Take a notification: look up what its kind means in this state."""
        _CLIENT_HEARS[self.state][_NOTIFICATION_KINDS.get(message.method, NotificationKind.OTHER)](
            self, message, now
        )

    def batch(self, messages: tuple[jsonrpc.Message, ...], now: float) -> None:
        """Take the members of an array, each by itself (BATCH-1)."""
        bundle = BatchResponse()
        for message in messages:
            if isinstance(message, Request):
                self.request(message, bundle)
            elif isinstance(message, Notification):
                self.notification(message, now)
            elif isinstance(message, jsonrpc.Malformed):
                self.connection.broken(message)
            else:
                self.answered(message)
        self.connection.settle(bundle)

    def initialize(self, revision: Revision, now: float, *, timeout: float | None) -> Call:
        """Ask for a session at a revision; also a second time, when the first answer says to (AMB-2)."""
        if self.state not in _MAY_ASK:
            raise LocalProtocolError(f"initialize cannot be sent: the session is {self.state.name.lower()}")
        self.state = State.OPENING
        return self.send_request(
            "initialize", self.local.introduction(revision), now, idle=timeout, total=timeout
        )

    def opened(self, revision: Revision, capabilities: object) -> None:
        """The answer is good: confirm it (LIFE-5)."""
        self._agree(revision, capabilities, State.READY)
        self.send_notification(INITIALIZED, None)

    def too_early(self, message: Request, batch: BatchResponse | None) -> None:
        """Requests come after `initialize` (LIFE-8)."""
        self.connection.refuse(message, InvalidRequest("the session is not open yet"), batch)

    def heard_early(self, message: Notification, now: float) -> None:
        """Log messages may come before the session is open; there is nobody yet to hear them (LIFE-7)."""
        self.ignore(message, now)

    @override
    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:
        """Clients do not send log messages."""
        del request, level
        return False


_MAY_ASK: Final = frozenset({State.NEW, State.OPENING})
_OPENERS: Final = {"initialize": RequestKind.INITIALIZE, "ping": RequestKind.PING}


_Act: TypeAlias = Callable[[HandshakeServer, Request, BatchResponse | None], None]
_ClientAct: TypeAlias = Callable[[HandshakeClient, Request, BatchResponse | None], None]
_Hear: TypeAlias = Callable[[HandshakeServer, Notification, float], None]
_ClientHear: TypeAlias = Callable[[HandshakeClient, Notification, float], None]
_S: Final = HandshakeServer
_C: Final = HandshakeClient

# A server in the state OPENING has answered `initialize`; requests are served from then on, whether or not
# `initialized` has come, because clients in the wild do not wait for it to be seen (LIFE-8).
_SERVED: Final[Mapping[RequestKind, _Act]] = {
    RequestKind.INITIALIZE: _S.again,
    RequestKind.PING: _S.pong,
    RequestKind.SERVED: _S.serve,
    RequestKind.SET_LEVEL: _S.set_level,
    RequestKind.SUBSCRIBE: _S.subscribe,
    RequestKind.UNSUBSCRIBE: _S.unsubscribe,
    RequestKind.UNKNOWN: _S.unknown,
}
_SERVER: Final[Mapping[State, Mapping[RequestKind, _Act]]] = {
    State.NEW: {
        RequestKind.INITIALIZE: _S.on_open,
        RequestKind.PING: _S.pong,
        RequestKind.SERVED: _S.too_early,
        RequestKind.SET_LEVEL: _S.too_early,
        RequestKind.SUBSCRIBE: _S.too_early,
        RequestKind.UNSUBSCRIBE: _S.too_early,
        RequestKind.UNKNOWN: _S.unknown,
    },
    State.OPENING: _SERVED,
    State.READY: _SERVED,
    State.CLOSED: dict.fromkeys(_SERVED, _S.drop),
}
_SERVER_HEARS: Final[Mapping[State, Mapping[NotificationKind, _Hear]]] = {
    State.NEW: dict.fromkeys(NotificationKind, _S.ignore),
    State.OPENING: {
        NotificationKind.INITIALIZED: _S.confirmed,
        NotificationKind.CANCELLED: _S.on_cancelled,
        NotificationKind.PROGRESS: _S.on_progressed,
        NotificationKind.OTHER: _S.heard,
    },
    State.READY: {
        NotificationKind.INITIALIZED: _S.ignore,
        NotificationKind.CANCELLED: _S.on_cancelled,
        NotificationKind.PROGRESS: _S.on_progressed,
        NotificationKind.OTHER: _S.heard,
    },
    State.CLOSED: dict.fromkeys(NotificationKind, _S.ignore),
}
_WAITING: Final[Mapping[RequestKind, _ClientAct]] = {
    RequestKind.INITIALIZE: _C.unknown,
    RequestKind.PING: _C.pong,
    RequestKind.SERVED: _C.too_early,
    RequestKind.UNKNOWN: _C.unknown,
}
_CLIENT: Final[Mapping[State, Mapping[RequestKind, _ClientAct]]] = {
    State.NEW: _WAITING,
    State.OPENING: _WAITING,
    State.READY: {
        RequestKind.INITIALIZE: _C.unknown,
        RequestKind.PING: _C.pong,
        RequestKind.SERVED: _C.serve,
        RequestKind.UNKNOWN: _C.unknown,
    },
    State.CLOSED: dict.fromkeys(_WAITING, _C.drop),
}
_CLIENT_HEARS: Final[Mapping[State, Mapping[NotificationKind, _ClientHear]]] = {
    State.NEW: dict.fromkeys(NotificationKind, _C.ignore),
    State.OPENING: dict.fromkeys(NotificationKind, _C.heard_early),
    State.READY: {
        NotificationKind.INITIALIZED: _C.ignore,
        NotificationKind.CANCELLED: _C.on_cancelled,
        NotificationKind.PROGRESS: _C.on_progressed,
        NotificationKind.OTHER: _C.heard,
    },
    State.CLOSED: dict.fromkeys(NotificationKind, _C.ignore),
}
