"""The base of both engines: requests in both directions on a shared `ConnectionState`.

BASE-5, BASE-8, BASE-9, CANC-1..6, LOG-1, PROG-1..3, LIFE-18. Engines are pure: messages and the time are passed in, events
and outgoing messages are taken out; nothing here waits, calls back or reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from mcprev.errors import (
    Json,
    LocalProtocolError,
    MethodNotFound,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from mcprev.protocol.connection_state import (
    PROGRESS,
    CallCancelled,
    CallCompleted,
    CallFailed,
    CallNotification,
    Channel,
    ConnectionState,
    IncomingRequest,
    LocalInfo,
    Responder,
    ToleratedViolation,
    Unplaced,
)
from mcprev.protocol.pending_calls import Call
from mcprev.revisions import Revision
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import ErrorResponse, Notification, Response

CANCELLED: Final = "notifications/cancelled"
_NEVER_CANCELLED: Final = frozenset({"initialize", "server/discover"})
"""Negotiation calls, which are not cancelled: the server may not know the notification before they are answered."""
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The severities of log messages, lowest first."""  # LOG-1
SEVERITY: Final = {level: number for number, level in enumerate(LEVELS)}
DEFAULT_LEVEL: Final = "warning"
"""The log level of a session until the client sets one."""  # LOG-2


class Engine(Responder):
    """The part of an engine that is common to both eras and both roles."""

    def __init__(self, connection: ConnectionState, local: LocalInfo) -> None:
        super().__init__(connection)
        self.local = local
        self.peer_capabilities: dict[str, Json] | None = None
        """The capabilities that the peer declared for the whole connection; None before that."""
        self.delayed: dict[int, tuple[Channel, bytes]] | None = None
        """The requests to send when the session is ready, by id; None while they are sent at once."""  # LIFE-7
        self.negotiated: Revision | None = None
        """The revision of the connection; None before it is negotiated."""

    @property
    def revision(self) -> Revision:
        """The negotiated revision. Raises `LocalProtocolError` before it is negotiated."""
        if self.negotiated is None:
            raise LocalProtocolError("the session is not open: no revision has been negotiated")
        return self.negotiated

    @property
    def agreed(self) -> bool:
        """Whether a revision has been negotiated."""
        return self.negotiated is not None

    # -- requests of the peer's ----------------------------------------------------------------------------

    def cancel_incoming(self, params: dict[str, Json] | None) -> None:
        """Cancel a request on behalf of the peer; unknown, finished and malformed ids have no effect."""  # CANC-3
        id_ = (params or {}).get("requestId")
        known = (
            isinstance(id_, str | int | float) and not isinstance(id_, bool) and not self.connection.shared
        )
        incoming = self.connection.incoming.get(id_) if known else None
        text = ""
        if incoming is None:
            text = f"cancelled a request that is not in progress: {id_!r}"
        else:
            reason = (params or {}).get("reason")
            incoming.cancel(reason if isinstance(reason, str) else "no reason given")
        self.connection.events.append(Unplaced(Notification(CANCELLED, params), text))

    # -- requests of our own -------------------------------------------------------------------------------

    def prepare(self, method: str, params: dict[str, Json] | None, *, check: bool) -> dict[str, Json] | None:
        """Return the params of a request to send. With `check`, raises the errors of `check_sendable`."""
        raise NotImplementedError

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
        """Send a request. Raises `LocalProtocolError` if the state, the revision or the capabilities forbid it.

        `progress` requests progress: a token in the params stays, others get the id.
        """  # PROG-1
        if self.connection.closed:
            raise LocalProtocolError("the connection is closed")
        params = self.prepare(method, params, check=not unchecked)
        call = self.connection.calls.open(method, now, idle, total)
        if progress:
            params = dict(params or {})
            meta: Json = params.get("_meta") or {}
            if isinstance(meta, dict):
                named: dict[str, Json] = {"progressToken": call.id, **meta}
                params["_meta"] = named
                token: object = named["progressToken"]
                if token is not call.id and isinstance(token, str | int):
                    self.connection.calls.tokens[token] = call
        call.params, call.channel = params, channel
        send = channel or call, jsonrpc.encode_request(call.id, method, params)
        if self.delayed is None or method == "ping":
            self.connection.sends.append(send)
        else:
            self.delayed[call.id] = send
        return call

    def cancel(self, call: Call, reason: str) -> None:
        """Cancel a call and notify the peer; no effect if it was answered before."""  # CANC-7
        if call in self.connection.calls:
            self.connection.calls.close(call.id)
            self._cancel_closed(call, reason)

    def _cancel_closed(self, call: Call, reason: str) -> None:
        if self.connection.streams:
            self.connection.events.append(CallCancelled(call))
        self.announce_cancel(call, reason)

    def announce_cancel(self, call: Call, reason: str) -> None:
        """Notify the peer that a call was cancelled, except for calls of the negotiation."""  # LIFE-17, CANC-7
        if self.delayed is not None and self.delayed.pop(call.id, None) is not None:
            return
        if call.method not in _NEVER_CANCELLED:
            channel = (
                call.channel if isinstance(call.channel, IncomingRequest) and call.channel.open else None
            )
            self.send_notification(CANCELLED, {"requestId": call.id, "reason": reason}, channel)

    def tick(self, now: float) -> None:
        """Cancel the calls whose deadline has passed."""  # LIFE-18, TIME-1
        for call in self.connection.calls.due(now):
            kind, elapsed = "total" if now >= call.limit else "idle", now - call.sent_at
            self._cancel_closed(call, f"timeout ({kind})")
            text = f"no response to '{call.method}' within {elapsed:.3g} s ({kind} timeout)"
            self.connection.events.append(CallFailed(call, RequestTimeout(text, elapsed=elapsed, kind=kind)))

    def answered(self, message: Response | ErrorResponse) -> None:
        """Process a response; a late one, or one to an unknown id, has no effect."""  # CANC-3
        call = self.connection.calls.close(message.id)
        if call is None:
            self.connection.events.append(
                Unplaced(message, f"a response to no pending request: {message.id!r}")
            )
            return
        if message.id.__class__ is not int:
            self.connection.tolerate(ToleratedViolation.IDS, f"{message.id!r} for {call.id}")
        if isinstance(message, ErrorResponse):
            failure = RpcError.from_wire(message.error)
            if isinstance(failure, MethodNotFound) and call.method not in failure.message:
                failure.args = (f"{failure.message} (response to '{call.method}')",)
            self.connection.events.append(CallFailed(call, failure))
        elif message.result.__class__ is dict:
            self.accept(call, message.result)
        else:
            error = RemoteProtocolError("the result is not an object", raw=message.result)
            self.connection.events.append(CallFailed(call, error))

    def accept(self, call: Call, result: dict[str, Json]) -> None:
        """Complete a call with its result."""
        self.connection.events.append(CallCompleted(call, result))

    def progressed(self, params: Mapping[str, Json] | None, now: float) -> None:
        """Process a progress notification; one for an unknown call has no effect."""
        token = (params or {}).get("progressToken")
        call = self.connection.calls.progressed(token, now)
        if call is None:
            text = f"progress of no pending request: {token!r}"
            found = Notification(PROGRESS, None if params is None else dict(params))
            self.connection.events.append(Unplaced(found, text))
        else:
            if token.__class__ is not int:
                self.connection.tolerate(ToleratedViolation.IDS, f"{token!r} for {call.id}")
            self.connection.events.append(CallNotification(call, PROGRESS, dict(params or {})))

    # -- rules ---------------------------------------------------------------------------------------------

    def check_sendable(self, method: str) -> None:
        """Raise `LocalProtocolError` for a request that the revision does not have or the peer does not support.

        Capabilities that are not known yet are not checked.
        """  # LIFE-9, LIFE-10
        spec, capabilities = self.revision.methods.get(method), self.peer_capabilities
        if spec is None or spec.result is None:
            raise LocalProtocolError(f"'{method}' is not a request of {self.revision.name}")
        needs = spec.capability
        if capabilities is not None and needs is not None and not declares(capabilities, needs):
            raise LocalProtocolError(
                f"'{method}' requires the capability '{needs}', which the peer has not declared"
            )


def declares(capabilities: Mapping[str, Json], path: str) -> bool:
    """Return whether capabilities contain a dotted path."""
    value: Any = capabilities
    for name in path.split("."):
        if value.__class__ is not dict and not isinstance(value, Mapping):
            return False
        value = cast("Mapping[str, Json]", value).get(name)
    return value is not None and value is not False


def check_level(level: str) -> None:
    """Raise `ValueError` for a text that is no log level."""
    if level not in SEVERITY:
        raise ValueError(f"'{level}' is not a log level; the levels are {', '.join(SEVERITY)}")


def unknown_method(method: str) -> MethodNotFound:
    """Return the error for a method that is not served."""  # BASE-9
    return MethodNotFound(f"Method not found: {method}")
