"""Any sequence of messages, in any order: no exception, no unanswered request, no forgotten call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.fakes import (
    HANDSHAKE,
    INFO,
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
from mcprev.errors import ConnectionLost
from mcprev.protocol.connection_state import (
    CallCompleted,
    CallFailed,
    IncomingRequest,
    RequestCancelled,
)
from mcprev.protocol.endpoint import ClientProtocol, ServerProtocol
from mcprev.protocol.pending_calls import PendingCalls
from mcprev.revisions import DEFAULT, LATEST, Revision

ids = st.one_of(st.integers(-3, 9), st.sampled_from(["1", "2", "", 1.0, None, True, 1.5]))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.sampled_from(["1", "info", "a:b", "x"]))
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2), max_leaves=4)
names = st.sampled_from(
    ["protocolVersion", "capabilities", "clientInfo", "level", "uri", "requestId", "progressToken", "progress",
     "_meta", "notifications", "name", "reason"]
)  # fmt: skip
params = st.one_of(st.none(), st.dictionaries(names, values, max_size=3), values)
methods = st.sampled_from(
    ["initialize", "ping", "tools/call", "logging/setLevel", "resources/subscribe", "server/discover",
     "subscriptions/listen", "notifications/initialized", "notifications/cancelled", "notifications/progress",
     "sampling/createMessage", "notifications/tools/list_changed", "no/such", ""]
)  # fmt: skip
good = st.sampled_from(
    [
        initialize(HANDSHAKE[0]), initialize(HANDSHAKE[-1], sampling={}), notification("notifications/initialized"),
        modern("tools/call", {"name": "x"}, 1), modern("tools/call", {"name": "x"}, "1", clientInfo=INFO),
        modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 2),
        request("tools/call", {"name": "x"}, 3), request("ping", None, 4),
    ]
)  # fmt: skip
anything = st.one_of(
    good,
    st.builds(request, methods, params, ids),
    st.builds(notification, methods, params),
    st.builds(result, ids, values),
    st.builds(dict[str, Any], jsonrpc=st.just("2.0"), id=ids, error=params),
    st.lists(st.one_of(st.builds(request, methods, params, ids), good), min_size=2, max_size=2),
    st.binary(max_size=12),
    values,
)


@req("BASE-8", "BASE-10", "CANC-3", everywhere=True)
@given(st.lists(anything, max_size=25))
def test_server_takes_anything(messages: list[Any]) -> None:
    side = ServerProtocol(FakeServer())
    wire = Wire(side)
    open_requests: list[IncomingRequest] = []
    for message in messages:
        wire.get(message)
        open_requests += [event for event in wire.events() if isinstance(event, IncomingRequest)]
    for incoming in open_requests:
        was_open = incoming.open
        incoming.respond({})
        assert len(wire.sent()) <= was_open
    side.end()
    assert side.connection.incoming == {}


@req("BASE-10", "CANC-3", "LIFE-18")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@given(messages=st.lists(anything, max_size=25))
def test_client_forgets_no_call(row: Revision, messages: list[Any]) -> None:
    side, wire = open_client(row)
    calls: list[Any] = []
    for number in range(4):
        bounds: Any = {"idle": 5.0 + number, "total": None}
        calls.append(side.engine.call("tools/list", None, 0, **bounds))
    ends: list[int] = []
    for now, message in enumerate(messages):
        wire.now = now
        wire.get(message)
        side.tick(now)
        ends += [e.call.id for e in wire.events() if isinstance(e, CallCompleted | CallFailed)]
    side.lost(ConnectionLost("gone", in_flight=True, retry_safe=False))
    ends += [event.call.id for event in wire.events() if isinstance(event, CallFailed)]
    assert sorted(ends) == sorted(call.id for call in calls)
    assert not side.waiting


@req("BASE-5", "PROG-1", "PROG-2")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_back_to_back(row: Revision) -> None:
    """Our client's engine and our server's, wired without I/O, at each revision."""
    client, server = ClientProtocol(FakeClient(row.name)), ServerProtocol(FakeServer(row.name))
    ours, theirs = Wire(client), Wire(server)
    if row.handshake:
        client.session.initialize(row, 0, timeout=None)
        ours.get(*theirs.get(*ours.sent()))
        client.session.opened(row, FakeServer.caps)
    else:
        client.settle(row)
    call = client.engine.call("tools/call", {"name": "x"}, 0, idle=None, total=None, progress=True)
    theirs.get(*ours.sent())
    (incoming,) = [event for event in theirs.events() if isinstance(event, IncomingRequest)]
    incoming.engine.progress(incoming, {"progress": 1})
    incoming.respond({"content": []})
    ours.events()
    ours.get(*theirs.sent())
    answers = [event for event in ours.events() if isinstance(event, CallCompleted)]
    assert [(event.call, event.result["content"]) for event in answers] == [(call, [])]


@req("LIFE-16", at=E)
def test_lost_server_drops_its_requests() -> None:
    side = ServerProtocol(FakeServer(LATEST.name))
    wire = Wire(side)
    wire.get(modern("tools/call", {"name": "x"}), modern("subscriptions/listen", {"notifications": {}}, 2))
    wire.events()
    side.lost(ConnectionLost("gone", in_flight=True, retry_safe=False))
    assert len([event for event in wire.events() if isinstance(event, RequestCancelled)]) == 2


@req("LIFE-18", everywhere=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(["open", "close", "due", "progress"]), st.integers(0, 12)), max_size=40
    )
)
def test_calls_end_once(steps: list[tuple[str, int]]) -> None:
    """LIFE-18: the deadline never lies later than a call's, and each call ends exactly once."""
    calls, now = PendingCalls(), 0.0
    live: dict[int, float] = {}
    for step, number in steps:
        now += 0.5
        if step == "open":
            call = calls.open("x", now, idle=number or None, total=None)
            live[call.id] = call.deadline
        elif step == "close":
            assert (calls.close(number) is not None) is (live.pop(number, None) is not None)
        elif step == "progress" and (found := calls.progressed(number, now)) is not None:
            live[found.id] = found.deadline
        elif step == "due":
            assert {call.id for call in calls.due(now)} == {i for i, at in live.items() if at <= now}
            live = {i: at for i, at in live.items() if at > now}
        earliest = min(live.values(), default=float("inf"))
        assert calls.earliest <= earliest
    assert len(calls.waiting) == len(live)
