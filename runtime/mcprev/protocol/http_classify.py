"""Classifies a request to the MCP endpoint: a pure function of its HTTP method, headers and body.

NEG-8 to 11; HTTP-1, 4, 6, 7, 10, 20 to 22, 24 to 26; HTTPM-1 to 3; HDR-1, 3; BASE-7, 12; BATCH-4, 6; ERR-6; AMB-5
to 7, 15. The server looks up the session of the request (`session_id`), parses the body with `jsonrpc.parse(body,
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
from typing import Final

from mcprev.errors import InvalidRequest, Json, RpcError
from mcprev.protocol.http_request_class import (
    DeleteSession,
    Good,
    HttpError,
    InitializeRequest,
    OpenStream,
    RequestClass,
    SessionlessRequest,
    SessionRequest,
    StatelessRequest,
)
from mcprev.protocol.negotiation.versions import of_era, versions
from mcprev.protocol.stateless import meta_error
from mcprev.protocol.subscriptions import LISTEN
from mcprev.revisions import Era, HttpShape, Revision
from mcprev.wire import headers as names
from mcprev.wire.headers import Headers, mismatch, name_param
from mcprev.wire.jsonrpc import Batch, Malformed, Message, Notification, Request, Shape
from mcprev.wire.media import BOTH, JSON, SSE, Accept, accepted, is_json
from mcprev.wire.meta_keys import VERSION

INITIALIZE: Final = "initialize"
ACCEPT_KEY: Final = b"accept"
CONTENT_TYPE_KEY: Final = b"content-type"
_JSON: Final = b"application/json"


# -- the endpoint ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Endpoint:
    """The configuration of an endpoint and the values derived from it; created once.

    Raises `ValueError` for revisions of the handshake era if neither sessions nor sessionless requests are enabled.
    """

    revisions: tuple[Revision, ...]
    """The served revisions, oldest first."""
    sessions: bool = True
    """Whether `initialize` opens a session."""  # HTTP-19
    sessionless: bool = False
    """Whether requests of the handshake era are served without a session."""  # AMB-15
    get_stream: bool = True
    """Whether a session has a standalone stream."""  # AMB-3
    deletes: bool = True
    """Whether a client may delete its session."""  # HTTP-24
    json_only: bool = False
    """Whether responses of the handshake era are always JSON, so that clients need not accept streams."""

    legacy: tuple[Revision, ...] = field(init=False)
    """The revisions of the handshake era."""
    modern: tuple[Revision, ...] = field(init=False)
    """The revisions of the stateless era."""
    assumed: Revision | None = field(init=False)
    """The revision of a request without version header and session; None if it is not served."""  # HTTP-26
    allow: bytes = field(init=False)
    """The value of the `Allow` header."""
    by_version: Mapping[str | None, Revision] = field(init=False)
    """Maps versions to the revisions that are served; None, the version of a request without the header, is missing."""
    modern_versions: frozenset[str | None] = field(init=False)
    """The versions of the stateless era."""
    name_params: Mapping[str, str] = field(init=False)
    """Maps a method to the parameter that `Mcp-Name` repeats."""  # HDR-2

    def __post_init__(self) -> None:
        self.legacy = of_era(self.revisions, Era.HANDSHAKE)
        self.modern = of_era(self.revisions, Era.STATELESS)
        if self.legacy and not (self.sessions or self.sessionless):
            raise ValueError(
                f"'{self.legacy[-1].name}' takes sessions or sessionless serving, and both are off"
            )
        silent = [
            revision
            for revision in self.legacy
            if revision.http is HttpShape.STREAMABLE and not revision.version_header
        ]
        self.assumed = silent[-1] if silent else None
        keeps = bool(self.legacy) and self.sessions
        verbs = {b"POST": True, b"GET": keeps and self.get_stream, b"DELETE": keeps and self.deletes}
        self.allow = b", ".join(verb for verb, served in verbs.items() if served)
        # A dated revision takes precedence over a draft of the same version.
        self.by_version = {revision.version: revision for revision in reversed(self.revisions)}
        self.modern_versions = frozenset(versions(self.modern))
        self.name_params = {
            method: param
            for revision in self.modern
            for method in (*revision.methods, *names.TASK_NAMES)
            if (param := name_param(revision, method))
        }


# -- the decision ----------------------------------------------------------------------------------------


def session_id(headers: Headers) -> str | None:
    """Return the session id of a request, to be looked up before `classify`, or None."""
    return headers.text(names.SESSION_ID_KEY)


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
    if verb == "POST":
        assert message is not None
        return _post(endpoint, headers, message, live)
    if verb.encode() not in endpoint.allow.split(b", "):
        return _not_allowed(endpoint)
    version = headers.text(names.VERSION_KEY)
    if version in endpoint.modern_versions:
        return _not_allowed(endpoint)  # the stateless era has POST only (HTTPM-1)
    if verb == "GET" and not accepted(headers.get(ACCEPT_KEY)).sse:
        return _refuse(endpoint, headers, live, 406, "the client has to accept text/event-stream")
    if live is None:
        return _no_session(endpoint, headers, None)
    error = _wrong_version(endpoint, headers, live, None, version)
    if error is not None:
        return error
    return (
        DeleteSession(live) if verb == "DELETE" else OpenStream(live, headers.text(names.LAST_EVENT_ID_KEY))
    )


def _post(
    endpoint: Endpoint, headers: Headers, message: Message | Batch, live: Revision | None
) -> RequestClass:
    if headers.values.get(CONTENT_TYPE_KEY) != _JSON and not is_json(headers.get(CONTENT_TYPE_KEY)):
        return _refuse(endpoint, headers, live, 415, "the Content-Type has to be application/json", message)
    if isinstance(message, Malformed):
        return _malformed(endpoint, headers, live, message)
    if isinstance(message, (Request, Notification)):
        meta: Json = message.params.get("_meta") if message.params is not None else None
        if meta.__class__ is dict and VERSION in meta:
            return _modern(endpoint, headers, message, meta)
    opens = isinstance(message, Request) and message.method == INITIALIZE
    version = headers.text(names.VERSION_KEY)
    if not endpoint.legacy or (version in endpoint.modern_versions and not opens):
        return _modern(endpoint, headers, message, None)
    accept = accepted(headers.values.get(ACCEPT_KEY))
    if not accept.json or not (accept.sse or endpoint.json_only):
        wanted = "application/json" if endpoint.json_only else "application/json and text/event-stream"
        return _refuse(endpoint, headers, live, 406, f"the client has to accept {wanted}", message)
    return _legacy(endpoint, headers, message, live, accept, version)


def _modern(
    endpoint: Endpoint, headers: Headers, message: Good | Batch, meta: dict[str, Json] | None
) -> RequestClass:
    """Classify a message of the stateless era; headers are compared only with a valid `_meta`."""  # AMB-6
    if not isinstance(message, (Request, Notification)):
        what = "batches are" if isinstance(message, Batch) else "a response is"
        return HttpError(400, InvalidRequest(f"Invalid Request: {what} not part of this revision"))
    formats = headers.values.get(ACCEPT_KEY)
    accept = BOTH if formats is None else accepted(formats)
    listens = isinstance(message, Request) and message.method == LISTEN
    if not accept.sse and (listens or not accept.json):
        wanted = SSE if listens else f"{JSON} or {SSE}"
        return _refuse(endpoint, headers, None, 406, f"the client has to accept {wanted}", message)
    if meta is not None and isinstance(message, Request):
        method = message.method
        name_of = endpoint.name_params.get(method)
        error = mismatch(headers, meta[VERSION], method, message.params or {}, name_of)
        if error is not None and meta_error(meta) is None:
            return HttpError(400, error, message.id)
    return StatelessRequest(message, accept)


def _legacy(
    endpoint: Endpoint,
    headers: Headers,
    message: Good | Batch,
    live: Revision | None,
    accept: Accept,
    version: str | None,
) -> RequestClass:
    """Classify a message of the handshake era by its session."""
    if live is None and isinstance(message, Request) and message.method == INITIALIZE:
        return InitializeRequest(message) if endpoint.sessions else SessionlessRequest(message, None)
    if live is not None:
        same = version == live.version
        error = None if same else _wrong_version(endpoint, headers, live, message, version)
        if error is not None:
            return error
        if isinstance(message, Batch) and not live.accepts_batch:
            return _no_batch(live)
        return SessionRequest(message, live, accept)
    if not endpoint.sessionless or session_id(headers) is not None:
        return _no_session(endpoint, headers, message)
    return _sessionless(endpoint, headers, message, version)


def _sessionless(
    endpoint: Endpoint, headers: Headers, message: Good | Batch, version: str | None
) -> RequestClass:
    """Classify a sessionless request; its revision is the header's, or the one without version header."""  # HTTP-26
    revision = endpoint.assumed if version is None else endpoint.by_version.get(version)
    if revision is None:
        condition = "without MCP-Protocol-Version" if version is None else "at this MCP-Protocol-Version"
        return _refuse(endpoint, headers, None, 400, f"no revision is served {condition}", message, version)
    if isinstance(message, Batch):
        return SessionlessRequest(message, revision) if revision.accepts_batch else _no_batch(revision)
    if isinstance(message, Request | Notification):
        return SessionlessRequest(message, revision)
    return _refuse(
        endpoint, headers, revision, 400, "a response needs the Mcp-Session-Id of its session", message
    )


# -- refusals --------------------------------------------------------------------------------------------


def _refuse(
    endpoint: Endpoint,
    headers: Headers,
    live: Revision | None,
    status: int,
    why: str,
    message: Message | Batch | None = None,
    version: str | None = None,
) -> HttpError:
    """Return the error with the id of the refused request; with a version, also with the supported ones."""
    data = (
        None
        if version is None
        else {"supported": list(versions(endpoint.revisions)), "requested": version[:100]}
    )
    # The id of a response is an id of this side, so it is left out.
    read = message.id if isinstance(message, Request) else None
    if isinstance(message, Malformed) and message.answer is not None:
        read = message.id
    error = InvalidRequest(f"Invalid Request: {why}", data=data)
    return HttpError(status, error, read, null_id=_null_id(endpoint, headers, live))


def _null_id(endpoint: Endpoint, headers: Headers, live: Revision | None) -> bool:
    """Return whether an error without an id has `"id": null` at the request's most likely revision."""  # BASE-7
    revision = (
        live
        or endpoint.by_version.get(headers.text(names.VERSION_KEY))
        or endpoint.assumed
        or endpoint.revisions[-1]
    )
    return revision.null_id_in_errors


def _malformed(endpoint: Endpoint, headers: Headers, live: Revision | None, message: Malformed) -> HttpError:
    read = None if message.shape is Shape.RESPONSE else message.id
    error = RpcError(message.message, code=message.code)
    return HttpError(400, error, read, null_id=_null_id(endpoint, headers, live))


def _not_allowed(endpoint: Endpoint) -> HttpError:
    error = InvalidRequest("Invalid Request: this HTTP method is not served here")
    return HttpError(405, error, headers=((b"allow", endpoint.allow),))


def _no_batch(revision: Revision) -> HttpError:
    error = InvalidRequest("Invalid Request: batches are not part of this revision")
    return HttpError(400, error, null_id=revision.null_id_in_errors)


def _no_session(endpoint: Endpoint, headers: Headers, message: Message | Batch | None) -> HttpError:
    """Return 404 for an unknown session, 400 for a missing session id."""  # HTTP-21, HTTP-22
    if names.SESSION_ID_KEY in headers.repeated:
        return _refuse(endpoint, headers, None, 400, "Mcp-Session-Id is repeated", message)
    if session_id(headers) is not None:
        return _refuse(
            endpoint, headers, None, 404, "no session has this Mcp-Session-Id: initialize again", message
        )
    why = "Mcp-Session-Id is missing: initialize first"
    if endpoint.modern:
        why += f", or state {VERSION} in _meta"
    return _refuse(endpoint, headers, None, 400, why, message)


def _wrong_version(
    endpoint: Endpoint,
    headers: Headers,
    live: Revision,
    message: Message | Batch | None,
    version: str | None,
) -> HttpError | None:
    """Return the error for a version header that differs from the session's, except on `initialize`."""  # NEG-10, AMB-5, NEG-11
    if version is None or version == live.version:
        return None
    if isinstance(message, Request) and message.method == INITIALIZE:
        return None
    why = f"MCP-Protocol-Version is not that of the session, {live.version}"
    return _refuse(endpoint, headers, live, 400, why, message, version)
