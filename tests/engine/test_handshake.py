"""The handshake engine, both roles: every state and event, and the rules of a session."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, Final, cast

import pytest

from engine.fakes import (
    HANDSHAKE,
    LOGGED,
    FakeClient,
    FakeServer,
    Wire,
    check_timeout,
    initialize,
    notification,
    open_client,
    open_server,
    request,
    result,
)
from helpers.requirements import A, B, C, D, req
from mcprev.errors import ConnectionLost, LocalProtocolError, RemoteProtocolError, RpcError
from mcprev.protocol.connection_state import (
    CallCompleted,
    CallFailed,
    CallNotification,
    IncomingRequest,
    NotificationReceived,
    RequestCancelled,
    SessionOpened,
)
from mcprev.protocol.endpoint import ClientProtocol, ServerProtocol
from mcprev.protocol.handshake import HandshakeClient, HandshakeServer, State
from mcprev.protocol.subscriptions import MAX_RESOURCES, MAX_URI, Changed
from mcprev.revisions import DEFAULT, LATEST, Revision

CLOSED: Final = "closed"
"""After the loss of the connection, in whatever state the session was."""
STATES: Final = (*State, CLOSED)
each_session = pytest.mark.parametrize("row", HANDSHAKE, ids=lambda row: row.name)
REQUESTS: dict[str, Any] = {
    "initialize": {"protocolVersion": HANDSHAKE[0].version, "capabilities": {}, "clientInfo": {}},
    "ping": None,
    "tools/call": {"name": "x"},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "a:b"},
    "resources/unsubscribe": {"uri": "a:b"},
    "no/such": None,
    "prompts/list": None,
}
NOTIFICATIONS: dict[str, Any] = {
    "notifications/initialized": None,
    "notifications/cancelled": {"requestId": 9},
    "notifications/progress": {"progressToken": 9, "progress": 1},
    "notifications/roots/list_changed": None,
    "notifications/no_such": None,
}


def code(message: dict[str, Any]) -> int | None:
    return cast("int | None", message.get("error", {}).get("code"))


def in_state(state: object, row: Revision) -> tuple[ServerProtocol, Wire]:
    side = ServerProtocol(FakeServer())
    wire = Wire(side)
    if state is not State.NEW:
        wire.get(initialize(row))
    if state is State.READY:
        wire.get(notification("notifications/initialized"))
    if state is CLOSED:
        side.lost(ConnectionLost("gone", in_flight=False, retry_safe=True))
    wire.events()
    assert side.connection.closed is (state is CLOSED)
    assert side.session.state is (State.OPENING if state is CLOSED else state)
    return side, wire


SERVED: dict[str, Any] = {
    "initialize": -32600, "ping": {}, "tools/call": "event", "logging/setLevel": {}, "resources/subscribe": {},
    "resources/unsubscribe": {}, "no/such": -32601, "prompts/list": -32601,
}  # fmt: skip
ANSWERS: dict[object, dict[str, Any]] = {
    State.NEW: {
        "initialize": "opened", "ping": {}, "tools/call": -32600, "logging/setLevel": -32600,
        "resources/subscribe": -32600, "resources/unsubscribe": -32600, "no/such": -32601, "prompts/list": -32601,
    },
    State.OPENING: SERVED,
    State.READY: SERVED,
    CLOSED: dict.fromkeys(REQUESTS),
}  # fmt: skip


@req("LIFE-8", "LIFE-15", "PING-1", "BASE-9")
@pytest.mark.parametrize("method", REQUESTS)
@pytest.mark.parametrize("state", STATES)
@each_session
def test_server_state_by_request(row: Revision, state: object, method: str) -> None:
    """LIFE-8, LIFE-15, PING-1, BASE-9: what each state makes of each request."""
    _, wire = in_state(state, row)
    sent = wire.get(request(method, REQUESTS[method], 7))
    wanted = ANSWERS[state][method]
    events = [event for event in wire.events() if not isinstance(event, LOGGED)]
    if wanted is None:
        assert (sent, events) == ([], [])
    elif wanted == "event":
        assert sent == []
        assert [type(event) for event in events] == [IncomingRequest]
    elif wanted == "opened":
        assert sent[0]["result"]["protocolVersion"] == HANDSHAKE[0].version
        assert [type(event) for event in events] == [SessionOpened]
    else:
        assert events == []
        assert [message["id"] for message in sent] == [7]
        assert code(sent[0]) == wanted if isinstance(wanted, int) else sent[0]["result"] == wanted


@req("BASE-8", "BASE-9")
@pytest.mark.parametrize("method", NOTIFICATIONS)
@pytest.mark.parametrize("state", STATES)
@each_session
def test_server_state_by_notification(row: Revision, state: object, method: str) -> None:
    """BASE-8, BASE-9: no notification is ever answered, in no state."""
    side, wire = in_state(state, row)
    before = side.session.state
    assert wire.get(notification(method, NOTIFICATIONS[method])) == []
    heard = any(isinstance(event, NotificationReceived) for event in wire.events())
    assert heard is (method.endswith("roots/list_changed") and state in (State.OPENING, State.READY))
    confirmed = state is State.OPENING and method == "notifications/initialized"
    assert side.session.state is (State.READY if confirmed else before)


CLIENT_ANSWERS: dict[object, dict[str, Any]] = {
    State.NEW: {"ping": {}, "sampling/createMessage": -32600, "no/such": -32601},
    State.OPENING: {"ping": {}, "sampling/createMessage": -32600, "no/such": -32601},
    State.READY: {"ping": {}, "sampling/createMessage": "event", "no/such": -32601},
    CLOSED: {"sampling/createMessage": None, "no/such": None},
}


@req("LIFE-8", at=(A, B, C, D))
def test_clients_do_not_tell_servers_to_initialize() -> None:
    """LIFE-8: only a client can initialize, so its refusal of an early request does not ask the server to."""
    (refusal,) = Wire(ClientProtocol(FakeClient())).get(request("sampling/createMessage", {}, 7))
    message = refusal["error"]["message"]
    assert "the session was open" in message
    assert "initialize" not in message


@req("PING-1", "BASE-9", "LIFE-8")
@pytest.mark.parametrize(
    ("state", "method"), [(state, method) for state in STATES for method in CLIENT_ANSWERS[state]]
)
@each_session
def test_client_state_by_request(row: Revision, state: object, method: str) -> None:
    """PING-1, BASE-9: what each state of a client makes of each request."""
    side = ClientProtocol(FakeClient())
    wire = Wire(side)
    if state is not State.NEW:
        side.session.initialize(row, 0, timeout=None)
    if state is State.READY:
        side.session.opened(row, {})
    if state is CLOSED:
        side.lost(ConnectionLost("gone", in_flight=False, retry_safe=True))
    wire.sent()
    wire.events()
    sent = wire.get(request(method, {}, 7))
    wanted = CLIENT_ANSWERS[state][method]
    if wanted in ("event", None):
        assert sent == []
    else:
        assert code(sent[0]) == wanted if isinstance(wanted, int) else sent[0]["result"] == wanted
    assert any(isinstance(event, IncomingRequest) for event in wire.events()) is (wanted == "event")
    for method_, params in NOTIFICATIONS.items():
        assert wire.get(notification(method_, params)) == []


@req("LIFE-3", "NEG-8")
@each_session
def test_server_answers_the_version_that_is_asked_for_life_3(row: Revision) -> None:
    side, wire = open_server(row)
    assert side.session.revision is row
    assert side.session.state is State.READY
    assert wire.sent() == []


@req("LIFE-3", "AMB-2")
@each_session
@pytest.mark.parametrize("asked", ["1999-01-01", LATEST.version, "2099-12-31"])
def test_server_offers_its_latest_session_revision_amb_2(row: Revision, asked: str) -> None:
    upto = [found.name for found in HANDSHAKE[: HANDSHAKE.index(row) + 1]]
    wire = Wire(ServerProtocol(FakeServer(*upto, LATEST.name)))
    params: dict[str, Any] = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {}}
    (answer,) = wire.get(request("initialize", params))
    assert answer["result"]["protocolVersion"] == row.version


@req("MOD-15")
def test_server_without_sessions_names_its_versions_mod_15() -> None:
    wire = Wire(ServerProtocol(FakeServer(LATEST.name)))
    error = wire.get(initialize(HANDSHAKE[-1]))[0]["error"]
    assert LATEST.version in error["message"]
    assert error["data"]["supported"] == [LATEST.version]


@req("LIFE-8")
@each_session
def test_early_request_says_initialize_first_life_8(row: Revision) -> None:
    wire = Wire(ServerProtocol(FakeServer(row.name)))
    sent = wire.get(request("tools/call", {}))
    assert (code(sent[0]), "initialize first" in sent[0]["error"]["message"]) == (-32600, True)


@req("LIFE-8")
@each_session
def test_request_between_answer_and_confirmation_is_served_life_8(row: Revision) -> None:
    wire = Wire(ServerProtocol(FakeServer()))
    wire.get(initialize(row))
    wire.get(request("tools/call", {"name": "x"}))
    assert any(isinstance(event, IncomingRequest) for event in wire.events())


def served(wire: Wire, *messages: object) -> IncomingRequest:
    wire.get(*messages)
    return next(event for event in wire.events() if isinstance(event, IncomingRequest))


@req("BASE-5")
@each_session
@pytest.mark.parametrize("id_", [1, 0, -5, "1", "x", 2**70])
def test_answer_has_the_id_as_it_came_base_5(row: Revision, id_: object) -> None:
    _side, wire = open_server(row)
    incoming = served(wire, request("tools/call", {"name": "x"}, id_))
    incoming.respond({"content": []})
    sent = wire.sent()
    assert (sent, type(sent[0]["id"])) == ([result(id_, {"content": []})], type(id_))


@req("CANC-1", "CANC-2", "CANC-6", "PROG-2")
@each_session
def test_cancelled_request_is_not_answered_canc_2(row: Revision) -> None:
    side, wire = open_server(row)
    incoming = served(wire, request("tools/call", {"name": "x", "_meta": {"progressToken": "t"}}, 3))
    assert wire.get(notification("notifications/cancelled", {"requestId": 3, "reason": "why"})) == []
    assert wire.events() == [RequestCancelled(incoming, "why")]
    incoming.respond({})
    incoming.fail(RpcError("x"))
    assert side.session.progress(incoming, {"progress": 1}) is False
    assert wire.sent() == []


@req("PROG-2", "LOG-2", "SUB-1")
@each_session
def test_nothing_is_kept_to_be_sent_after_the_connection_was_lost(row: Revision) -> None:
    """A task runs on without its connection: what it reports goes nowhere, and does not pile up either."""
    side, wire = open_server(row)
    wire.get(request("resources/subscribe", {"uri": "a:b"}, 2))
    incoming = served(wire, request("tools/call", {"name": "x", "_meta": {"progressToken": "t"}}, 3))
    incoming.reports_progress = True
    side.lost(ConnectionLost("gone", in_flight=False, retry_safe=True))
    side.session.progress(incoming, {"progress": 1})
    side.session.send_notification("notifications/message", {"level": "error", "data": 1})
    side.changed(Changed.RESOURCE, "a:b")
    assert wire.sent() == []


@req("CANC-1", "CANC-3")
@each_session
@pytest.mark.parametrize(
    "params", [None, {}, {"requestId": 99}, {"requestId": None}, {"requestId": True}, {"requestId": []}]
)
def test_cancel_of_nothing_has_no_effect_canc_3(row: Revision, params: object) -> None:
    _, wire = open_server(row)
    incoming = served(wire, request("tools/call", {"name": "x"}, 1))
    assert wire.get(notification("notifications/cancelled", params)) == []
    assert incoming.open
    assert not any(isinstance(event, RequestCancelled) for event in wire.events())


@req("BASE-3")
@each_session
def test_id_in_progress_is_refused_base_3(row: Revision) -> None:
    _side, wire = open_server(row)
    incoming = served(wire, request("tools/call", {"name": "x"}, 1))
    assert code(wire.get(request("tools/call", {"name": "y"}, 1))[0]) == -32600
    incoming.respond({})
    assert wire.sent() == [result(1, {})]


@req("PROG-2")
@each_session
def test_progress_increases_and_stops_prog_2(row: Revision) -> None:
    side, wire = open_server(row)
    incoming = served(wire, request("tools/call", {"name": "x", "_meta": {"progressToken": "t"}}))
    values = [1, 1, 0.5, float("nan"), 2.5, 2.5, 3]
    assert [side.session.progress(incoming, {"progress": value}) for value in values] == [
        True, False, False, False, True, False, True,
    ]  # fmt: skip
    assert [message["params"] for message in wire.sent()] == [
        {"progressToken": "t", "progress": value} for value in (1, 2.5, 3)
    ]
    incoming.respond({})
    assert side.session.progress(incoming, {"progress": 4}) is False
    assert len(wire.sent()) == 1


@req("PROG-1")
@each_session
def test_progress_needs_a_token_prog_1(row: Revision) -> None:
    side, wire = open_server(row)
    metas: list[Any] = [{}, {"progressToken": True}, {"progressToken": None}, {"progressToken": {}}]
    for meta in metas:
        incoming = served(wire, request("tools/call", {"name": "x", "_meta": meta}))
        assert side.session.progress(incoming, {"progress": 1}) is False
        incoming.respond({})


@req("LOG-2")
@each_session
def test_log_level_is_of_the_session_log_2(row: Revision) -> None:
    side, wire = open_server(row)
    session = side.session
    assert [session.allows_log(None, level) for level in ("info", "warning")] == [False, True]
    assert wire.get(request("logging/setLevel", {"level": "debug"})) == [result(1, {})]
    assert session.allows_log(None, "debug")
    for params in ({"level": "loud"}, {}, None, {"level": 3}):
        assert code(wire.get(request("logging/setLevel", params))[0]) == -32602
    assert session.allows_log(None, "debug")


@req("SUB-1")
@each_session
def test_changes_go_to_those_who_subscribed_sub_1(row: Revision) -> None:
    side, wire = open_server(row)
    side.changed(Changed.RESOURCE, "a:1")
    assert wire.sent() == []
    wire.get(request("resources/subscribe", {"uri": "a:1"}))
    side.changed(Changed.RESOURCE, "a:1")
    side.changed(Changed.RESOURCE, "a:2")
    assert wire.sent() == [notification("notifications/resources/updated", {"uri": "a:1"})]
    wire.get(request("resources/unsubscribe", {"uri": "a:1"}))
    side.changed(Changed.RESOURCE, "a:1")
    side.changed(Changed.PROMPTS, None)
    side.changed(Changed.TOOLS, None)
    assert wire.sent() == [notification("notifications/tools/list_changed")]
    assert code(wire.get(request("resources/subscribe", {"uri": 3}))[0]) == -32602


@req("SUB-1", "SEC-6")
@each_session
def test_a_session_subscribes_to_so_many_resources_and_no_more(row: Revision) -> None:
    side, wire = open_server(row)
    for number in range(MAX_RESOURCES):
        assert "result" in wire.get(request("resources/subscribe", {"uri": f"a:{number}"}))[0]
    for _ in range(3):
        assert code(wire.get(request("resources/subscribe", {"uri": "a:new"}))[0]) == -32600
    assert "result" in wire.get(request("resources/subscribe", {"uri": "a:1"}))[0]
    assert "result" in wire.get(request("resources/unsubscribe", {"uri": "a:2"}))[0]
    assert "result" in wire.get(request("resources/subscribe", {"uri": "a:new"}))[0]
    assert len(side.session.subscribed) == MAX_RESOURCES
    for method in ("resources/subscribe", "resources/unsubscribe"):
        for uri in ("a:" + "x" * MAX_URI, ["a:1"], None):
            assert code(wire.get(request(method, {"uri": uri}))[0]) == -32602


@req("LIFE-7")
def test_no_changes_before_confirmation_life_7(row: Revision) -> None:
    side = ServerProtocol(FakeServer())
    wire = Wire(side)
    wire.get(initialize(row))
    side.changed(Changed.TOOLS, None)
    assert wire.sent() == []
    wire.get(notification("notifications/initialized"))
    side.changed(Changed.TOOLS, None)
    assert wire.sent() == [notification("notifications/tools/list_changed")]


@req("BATCH-1", "BATCH-2", "BATCH-3", "BATCH-5", "BATCH-6", "BATCH-7")
@each_session
def test_batch_of_requests_batch_1(row: Revision) -> None:
    """BATCH-1, BATCH-3, BATCH-5, BATCH-6, BATCH-7."""
    _side, wire = open_server(row)
    batch: list[Any] = [
        request("ping", None, 1), request("tools/call", {"name": "a"}, 2), request("tools/call", {"name": "b"}, 3),
        notification("notifications/roots/list_changed"), 5, initialize(row, 6),
    ]  # fmt: skip
    sent = wire.get(batch)
    if not row.accepts_batch:
        assert code(sent[0]) == -32600
        return
    assert sent == []
    first, second = [event for event in wire.events() if isinstance(event, IncomingRequest)]
    second.respond({"n": 2})
    (answers,) = wire.get(notification("notifications/cancelled", {"requestId": first.id}))
    assert sorted((str(a["id"]), code(a)) for a in answers) == [
        ("1", None), ("3", None), ("6", -32600), ("None", -32600),
    ]  # fmt: skip
    assert code(wire.get([])[0]) == -32600
    assert wire.get([notification("notifications/roots/list_changed")]) == []


@req("AMB-16")
def test_batch_before_the_session_is_refused_amb_16() -> None:
    wire = Wire(ServerProtocol(FakeServer(HANDSHAKE[1].name)))
    assert code(wire.get([request("ping")])[0]) == -32600


@req("BASE-2", "BASE-7", "BASE-10")
@each_session
def test_malformed_input_base_10(row: Revision) -> None:
    """BASE-7, BASE-10: each has its code, and the session goes on."""
    side, wire = open_server(row)
    for data, wanted in (
        (b"{", -32700),
        (b"5", -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', -32600),
    ):
        (answer,) = wire.get(data)
        assert code(answer) == wanted
        assert ("id" in answer) is row.null_id_in_errors
        assert answer.get("id") is None
    assert wire.get(request("ping")) == [result(1, {})]
    assert side.session.state is State.READY


# -- calls of our own ------------------------------------------------------------------------------------


@req("LIFE-9", "LIFE-10")
@each_session
def test_server_asks_only_for_what_was_declared_life_10(row: Revision) -> None:
    side, wire = open_server(row, sampling={})
    call = side.session.call("sampling/createMessage", {"messages": []}, 0, idle=None, total=None)
    assert wire.sent()[0]["id"] == call.id
    for method in ("roots/list", "elicitation/create", "tools/call/x"):
        with pytest.raises(LocalProtocolError):
            side.session.call(method, {}, 0, idle=None, total=None)
    assert wire.sent() == []


@req("LIFE-7", everywhere=True)
def test_server_asks_nothing_before_the_session() -> None:
    side = ServerProtocol(FakeServer())
    with pytest.raises(LocalProtocolError):
        side.session.call("roots/list", {}, 0, idle=None, total=None)


@req("LIFE-9", "LIFE-10")
@each_session
def test_client_asks_only_for_what_was_declared_life_10(row: Revision) -> None:
    side, wire = open_client(row)
    for method in ("prompts/list", "server/discover", "notifications/cancelled"):
        with pytest.raises(LocalProtocolError):
            side.session.call(method, {}, 0, idle=None, total=None)
    assert wire.sent() == []
    side.session.call("tools/list", {}, 0, idle=None, total=None)
    assert len(wire.sent()) == 1


@req("LIFE-6")
def test_client_sends_nothing_before_the_answer_life_6(row: Revision) -> None:
    side = ClientProtocol(FakeClient())
    wire = Wire(side)
    side.session.initialize(row, 0, timeout=1)
    wire.sent()
    with pytest.raises(LocalProtocolError):
        side.session.call("tools/list", {}, 0, idle=None, total=None)
    side.session.call("ping", None, 0, idle=None, total=None)
    assert [message["method"] for message in wire.sent()] == ["ping"]


@req("LIFE-1", "LIFE-5")
@each_session
def test_client_opens_and_confirms_life_1_life_5(row: Revision) -> None:
    side = ClientProtocol(FakeClient())
    wire = Wire(side)
    call = side.session.initialize(row, 0, timeout=1)
    assert wire.sent()[0]["params"]["protocolVersion"] == row.version
    wire.get(result(call.id, {"protocolVersion": row.version}))
    assert isinstance(wire.events()[0], CallCompleted)
    side.session.opened(row, {})
    assert wire.sent() == [notification("notifications/initialized")]
    assert side.revision is row


@req("BASE-5", "BASE-16", "CANC-3")
@each_session
@pytest.mark.parametrize("spelled", [int, str, float], ids=["same", "text", "float"])
def test_client_correlates_base_5(row: Revision, spelled: Any) -> None:
    side, wire = open_client(row)
    call = side.session.call("tools/list", {}, 0, idle=None, total=None)
    wire.get(result(spelled(call.id), {"tools": []}))
    assert [event for event in wire.events() if not isinstance(event, LOGGED)] == [
        CallCompleted(call, {"tools": []})
    ]
    wire.get(result(call.id, {"tools": []}))
    assert isinstance(wire.events()[0], LOGGED)


@req("BASE-6")
@each_session
def test_error_and_broken_answers_fail_the_call(row: Revision) -> None:
    side, wire = open_client(row)
    answers: list[Any] = [
        ({"error": {"code": -32601, "message": "no"}}, RpcError),
        ({"result": []}, RemoteProtocolError),
        ({"error": {"code": "x", "message": 3}}, RemoteProtocolError),
    ]
    for answer, kind in answers:
        call = side.session.call("tools/list", {}, 0, idle=None, total=None)
        wire.get({"jsonrpc": "2.0", "id": call.id, **answer})
        failed = [event for event in wire.events() if isinstance(event, CallFailed)]
        assert [type(event.error) is kind or isinstance(event.error, kind) for event in failed] == [True]
    assert not side.waiting


@req("LIFE-18", "TIME-1", "PROG-1")
@each_session
def test_timeouts_and_progress_life_18(row: Revision) -> None:
    """LIFE-18, TIME-1: progress sets the idle clock back, nothing moves the total."""
    side, wire = open_client(row)
    call = side.session.call("tools/call", {"name": "x"}, 0, idle=10, total=25, progress=True)
    assert wire.sent()[0]["params"]["_meta"]["progressToken"] == call.id
    for now in (8, 16, 24):
        wire.now = now
        side.tick(now)
        wire.get(notification("notifications/progress", {"progressToken": call.id, "progress": now}))
        (event,) = wire.events()
        assert isinstance(event, CallNotification)
        assert (event.call, event.method) == (call, "notifications/progress")
    side.tick(25)
    check_timeout(wire.events(), call, "total", 25)
    assert wire.sent()[0]["params"]["requestId"] == call.id
    idle = side.session.call("tools/call", {"name": "x"}, 30, idle=10, total=25)
    assert side.connection.calls.earliest <= 40
    side.tick(39.9)
    assert wire.events() == []
    side.tick(40)
    check_timeout(wire.events(), idle, "idle", 10)
    assert side.connection.calls.earliest == float("inf")


@req("LIFE-17")
def test_initialize_is_never_cancelled_life_17(row: Revision) -> None:
    side = ClientProtocol(FakeClient())
    wire = Wire(side)
    call = side.session.initialize(row, 0, timeout=5)
    wire.sent()
    side.tick(5)
    check_timeout(wire.events(), call, "total", 5)
    again = side.session.initialize(row, 6, timeout=5)
    wire.sent()
    side.session.cancel(again, "because")
    assert wire.sent() == []


@req("CANC-1", "CANC-7", "CANC-3")
@each_session
def test_cancel_by_caller_canc_7(row: Revision) -> None:
    side, wire = open_client(row)
    call = side.session.call("tools/call", {"name": "x"}, 0, idle=None, total=None)
    wire.sent()
    side.session.cancel(call, "enough")
    side.session.cancel(call, "twice")
    assert wire.sent() == [
        notification("notifications/cancelled", {"requestId": call.id, "reason": "enough"})
    ]
    wire.get(result(call.id, {}))
    assert isinstance(wire.events()[0], LOGGED)


@req("LIFE-16")
@each_session
def test_lost_connection_fails_every_call(row: Revision) -> None:
    side, wire = open_client(row)
    calls = [side.session.call("tools/list", {}, 0, idle=None, total=None) for _ in range(3)]
    wire.get(request("sampling/createMessage", {}, 8))
    (incoming,) = wire.events()
    error = ConnectionLost("gone", in_flight=True, retry_safe=False)
    side.lost(error)
    events = wire.events()
    assert {event.call.id for event in events if isinstance(event, CallFailed)} == {call.id for call in calls}
    assert any(isinstance(event, RequestCancelled) and event.request is incoming for event in events)
    with pytest.raises(LocalProtocolError):
        side.session.call("tools/list", {}, 0, idle=None, total=None)


@req("SEAM-6", everywhere=True)
def test_tables_are_complete() -> None:
    """Every state has an answer to everything, in both roles."""
    from mcprev.protocol import handshake as engine

    for role in (HandshakeServer, HandshakeClient):
        table = role.request_actions
        assert set(table) == set(State)
        for row in table.values():
            assert set(row) == set(table[State.READY])
        # A state that is missing ignores every notification, and the handler takes what a state does not name.
        assert {State.READY} <= set(role.notification_actions) <= {State.OPENING, State.READY}
        for actions in role.notification_actions.values():
            assert set(actions) == {
                f"notifications/{name}" for name in ("initialized", "cancelled", "progress")
            }
    assert issubclass(HandshakeServer, engine.Handshake)
    assert issubclass(HandshakeClient, engine.Handshake)
    assert tuple(row for row in DEFAULT if row.handshake) == HANDSHAKE
