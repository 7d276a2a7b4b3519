"""The engines of a peer that passes on messages of others: what it serves, keeps and leaves as it is."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, cast

import pytest

from engine.fakes import (
    HANDSHAKE,
    FakeClient,
    FakeServer,
    Wire,
    initialize,
    modern,
    notification,
    open_client,
    request,
    result,
)
from helpers.requirements import E, req
from mcprev.errors import InternalError
from mcprev.protocol.connection_state import (
    CallCompleted,
    CallFailed,
    IncomingRequest,
    RequestCancelled,
    SessionOpened,
)
from mcprev.protocol.endpoint import ClientProtocol, ServerProtocol
from mcprev.protocol.handshake import State
from mcprev.revisions import LATEST, Revision
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, VERSION

each_session = pytest.mark.parametrize("row", HANDSHAKE, ids=lambda row: row.name)


class RelayServer(FakeServer):
    relays = True


class RelayClient(FakeClient):
    relays = True


def server() -> tuple[ServerProtocol, Wire]:
    side = ServerProtocol(RelayServer())
    return side, Wire(side)


def requests(wire: Wire) -> list[IncomingRequest]:
    return [event for event in wire.events() if isinstance(event, IncomingRequest)]


def opened(row: Revision) -> tuple[ServerProtocol, Wire]:
    side, wire = server()
    wire.get(initialize(row))
    (incoming,) = requests(wire)
    side.session.open_with(incoming, {"protocolVersion": row.version, "vendor": 1})
    wire.sent()
    wire.get(notification("notifications/initialized"))
    wire.events()
    return side, wire


@req("SEAM-10", "LIFE-3")
@each_session
def test_initialize_is_answered_by_the_handler(row: Revision) -> None:
    side, wire = server()
    assert wire.get(initialize(row, sampling={})) == []
    (incoming,) = requests(wire)
    assert (incoming.revision, incoming.capabilities) == (row, {"sampling": {}})
    assert not side.session.agreed
    side.session.open_with(incoming, {"protocolVersion": row.version, "vendor": [1]})
    assert wire.sent() == [result("init", {"protocolVersion": row.version, "vendor": [1]})]
    assert wire.events() == [SessionOpened(row)]
    assert side.session.state is State.OPENING


@req("SEAM-10", "LIFE-15")
@each_session
def test_initialize_that_fails_leaves_no_session(row: Revision) -> None:
    side, wire = server()
    wire.get(initialize(row))
    (incoming,) = requests(wire)
    (early,) = wire.get(initialize(row, id_="again"))
    assert early["error"]["code"] == -32600
    incoming.fail(InternalError("it cannot be reached"))
    (answer,) = wire.sent()
    assert answer["error"]["message"] == "it cannot be reached"
    assert not side.session.agreed
    wire.get(initialize(row, id_="later"))
    (second,) = requests(wire)
    side.session.open_with(incoming, {})
    assert not side.session.agreed, "that request is over"
    side.session.open_with(second, {"protocolVersion": row.version})
    assert side.session.agreed
    (again,) = wire.get(initialize(row, id_="third"))[1:]
    assert again["error"]["code"] == -32600


@req("SEAM-10", "BASE-9")
@each_session
def test_a_session_serves_methods_that_no_table_has(row: Revision) -> None:
    _, wire = opened(row)
    assert wire.get(request("com.example/x", {"a": 10**20})) == []
    (incoming,) = requests(wire)
    assert incoming.params == {"a": 10**20}
    assert wire.get(request("ping", id_=2)) == [result(2, {})]


@req("SEAM-10", "BASE-9", "BASE-13", "MOD-7", at=E)
def test_a_stateless_relay_serves_any_method_and_adds_nothing_to_results() -> None:
    side, wire = server()
    for number in range(3):
        assert wire.get(modern(f"com.example/{number}", id_=number)) == []
    found = requests(wire)
    assert [incoming.method for incoming in found] == [f"com.example/{number}" for number in range(3)]
    assert not side.stateless._served, "any name is one, so none is kept"
    found[0].respond({"resultType": "vendor", "x": 1})
    found[1].respond({})
    assert wire.sent() == [result(0, {"resultType": "vendor", "x": 1}), result(1, {})]


@req("SEAM-10", "CANC-2", everywhere=True)
def test_a_cancelled_request_knows_its_reason() -> None:
    _, wire = opened(HANDSHAKE[-1])
    wire.get(request("tools/call", {}, 7))
    (incoming,) = requests(wire)
    assert incoming.cancel_reason is None
    wire.get(notification("notifications/cancelled", {"requestId": 7, "reason": "enough"}))
    assert [event for event in wire.events() if isinstance(event, RequestCancelled)] == [
        RequestCancelled(incoming, "enough")
    ]
    assert incoming.cancel_reason == "enough"


@req("MOD-1", "META-9", "BASE-14", at=E)
@pytest.mark.parametrize("relays", [True, False])
def test_a_relay_keeps_what_a_request_says_of_its_client(*, relays: bool) -> None:
    side = ClientProtocol(RelayClient() if relays else FakeClient())
    side.settle(LATEST)
    wire = Wire(side)
    given = {VERSION: LATEST.version, CLIENT_CAPABILITIES: {"vendor": 1}}
    call = side.engine.call("com.example/x", {"_meta": given}, 0, idle=None, total=None, unchecked=True)
    own = side.engine.call("com.example/x", {"_meta": {"a": 1}}, 0, idle=None, total=None, unchecked=True)
    first, second = (message["params"]["_meta"] for message in wire.sent())
    assert (first == given) is relays
    assert second == {"a": 1, **RelayClient().introduction(LATEST)}, "a request that names no version"
    wire.get(result(call.id, {"resultType": "vendor"}), result(own.id, {"resultType": "complete"}))
    one, other = wire.events()
    assert isinstance(one, CallCompleted if relays else CallFailed)
    assert isinstance(other, CallCompleted)


@req("SEAM-10", "ERR-1", everywhere=True)
def test_an_error_is_kept_as_the_peer_sent_it() -> None:
    side, wire = open_client(HANDSHAKE[-1])
    call = side.engine.call("tools/list", None, 0, idle=None, total=None)
    error = {"code": -32601, "message": "no", "data": None, "vendor": {"x": 1}}
    wire.sent()
    wire.get({"jsonrpc": "2.0", "id": call.id, "error": error})
    (failed,) = wire.events()
    raised = cast("Any", failed).error
    assert raised.raw == error
    assert raised.to_wire() == {"code": -32601, "message": "no"}
