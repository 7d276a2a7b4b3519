"""The classes of requests to the MCP endpoint: `classify` is a pure function of HTTP method, headers and body.

NEG-8 to 11; HTTP-1, 4, 6, 7, 10, 20 to 22, 24 to 26; HTTPM-1 to 3; HDR-1, 3; BASE-7, 12; BATCH-4, 6; ERR-6; AMB-5
to 7, 15. The server looks up the session of the request, parses the body with `jsonrpc.parse(body,
batch=True)` and passes both to `classify`. The result names the engine that serves the request, or the error response.
Origin and body size are checked before.

Decisions where the requirements are silent or disagree:

- A request with a version in `_meta`, or with a version of the stateless era in its header, is stateless, whether or
  not the endpoint serves that era: the engine refuses it with the served versions (MOD-4). Only `initialize` is
  classified by its body alone (NEG-11).
- `initialize` with the id of an expired session opens a new session: after a 404 the client would do the same.
- A stateless request may accept either format. One whose `Accept` header accepts neither gets 406.
- In a session of a revision without the version header, the header is checked if it is present (AMB-5).
- An unsupported version header of the handshake era is -32600 with the supported versions; -32022 belongs to the
  stateless era.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import eq
from typing import Final, TypeAlias

from mcprev.error_text import shutting_down, worker_lost
from mcprev.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    InvalidRequest,
    Json,
    RpcError,
)
from mcprev.protocol.negotiation.versions import of_era, versions
from mcprev.protocol.stateless import meta_error
from mcprev.protocol.subscriptions import LISTEN
from mcprev.protocol.uris import same_uri
from mcprev.revisions import Era, HttpShape, Revision
from mcprev.wire import headers as names
from mcprev.wire.headers import Headers, mismatch, name_param
from mcprev.wire.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    Shape,
    encode_error,
    record,
)
from mcprev.wire.media import BOTH, JSON, SSE, Accept, accepted, is_json
from mcprev.wire.meta_keys import VERSION

INITIALIZE: Final = "initialize"
ACCEPT_KEY: Final = b"accept"
CONTENT_TYPE_KEY: Final = b"content-type"
_JSON: Final = b"application/json"
_NO_BATCHES: Final = "batches are not part of this revision"
RETRY_LATER: Final = ((b"retry-after", b"10"),)
"""The header of a response that refuses a request for lack of capacity: when to try again, in seconds."""
RETRY_SOON: Final = ((b"retry-after", b"1"),)
"""The header of a response that refuses a request for a disturbance, after which the same request succeeds."""
Good: TypeAlias = Request | Notification | Response | ErrorResponse
"""A well-formed message."""


@record
class StatelessRequest:
    """A request for the stateless engine, which checks its `_meta`.

    The headers match the body. A notification is answered with 202.
    """  # MOD-3, HTTPM-3

    message: Request | Notification
    accept: Accept
    """The formats that the client accepts."""


@dataclass(frozen=True, slots=True)
class InitializeRequest:
    """`initialize`, which opens a session."""

    message: Request


@record
class SessionRequest:
    """A message in an open session. One without response (`wants_answer`) gets 202."""  # HTTP-6, BATCH-4

    message: Good | Batch
    revision: Revision
    accept: Accept = field(default=BOTH, compare=False)
    """The formats that the client accepts."""


@dataclass(frozen=True, slots=True)
class SessionlessRequest:
    """A message that is served as if its session were open at this revision; None for `initialize` itself."""

    message: Request | Notification | Batch
    revision: Revision | None


@dataclass(frozen=True, slots=True)
class OpenStream:
    """The client opens the standalone stream of its session, or resumes one of its streams."""  # HTTP-10, HTTP-15

    revision: Revision
    last_event_id: str | None


@dataclass(frozen=True, slots=True)
class DeleteSession:
    """The client deletes its session."""  # HTTP-24

    revision: Revision


@dataclass(frozen=True, slots=True)
class HttpError:
    """An immediate error response: an HTTP status and a JSON-RPC error."""

    status: int
    error: RpcError
    id: RequestId | None = None
    """The id of the request, if it is known."""  # ERR-6
    null_id: bool = False
    """Whether the body has `"id": null` if there is no id."""  # BASE-7
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers besides the content type."""

    @property
    def body(self) -> bytes:
        """The encoded JSON-RPC error."""
        return encode_error(self.id, self.error.to_wire(), null_id=self.null_id)


def stopped(request_id: RequestId | None = None) -> HttpError:
    """Return the error response to a request that begins after the server has stopped."""
    return HttpError(503, shutting_down(may_have_run=False), request_id, headers=RETRY_SOON)


def not_started() -> HttpError:
    """Return the error response to a request to a server whose lifespan failed."""
    why = worker_lost("the server failed to start; its log says why", may_have_run=False)
    return HttpError(503, why, headers=RETRY_SOON)


RequestClass: TypeAlias = (
    StatelessRequest
    | InitializeRequest
    | SessionRequest
    | SessionlessRequest
    | OpenStream
    | DeleteSession
    | HttpError
)


def wants_answer(message: Good | Batch) -> bool:
    """Return whether a message gets a response; others are accepted with 202 and no body."""  # HTTP-6, BATCH-4
    if isinstance(message, Batch):
        return any(
            isinstance(member, Request) or (isinstance(member, Malformed) and member.answer is not None)
            for member in message.messages
        )
    return isinstance(message, Request)


_ALWAYS: Final[Mapping[int, int]] = {
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
}
_BEFORE: Final[Mapping[int, int]] = {
    **_ALWAYS,
    METHOD_NOT_FOUND: 404,
    INVALID_PARAMS: 400,
    INVALID_REQUEST: 400,
    PARSE_ERROR: 400,
}


def status_of(error_code: int, *, pre_dispatch: bool) -> int:
    """Return the HTTP status of an error of the stateless era; in sessions it is always 200.

    `pre_dispatch` says that no handler was called. Protocol-level codes have their status wherever they are raised: a
    handler too may find that a capability is missing.
    """  # ERR-6, AMB-7, MOD-6
    return (_BEFORE if pre_dispatch else _ALWAYS).get(error_code, 200)


# -- the endpoint ----------------------------------------------------------------------------------------


class Endpoint:
    """The configuration of an endpoint and the values derived from it; created once."""

    def __init__(
        self,
        revisions: tuple[Revision, ...],
        *,
        sessions: bool = True,
        get_stream: bool = True,
        json_only: bool = False,
    ) -> None:
        """Set the served revisions, oldest first, and the kinds of responses.

        - `sessions`: whether `initialize` opens a session; if not, requests of the handshake era are served without one.
        - `get_stream`: whether a session has a standalone stream.
        - `json_only`: whether responses of the handshake era are always JSON, so that clients need not accept streams.
        """  # HTTP-19, AMB-3, AMB-15
        self.revisions: tuple[Revision, ...] = revisions
        self.sessions: bool = sessions
        self.json_only: bool = json_only
        self.legacy: tuple[Revision, ...] = of_era(revisions, Era.HANDSHAKE)
        """The revisions of the handshake era."""
        self.modern: tuple[Revision, ...] = of_era(revisions, Era.STATELESS)
        """The revisions of the stateless era."""
        silent = [
            revision
            for revision in self.legacy
            if revision.http is HttpShape.STREAMABLE and not revision.version_header
        ]
        self.assumed: Revision | None = silent[-1] if silent else None
        """The revision of a request without version header and session; None if it is not served."""  # HTTP-26
        keeps = bool(self.legacy) and sessions
        verbs = {b"POST": True, b"GET": keeps and get_stream, b"DELETE": keeps}
        self.allow: bytes = b", ".join(verb for verb, served in verbs.items() if served)
        """The value of the `Allow` header."""
        # A dated revision takes precedence over a draft of the same version.
        self.by_version: Mapping[bytes | None, Revision] = {
            revision.version.encode(): revision for revision in reversed(revisions)
        }
        """Maps values of the version header to the revisions that are served; None, for a request without it, is missing."""
        self.modern_versions: frozenset[bytes | None] = frozenset(
            version.encode() for version in versions(self.modern)
        )
        """The values of the version header of the stateless era."""
        self.name_params: Mapping[str, str] = {
            method: param
            for revision in self.modern
            for method in (*revision.methods, *names.TASK_NAMES)
            if (param := name_param(revision, method))
        }
        """Maps a method to the parameter that `Mcp-Name` repeats."""  # HDR-2


# -- the decision ----------------------------------------------------------------------------------------


class _Refused(Exception):
    """A request is refused with an HTTP status and an error."""

    def __init__(self, status: int, error: RpcError | str, *, requested: bytes | None = None) -> None:
        """`requested` is the version that is not served; the error then names the served ones."""
        super().__init__(status)
        self.status = status
        self.error = error if isinstance(error, RpcError) else InvalidRequest(f"Invalid Request: {error}")
        self.requested = requested


def classify(
    endpoint: Endpoint,
    verb: str,
    headers: Headers,
    message: Message | Batch | None = None,
    live: Revision | None = None,
) -> RequestClass:
    """Classify a request.

    `message` is the body of a POST, parsed with `jsonrpc.parse(body, batch=True)`. `live` is the revision of the
    request's session; None without a session id, or if the session is expired, unknown or owned by another principal.
    """
    try:
        if verb == "POST":
            assert message is not None
            return _post(endpoint, headers, message, live)
        return _without_body(endpoint, verb, headers, live)
    except _Refused as refused:
        error, request_id = refused.error, None
        if refused.requested is not None:
            requested = refused.requested[:100].decode("latin-1")
            # Within a session, only its own revision is served.
            served = [live.version] if live is not None else list(versions(endpoint.revisions))
            error.data = {"supported": served, "requested": requested}
        # The id of a response is an id of this side, so it is left out.
        responds = isinstance(message, Malformed) and message.shape is Shape.RESPONSE
        if isinstance(message, Request | Malformed) and not responds:
            request_id = message.id
        version = headers.get(names.VERSION_KEY)
        likely = live or endpoint.by_version.get(version) or endpoint.assumed or endpoint.revisions[-1]
        return HttpError(refused.status, error, request_id, null_id=likely.null_id_in_errors)


def _without_body(endpoint: Endpoint, verb: str, headers: Headers, live: Revision | None) -> RequestClass:
    version = headers.get(names.VERSION_KEY)
    # The stateless era has POST only (HTTPM-1).
    if verb.encode() not in endpoint.allow.split(b", ") or version in endpoint.modern_versions:
        error = InvalidRequest("Invalid Request: this HTTP method is not served here")
        return HttpError(405, error, headers=((b"allow", endpoint.allow),))
    if verb == "GET" and not accepted(headers.get(ACCEPT_KEY)).sse:
        raise _Refused(406, "the client must accept text/event-stream")
    if live is None:
        raise _no_session(endpoint, headers)
    _check_version(live, None, version)
    return (
        DeleteSession(live) if verb == "DELETE" else OpenStream(live, headers.text(names.LAST_EVENT_ID_KEY))
    )


def _post(
    endpoint: Endpoint, headers: Headers, message: Message | Batch, live: Revision | None
) -> RequestClass:
    if headers.get(CONTENT_TYPE_KEY) != _JSON and not is_json(headers.get(CONTENT_TYPE_KEY)):
        raise _Refused(415, "the Content-Type must be application/json")
    if isinstance(message, Malformed):
        raise _Refused(400, RpcError(message.message, code=message.code))
    if isinstance(message, (Request, Notification)):
        meta: Json = message.params.get("_meta") if message.params is not None else None
        if meta.__class__ is dict and VERSION in meta:
            return _modern(endpoint, headers, message, meta)
    opens = isinstance(message, Request) and message.method == INITIALIZE
    version = headers.get(names.VERSION_KEY)
    if not endpoint.legacy or (version in endpoint.modern_versions and not opens):
        return _modern(endpoint, headers, message, None)
    accept = accepted(headers.get(ACCEPT_KEY))
    if not accept.json or not (accept.sse or endpoint.json_only):
        wanted = "application/json" if endpoint.json_only else "application/json and text/event-stream"
        raise _Refused(406, f"the client must accept {wanted}")
    return _legacy(endpoint, headers, message, live, accept, version)


def _modern(
    endpoint: Endpoint, headers: Headers, message: Good | Batch, meta: dict[str, Json] | None
) -> RequestClass:
    """Classify a message of the stateless era; headers are compared only with a valid `_meta`."""  # AMB-6
    if not isinstance(message, (Request, Notification)):
        what = "batches are" if isinstance(message, Batch) else "a response is"
        return HttpError(400, InvalidRequest(f"Invalid Request: {what} not part of this revision"))
    formats = headers.get(ACCEPT_KEY)
    accept = BOTH if formats is None else accepted(formats)
    listens = isinstance(message, Request) and message.method == LISTEN
    if not accept.sse and (listens or not accept.json):
        raise _Refused(406, f"the client must accept {SSE if listens else f'{JSON} or {SSE}'}")
    if meta is not None and isinstance(message, Request):
        method = message.method
        name_of = endpoint.name_params.get(method)
        same = same_uri if name_of == "uri" else eq
        error = mismatch(headers, meta[VERSION], method, message.params or {}, name_of, same)
        if error is not None and meta_error(meta) is None:
            return HttpError(400, error, message.id)
    return StatelessRequest(message, accept)


def _legacy(
    endpoint: Endpoint,
    headers: Headers,
    message: Good | Batch,
    live: Revision | None,
    accept: Accept,
    version: bytes | None,
) -> RequestClass:
    """Classify a message of the handshake era by its session."""
    if live is None and isinstance(message, Request) and message.method == INITIALIZE:
        return InitializeRequest(message) if endpoint.sessions else SessionlessRequest(message, None)
    if live is not None:
        if version != live.version.encode():
            _check_version(live, message, version)
        if isinstance(message, Batch) and not live.accepts_batch:
            raise _Refused(400, _NO_BATCHES)
        return SessionRequest(message, live, accept)
    if endpoint.sessions or names.SESSION_ID_KEY in headers:
        raise _no_session(endpoint, headers)
    # The revision is the header's, or the one without version header (HTTP-26).
    revision = endpoint.assumed if version is None else endpoint.by_version.get(version)
    if revision is None:
        condition = "without MCP-Protocol-Version" if version is None else "at this MCP-Protocol-Version"
        raise _Refused(400, f"no revision is served {condition}", requested=version)
    if isinstance(message, Batch) and not revision.accepts_batch:
        raise _Refused(400, _NO_BATCHES)
    if isinstance(message, Response | ErrorResponse):
        raise _Refused(400, "a response requires the header Mcp-Session-Id of its session")
    return SessionlessRequest(message, revision)


def _no_session(endpoint: Endpoint, headers: Headers) -> _Refused:
    """Return 404 for an unknown session, 400 for a missing session id."""  # HTTP-21, HTTP-22
    if names.SESSION_ID_KEY in headers.repeated:
        return _Refused(400, "Mcp-Session-Id is repeated")
    if names.SESSION_ID_KEY in headers:
        return _Refused(404, "no session has this Mcp-Session-Id: initialize again")
    why = "Mcp-Session-Id is missing: initialize first"
    return _Refused(400, f"{why}, or state {VERSION} in _meta" if endpoint.modern else why)


def _check_version(live: Revision, message: Good | Batch | None, version: bytes | None) -> None:
    """Refuse a version header that differs from the session's, except on `initialize`."""  # NEG-10, AMB-5, NEG-11
    initializes = isinstance(message, Request) and message.method == INITIALIZE
    if version is not None and version != live.version.encode() and not initializes:
        why = f"MCP-Protocol-Version is not that of the session, {live.version}"
        raise _Refused(400, why, requested=version)
