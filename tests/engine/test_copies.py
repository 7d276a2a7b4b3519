"""Copies of one session in several engines: what they tell each other, and what no request of one of them waits for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.fakes import (
    HANDSHAKE,
    FakeServer,
    Wire,
    for_others,
    initialize,
    notification,
    open_server,
    request,
    result,
)
from helpers.requirements import A, B, C, D, req
from mcprev.protocol.connection_state import CallCompleted, RequestCancelled, SessionChanged, Unplaced
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.handshake import State
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import Revision

each_session = pytest.mark.parametrize("row", HANDSHAKE, ids=lambda row: row.name)
STEPS: dict[str, Any] = {
    "initialized": notification("notifications/initialized"),
    "debug": request("logging/setLevel", {"level": "debug"}, 2),
    "error": request("logging/setLevel", {"level": "error"}, 3),
    "subscribe": request("resources/subscribe", {"uri": "a:b"}, 4),
    "others": request("resources/subscribe", {"uri": "a:c"}, 5),
    "unsubscribe": request("resources/unsubscribe", {"uri": "a:b"}, 6),
    "unknown": request("logging/setLevel", {"level": "loud"}, 7),
}


def copy_of(side: ServerProtocol) -> tuple[ServerProtocol, Wire]:
    """Another engine with the state of a session, which has gone through JSON."""
    other = ServerProtocol(FakeServer())
    assert other.session.restore(json.loads(json.dumps(side.session.record())))
    return other, Wire(other)


@req("LIFE-3", "LOG-2", "SUB-1", at=(A, B, C, D))
@given(row=st.sampled_from(HANDSHAKE), steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=8))
def test_copy_is_like_the_session_at_every_step(row: Revision, steps: list[str]) -> None:
    """LIFE-3, LOG-2, SUB-1: a copy, whether made now or kept up to date, answers and tells like the session."""
    side = ServerProtocol(FakeServer())
    wire = Wire(side)
    wire.get(initialize(row, sampling={}))
    kept, kept_wire = copy_of(side)
    for step in steps:
        wire.get(STEPS[step])
        assert kept.session.restore(side.session.record())
        fresh, fresh_wire = copy_of(side)
        for other, others_wire in ((kept, kept_wire), (fresh, fresh_wire)):
            assert other.session.record() == side.session.record()
            assert other.session.revision is row
            assert other.connection.accepts_batch is side.connection.accepts_batch
            for change in (Changed.TOOLS, Changed.RESOURCES):
                other.changed(change, None)
                side.changed(change, None)
            for uri in ("a:b", "a:c"):
                other.changed(Changed.RESOURCE, uri)
                side.changed(Changed.RESOURCE, uri)
            assert others_wire.sent() == wire.sent()
            assert other.session.allows_log(None, "info") is side.session.allows_log(None, "info")


@req("LIFE-7")
@each_session
def test_copy_sends_what_it_delayed_when_it_hears_of_initialized(row: Revision) -> None:
    """LIFE-7: a question that waits for `initialized` is sent where it waits, not where that arrives."""
    side = ServerProtocol(FakeServer())
    wire = Wire(side)
    wire.get(initialize(row, sampling={}))
    other, others_wire = copy_of(side)
    other.session.call("sampling/createMessage", {}, 0, idle=None, total=None)
    assert others_wire.sent() == []
    wire.get(STEPS["initialized"])
    assert other.session.restore(side.session.record())
    assert other.session.state is State.READY
    assert [message["method"] for message in others_wire.sent()] == ["sampling/createMessage"]


@req("LIFE-3")
@each_session
def test_copy_of_a_revision_that_is_not_served_here(row: Revision) -> None:
    """A session of a revision that only other workers serve cannot be restored."""
    side, _ = open_server(row)
    others = [each.name for each in HANDSHAKE if each is not row]
    other = ServerProtocol(FakeServer(*others))
    assert not other.session.restore(side.session.record())
    assert not other.session.agreed


@req("LOG-2", "SUB-1", "LIFE-7")
@each_session
def test_what_changes_a_session_is_an_event(row: Revision) -> None:
    """Every message that changes what `record` returns says so; no other message does."""
    side = ServerProtocol(FakeServer())
    wire = Wire(side)
    wire.get(initialize(row))
    wire.all_events()
    wanted = {
        "initialized": SessionChanged("ready", value=True),
        "debug": SessionChanged("level", "debug"),
        "subscribe": SessionChanged("subscribed", "a:b"),
        "unsubscribe": SessionChanged("subscribed", "a:b", removed=True),
        "unknown": None,
    }
    for step, event in wanted.items():
        wire.get(STEPS[step])
        assert [each for each in wire.all_events() if isinstance(each, SessionChanged)] == (
            [] if event is None else [event]
        )
    wire.get(STEPS["initialized"])
    assert not any(map(for_others, wire.all_events()))


@req("CANC-3", "BASE-6")
@each_session
def test_what_belongs_to_no_request_here_may_belong_to_another_copy(row: Revision) -> None:
    """CANC-3, BASE-6: responses, malformed ones too, and cancellations are passed on; nothing is sent."""
    _, wire = open_server(row, sampling={})
    strays: list[dict[str, Any]] = [
        result(7, {}),
        {"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "id": 7, "result": {}, "error": {}},
        notification("notifications/cancelled", {"requestId": 7}),
    ]
    for stray in strays:
        assert wire.get(stray) == []
        (event,) = [each for each in wire.all_events() if isinstance(each, Unplaced)]
        passed = event.message
        assert getattr(passed, "id", 7) == 7


@req("CANC-2", "BASE-5")
@each_session
def test_ids_of_two_copies_are_apart(row: Revision) -> None:
    """BASE-5: with ids of its own, a copy takes no answer for a question of another one; a cancellation is for all."""
    side, wire = open_server(row, sampling={})
    other, others_wire = copy_of(side)
    other.connection.calls.ids = iter(range(10_001, 20_000))
    others_wire.all_events()
    mine = side.session.call("sampling/createMessage", {}, 0, idle=None, total=None)
    theirs = other.session.call("sampling/createMessage", {}, 0, idle=None, total=None)
    assert (mine.id, theirs.id) == (1, 10_001)
    wire.get(result(theirs.id, {}))
    assert [type(event) for event in wire.all_events()] == [Unplaced]
    others_wire.get(result(theirs.id, {}))
    assert [type(event) for event in others_wire.all_events()] == [CallCompleted]
    for each in (wire, others_wire):
        each.get(request("tools/call", {"name": "x"}, "same"))
        each.all_events()
    wire.get(notification("notifications/cancelled", {"requestId": "same"}))
    assert [type(event) for event in wire.all_events()] == [RequestCancelled, Unplaced]
