"""The conversion table, what messages carry: progress, completion, `_meta`, ids; and what sessions say once."""

from __future__ import annotations

from typing import Final

import pytest

from conversion.peers import OLDER, A, B, C, D, E, Json, down, go, objections, up
from helpers.requirements import req
from helpers.support import same
from mcprev.conversion import PayloadKind
from mcprev.errors import ConversionError
from mcprev.revisions import DEFAULT, load

RESULT, PARAMS = PayloadKind.RESULT, PayloadKind.PARAMS
each_older = pytest.mark.parametrize("to", OLDER)


@req("CONV-28")
@each_older
def test_conv_28_progress_message(to: str) -> None:
    params = {"progressToken": "t", "progress": 1, "total": 2, "message": "half"}
    wanted = {k: v for k, v in params.items() if to != A or k != "message"}
    found = down(params, "notifications/progress", PARAMS, to)
    assert same(found, wanted)
    assert same(up(found, "notifications/progress", PARAMS, to), wanted)


STAMP: Final[Json] = {
    "io.modelcontextprotocol/protocolVersion": E,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@req("CONV-29")
@each_older
def test_conv_29_completion_context(to: str) -> None:
    plain = {"ref": {"type": "ref/resource", "uri": "x:{y}"}, "argument": {"name": "y", "value": ""}}
    context = {"context": {"arguments": {"z": "1"}}}
    found = down({**plain, **context, "_meta": STAMP}, "completion/complete", PARAMS, to)
    assert found == (plain if to in {A, B} else plain | context)


@req("COMP-1")
@each_older
def test_completions_of_older_servers_are_cut_to_the_bound(to: str) -> None:
    newer = [row for row in DEFAULT if not row.handshake]
    bound = min(load(row, "constants").MAX_ITEMS["CompleteResultCompletion.values"] for row in newer)
    values = [str(i) for i in range(bound + 1)]
    found = up({"completion": {"values": values, "hasMore": False}}, "completion/complete", RESULT, to)
    assert found["completion"] == {"values": values[:bound], "hasMore": True}


CALL: Final = {"name": "t", "arguments": {"a": None}}
VENDOR_KEYS: Final = {"progressToken": 1, "vendor.example/x": {"y": None}, "plain": "z"}


@req("CONV-42", "META-1")
@each_older
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", CALL),
        ("tools/list", {"cursor": ""}),
        ("resources/read", {"uri": "x:y"}),
        ("prompts/get", {"name": "p"}),
    ],
)
def test_conv_42_request_meta(to: str, method: str, params: Json) -> None:
    found = down({**params, "_meta": {**STAMP, **VENDOR_KEYS}}, method, PARAMS, to)
    assert same(found, {**params, "_meta": VENDOR_KEYS})
    assert same(up(found, method, PARAMS, to), {**params, "_meta": {**VENDOR_KEYS, **STAMP}})
    # A `_meta` of nothing but what the era asks for is gone, and one that is not there is made.
    bare = down({**params, "_meta": STAMP}, method, PARAMS, to)
    assert same(bare, params)
    assert same(up(bare, method, PARAMS, to), {**params, "_meta": STAMP})


@req("CONV-42", "META-9")
@each_older
def test_conv_42_a_session_speaks_for_its_requests(to: str) -> None:
    """What an older peer puts under the keys of the era is replaced by what its session said."""
    lie: Json = {
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
        "io.modelcontextprotocol/logLevel": "debug",
    }
    session = {**STAMP, "io.modelcontextprotocol/clientInfo": {"name": "n", "version": "1"}}
    found = up({**CALL, "_meta": lie}, "tools/call", PARAMS, to, meta=session)
    assert found["_meta"] == session
    assert up(None, "tools/list", PARAMS, to, meta=session) == {"_meta": session}
    assert up({"_meta": None}, "tools/list", PARAMS, to) == {"_meta": STAMP}


@req("CONV-43")
@each_older
def test_conv_43_trace_context(to: str) -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "a=1"}
    found = down({**CALL, "_meta": {**STAMP, **trace}}, "tools/call", PARAMS, to)
    assert found["_meta"] == trace
    assert up(found, "tools/call", PARAMS, to)["_meta"] == {**trace, **STAMP}


@req("CONV-44")
@each_older
@pytest.mark.parametrize("request_id", [1, "1", 1.0, "ü"])
def test_conv_40_44_cancelled(to: str, request_id: Json) -> None:
    """CONV-40 and CONV-44: the value is the same everywhere; when it is sent is the transports' business."""
    params = {"requestId": request_id, "reason": "r", "_meta": {"vendor.example/x": 1}}
    assert same(down(params, "notifications/cancelled", PARAMS, to), params)
    assert same(up(params, "notifications/cancelled", PARAMS, to), params)
    tokens = {"progressToken": request_id, "progress": 1}
    assert same(down(tokens, "notifications/progress", PARAMS, to), tokens)


@req("CONV-44")
@pytest.mark.parametrize("to", [A, B, C, E])
def test_conv_44_a_cancellation_names_its_request(to: str) -> None:
    with pytest.raises(ConversionError, match="name its request"):
        go({"reason": "r"}, "notifications/cancelled", PARAMS, D, to)


@req("CONV-38", "CONV-12")
@each_older
def test_notifications_lose_their_subscription(to: str) -> None:
    meta = {"io.modelcontextprotocol/subscriptionId": 7, "vendor.example/x": 1}
    found = down({"uri": "x:y", "_meta": meta}, "notifications/resources/updated", PARAMS, to)
    assert found == {"uri": "x:y", "_meta": {"vendor.example/x": 1}}
    assert up({"uri": "x:y", "_meta": meta}, "notifications/resources/updated", PARAMS, to) == found


# -- what sessions say once ------------------------------------------------------------------------------


@req("CONV-38", at=(A, B, C, D))
def test_conv_38_listen_and_subscribe() -> None:
    for to in OLDER:
        with pytest.raises(ConversionError, match="has no method"):
            down({"notifications": {}}, "subscriptions/listen", PARAMS, to)
        assert not objections({"uri": "x:a"}, "resources/subscribe", PARAMS, to)


@req("CONV-39", at=(A, B, C, D))
def test_conv_39_log_level() -> None:
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    for to in OLDER:
        assert not objections({"level": "info"}, "logging/setLevel", PARAMS, to)
        assert "_meta" not in down({**CALL, "_meta": {**STAMP, **meta}}, "tools/call", PARAMS, to)
