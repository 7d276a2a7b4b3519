"""The engine of the stateless era, for both roles (MOD-*, BASE-4, BASE-11..15, SUB-2..6, LOG-3, CANC-5, AMB-1, AMB-6).

Requests are independent. The server checks each, in the order of AMB-6; the client sends
its info and capabilities with each request. Only a listen stream lasts longer: it is a request that stays open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from typing_extensions import override

from mcprev.errors import (
    ConnectionLost,
    InternalError,
    InvalidParams,
    Json,
    MissingClientCapability,
    RemoteProtocolError,
    RpcError,
)
from mcprev.protocol.connection_state import (
    PROGRESS,
    CallCompleted,
    CallFailed,
    CallNotification,
    ConnectionState,
    IncomingRequest,
    LocalInfo,
    NotificationReceived,
    RequestKind,
)
from mcprev.protocol.engine import CANCELLED, SEVERITY, Engine, declares, unknown_method
from mcprev.protocol.negotiation.versions import check_version, versions
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    CHANGES,
    HAS_TASKS,
    LISTEN,
    MAX_STREAMS,
    TASK_IDS,
    Changed,
    accepted_filter,
    resources_in,
    wants,
)
from mcprev.revisions import Revision
from mcprev.wire.json_values import is_json_object, json_object
from mcprev.wire.jsonrpc import Notification, Request
from mcprev.wire.meta_keys import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    VERSION,
)

STAMPED: Final = frozenset({VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, "progressToken"})
"""The `_meta` members of a request that the runtime sets and callers may not."""
MAX_ENDED: Final = 64
"""The number of listen streams after which closed ones are first removed from the list."""
COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"


class StatelessServer(Engine):
    """The server side of the stateless era."""

    completes_results = True

    def __init__(self, connection: ConnectionState, local: LocalInfo) -> None:
        super().__init__(connection, local)
        self._served: dict[tuple[str, str], tuple[Revision, RequestKind]] = {}
        self._stamps: dict[tuple[str, str], tuple[bool, dict[str, Json]]] = {}
        self.listeners: list[IncomingRequest] = []
        """The open listen streams, and closed ones not removed yet."""
        self._count_at = MAX_ENDED

    # -- in ------------------------------------------------------------------------------------------------

    def request(self, message: Request) -> None:
        """Process a request: the first check that fails answers it."""  # AMB-6
        meta: Json = None if message.params is None else message.params.get("_meta")
        error = meta_error(meta)  # MOD-3
        if error is not None:
            self.connection.refuse(message, self._invalid_meta(message, error), None)
            return
        served: RpcError | tuple[Revision, RequestKind] | None
        served = self._served.get((meta[VERSION], message.method)) or self._check(message, meta)
        if isinstance(served, RpcError):
            self.connection.refuse(message, served, None)
            return
        revision, kind = served
        incoming = self.connection.accept(self, revision, message, None, meta[CLIENT_CAPABILITIES])
        if incoming is None:
            return
        incoming.client_info = meta.get(CLIENT_INFO)
        incoming.level = meta.get(LOG_LEVEL)
        if kind is RequestKind.SERVED:
            self.connection.events.append(incoming)
        elif kind is RequestKind.DISCOVER:
            incoming.respond(dict(self.local.introduction(revision)))  # MOD-9
        else:
            self.listen(incoming)

    def _check(self, message: Request, meta: Json) -> RpcError | tuple[Revision, RequestKind]:
        """Return the revision and the kind of a request, or the error of the first check that fails.

        The method binding checks the params after that.
        """  # AMB-6
        revision = check_version(meta[VERSION], self.local.revisions)
        if isinstance(revision, RpcError):  # MOD-4
            return revision
        requirements = self.local.requirements(message.method)
        missing = uncovered(meta[CLIENT_CAPABILITIES], requirements)
        if missing:  # MOD-6
            return missing_capability(missing)
        kind = self.local.kinds(revision).get(message.method)
        if kind is None and self.local.relays:
            return revision, RequestKind.SERVED  # not remembered, because a client can name any method
        if kind is None:  # MOD-14
            return unknown_method(message.method)
        if not requirements:
            self._served[meta[VERSION], message.method] = revision, kind
        return revision, kind

    def notification(self, message: Notification) -> None:
        """Process a notification; the only one that clients send is a cancellation."""
        if message.method == CANCELLED:
            self.cancel_incoming(message.params)
        else:
            self.connection.diagnose(f"an unexpected notification: {message.method}")

    def _invalid_meta(self, message: Request, error: str) -> InvalidParams:
        if message.method != "initialize":
            return InvalidParams(f"Invalid params: {error}")
        # A client of the handshake era learns the supported versions from this error (MOD-15).
        spoken = versions(self.local.revisions)
        return InvalidParams(
            f"Invalid params: {error}; this server speaks {', '.join(spoken)} without initialize",
            data={"supported": list(spoken)},
        )

    def listen(self, incoming: IncomingRequest) -> None:
        """Open a listen stream; if its filter names tasks, the driver looks them up first."""  # SUB-9
        asked = (incoming.params or {}).get("notifications")
        if not is_json_object(asked):
            incoming.fail(InvalidParams("Invalid params: notifications is missing"))
        elif asked.get(TASK_IDS) is not None and HAS_TASKS in self.local.kinds(incoming.revision):
            self.connection.events.append(incoming)
        else:
            self.open_stream(incoming, {})

    def open_stream(self, incoming: IncomingRequest, more: Mapping[str, Json]) -> None:
        """Open a listen stream and acknowledge the notifications it carries as its first message.

        `more` are filter members besides the changes that the server can report.
        """  # SUB-2
        if not incoming.open:
            return
        if len(self.listeners) >= min(self._count_at, MAX_STREAMS):
            self.listeners = [listener for listener in self.listeners if listener.open]
            self._count_at = max(MAX_ENDED, 2 * len(self.listeners))
        if len(self.listeners) >= MAX_STREAMS:
            incoming.fail(InternalError("too many listen streams are open"))
            return
        asked = (incoming.params or {})["notifications"]
        capabilities = self.local.capabilities(incoming.revision)
        sent = [kind for kind, change in CHANGES.items() if change.method in incoming.revision.methods]
        capable = [kind for kind in sent if declares(capabilities, CHANGES[kind].capability)]
        incoming.listen = {**accepted_filter(asked, capable), **more}
        incoming.resources = resources_in(incoming.listen)
        self.listeners.append(incoming)
        self.stream(incoming, ACKNOWLEDGED, {"notifications": incoming.listen})

    def stream(self, incoming: IncomingRequest, method: str, params: dict[str, Json]) -> None:
        """Send a notification on a listen stream, marked with the stream's subscription id."""  # META-7
        self.send_notification(method, {**params, "_meta": {SUBSCRIPTION_ID: incoming.id}}, incoming)

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def complete_result(self, request: IncomingRequest, result: dict[str, Json]) -> None:
        """Add the result type, the server info and the cache hints to a result."""  # BASE-13, MOD-7, CACHE-1
        if self.local.relays:
            return
        kind = result.setdefault("resultType", COMPLETE)
        stamp = self._stamps.get((request.revision.name, request.method))
        cacheable, server_meta = stamp or self._find_stamp(request.revision, request.method)
        if cacheable and kind == COMPLETE:
            result.setdefault("ttlMs", 0)
            result.setdefault("cacheScope", "private")
        meta = result.get("_meta")
        result["_meta"] = {**server_meta, **meta} if meta else server_meta

    def _find_stamp(self, revision: Revision, method: str) -> tuple[bool, dict[str, Json]]:
        """Return whether results of a method are cacheable, and the `_meta` of each."""
        spec = revision.methods.get(method)
        server_meta = {SERVER_INFO: self.local.introduction(revision)["_meta"][SERVER_INFO]}
        found = self._stamps[revision.name, method] = spec is not None and spec.cacheable, server_meta
        return found

    @override
    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:
        """Return whether to send a log message: only for a request that set a level, at or above it."""  # LOG-3
        if request is None or not request.open or request.level is None:
            return False
        return SEVERITY[level] >= SEVERITY[request.level]

    def changed(self, kind: Changed, uri: str | None) -> None:
        """Notify the listen streams that subscribed to a change."""  # SUB-3, SUB-8
        for incoming in self._subscribed(kind, uri):
            spelled = None if uri is None else _spelled(incoming, uri)
            self.stream(incoming, CHANGES[kind].method, {} if spelled is None else {"uri": spelled})

    def subscribers(self, uri: str) -> Iterator[IncomingRequest]:
        """Return the listen streams that subscribed to a resource."""
        return self._subscribed(Changed.RESOURCE, uri)

    def updated(self, incoming: IncomingRequest, uri: str) -> None:
        """Notify a subscriber of a change of a resource."""
        if incoming.open:
            spelled = _spelled(incoming, uri) or uri
            self.stream(incoming, CHANGES[Changed.RESOURCE].method, {"uri": spelled})

    def _subscribed(self, kind: Changed, uri: str | None) -> Iterator[IncomingRequest]:
        self.listeners = [incoming for incoming in self.listeners if incoming.open]
        if uri is None:
            return (incoming for incoming in self.listeners if wants(incoming.listen or {}, kind, None))
        return (incoming for incoming in self.listeners if _spelled(incoming, uri) is not None)

    def end_streams(self) -> None:
        """End every listen stream with a result, before the connection is closed."""  # SUB-4, AMB-1
        for incoming in self.listeners:
            self.end_stream(incoming)
        self.listeners = []

    def end_stream(self, incoming: IncomingRequest) -> None:
        """End one listen stream with a result."""
        incoming.respond(
            {
                "resultType": COMPLETE,
                "_meta": {SUBSCRIPTION_ID: incoming.id},
            }  # makes SubscriptionsListenResult
        )


def _spelled(incoming: IncomingRequest, uri: str) -> str | None:
    """Return a URI as a listen stream has subscribed to it; None if it has not."""
    return None if incoming.resources is None else incoming.resources.spelled(uri)


def meta_error(meta: Json) -> str | None:
    """Return the error in the `_meta` of a request, or None."""  # MOD-3
    if meta.__class__ is not dict:
        return "_meta is missing"
    if not isinstance(meta.get(VERSION), str):
        return f"_meta has no {VERSION}"
    if not isinstance(meta.get(CLIENT_CAPABILITIES), dict):
        return f"_meta has no {CLIENT_CAPABILITIES}"
    info = meta.get(CLIENT_INFO)
    named = info.__class__ is dict and isinstance(info.get("name"), str)
    if info is not None and not (named and isinstance(info.get("version"), str)):
        return f"{CLIENT_INFO} has no name or no version"
    level = meta.get(LOG_LEVEL)
    if level is not None and not (isinstance(level, str) and level in SEVERITY):
        return "no such log level"
    return None


def _covers(declared: Json, needed: Json) -> bool:
    """Return whether capabilities contain the needed ones, with all their members."""
    wanted: Json = needed if needed.__class__ is dict else {}
    return declared.__class__ is dict and not uncovered(declared, wanted)


def uncovered(capabilities: Mapping[str, Json], needed: Mapping[str, Json]) -> dict[str, Json]:
    """Return the needed capabilities that the declared ones do not cover."""
    return {name: value for name, value in needed.items() if not _covers(capabilities.get(name), value)}


def _paths(capabilities: Mapping[str, Json]) -> Iterator[str]:
    """Yield the dotted paths of capabilities."""
    for name, inner in capabilities.items():
        if inner:
            yield from (f"{name}.{path}" for path in _paths(inner))
        else:
            yield name


def missing_capability(needed: Mapping[str, Json]) -> MissingClientCapability:
    """Return the error for capabilities that a request needs and the client has not declared."""  # MOD-6
    names = ", ".join(sorted(_paths(needed)))
    return MissingClientCapability(
        f"this requires the client capability {names}, which the client has not declared",
        data={"requiredCapabilities": dict(needed)},
    )


class StatelessClient(Engine):
    """The client side of the stateless era."""

    def __init__(
        self, connection: ConnectionState, local: LocalInfo, result_types: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(connection, local)
        self._result_types = result_types | {COMPLETE, INPUT_REQUIRED}
        self._own_meta: dict[str, Json] = {}
        """The members of `_meta` that introduce the client."""

    def use(self, revision: Revision) -> None:
        """Speak a revision from now on."""
        self.negotiated: Revision | None = revision
        self._own_meta = self.local.introduction(revision)

    @override
    def prepare(self, method: str, params: dict[str, Json] | None, *, check: bool) -> dict[str, Json] | None:
        """Return the params of a request to send, with the client's info and capabilities."""  # MOD-1, MOD-2
        if check:
            self.check_sendable(method)
        own_meta = self._own_meta
        caller_meta = None if params is None else params.get("_meta")
        if self.local.relays and caller_meta and VERSION in caller_meta:
            return params
        if params is None or caller_meta is not own_meta:
            # The caller's members are kept, except for those that describe the connection (META-9).
            params = {**(params or {}), "_meta": {**caller_meta, **own_meta} if caller_meta else own_meta}
        return params

    @override
    def announce_cancel(self, call: Call, reason: str) -> None:
        """Notify the server of a cancellation, unless closing the call's own stream does so."""  # CANC-5, HTTPM-6
        if not self.connection.streams:
            super().announce_cancel(call, reason)

    def request(self, message: Request) -> None:
        """Ignore a request: servers of this era send none, and it gets no response."""  # BASE-11, BASE-12
        self.connection.diagnose(
            f"a request from a server, which this revision does not allow: {message.method}"
        )

    def notification(self, message: Notification, now: float) -> None:
        """Process a notification of a listen stream or of the connection."""
        params, revision = message.params or {}, self.revision
        if message.method == PROGRESS:
            self.progressed(params, now)
        elif message.method == CANCELLED:
            self._ended(params)
        else:
            stream = self._stream_of(params)
            if stream is not None:
                self.connection.events.append(CallNotification(stream, message.method, params))
            if message.method in self.local.notifications(revision):
                self.connection.events.append(
                    NotificationReceived(revision, message.method, message.params, message.origin)
                )

    def _stream_of(self, params: Mapping[str, Json]) -> Call | None:
        """Return the open listen call that a notification belongs to."""  # SUB-5
        meta = params.get("_meta")
        id_ = json_object(meta).get(SUBSCRIPTION_ID)
        call = self.connection.calls.find(id_)
        return call if call is not None and call.method == LISTEN else None

    def _ended(self, params: Mapping[str, Json]) -> None:
        """Fail a listen call whose stream the server ended without a result."""  # AMB-1
        id_ = params.get("requestId")
        call = self.connection.calls.find(id_)
        if call is None or call.method != LISTEN:
            self.connection.diagnose(f"the server cancelled a request that is not a listen stream: {id_!r}")
            return
        self.connection.calls.close(call.id)
        error = ConnectionLost("the server ended the stream", in_flight=True, retry_safe=True)
        self.connection.events.append(CallFailed(call, error))

    @override
    def accept(self, call: Call, result: dict[str, Json]) -> None:
        """Complete a call, or fail it if the type of its result is unknown."""  # BASE-14, BASE-15
        kind = result.get("resultType", COMPLETE)
        if self.local.relays or (isinstance(kind, str) and kind in self._result_types):
            self.connection.events.append(CallCompleted(call, result))
        else:
            error = RemoteProtocolError(f"a result of unknown type {kind!r:.60}", raw=result)
            self.connection.events.append(CallFailed(call, error))
