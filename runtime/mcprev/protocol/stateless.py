"""The engine of the stateless era, both roles (MOD-*, BASE-4, BASE-11..15, SUB-2..6, LOG-3, CANC-5, AMB-1, AMB-6).

No request knows of another one. The server runs each through the ladder of `_CHECKS`, in the order that AMB-6
settles; the client says with each request who it is and what it can do. The only thing that lasts is a listen
stream, which is a request that stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from typing_extensions import override

from mcprev.errors import (
    ConnectionLost,
    InternalError,
    InvalidParams,
    Json,
    LocalProtocolError,
    MissingClientCapability,
    RemoteProtocolError,
    RpcError,
)
from mcprev.protocol.connection_state import (
    CallCompleted,
    CallFailed,
    ConnectionState,
    IncomingRequest,
    LocalInfo,
    NotificationReceived,
    RequestKind,
    StreamNotification,
)
from mcprev.protocol.engine import CANCELLED, PROGRESS, Engine, declares, unknown_method
from mcprev.protocol.negotiation.versions import VERSION_KEY, RevisionRefused, check_version, versions
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.session_state import SEVERITY
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    CHANGES,
    HAS_TASKS,
    LISTEN,
    MAX_STREAMS,
    SUBSCRIPTION_ID,
    Changed,
    honoured,
    names_tasks,
    wants,
)
from mcprev.revisions import Revision
from mcprev.wire.jsonrpc import Notification, Request

PREFIX: Final = "io.modelcontextprotocol/"
VERSION: Final = VERSION_KEY
CLIENT_INFO: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
SERVER_INFO: Final = PREFIX + "serverInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
STAMPED: Final = frozenset({VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, "progressToken"})
"""The members of a request's `_meta` that no caller writes by itself."""
MAX_ENDED: Final = 64
"""Listen streams after which those that have ended are looked for the first time."""
COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"


def is_modern(message: Request) -> bool:
    """Whether a request describes itself, which decides the engine it is for (NEG-8)."""
    params = message.params
    if params is None:
        return False
    meta = params.get("_meta")
    return isinstance(meta, dict) and VERSION in meta


class StatelessServer(Engine):
    """Requests as a server sees them."""

    completes_results = True

    def __init__(self, connection: ConnectionState, local: LocalInfo) -> None:
        super().__init__(connection, local)
        self._revisions = tuple(revision for revision in local.revisions if not revision.handshake)
        self._by_version = {revision.version: revision for revision in reversed(self._revisions)}
        self._served: dict[tuple[str, str], tuple[Revision, RequestKind]] = {}
        self._stamps: dict[tuple[str, str], tuple[bool, dict[str, Json]]] = {}
        self.listeners: list[IncomingRequest] = []
        """The listen streams that are open, and some that have ended since they were counted last."""
        self._count_at = MAX_ENDED

    # -- in ------------------------------------------------------------------------------------------------

    def request(self, message: Request) -> None:
        """Take a request: the first step of the ladder that has something to say answers it (AMB-6)."""
        meta: Json = None if message.params is None else message.params.get("_meta")
        served = None
        if meta.__class__ is dict and is_valid_meta(meta):
            served = self._served.get((meta[VERSION], message.method))
        if served is None:
            served = self._judge(message, meta)
            if served is None:
                return
        revision, kind = served
        incoming = self.take(revision, message, None, meta[CLIENT_CAPABILITIES])
        if incoming is None:
            return
        incoming.client_info = meta.get(CLIENT_INFO)
        incoming.level = meta.get(LOG_LEVEL)
        if kind is RequestKind.SERVED:
            self.connection.events.append(incoming)
        else:
            _OWN[kind](self, incoming)

    def _judge(self, message: Request, meta: Json) -> tuple[Revision, RequestKind] | None:
        """The revision of a request and what it is there; None for one that is refused."""
        for check in _CHECKS:
            error = check(self, message, meta)
            if error is not None:
                self.connection.refuse(message, error, None)
                return None
        revision = self._by_version[meta[VERSION]]
        served = revision, self.local.kinds(revision)[message.method]
        if not self.local.requirements(message.method):
            self._served[meta[VERSION], message.method] = served
        return served

    def notification(self, message: Notification) -> None:
        """Take a notification; a client has only one to send."""
        if message.method == CANCELLED:
            self.cancel_incoming(message.params)
        else:
            self.connection.diagnose(f"a notification out of place: {message.method}")

    def check_shape(self, message: Request, meta: dict[str, Json]) -> RpcError | None:
        """The request describes itself (MOD-3)."""
        wrong = meta_error(meta)
        if wrong is None:
            return None
        if message.method == "initialize":
            # A client of the other era has to learn from this answer how to come back (MOD-15).
            spoken = versions(self.local.revisions)
            return InvalidParams(
                f"Invalid params: {wrong}; this server speaks {', '.join(spoken)} without initialize",
                data={"supported": list(spoken)},
            )
        return InvalidParams(f"Invalid params: {wrong}")

    def check_version(self, message: Request, meta: dict[str, Json]) -> RpcError | None:
        """Its revision is spoken here (MOD-4)."""
        del message
        found = check_version(meta[VERSION], self.local.revisions)
        return found.error if isinstance(found, RevisionRefused) else None

    def check_capability(self, message: Request, meta: dict[str, Json]) -> RpcError | None:
        """The client can do what the method needs (MOD-6)."""
        needs = lacking(meta[CLIENT_CAPABILITIES], self.local.requirements(message.method))
        return missing_capability(needs) if needs else None

    def check_method(self, message: Request, meta: dict[str, Json]) -> RpcError | None:
        """The method is served (MOD-14)."""
        if message.method in self.local.kinds(self._by_version[meta[VERSION]]):
            return None
        return unknown_method(message.method)

    def discover(self, incoming: IncomingRequest) -> None:
        """Say who this is (MOD-9)."""
        incoming.respond(dict(self.local.introduction(incoming.revision)))

    def listen(self, incoming: IncomingRequest) -> None:
        """Open a stream, at once unless it is for tasks too: which there are has to be found out first (SUB-9)."""
        asked = (incoming.params or {}).get("notifications")
        if not isinstance(asked, dict):
            incoming.fail(InvalidParams("Invalid params: notifications is missing"))
        elif names_tasks(cast("dict[str, Json]", asked)) and HAS_TASKS in self.local.kinds(incoming.revision):
            self.connection.events.append(incoming)
        else:
            self.open_stream(incoming, {})

    def open_stream(self, incoming: IncomingRequest, more: Mapping[str, Json]) -> None:
        """Open a stream: what it will carry is said first, and said on it (SUB-2).

        `more` is what it carries beside the changes that this server can tell of.
        """
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
        capable = [kind for kind, change in CHANGES.items() if declares(capabilities, change.capability)]
        incoming.listen = {**honoured(asked, capable), **more}
        self.listeners.append(incoming)
        self.stream(incoming, ACKNOWLEDGED, {"notifications": incoming.listen})

    def stream(self, incoming: IncomingRequest, method: str, params: dict[str, Json]) -> None:
        """Send on a listen stream, by which everything is marked (META-7)."""
        self.send_notification(method, {**params, "_meta": {SUBSCRIPTION_ID: incoming.id}}, incoming)

    # -- out -----------------------------------------------------------------------------------------------

    @override
    def complete_result(self, request: IncomingRequest, result: dict[str, Json]) -> None:
        """Add the result type, the server's name and the hints for caches (BASE-13, MOD-7, CACHE-1)."""
        kind = result.setdefault("resultType", COMPLETE)
        stamp = self._stamps.get((request.revision.name, request.method))
        cacheable, said = stamp or self._find_stamp(request.revision, request.method)
        if cacheable and kind == COMPLETE:
            result.setdefault("ttlMs", 0)
            result.setdefault("cacheScope", "private")
        meta = result.get("_meta")
        result["_meta"] = {**said, **meta} if meta else said

    def _find_stamp(self, revision: Revision, method: str) -> tuple[bool, dict[str, Json]]:
        """Whether the results of a method can be kept, and what stands in the `_meta` of each."""
        spec = revision.methods.get(method)
        said = {SERVER_INFO: self.local.introduction(revision)["_meta"][SERVER_INFO]}
        found = self._stamps[revision.name, method] = spec is not None and spec.cacheable, said
        return found

    @override
    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:
        """Only what belongs to a request that asked for it, at its level or above (LOG-3)."""
        if request is None or not request.open or request.level is None:
            return False
        return SEVERITY[level] >= SEVERITY[request.level]

    def changed(self, kind: Changed, uri: str | None) -> None:
        """Tell the streams that asked for it of a change (SUB-3, SUB-8)."""
        self.listeners = [incoming for incoming in self.listeners if incoming.open]
        for incoming in self.listeners:
            if wants(incoming.listen or {}, kind, uri):
                self.stream(incoming, CHANGES[kind].method, {} if uri is None else {"uri": uri})

    def end_streams(self) -> None:
        """End every listen stream in good order, as before the connection is closed (SUB-4, AMB-1)."""
        for incoming in self.listeners:
            self.end_stream(incoming)
        self.listeners = []

    def end_stream(self, incoming: IncomingRequest) -> None:
        """End one of them."""
        incoming.respond({"_meta": {SUBSCRIPTION_ID: incoming.id}})


_CHECKS: Final[tuple[Callable[[StatelessServer, Request, dict[str, Json]], RpcError | None], ...]] = (
    StatelessServer.check_shape,
    StatelessServer.check_version,
    StatelessServer.check_capability,
    StatelessServer.check_method,
)
"""The steps before the params, which the handler's side validates last."""
_OWN: Final[Mapping[RequestKind, Callable[[StatelessServer, IncomingRequest], None]]] = {
    RequestKind.DISCOVER: StatelessServer.discover,
    RequestKind.LISTEN: StatelessServer.listen,
}


def is_valid_meta(meta: dict[str, Json]) -> bool:
    """Whether a `_meta` is in shape for certain, as most are; `misshapen` says what is wrong with another."""
    info = meta.get(CLIENT_INFO)
    return (
        meta.get(VERSION).__class__ is str
        and meta.get(CLIENT_CAPABILITIES).__class__ is dict
        and LOG_LEVEL not in meta
        and (
            info is None
            or (
                info.__class__ is dict
                and info.get("name").__class__ is str
                and info.get("version").__class__ is str
            )
        )
    )


def meta_error(meta: object) -> str | None:
    """What is wrong with a request's `_meta`, if something is (MOD-3)."""
    if not isinstance(meta, dict):
        return "_meta is missing"
    members = cast("dict[str, Json]", meta)
    if not isinstance(members.get(VERSION), str):
        return f"_meta has no {VERSION}"
    if not isinstance(members.get(CLIENT_CAPABILITIES), dict):
        return f"_meta has no {CLIENT_CAPABILITIES}"
    info = members.get(CLIENT_INFO)
    if info is not None and not (_string_in(info, "name") and _string_in(info, "version")):
        return f"{CLIENT_INFO} has no name or no version"
    level = members.get(LOG_LEVEL)
    if level is not None and not (isinstance(level, str) and level in SEVERITY):
        return "no such log level"
    return None


def _string_in(value: object, member: str) -> bool:
    return isinstance(value, dict) and isinstance(cast("dict[str, Json]", value).get(member), str)


def _covers(declared: object, needed: object) -> bool:
    """Whether capabilities are there, and in them every member that is needed."""
    if not isinstance(declared, dict):
        return False
    members = cast("dict[str, Json]", declared)
    wanted = cast("dict[str, Json]", needed) if isinstance(needed, dict) else {}
    return all(_covers(members.get(name), value) for name, value in wanted.items())


def lacking(capabilities: Mapping[str, Json], needed: Mapping[str, Json]) -> dict[str, Json]:
    """The members of what is needed that capabilities do not cover."""
    return {name: value for name, value in needed.items() if not _covers(capabilities.get(name), value)}


def missing_capability(needed: Mapping[str, Json]) -> MissingClientCapability:
    """The error for capabilities that a request needs and its client has not declared (MOD-6)."""
    names = ", ".join(sorted(needed))
    return MissingClientCapability(
        f"this needs the client capability {names}", data={"requiredCapabilities": dict(needed)}
    )


class StatelessClient(Engine):
    """Requests as a client sees them."""

    def __init__(
        self, connection: ConnectionState, local: LocalInfo, result_types: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(connection, local)
        self._result_types = result_types | {COMPLETE, INPUT_REQUIRED}
        self._hellos: dict[Revision, dict[str, Json]] = {}
        self.closed = False

    def close(self) -> None:
        """Nothing can be sent from now on."""
        self.closed = True

    def call(
        self,
        revision: Revision,
        method: str,
        params: dict[str, Json] | None,
        now: float,
        *,
        idle: float | None,
        total: float | None,
        progress: bool = False,
        unchecked: bool = False,
    ) -> Call:
        """Send a request that says who sends it (MOD-1, MOD-2).

        Raises `LocalProtocolError` where the revision or the server's capabilities, once known, forbid it.
        """
        if self.closed:
            raise LocalProtocolError("the connection is closed")
        if not unchecked:
            self.check_sendable(revision, method, self.peer_capabilities)
        hello = self._hellos.get(revision)
        if hello is None:
            hello = self._hellos[revision] = self.local.introduction(revision)
        said = None if params is None else params.get("_meta")
        if params is None or said is not hello:
            # What the caller set itself goes, except for what describes the connection (META-9).
            params = {**(params or {}), "_meta": {**said, **hello} if said else hello}
        return self.send_request(method, params, now, idle=idle, total=total, progress=progress)

    @override
    def announce_cancel(self, call: Call, reason: str) -> None:
        """Where a call has a stream of its own, the end of that stream says it (CANC-5, HTTPM-6)."""
        if not self.connection.streams:
            super().announce_cancel(call, reason)

    def request(self, message: Request) -> None:
        """A server has nothing to ask here, and is not answered (BASE-11, BASE-12)."""
        self.connection.diagnose(f"a request of a server that may send none: {message.method}")

    def notification(self, revision: Revision, message: Notification, now: float) -> None:
        """Take a notification, of a listen stream or of the connection."""
        params = message.params or {}
        if message.method == PROGRESS:
            self.progressed(params, now)
        elif message.method == CANCELLED:
            self._ended(params)
        else:
            stream = self._stream_of(params)
            if stream is not None:
                self.connection.events.append(StreamNotification(stream, revision, message.method, params))
            if message.method in self.local.notifications(revision):
                self.connection.events.append(NotificationReceived(revision, message.method, message.params))

    def _stream_of(self, params: Mapping[str, Json]) -> Call | None:
        """The open listen call that a notification belongs to (SUB-5)."""
        meta = params.get("_meta")
        id_ = cast("dict[str, Json]", meta).get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None
        call = self.connection.calls.find(id_) if isinstance(id_, str | int | float) else None
        return call if call is not None and call.method == LISTEN else None

    def _ended(self, params: Mapping[str, Json]) -> None:
        """The server tears down a listen stream without a result (AMB-1)."""
        id_ = params.get("requestId")
        call = self.connection.calls.find(id_) if isinstance(id_, str | int | float) else None
        if call is None or call.method != LISTEN:
            self.connection.diagnose(f"the server cancelled what is no listen stream: {id_!r}")
            return
        self.connection.calls.close(call.id)
        error = ConnectionLost("the server ended the stream", in_flight=True, retry_safe=True)
        self.connection.events.append(CallFailed(call, error))

    @override
    def accept(self, call: Call, result: dict[str, Json]) -> None:
        """A result of a type nobody knows is none (BASE-14, BASE-15)."""
        kind = result.get("resultType", COMPLETE)
        if isinstance(kind, str) and kind in self._result_types:
            self.connection.events.append(CallCompleted(call, result))
        else:
            error = RemoteProtocolError(f"a result of unknown type {kind!r:.60}", raw=result)
            self.connection.events.append(CallFailed(call, error))

    @override
    def allows_log(self, request: IncomingRequest | None, level: str) -> bool:
        """Clients do not send log messages."""
        del request, level
        return False
