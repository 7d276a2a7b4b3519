"""The conversion table, the rest: capabilities, errors, discovery and the handshake."""

from __future__ import annotations

from typing import Final, cast

import pytest

from conversion.peers import OLDER, A, B, C, D, E, Json, down, go, objections, up
from helpers.requirements import req
from helpers.support import same
from mcprev.conversion import PayloadKind, initialize_to_discover, request_meta
from mcprev.core.tool_schemas import refusal
from mcprev.errors import ConversionError, InvalidParams
from mcprev.json_schema.bounds import ValidationIssue
from mcprev.revisions import revision_named

CLIENT, SERVER, ERROR = PayloadKind.CLIENT_CAPABILITIES, PayloadKind.SERVER_CAPABILITIES, PayloadKind.ERROR
each_older = pytest.mark.parametrize("to", OLDER)
PREFIX: Final = "io.modelcontextprotocol/"
WHO: Final = {"name": "n", "version": "1", "title": "N", "icons": [{"src": "https://x.test/i.png"}]}


def who_at(row: str) -> dict[str, Json]:
    kept = {A: ("name", "version"), B: ("name", "version"), C: ("name", "version", "title")}.get(
        row, tuple(WHO)
    )
    return {name: WHO[name] for name in kept}


# -- capabilities ----------------------------------------------------------------------------------------


@req("CONV-30")
@each_older
def test_conv_30_completions(to: str) -> None:
    plain: Json = {"tools": {"listChanged": True}, "logging": {}, "experimental": {"x": {}}}
    assert down({**plain, "completions": {}}, "", SERVER, to) == (
        plain if to == A else {**plain, "completions": {}}
    )


@req("CONV-31", "LIFE-13")
@each_older
def test_conv_31_extensions(to: str) -> None:
    extensions: Json = {"extensions": {"vendor.example/x": {}}, "x-own": {"kept": None}}
    assert down({"tools": {}, **extensions}, "", SERVER, to) == {"tools": {}, "x-own": {"kept": None}}
    assert down({"roots": {}, **extensions}, "", CLIENT, to) == {"roots": {}, "x-own": {"kept": None}}


@req("CONV-32", at=(A, B, C, D))
@pytest.mark.parametrize("to", [A, B, C, E])
def test_conv_32_tasks(to: str) -> None:
    tasks: Json = {"tasks": {"list": {}, "cancel": {}}}
    assert go({"tools": {}, **tasks}, "", SERVER, D, to) == {"tools": {}, **(tasks if to == E else {})}
    assert go({"roots": {}, **tasks}, "", CLIENT, D, to) == {"roots": {}}
    assert go(tasks, "", SERVER, D, D) is tasks


@req("ELIC-1", "LIFE-13", "SAMP-4")
@each_older
@pytest.mark.parametrize(
    ("elicitation", "at_c"),
    [
        ({}, {}),
        ({"form": {}}, {}),
        ({"form": {}, "url": {}}, {}),
        ({"url": {}}, None),
        ({"x": {}}, {"x": {}}),
    ],
)
def test_modes_of_capabilities(to: str, elicitation: Json, at_c: Json) -> None:
    """ELIC-1: no mode means forms, so that a client with URLs only has nothing to offer an older server."""
    wanted = {A: None, B: None, C: at_c, D: elicitation}[to]
    found = down({"elicitation": elicitation, "sampling": {"tools": {}, "context": {}}}, "", CLIENT, to)
    assert found.get("elicitation") == wanted
    assert found["sampling"] == ({"tools": {}, "context": {}} if to == D else {})
    assert "url" not in up({"elicitation": {"url": {}}}, "", CLIENT, C)["elicitation"]


@req("ROOT-1")
@each_older
def test_roots_announce_changes_in_sessions_only(to: str) -> None:
    assert up({"roots": {"listChanged": True}}, "", CLIENT, to) == {"roots": {}}
    assert down({"roots": {"listChanged": True}}, "", CLIENT, to) == {"roots": {}}


# -- errors ----------------------------------------------------------------------------------------------


@req("CONV-33", "ERR-2")
@each_older
def test_conv_33_resource_not_found(to: str) -> None:
    missing = {"code": -32602, "message": "no such resource", "data": {"uri": "x:y"}}
    older = {**missing, "code": -32002}
    assert down(missing, "resources/read", ERROR, to) == older
    assert up(older, "resources/read", ERROR, to) == missing
    for other in ({**missing, "data": None}, {"code": -32602, "message": "cursor"}):
        assert down(other, "resources/read", ERROR, to) is other
    assert down(missing, "tools/call", ERROR, to) is missing


@req("CONV-34")
@each_older
def test_conv_34_missing_capability(to: str) -> None:
    missing: Json = {
        "code": -32021,
        "message": "requires sampling",
        "data": {"requiredCapabilities": {"sampling": {}}},
    }
    older = {**missing, "code": -32602}
    assert down(missing, "tools/call", ERROR, to) == older
    assert up(older, "tools/call", ERROR, to) == missing, "the data says what is meant"
    for other in ({**older, "data": {"requiredCapabilities": "x"}}, {"code": -32602, "message": "x"}):
        assert up(other, "tools/call", ERROR, to) is other


@req("CONV-34")
@each_older
def test_codes_of_the_stateless_era(to: str) -> None:
    version = {"code": -32022, "message": "version", "data": {"supported": [E], "requested": "x"}}
    assert down(version, "tools/call", ERROR, to) == {**version, "code": -32602}
    assert down({"code": -32020, "message": "header"}, "tools/call", ERROR, to)["code"] == -32600
    own = {"code": -32001, "message": "own"}
    assert down(own, "tools/call", ERROR, to) is own
    assert up(own, "tools/call", ERROR, to) is own


@req("CONV-17")
@pytest.mark.parametrize("to", [A, B, C])
def test_url_errors_say_where_to_go(to: str) -> None:
    asked = [{"mode": "url", "message": "m", "url": "https://x.test", "elicitationId": "1"}]
    error = {"code": -32042, "message": "log in", "data": {"elicitations": asked}}
    assert go(error, "tools/call", ERROR, D, to) == {**error, "message": "log in https://x.test"}
    bare = {"code": -32042, "message": "log in"}
    assert go(bare, "tools/call", ERROR, D, to) == bare
    with pytest.raises(ConversionError, match="return an InputRequiredResult"):
        go(error, "tools/call", ERROR, D, E)


@req("CONV-35", "TOOL-2", "AMB-4")
@pytest.mark.parametrize("at", [*OLDER, E])
def test_conv_35_invalid_arguments(at: str) -> None:
    issues: list[ValidationIssue] = [(("a",), "is missing")]
    text = "Invalid arguments for tool 't': arguments.a is missing"
    if at in {A, B, C}:
        with pytest.raises(InvalidParams, match=text):
            refusal("t", issues, revision_named(at))
        return
    answer = refusal("t", issues, revision_named(at))
    assert answer == {"content": [{"type": "text", "text": text}], "isError": True}
    full = answer | ({"resultType": "complete"} if at == E else {})
    assert not objections(full, "tools/call", PayloadKind.RESULT, at)


# -- discovery and the handshake -------------------------------------------------------------------------


@req("CONV-36")
@each_older
def test_conv_36_initialize_to_discover(to: str) -> None:
    found: Json = {
        "protocolVersion": to,
        "capabilities": {"tools": {}} if to == A else {"tools": {}, "completions": {}},
        "serverInfo": who_at(to),
        "instructions": "be kind",
        "_meta": {"vendor.example/x": 1},
    }
    back = initialize_to_discover(found, from_=to)
    assert not objections(back, "server/discover", PayloadKind.RESULT, E)
    assert back["supportedVersions"] == [to]
    assert (back["capabilities"], back["instructions"]) == (found["capabilities"], "be kind")
    assert back["_meta"] == {"vendor.example/x": 1, PREFIX + "serverInfo": who_at(to)}
    assert (back["resultType"], back["ttlMs"], back["cacheScope"]) == ("complete", 0, "private")


@req("CONV-36")
@each_older
def test_conv_36_client_side(to: str) -> None:
    offered: Json = cast("Json", {A: None, B: None, C: {}, D: {"form": {}}})[to]
    params: Json = {
        "protocolVersion": to,
        "clientInfo": who_at(to),
        "capabilities": {"roots": {}} if offered is None else {"roots": {}, "elicitation": offered},
    }
    stamped = request_meta(params, from_=to)
    assert stamped.keys() == {
        PREFIX + name for name in ("protocolVersion", "clientInfo", "clientCapabilities")
    }
    assert stamped[PREFIX + "clientInfo"] == who_at(to)
    declared = stamped[PREFIX + "clientCapabilities"]
    assert same(down(declared, "", CLIENT, to), params["capabilities"])
    call = up({"name": "t"}, "tools/call", PayloadKind.PARAMS, to, meta=stamped)
    assert call["_meta"] == stamped


@req("CONV-36")
@each_older
def test_conv_36_is_not_a_conversion_of_methods(to: str) -> None:
    for kind in (PayloadKind.PARAMS, PayloadKind.RESULT):
        with pytest.raises(ConversionError, match="has no method 'server/discover'"):
            down({}, "server/discover", kind, to)
        with pytest.raises(ConversionError, match="has no method 'initialize'"):
            up({}, "initialize", kind, to)


@req("SEAM-10", at=(A, B, C, D))
def test_handshakes_between_sessions_name_the_revision() -> None:
    result: Json = {"protocolVersion": D, "capabilities": {"tasks": {}}, "serverInfo": WHO}
    assert go(result, "initialize", PayloadKind.RESULT, D, B) == {
        "protocolVersion": B,
        "capabilities": {},
        "serverInfo": who_at(B),
    }
    params = {"protocolVersion": A, "capabilities": {}, "clientInfo": who_at(A)}
    assert go(params, "initialize", PayloadKind.PARAMS, A, D)["protocolVersion"] == D
    other = {**params, "protocolVersion": "2099-01-01"}
    assert go(other, "initialize", PayloadKind.PARAMS, A, D) is other
