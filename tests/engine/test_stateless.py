"""The stateless engine, both roles: the ladder of checks, listen streams, what clients stamp and accept."""

from __future__ import annotations

from typing import Any, cast

import pytest

from engine.fakes import (
    HANDSHAKE,
    INFO,
    LOGGED,
    FakeClient,
    FakeServer,
    Wire,
    check_timeout,
    initialize,
    modern,
    notification,
    open_client,
    request,
    result,
)
from helpers.requirements import A, E, req
from mcprev.errors import ConnectionLost, LocalProtocolError, RemoteProtocolError
from mcprev.protocol.connection_state import (
    CallCompleted,
    CallFailed,
    CallNotification,
    IncomingRequest,
    RequestCancelled,
)
from mcprev.protocol.endpoint import ClientProtocol, ServerProtocol
from mcprev.protocol.stateless import MAX_ENDED, uncovered
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    CHANGES,
    MAX_RESOURCES,
    MAX_URI,
    Changed,
    accepted_filter,
    wants,
)
from mcprev.revisions import LATEST
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO, SUBSCRIPTION_ID, VERSION

INFO_KEY = "clientInfo"


def server(*names: str, **needs: Any) -> tuple[ServerProtocol, Wire]:
    side = ServerProtocol(FakeServer(*names, needs=needs))
    return side, Wire(side)


def code(message: dict[str, Any]) -> int | None:
    return cast("int | None", message.get("error", {}).get("code"))


@req("AMB-6", "MOD-3", "MOD-4", "MOD-6", "MOD-14", "BASE-9", "NEG-8", at=E)
@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (modern("tools/call", clientCapabilities=None, protocolVersion="x"), -32602),
        (modern("tools/call", protocolVersion=7), -32602),
        (modern("tools/call", clientCapabilities=[]), -32602),
        (modern("tools/call", clientInfo={"name": "x"}), -32602),
        (modern("tools/call", logLevel="loud"), -32602),
        (modern("no/such", protocolVersion="2099-01-01"), -32022),
        (modern("tools/call", protocolVersion=HANDSHAKE[0].version), -32022),
        (modern("tools/call"), -32021),
        (modern("no/such"), -32601),
        (modern("ping"), -32601),
        (modern("initialize"), -32601),
        (modern("logging/setLevel"), -32601),
        (modern("resources/subscribe"), -32601),
        (modern("subscriptions/listen"), -32602),
    ],
    ids=[
        "shape-before-version", "version-no-string", "capabilities-no-object", "info", "log-level",
        "version-before-method", "version-of-a-session", "capability-before-params", "method", "ping",
        "initialize", "setLevel", "subscribe", "params",
    ],
)  # fmt: skip
def test_ladder_amb_6(message: dict[str, Any], wanted: int) -> None:
    """AMB-6, MOD-3, MOD-4, MOD-6, MOD-14: the first step that fails is the answer."""
    side, wire = server(sampling={})
    (answer,) = wire.get(message)
    assert (code(answer), answer["id"]) == (wanted, 1)
    assert not any(isinstance(event, IncomingRequest) for event in wire.events())
    if wanted == -32022:
        asked = message["params"]["_meta"][VERSION]
        assert answer["error"]["data"]["requested"] == asked
        assert set(answer["error"]["data"]["supported"]) == {row.version for row in side.local.revisions} - {
            asked
        }
    if wanted == -32021:
        assert answer["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}


@req("MOD-3")
def test_unmarked_request_without_sessions_mod_3() -> None:
    _, wire = server(LATEST.name)
    assert code(wire.get(request("tools/call", {"name": "x"}))[0]) == -32602
    assert code(wire.get(request("tools/call"))[0]) == -32602
    assert code(wire.get(request("ping", {"_meta": []}))[0]) == -32602


def served(wire: Wire, message: dict[str, Any]) -> IncomingRequest:
    assert wire.get(message) == []
    return next(event for event in wire.events() if isinstance(event, IncomingRequest))


@req("MOD-5", "MOD-7", "BASE-13", "META-9", at=E)
def test_request_describes_itself_mod_5() -> None:
    _side, wire = server()
    caps: dict[str, Any] = {"sampling": {"tools": {}}}
    first = served(wire, modern("tools/call", {"name": "x"}, clientCapabilities=caps, clientInfo=INFO))
    assert (first.capabilities, first.client_info, first.level) == (caps, INFO, None)
    second = served(wire, modern("tools/call", {"name": "x"}, 2, logLevel="info"))
    assert (second.capabilities, second.client_info, second.level) == ({}, None, "info")
    assert second.revision is LATEST
    first.respond({"content": []})
    second.respond({"_meta": {SERVER_INFO: {"name": "own", "version": "9"}, "a": 1}})
    results = [message["result"] for message in wire.sent()]
    assert results[0] == {"content": [], "resultType": "complete", "_meta": {SERVER_INFO: INFO}}
    assert results[1]["_meta"] == {SERVER_INFO: {"name": "own", "version": "9"}, "a": 1}


@req("BASE-4")
def test_id_may_come_back_base_4() -> None:
    _side, wire = server()
    for _ in range(3):
        served(wire, modern("tools/call", {"name": "x"})).respond({})
        assert wire.sent()[0]["id"] == 1
    served(wire, modern("tools/call", {"name": "x"}))
    assert code(wire.get(modern("tools/call", {"name": "x"}))[0]) == -32600


@req("MOD-9", "MOD-7", "MOD-11")
def test_discover_mod_9() -> None:
    _, wire = server()
    answer = wire.get(modern("server/discover"))[0]["result"]
    assert answer["supportedVersions"] == [row.version for row in FakeServer().revisions]
    assert answer["_meta"] == {SERVER_INFO: INFO}
    assert answer["resultType"] == "complete"
    assert wire.get(modern("server/discover", id_=2))[0]["result"] == answer


@req("NEG-9", at=(A, E))
def test_both_eras_on_one_pipe_neg_9() -> None:
    _side, wire = server()
    wire.get(initialize(HANDSHAKE[0]), notification("notifications/initialized"))
    wire.events()
    old = served(wire, request("tools/call", {"name": "x"}, 5))
    new = served(wire, modern("tools/call", {"name": "x"}, 6))
    assert (old.revision, new.revision) == (HANDSHAKE[0], LATEST)
    assert code(wire.get(modern("tools/call", {"name": "x"}, 5))[0]) == -32600
    wire.get(notification("notifications/cancelled", {"requestId": 6}))
    assert any(isinstance(e, RequestCancelled) and e.request is new for e in wire.events())
    old.respond({})
    assert wire.sent() == [result(5, {})]


@req("LOG-3")
def test_log_gate_log_3() -> None:
    side, wire = server()
    silent = served(wire, modern("tools/call", {"name": "x"}))
    talking = served(wire, modern("tools/call", {"name": "x"}, 2, logLevel="error"))
    allows = side.stateless.allows_log
    assert [allows(None, "emergency"), allows(silent, "emergency")] == [False, False]
    assert [allows(talking, "warning"), allows(talking, "error")] == [False, True]
    talking.respond({})
    assert not allows(talking, "emergency")


@req("BASE-12", "BASE-8", "BASE-9", at=E)
def test_strays_have_no_effect_base_12() -> None:
    _, wire = server(LATEST.name)
    assert wire.get(result(1, {}), notification("notifications/initialized"), notification("x")) == []
    assert all(isinstance(event, LOGGED) for event in wire.events())


@req("BASE-7", "BASE-10", at=E)
@pytest.mark.parametrize("data", [b"{", b"[]", b"[1]", b"7"])
def test_malformed_has_no_id_base_7(data: bytes) -> None:
    _, wire = server(LATEST.name)
    assert "id" not in wire.get(data)[0]


# -- listen ----------------------------------------------------------------------------------------------


@req("SUB-2", "SUB-3", "META-7")
def test_listen_acknowledges_first_sub_2() -> None:
    """SUB-2, SUB-3, META-7: the honoured part first, then only what was asked for, all of it marked."""
    side, wire = server()
    asked = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["a:1", 3]}
    (ack,) = wire.get(modern("subscriptions/listen", {"notifications": asked}, "L"))
    assert ack["method"] == ACKNOWLEDGED
    assert ack["params"]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]}
    for kind, uri in (
        (Changed.TOOLS, None), (Changed.PROMPTS, None), (Changed.RESOURCES, None),
        (Changed.RESOURCE, "a:1"), (Changed.RESOURCE, "a:2"),
    ):  # fmt: skip
        side.changed(kind, uri)
    sent = wire.sent()
    assert [message["method"] for message in sent] == [
        "notifications/tools/list_changed", "notifications/resources/updated",
    ]  # fmt: skip
    assert {message["params"]["_meta"][SUBSCRIPTION_ID] for message in [ack, *sent]} == {"L"}


@req("SUB-2", "SEC-6", at=E)
def test_a_stream_carries_so_many_resources_and_no_more() -> None:
    _, wire = server()
    uris = ["a:" + "x" * MAX_URI, *[f"a:{number // 2}" for number in range(3 * MAX_RESOURCES)]]
    (ack,) = wire.get(modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}, 1))
    assert ack["params"]["notifications"] == {
        "resourceSubscriptions": [f"a:{number}" for number in range(MAX_RESOURCES)]
    }


@req("SUB-2", "SEC-6", at=E)
def test_streams_that_have_ended_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    side, wire = server()
    for number in range(10 * MAX_ENDED):
        wire.get(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, number))
        wire.get(notification("notifications/cancelled", {"requestId": number}))
        assert len(side.stateless.listeners) <= MAX_ENDED
    monkeypatch.setattr("mcprev.protocol.stateless.MAX_STREAMS", 5)
    for number in range(5):
        (ack,) = wire.get(
            modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, number)
        )
        assert ack["method"] == ACKNOWLEDGED
    (refused,) = wire.get(modern("subscriptions/listen", {"notifications": {}}, 6))
    assert refused["error"]["code"] == -32603
    wire.get(notification("notifications/cancelled", {"requestId": 3}))
    (ack,) = wire.get(modern("subscriptions/listen", {"notifications": {}}, 7))
    assert ack["method"] == ACKNOWLEDGED


@req("SUB-4", "AMB-1")
def test_streams_end_in_good_order_sub_4() -> None:
    side, wire = server()
    wire.get(modern("subscriptions/listen", {"notifications": {}}, 1))
    wire.get(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 2))
    wire.get(notification("notifications/cancelled", {"requestId": 1}))
    side.end()
    (answer,) = wire.sent()
    assert (answer["id"], answer["result"]["_meta"][SUBSCRIPTION_ID]) == (2, 2)
    assert answer["result"]["resultType"] == "complete"
    side.changed(Changed.TOOLS, None)
    assert wire.sent() == []


@req("SUB-6", "META-7")
def test_several_streams_sub_6() -> None:
    side, wire = server()
    for id_ in (1, 2):
        wire.get(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id_))
    side.changed(Changed.TOOLS, None)
    assert [message["params"]["_meta"][SUBSCRIPTION_ID] for message in wire.sent()] == [1, 2]


@req("SUB-3")
def test_filters() -> None:
    assert accepted_filter({"toolsListChanged": "yes"}, CHANGES) == {}
    assert wants({"resourceSubscriptions": ["a"]}, Changed.RESOURCE, "a")
    assert not wants({"resourceSubscriptions": ["a"]}, Changed.RESOURCE, "b")


# -- the client ------------------------------------------------------------------------------------------


@req("MOD-1", "MOD-2", "META-9", at=E)
def test_client_says_who_it_is_mod_1() -> None:
    """MOD-1, MOD-2, META-9: stamped on every request, the caller's own keys kept."""
    side, wire = open_client(LATEST)
    meta = {"com.example/x": 1, VERSION: "mine"}
    side.stateless.call("tools/call", {"name": "x", "_meta": meta}, 0, idle=None, total=None, progress=True)
    stamped = wire.sent()[0]["params"]["_meta"]
    assert stamped == {
        "com.example/x": 1, VERSION: LATEST.version, CLIENT_INFO: INFO, CLIENT_CAPABILITIES: FakeClient.caps,
        "progressToken": 1,
    }  # fmt: skip
    assert meta == {"com.example/x": 1, VERSION: "mine"}


@req("BASE-14")
@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ({}, True), ({"resultType": "complete"}, True), ({"resultType": "input_required"}, True),
        ({"resultType": "task"}, False), ({"resultType": None}, False), ({"resultType": {}}, False),
    ],
)  # fmt: skip
def test_result_types_base_14(answer: dict[str, Any], accepted: bool) -> None:
    side, wire = open_client(LATEST)
    call = side.stateless.call("tools/call", {"name": "x"}, 0, idle=None, total=None)
    wire.get(result(call.id, answer))
    (event,) = wire.events()
    if accepted:
        assert event == CallCompleted(call, answer)
    else:
        assert isinstance(event, CallFailed)
        assert isinstance(event.error, RemoteProtocolError)


@req("BASE-15")
def test_extensions_have_result_types_base_15() -> None:
    side = ClientProtocol(FakeClient(), frozenset({"task"}))
    side.settle(LATEST)
    call = side.stateless.call("tools/call", {}, 0, idle=None, total=None)
    Wire(side).get(result(call.id, {"resultType": "task"}))
    assert isinstance(side.connection.events[-1], CallCompleted)


@req("BASE-11", "BASE-12")
def test_client_never_answers_base_12() -> None:
    side, wire = open_client(LATEST)
    assert (
        wire.get(request("ping"), request("sampling/createMessage", {}), b'{"jsonrpc":"2.0","id":[]}') == []
    )
    assert all(isinstance(event, LOGGED) for event in wire.events())
    assert side.engine.agreed


@req("MOD-14")
def test_client_refuses_what_does_not_exist() -> None:
    side, wire = open_client(LATEST)
    for method in ("ping", "initialize", "prompts/list", "no/such"):
        with pytest.raises(LocalProtocolError):
            side.stateless.call(method, {}, 0, idle=None, total=None)
    assert wire.sent() == []


@req("SUB-5")
def test_client_tells_streams_apart_sub_5() -> None:
    side, wire = open_client(LATEST)
    calls = [side.stateless.call("subscriptions/listen", {}, 0, idle=None, total=None) for _ in range(2)]
    wire.sent()
    for call in calls:
        wire.get(notification("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION_ID: call.id}}))
    streamed = [event for event in wire.events() if isinstance(event, CallNotification)]
    assert [event.call for event in streamed] == calls
    wire.get(notification("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION_ID: 77}}))
    assert not any(isinstance(event, CallNotification) for event in wire.events())


@req("AMB-1", "CANC-5")
def test_server_may_end_a_stream_by_cancelling_amb_1() -> None:
    side, wire = open_client(LATEST)
    listen = side.stateless.call("subscriptions/listen", {}, 0, idle=None, total=None)
    other = side.stateless.call("tools/list", {}, 0, idle=None, total=None)
    for id_ in (listen.id, other.id, listen.id, None, 9):
        wire.get(notification("notifications/cancelled", {"requestId": id_}))
    failed = [event for event in wire.events() if isinstance(event, CallFailed)]
    assert [event.call for event in failed] == [listen]
    assert isinstance(failed[0].error, ConnectionLost)
    assert other in side.connection.calls


@req("CANC-7", "TIME-1", "STDIO-8", at=E)
def test_timeout_cancels_canc_7() -> None:
    side, wire = open_client(LATEST)
    call = side.stateless.call("tools/call", {}, 0, idle=5, total=None)
    wire.sent()
    side.tick(5)
    check_timeout(wire.events(), call, "idle", 5)
    assert wire.sent()[0]["method"] == "notifications/cancelled"


@req("LIFE-16", at=E)
def test_closed_client_sends_nothing() -> None:
    side, _ = open_client(LATEST)
    side.lost(ConnectionLost("gone", in_flight=False, retry_safe=True))
    with pytest.raises(LocalProtocolError):
        side.stateless.call("tools/list", {}, 0, idle=None, total=None)


@req("MOD-6")
def test_lacking_names_what_is_missing_mod_6() -> None:
    needed: dict[str, Any] = {"sampling": {"tools": {}}, "roots": {}}
    assert uncovered({"sampling": {}}, needed) == needed
    assert uncovered({"sampling": {"tools": {}}}, needed) == {"roots": {}}
    assert uncovered({"sampling": {"tools": {}}, "roots": {"x": 1}}, needed) == {}
