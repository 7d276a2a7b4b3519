"""NEG-8 to 11, HTTP-*, HTTPM-1 to 3, BATCH-4, 6, ERR-6, AMB-5 to 7, 15: what a request to the MCP endpoint is."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

from helpers.named import ROW_A, ROW_B, ROW_C, ROW_D, ROW_DRAFT, ROW_E
from helpers.requirements import A, B, C, D, E, req
from mcprev.errors import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcprev.protocol.http_request_class import (
    DeleteSession,
    Endpoint,
    HttpError,
    InitializeRequest,
    OpenStream,
    RequestClass,
    SessionlessRequest,
    SessionRequest,
    StatelessRequest,
    classify,
    status_of,
    wants_answer,
)
from mcprev.revisions import ALL, DEFAULT, Revision
from mcprev.wire import jsonrpc
from mcprev.wire.headers import SESSION_ID_KEY, TASK_NAMES, Headers, request_headers
from mcprev.wire.jsonrpc import Batch
from mcprev.wire.media import BOTH, Accept
from mcprev.wire.meta_keys import VERSION

BY_NAME: Final = {revision.name: revision for revision in ALL}
DRAFT: Final = ROW_DRAFT
DUAL: Final = Endpoint(DEFAULT)
LEGACY: Final = Endpoint(tuple(revision for revision in DEFAULT if revision.handshake))
MODERN: Final = Endpoint((ROW_E,))
LOOSE: Final = Endpoint(DEFAULT, sessions=False)

TYPES: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
FUTURE: Final = "2099-01-01"
SESSION: Final = {"mcp-session-id": "s-1"}


def version(revision: Revision | str) -> dict[str, str]:
    return {"mcp-protocol-version": revision if isinstance(revision, str) else revision.version}


def message(method: str = "tools/list", params: Any = None, id_: Any = 1) -> dict[str, Any]:
    found = {"jsonrpc": "2.0", "id": id_, "method": method}
    return found if params is None else {**found, "params": params}


def notice(method: str = "notifications/initialized", params: Any = None) -> dict[str, Any]:
    found = {"jsonrpc": "2.0", "method": method}
    return found if params is None else {**found, "params": params}


def modern(method: str = "tools/list", meta: Any = None, **params: Any) -> dict[str, Any]:
    stated: Any = {VERSION: E, CAPABILITIES: {}} if meta is None else meta
    return message(method, {**params, "_meta": stated})


INITIALIZE: Final = message("initialize", {"protocolVersion": D, "capabilities": {}, "clientInfo": {}})
ANSWER: Final[dict[str, Any]] = {"jsonrpc": "2.0", "id": "s-7", "result": {}}
FAILURE: Final[dict[str, Any]] = {"jsonrpc": "2.0", "id": "s-7", "error": {"code": -1, "message": "no"}}


def headers(*parts: dict[str, str | None] | dict[str, str]) -> Headers:
    """Headers of a POST, with changes; None takes one away."""
    merged: dict[str, str | None] = dict(TYPES)
    for part in parts:
        merged.update(part)
    return Headers.of(
        [(name.encode(), value.encode("latin-1")) for name, value in merged.items() if value is not None]
    )


def post(endpoint: Endpoint, body: Any, *parts: Any, live: Revision | None = None) -> RequestClass:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(endpoint, "POST", headers(*parts), jsonrpc.parse(data, batch=True), live)


def stated(revision: Revision, body: dict[str, Any]) -> dict[str, str]:
    """The headers that our client sends with a modern body."""
    return {
        name.lower(): value for name, value in request_headers(revision, body["method"], body.get("params"))
    }


def rejected(verdict: RequestClass, status: int, code: int = INVALID_REQUEST) -> dict[str, Any]:
    """The body of a refusal with this status and code."""
    assert isinstance(verdict, HttpError), verdict
    assert (verdict.status, verdict.error.code) == (status, code), verdict
    body: dict[str, Any] = json.loads(verdict.body)
    assert body["jsonrpc"] == "2.0"
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    return body


# -- the stateless era -------------------------------------------------------------------------------------------


@req("NEG-8", "HTTPM-2", at=E)
@pytest.mark.parametrize("endpoint", [DUAL, MODERN, LEGACY, LOOSE, Endpoint((ROW_E, DRAFT))])
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "initialize", "ping", "vendor/x"])
@pytest.mark.parametrize("session", [{}, SESSION, {"last-event-id": "7"}])
def test_a_request_that_states_its_version_is_modern(
    endpoint: Endpoint, method: str, session: dict[str, str]
) -> None:
    """HTTPM-1: neither a session id nor a last event id means anything to it."""
    body = modern(method)
    verdict = post(endpoint, body, stated(ROW_E, body), session, live=ROW_D if session else None)
    assert isinstance(verdict, StatelessRequest)
    assert verdict.accept == BOTH


@req("HTTPM-1")
def test_session_headers_are_ignored() -> None:
    body = modern("tools/call", name="x")
    verdict = post(DUAL, body, stated(ROW_E, body), {"mcp-session-id": "gone", "last-event-id": "1"})
    assert isinstance(verdict, StatelessRequest)


@req("HTTPM-1")
@pytest.mark.parametrize(
    "verb", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "ODD, VERB"]
)
def test_the_modern_endpoint_has_nothing_but_post(verb: str) -> None:
    verdict = classify(MODERN, verb, headers(SESSION), live=ROW_D)
    assert "id" not in rejected(verdict, 405)
    assert isinstance(verdict, HttpError)
    assert verdict.headers == ((b"allow", b"POST"),)


@req("HTTPM-1")
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
def test_nor_has_a_modern_client(verb: str) -> None:
    rejected(classify(DUAL, verb, headers(version(ROW_E), SESSION), live=ROW_D), 405)


@req("HTTPM-3", "AMB-8", "AMB-9")
@pytest.mark.parametrize("endpoint", [DUAL, MODERN])
@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (notice("notifications/cancelled", {"requestId": 1}), version(E)),
        (notice("notifications/vendor", {"_meta": {VERSION: E}}), {}),
        (notice("notifications/vendor", {"_meta": {VERSION: E}}), version(E)),
        (
            notice("notifications/vendor", {"_meta": {VERSION: E, CAPABILITIES: {}}}),
            {"mcp-method": "x", **version(D)},
        ),
    ],
)
def test_modern_notifications_need_no_headers(endpoint: Endpoint, body: Any, sent: dict[str, str]) -> None:
    verdict = post(endpoint, body, sent)
    assert isinstance(verdict, StatelessRequest)
    assert not wants_answer(verdict.message)


@req("HTTPM-2", "BASE-12", at=E)
@pytest.mark.parametrize("body", [ANSWER, FAILURE, [modern()], [], [ANSWER]])
@pytest.mark.parametrize("endpoint", [DUAL, MODERN])
def test_one_request_or_notification_a_post(endpoint: Endpoint, body: Any) -> None:
    refusal = rejected(post(endpoint, body, version(E)), 400)
    assert "id" not in refusal
    assert ("batch" if isinstance(body, list) else "a response is") in refusal["error"]["message"]


@req("ERR-6", "HDR-1", "HDR-3")
@pytest.mark.parametrize("endpoint", [DUAL, MODERN])
@pytest.mark.parametrize(
    "change",
    [
        {"mcp-protocol-version": None}, {"mcp-method": None}, {"mcp-name": None}, version(D), version(FUTURE),
        {"mcp-method": "tools/list"}, {"mcp-method": "TOOLS/CALL"}, {"mcp-name": "other"}, {"mcp-name": "=?base64?!?="},
    ],
)  # fmt: skip
def test_headers_that_do_not_fit_the_body(endpoint: Endpoint, change: dict[str, str | None]) -> None:
    body = modern("tools/call", name="echo")
    assert rejected(post(endpoint, body, stated(ROW_E, body), change), 400, HEADER_MISMATCH)["id"] == 1
    assert isinstance(post(endpoint, body, stated(ROW_E, body)), StatelessRequest)


@req("HDR-3")
@pytest.mark.parametrize(
    ("method", "param"),
    [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri"), ("tasks/get", "taskId"),
     ("tasks/update", "taskId"), ("tasks/cancel", "taskId")],
)  # fmt: skip
def test_every_method_with_a_name_has_it_checked(method: str, param: str) -> None:
    body = modern(method, **{param: "x"})
    assert isinstance(post(DUAL, body, stated(ROW_E, body)), StatelessRequest)
    rejected(post(DUAL, body, stated(ROW_E, body), {"mcp-name": "y"}), 400, HEADER_MISMATCH)
    nameless = post(DUAL, body, stated(ROW_E, body), {"mcp-name": None})
    if method in TASK_NAMES:  # tolerated: a widespread client omits it
        assert isinstance(nameless, StatelessRequest)
    else:
        rejected(nameless, 400, HEADER_MISMATCH)


@req("AMB-6")
@pytest.mark.parametrize(
    "meta",
    [
        {VERSION: E},
        {VERSION: 1, CAPABILITIES: {}},
        {VERSION: None},
        {VERSION: E, CAPABILITIES: []},
    ],
)
def test_what_is_wrong_with_meta_comes_before_the_headers(meta: dict[str, Any]) -> None:
    """The engine says what; here nothing is said of the headers, all of which are missing."""
    assert isinstance(post(DUAL, modern(meta=meta)), StatelessRequest)


@req("AMB-6", "MOD-3", at=E)
@pytest.mark.parametrize(
    "params", [None, {}, {"_meta": {}}, {"_meta": {CAPABILITIES: {}}}, {"_meta": None}, {"_meta": 7}]
)
def test_a_request_with_a_modern_header_and_no_version_in_its_body_is_for_the_engine_to_refuse(
    params: Any,
) -> None:
    assert isinstance(post(DUAL, message("server/discover", params), version(E)), StatelessRequest)
    assert isinstance(post(MODERN, message("server/discover", params)), StatelessRequest)


@req("AMB-6", "MOD-4", at=E)
def test_headers_are_checked_before_the_version_is() -> None:
    body = modern(meta={VERSION: FUTURE, CAPABILITIES: {}})
    rejected(post(DUAL, body, {**stated(ROW_E, body)}), 400, HEADER_MISMATCH)
    assert isinstance(post(DUAL, body, stated(ROW_E, body), version(FUTURE)), StatelessRequest)


@req("HTTP-4", at=E)
@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, BOTH), ("*/*", BOTH), ("application/json", Accept(json=True, sse=False)),
        ("text/event-stream", Accept(json=False, sse=True)), ("text/html", None), ("*/*;q=0", None),
    ],
)  # fmt: skip
def test_a_modern_request_says_what_it_can_read(accept: str | None, expected: Accept | None) -> None:
    body = modern()
    verdict = post(DUAL, body, stated(ROW_E, body), {"accept": accept})
    if expected is None:
        assert rejected(verdict, 406)["id"] == 1
    else:
        assert isinstance(verdict, StatelessRequest)
        assert verdict.accept == expected


# -- opening -----------------------------------------------------------------------------------------------------


@req("NEG-8", "NEG-11", "HTTP-19", at=(B, C, D))
@pytest.mark.parametrize("endpoint", [DUAL, LEGACY])
@pytest.mark.parametrize(
    "sent", [{}, version(D), version(A), version(E), version(FUTURE), {"mcp-protocol-version": "x"}]
)
def test_initialize_opens_a_session_whatever_its_header_says(
    endpoint: Endpoint, sent: dict[str, str]
) -> None:
    assert isinstance(post(endpoint, INITIALIZE, sent), InitializeRequest)


@req("HTTP-22", "HTTP-23", at=(B, C, D))
def test_initialize_with_the_id_of_a_session_that_is_gone_opens_another() -> None:
    assert isinstance(post(DUAL, INITIALIZE, {"mcp-session-id": "gone"}), InitializeRequest)


@req("LIFE-15", "NEG-11", at=(B, C, D))
@pytest.mark.parametrize("sent", [{}, version(C), version(FUTURE)])
def test_initialize_in_a_session_is_for_the_session_to_refuse(sent: dict[str, str]) -> None:
    verdict = post(DUAL, INITIALIZE, SESSION, sent, live=ROW_D)
    assert isinstance(verdict, SessionRequest)
    assert verdict.revision is ROW_D


@req("MOD-15")
@pytest.mark.parametrize("sent", [{}, version(D), version(E), SESSION])
def test_without_sessions_initialize_is_for_the_stateless_engine_to_refuse(sent: dict[str, str]) -> None:
    assert isinstance(post(MODERN, INITIALIZE, sent), StatelessRequest)


@req("HTTP-21", "HTTP-26", "NEG-10")
def test_the_first_request_after_initialize_says_its_session(revision: Revision) -> None:
    body = notice()
    assert isinstance(post(DUAL, body, SESSION, live=revision), SessionRequest)
    rejected(post(DUAL, body), 400)


# -- sessions ----------------------------------------------------------------------------------------------------


@req("NEG-10", "HTTP-25", "HTTP-26", "AMB-5")
@pytest.mark.parametrize("endpoint", [DUAL, LEGACY])
@pytest.mark.parametrize("body", [message(), notice(), ANSWER, FAILURE])
def test_requests_of_a_session(revision: Revision, endpoint: Endpoint, body: Any) -> None:
    """The version header is absent or that of the session; anything else is refused."""
    for sent in ({}, version(revision)):
        verdict = post(endpoint, body, SESSION, sent, live=revision)
        assert isinstance(verdict, SessionRequest), verdict
        assert verdict.revision is revision
        assert wants_answer(verdict.message) is ("method" in body and "id" in body)
    others = [
        other
        for other in (A, B, C, D, FUTURE, "", "x", f"{revision.version}, {revision.version}")
        if other != revision.version
    ]
    for other in others:
        refusal = rejected(post(endpoint, body, SESSION, version(other), live=revision), 400)
        assert refusal.get("id") == (1 if body == message() else None)
        assert revision.version in refusal["error"]["message"]
        assert refusal["error"]["data"]["requested"] == other


@req("HTTP-26", at=(C, D))
def test_two_version_headers_are_none() -> None:
    pairs = [*TYPES.items(), *SESSION.items(), *version(D).items(), *version(D).items()]
    sent = Headers.of([(name.encode(), value.encode()) for name, value in pairs])
    parsed = jsonrpc.parse(json.dumps(message()).encode(), batch=True)
    rejected(classify(DUAL, "POST", sent, parsed, ROW_D), 400)
    rejected(classify(LOOSE, "POST", sent, parsed, None), 404)


@req("HTTP-22", at=(B, C, D))
@pytest.mark.parametrize("endpoint", [DUAL, LEGACY, LOOSE])
@pytest.mark.parametrize("body", [message(), notice(), ANSWER, [message()]])
@pytest.mark.parametrize("sent", [{}, version(D), version(C), version(FUTURE)])
@pytest.mark.parametrize("session", ["gone", "", "\x7f", "s 1"])
def test_a_session_that_is_gone_is_not_found(
    endpoint: Endpoint, body: Any, sent: dict[str, str], session: str
) -> None:
    refusal = rejected(post(endpoint, body, sent, {"mcp-session-id": session}), 404)
    assert refusal.get("id") == (1 if body == message() else None)
    # A client takes 404 for the end of its session unless the body says that the method is unknown.
    assert refusal["error"]["code"] != METHOD_NOT_FOUND


@req("HTTP-21", "AMB-15", at=(B, C, D))
@pytest.mark.parametrize("endpoint", [DUAL, LEGACY])
@pytest.mark.parametrize("body", [message(), notice(), ANSWER, [message()], message("ping")])
@pytest.mark.parametrize("sent", [{}, version(D), version(B), version(FUTURE)])
def test_a_request_without_a_session_is_refused(endpoint: Endpoint, body: Any, sent: dict[str, str]) -> None:
    refusal = rejected(post(endpoint, body, sent), 400)
    assert "initialize first" in refusal["error"]["message"]
    assert (VERSION in refusal["error"]["message"]) is (endpoint is DUAL)


@req("HTTP-21", at=(B, C, D))
def test_two_session_ids_are_none() -> None:
    pairs = [*TYPES.items(), *SESSION.items(), *SESSION.items()]
    sent = Headers.of([(name.encode(), value.encode()) for name, value in pairs])
    rejected(classify(DUAL, "POST", sent, jsonrpc.parse(json.dumps(message()).encode(), batch=True)), 400)


@req("HTTP-20", at=(B, C, D))
def test_the_session_id_is_read_as_it_stands() -> None:
    assert headers({"mcp-session-id": " A-b "}).text(SESSION_ID_KEY) == "A-b"
    assert headers().text(SESSION_ID_KEY) is None


@req("HTTP-4", at=(B, C, D))
@pytest.mark.parametrize(
    ("accept", "good"),
    [
        (TYPES["accept"], True), ("*/*", True), ("application/*, text/*", True), (None, False), ("", False),
        ("application/json", False), ("text/event-stream", False), ("text/html, application/xml", False),
        ("application/json, text/event-stream;q=0", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [message(), notice(), INITIALIZE])
def test_a_client_of_a_session_accepts_both_formats(accept: str | None, good: bool, body: Any) -> None:
    live = ROW_D if body is not INITIALIZE else None
    verdict = post(DUAL, body, SESSION if live else {}, {"accept": accept}, live=live)
    if good:
        assert isinstance(verdict, SessionRequest | InitializeRequest)
    else:
        refusal = rejected(verdict, 406)
        assert refusal.get("id") == body.get("id")
        assert "application/json and text/event-stream" in refusal["error"]["message"]


@req("HTTP-4", "HTTP-7", at=(B, C, D))
def test_where_nothing_is_streamed_json_is_enough() -> None:
    endpoint = Endpoint(DEFAULT, json_only=True)
    assert isinstance(
        post(endpoint, message(), SESSION, {"accept": "application/json"}, live=ROW_D), SessionRequest
    )
    refusal = rejected(post(endpoint, message(), SESSION, {"accept": "text/event-stream"}, live=ROW_D), 406)
    assert refusal["error"]["message"].endswith("accept application/json")


@req("HTTP-7", at=(B, C, D))
@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/json, x"]
)
@pytest.mark.parametrize("endpoint", [DUAL, LEGACY, MODERN])
def test_the_body_has_to_say_that_it_is_json(endpoint: Endpoint, content_type: str | None) -> None:
    sent = {"content-type": content_type}
    assert rejected(post(endpoint, modern(), sent), 415)["id"] == 1
    rejected(post(endpoint, INITIALIZE, sent), 415)
    rejected(post(endpoint, b"a=b&c=d", sent), 415)
    assert rejected(post(endpoint, b'{"jsonrpc":"2.0","id":7,"method":1}', sent), 415)["id"] == 7
    broken = b'{"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":"x"}}'
    assert rejected(post(endpoint, broken, sent), 415).get("id") is None
    assert isinstance(
        post(DUAL, INITIALIZE, {"content-type": "Application/JSON; charset=UTF-8"}), InitializeRequest
    )


# -- arrays ------------------------------------------------------------------------------------------------------


@req("BATCH-4", at=B)
@pytest.mark.parametrize(
    ("body", "answered"),
    [
        ([message(), notice()], True), ([notice(), notice()], False), ([ANSWER, FAILURE], False),
        ([notice(), {"jsonrpc": "2.0"}], True), ([notice(), 1], True), ([{"jsonrpc": "2.0", "id": None, "result": 1}], False),
        ([{"jsonrpc": "2.0", "method": "x", "params": 1}], False),
    ],
)  # fmt: skip
def test_an_array_is_answered_when_a_member_is(body: Any, answered: bool) -> None:
    verdict = post(DUAL, body, SESSION, live=ROW_B)
    assert isinstance(verdict, SessionRequest)
    assert isinstance(verdict.message, Batch)
    assert wants_answer(verdict.message) is answered


@req("BATCH-6")
def test_an_array_is_no_message_of_a_session(revision: Revision) -> None:
    refusal = rejected(post(DUAL, [message()], SESSION, live=revision), 400)
    assert ("id" in refusal) is revision.null_id_in_errors
    assert refusal.get("id") is None


@req("BATCH-6", at=(A, C, D, E))
def test_an_array_is_no_message_before_its_revision_is_known() -> None:
    rejected(post(DUAL, [INITIALIZE]), 400)
    rejected(post(MODERN, [INITIALIZE]), 400)
    rejected(post(LOOSE, [message()], version(D)), 400)
    rejected(post(LOOSE, [message()], version(C)), 400)
    rejected(post(LOOSE, [message()], version(E)), 400)


@req("BATCH-5", at=B)
def test_an_empty_array_is_refused() -> None:
    assert rejected(post(DUAL, [], SESSION, live=ROW_B), 400)["id"] is None


# -- without sessions --------------------------------------------------------------------------------------------


@req("AMB-15", "HTTP-26", "NEG-10")
def test_sessionless_requests_name_their_revision(revision: Revision) -> None:
    for body in (message(), notice()):
        verdict = post(LOOSE, body, version(revision))
        if not revision.handshake:
            assert isinstance(verdict, StatelessRequest)
            continue
        assert isinstance(verdict, SessionlessRequest)
        assert verdict.revision is revision


@req("NEG-10", "HTTP-26", "AMB-15", at=(B, C, D))
@pytest.mark.parametrize("body", [message(), notice(), [message()]])
def test_one_that_does_not_is_of_the_second_revision(body: Any) -> None:
    verdict = post(LOOSE, body)
    assert isinstance(verdict, SessionlessRequest)
    assert verdict.revision is ROW_B
    for others in ((ROW_C, ROW_D), (ROW_A, ROW_D)):
        refusal = rejected(post(Endpoint(others, sessions=False), body), 400)
        assert "without MCP-Protocol-Version" in refusal["error"]["message"]


@req("HTTP-26", "AMB-5", at=(C, D))
@pytest.mark.parametrize("sent", [FUTURE, A, B, C, "x"])
def test_within_a_session_its_own_revision_alone_is_named(sent: str) -> None:
    error = rejected(post(LOOSE, message(), version(sent), live=ROW_D), 400)["error"]
    assert error["data"] == {"supported": [D], "requested": sent}


@req("HTTP-26", "AMB-5", at=(C, D))
@pytest.mark.parametrize("sent", [FUTURE, "", "x", "2025-6-18", f"{D}, {D}"])
def test_a_version_that_is_not_served_is_refused_by_name(sent: str) -> None:
    error = rejected(post(LOOSE, message(), version(sent)), 400)["error"]
    assert "at this MCP-Protocol-Version" in error["message"]
    assert error["data"] == {"supported": [E, D, C, B, A], "requested": sent}
    assert rejected(post(Endpoint((ROW_B, ROW_D), sessions=False), message(), version(C)), 400)


@req("AMB-15", at=(B, C, D))
def test_sessionless_initialize() -> None:
    verdict = post(LOOSE, INITIALIZE)
    assert isinstance(verdict, SessionlessRequest)
    assert verdict.revision is None


@req("HTTP-6", at=(B, C, D))
@pytest.mark.parametrize("body", [ANSWER, FAILURE])
def test_a_response_without_a_session_answers_nothing(body: Any) -> None:
    assert rejected(post(LOOSE, body), 400).get("id") is None


# -- GET and DELETE ----------------------------------------------------------------------------------------------


@req("HTTP-1", "HTTP-10", "HTTP-15", "HTTP-25")
def test_a_session_has_a_stream_and_an_end(revision: Revision) -> None:
    for sent in ({}, version(revision)):
        asked = headers(SESSION, sent, {"accept": "text/event-stream"})
        assert classify(DUAL, "GET", asked, live=revision) == OpenStream(revision, None)
        assert classify(DUAL, "DELETE", asked, live=revision) == DeleteSession(revision)
    again = headers(SESSION, {"last-event-id": "s-4"})
    assert classify(DUAL, "GET", again, live=revision) == OpenStream(revision, "s-4")


@req("HTTP-21", "HTTP-22", at=(B, C, D))
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
@pytest.mark.parametrize(
    ("sent", "live", "status"),
    [
        ({}, None, 400), ({"mcp-session-id": "gone"}, None, 404), ({**SESSION, **version(C)}, ROW_D, 400),
        ({**SESSION, **version(FUTURE)}, ROW_D, 400),
    ],
)  # fmt: skip
def test_streams_and_ends_of_no_session(
    verb: str, sent: dict[str, str], live: Revision | None, status: int
) -> None:
    rejected(classify(DUAL, verb, headers(sent), live=live), status)


@req("HTTP-4", "HTTP-10", at=(B, C, D))
@pytest.mark.parametrize("accept", [None, "application/json", "text/event-stream;q=0"])
def test_a_stream_has_to_be_accepted(accept: str | None) -> None:
    rejected(classify(DUAL, "GET", headers(SESSION, {"accept": accept}), live=ROW_D), 406)
    assert isinstance(
        classify(DUAL, "DELETE", headers(SESSION, {"accept": accept}), live=ROW_D), DeleteSession
    )


@req("AMB-3", "HTTP-24", at=(B, C, D))
@pytest.mark.parametrize(
    ("endpoint", "allow"),
    [
        (DUAL, b"POST, GET, DELETE"), (LEGACY, b"POST, GET, DELETE"), (MODERN, b"POST"), (LOOSE, b"POST"),
        (Endpoint(DEFAULT, get_stream=False), b"POST, DELETE"), (Endpoint((ROW_E,), sessions=False), b"POST"),
    ],
)  # fmt: skip
def test_what_an_endpoint_does_not_offer_is_405_with_what_it_does(endpoint: Endpoint, allow: bytes) -> None:
    for verb in ("GET", "DELETE", "PUT", "HEAD", "OPTIONS", "GET, DELETE"):
        verdict = classify(endpoint, verb, headers(SESSION), live=ROW_D)
        if verb.encode() in allow.split(b", "):
            assert isinstance(verdict, OpenStream | DeleteSession)
        else:
            rejected(verdict, 405)
            assert isinstance(verdict, HttpError)
            assert verdict.headers == ((b"allow", allow),)


# -- bodies that are no messages ---------------------------------------------------------------------------------


@req("BASE-7", "BASE-10", "ERR-6")
@pytest.mark.parametrize(
    ("body", "code", "id_"),
    [
        (b"{", PARSE_ERROR, None), (b"", PARSE_ERROR, None), (b"\xff", PARSE_ERROR, None), (b"1", INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None), (b'{"jsonrpc":"2.0","id":7}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":"7","method":1}', INVALID_REQUEST, "7"),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":[]}', INVALID_PARAMS, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","method":"x","params":1}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":"x"}}', INVALID_REQUEST, None),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_in_the_words_of_its_revision(
    revision: Revision, body: bytes, code: int, id_: Any
) -> None:
    for verdict in (
        post(Endpoint((revision,)), body),
        post(DUAL, body, version(revision)),
        post(
            DUAL,
            body,
            SESSION,
            {} if revision.handshake else version(revision),
            live=revision if revision.handshake else None,
        ),
    ):
        refusal = rejected(verdict, 400, code)
        assert ("id" in refusal) is (id_ is not None or revision.null_id_in_errors)
        assert refusal.get("id") == id_


@req("BASE-7", at=(A, B, C, D, E))
def test_who_says_nothing_of_a_revision_is_answered_as_the_revision_that_had_no_header() -> None:
    assert rejected(post(DUAL, b"{"), 400, PARSE_ERROR)["id"] is None
    assert "id" not in rejected(post(MODERN, b"{"), 400, PARSE_ERROR)
    assert "id" not in rejected(post(Endpoint((ROW_D, ROW_E)), b"{"), 400, PARSE_ERROR)


@req("BASE-5", "ERR-6", everywhere=True)
@pytest.mark.parametrize("id_", [1, "1", 1.0, 2**70, "é"])
def test_a_refusal_has_the_id_as_it_came(id_: Any) -> None:
    (refusal,) = [rejected(post(DUAL, message(id_=id_)), 400)]
    assert (refusal["id"], type(refusal["id"])) == (id_, type(id_))


# -- statuses ----------------------------------------------------------------------------------------------------


@req("ERR-6", "AMB-7")
@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        (METHOD_NOT_FOUND, 404, 200), (INVALID_PARAMS, 400, 200), (HEADER_MISMATCH, 400, 400),
        (MISSING_CLIENT_CAPABILITY, 400, 400), (UNSUPPORTED_PROTOCOL_VERSION, 400, 400), (INVALID_REQUEST, 400, 200),
        (PARSE_ERROR, 400, 200), (INTERNAL_ERROR, 200, 200), (RESOURCE_NOT_FOUND, 200, 200), (-32800, 200, 200), (7, 200, 200),
    ],
)  # fmt: skip
def test_statuses_of_errors(code: int, before: int, after: int) -> None:
    assert status_of(code, pre_dispatch=True) == before
    assert status_of(code, pre_dispatch=False) == after


# -- everything at once ------------------------------------------------------------------------------------------

maybe = st.none() | st.sampled_from([A, B, C, D, E, FUTURE, ""])
body_budget: st.SearchStrategy[Any] = st.sampled_from(
    [
        modern(),
        modern("tools/call", name="x"),
        modern(meta={}),
        INITIALIZE,
        message(),
        notice(),
        ANSWER,
        [message()],
        [],
        7,
    ]
)


@st.composite
def endpoints(draw: st.DrawFn) -> Endpoint:
    rows = draw(st.lists(st.sampled_from(ALL), min_size=1, unique=True))
    return Endpoint(
        tuple(sorted(rows, key=ALL.index)),
        sessions=draw(st.booleans()),
        get_stream=draw(st.booleans()),
        json_only=draw(st.booleans()),
    )


@req("NEG-8", "NEG-10", "HTTP-22", everywhere=True)
@given(
    endpoints(), st.sampled_from(["POST", "GET", "DELETE", "PUT"]), body_budget, maybe, maybe, st.booleans(), st.booleans(),
    st.data(),
)  # fmt: skip
def test_whatever_comes_has_one_verdict_that_fits_what_is_served(
    endpoint: Endpoint,
    verb: str,
    body: Any,
    sent: str | None,
    session: str | None,
    alive: bool,
    typed: bool,
    data: st.DataObject,
) -> None:
    live = data.draw(st.sampled_from(endpoint.legacy)) if alive and session and endpoint.legacy else None
    asked = headers(
        {
            "mcp-protocol-version": sent,
            "mcp-session-id": session,
            "content-type": "application/json" if typed else None,
        }
    )
    parsed = jsonrpc.parse(json.dumps(body).encode(), batch=True) if verb == "POST" else None
    verdict = classify(endpoint, verb, asked, parsed, live)
    match verdict:
        case HttpError(status=status):
            assert 400 <= status < 500
            assert json.loads(verdict.body)["error"]["message"]
        case InitializeRequest():
            assert endpoint.legacy
            assert endpoint.sessions
        case (
            SessionRequest(revision=revision)
            | OpenStream(revision=revision)
            | DeleteSession(revision=revision)
        ):
            assert revision is live
        case SessionlessRequest(revision=revision):
            assert revision is None or revision in endpoint.legacy
            assert not endpoint.sessions
        case StatelessRequest():
            assert verb == "POST"
    if (
        live is None
        and session is not None
        and not isinstance(verdict, StatelessRequest | InitializeRequest | SessionlessRequest)
    ):
        assert isinstance(verdict, HttpError)
