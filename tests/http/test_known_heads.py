"""Heads that come again mean what they meant to the parser, and verdicts that come again what `classify` said."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcprev
from asgi_bridge import PREFIX, TYPES
from mcprev.errors import HEADER_MISMATCH
from mcprev.protocol.http_again import again
from mcprev.protocol.http_classify import Endpoint, classify
from mcprev.protocol.http_verdicts import LegacySession, Modern
from mcprev.revisions import DEFAULT, revision
from mcprev.transports.asgi import AsgiApp
from mcprev.transports.http_protocol import Front
from mcprev.transports.known_heads import DIGITS, KNOWN, LONGEST, Heads
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import parse
from mcprev_types.latest import models as m
from requirements import D, E, req
from served import REGION, Served, work
from wired import Wire, head
from wired_calls import broken, call, fields, ids, in_chunks, opened, said, texts

Make = Callable[..., AsgiApp]
ROW: Final = revision(E)


def known(wire: Wire, data: bytes) -> bool:
    """Whether a request would be recognised."""
    return wire.http._heads.find(data) is not None


async def answered(wire: Wire, *requests: bytes) -> None:
    """Send requests, each once the one before it is answered."""
    for data in requests:
        wire.send(data)
        await wire.settled()


# -- which heads are learned -------------------------------------------------------------------------------


@req("HTTPM-2", at=E)
def test_a_head_is_known_once_it_came() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Front(make()))
        first = call("echo", {"text": "a"})
        assert not known(wire, first)
        await answered(wire, first)
        assert known(wire, first)
        assert known(wire, call("echo", {"text": "a" * 5000})), "whatever the length of the body"
        assert not known(wire, call("other")), "it says in its head which tool it calls"
        await answered(wire, call("other"), call("echo", {"text": "b" * 5000}, 2), call("other", id_=3))
        assert ids(wire.answers()) == [1, 1, 2, 3]
        assert len(wire.http._heads._known) == 2

    work(test)


LONG: Final = {"x-long": "x" * LONGEST}
BODY: Final = said("echo")
LENGTH: Final = b"Content-Length: %d\r\n" % len(BODY)
STRANGE: Final[dict[str, bytes]] = {
    "waits for leave": call(expect="100-continue"),
    "in chunks": in_chunks(),
    "offers an upgrade": call(connection="upgrade", upgrade="h2c"),
    "closes": call(connection="close"),
    "an older version": call(version="1.0"),
    "a header twice": call().replace(b"\r\n", b"\r\nX-A: 1\r\nx-a: 2\r\n", 1),
    "a folded header": broken(b"X-A: 1\r\n content-length: 3"),
    "bare line feeds": call().replace(b"\r\nHost", b"\nHost"),
    "an empty line before": b"\r\n" + call(),
    "two at once": call() * 2,
    "one and a half": call() + call()[:40],
    "no body": head("POST", "/mcp", fields()),
    "a length with zeros before it": call().replace(b"Content-Length: ", b"Content-Length: " + b"0" * DIGITS),
    "a length that space follows": call().replace(LENGTH, LENGTH.replace(b"\r", b" \r")),
    "a long head": head("POST", "/mcp", [*fields(), *LONG.items(), ("Content-Length", str(len(BODY)))])
    + BODY,
    "no target": call(target="mcp"),
}


@req("HTTP-31", at=E)
@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE)
def test_what_is_not_plain_is_the_parsers(data: bytes) -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Front(make()))
        wire.send(data)
        await wire.settled()
        assert not wire.http._heads._known

    work(test)


@req("HTTP-31", at=E)
def test_what_is_not_all_there_is_the_parsers() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Front(make()))
        data = call("echo", {"text": "a"})
        await answered(wire, data)
        for rest in (
            data[:-1],
            data + b"\r\n",
            data + data,
            data[: data.index(b"\r\n\r\n") + 4],
            data[:30],
            b"",
        ):
            assert not known(wire, rest)
        at = data.index(b"Content-Length: ") + len(b"Content-Length: ")
        for length in (b"", b"-1", b"+9", b"1_0", b" 9", b"0x9", b"9" * (DIGITS + 1), "٣".encode()):
            assert not known(wire, data[:at] + length + data[data.index(b"\r", at) :])
        for place in range(1, len(data)):
            wire.send(data[:place])
            wire.send(data[place:])
            await wire.settled()
        assert set(ids(wire.answers())) == {1}
        assert len(wire.answers()) == len(data)

    work(test)


@req("SEC-6", at=E)
def test_few_heads_are_known_and_the_last_ones_are() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Front(make()))
        kinds = [call("echo", x_kind=str(kind)) for kind in range(KNOWN + 3)]
        await answered(wire, *kinds, kinds[3])
        assert [known(wire, kind) for kind in kinds] == [False] * 3 + [True] * KNOWN
        assert len(wire.answers()) == len(kinds) + 1

    work(test)


# -- the same answers --------------------------------------------------------------------------------------

REQUESTS: Final = st.sampled_from(
    [
        call("echo", {"text": "one"}),
        call("echo", {"text": "two" * 30}, 2),
        call("other", {"text": "3"}, 3),
        call("echo", {"text": "4"}, 4, target="/mcp?x"),
        call("echo", {"text": "5"}, 5, mcp_method="tools/list"),
        call("echo", {"text": "6"}, 6).replace(b"Content-Length", b"content-LENGTH"),
        call("echo", {"text": "7"}, 7, connection="keep-alive"),
        call("echo", {"text": "8"}, 8, target="/nowhere"),
        call("echo", {"text": "9"}, 9, accept="text/event-stream"),
        call("echo", {"text": "10"}, 10).replace(b'"method": "tools/call"', b'"method": "tools/list"'),
        call("echo", {"text": "11"}, 11).replace(E.encode() + b'"', b'1999-01-01"'),
        call("echo", {"text": "12"}, 12).replace(b'"name": "echo"', b'"name": "ECHO"'),
        call("echo", {"text": "13"}, 13).replace(b"jsonrpc", b"JSONRPC"),
        in_chunks(said("echo", {"text": "14"}, 14)),
        head("GET", "/mcp", fields()),
    ]
)


@req("HTTPM-2", "HTTP-31", at=E)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(REQUESTS, st.integers(0, 400)), max_size=12))
def test_what_is_recognised_is_answered_as_what_is_parsed(requests: list[tuple[bytes, int]]) -> None:
    async def test(handler: Served, make: Make) -> None:
        front = Front(make(json_response=True))
        learning, forgetful = Wire(front), Wire(front)
        for data, cut in requests:
            forgetful.http._heads = Heads()
            for wire in (learning, forgetful):
                wire.send(data[:cut])
                wire.send(data[cut:])
                await wire.settled()
        assert learning.received == forgetful.received
        assert len(learning.answers()) == len(requests)

    work(test)


@req("HTTP-31", at=E)
def test_a_body_over_the_limit_is_refused_whatever_its_head() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Front(make(max_body=400)))
        await answered(wire, call("echo"), call("echo", {"text": "x" * 400}), call("echo", id_=3))
        assert [answer.status for answer in wire.answers()] == [200, 413, 200]

    work(test)


# -- the same verdicts -------------------------------------------------------------------------------------

ENDPOINT: Final = Endpoint(DEFAULT)
LIVE: Final = revision(D)
Strategy = st.SearchStrategy[Any]


def _meta(version: object) -> dict[str, Any]:
    return {PREFIX + "protocolVersion": version}


def _body(method: str, params: object, id_: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params}), **id_}


VALUES: Final[list[Any]] = [None, 1, 1.0, True, "tools/call", "echo", E, D, [], {}]
JSON_OF: Final[Strategy] = st.sampled_from(VALUES)
METHODS: Final = st.sampled_from(["tools/call", "tools/list", "initialize", "resources/read"])
METAS: Final[Strategy] = st.one_of(JSON_OF, st.builds(_meta, JSON_OF))
GOOD: Final[Any] = {
    "name": "echo",
    "_meta": {PREFIX + "protocolVersion": E, PREFIX + "clientCapabilities": {}},
}
PARAMS: Final[Strategy] = st.one_of(
    st.none(),
    st.just(GOOD),
    st.fixed_dictionaries({"name": JSON_OF}, optional={"_meta": METAS, "uri": JSON_OF}),
)
OTHERS: Final[list[Any]] = [
    {"jsonrpc": "2.0", "id": 1, "result": {}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m"}},
    {"jsonrpc": "1.0"},
    [{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}],
]
IDS: Final[list[dict[str, Any]]] = [{"id": 1}, {"id": "a"}, {}]
BODIES: Final[Strategy] = st.one_of(
    st.builds(_body, METHODS, PARAMS, st.sampled_from(IDS)), st.sampled_from(OTHERS)
)
HEADS: Final = {
    E: {"mcp-protocol-version": E, "mcp-method": "tools/call", "mcp-name": "echo"},
    D: {"mcp-protocol-version": D, "mcp-session-id": "s"},
}
USUAL: Final = {
    E: json.loads(said("echo")),
    D: {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}},
}


@req("HDR-1", "HDR-3", "NEG-8", "NEG-10", at=(D, E))
@pytest.mark.parametrize("name", HEADS)
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_verdict_that_comes_again_is_the_one_that_would_be_found(name: str, data: st.DataObject) -> None:
    first, body, live = data.draw(BODIES), data.draw(BODIES), data.draw(st.booleans())
    types = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers = Headers([(k.encode(), v.encode()) for k, v in {**types, **HEADS[name]}.items()])
    row = LIVE if live else None
    for learned in (first, USUAL[name]):
        message = parse(json.dumps(learned).encode(), batch=True)
        verdict = classify(ENDPOINT, "POST", headers, message, LIVE)
        verdict = classify(ENDPOINT, "POST", headers, message, LIVE)  # its name is known by now
        found = again(ENDPOINT, headers, message, verdict, 0)
        if learned is USUAL[name]:
            assert isinstance(verdict, Modern | LegacySession)
            assert found is not None
            assert found.verdict(message, LIVE, 0) == verdict
        if found is not None:
            message = parse(json.dumps(body).encode(), batch=True)
            said_again = found.verdict(message, row, 0)
            assert said_again is None or said_again == classify(ENDPOINT, "POST", headers, message, row)
            if isinstance(verdict, Modern):
                assert found.verdict(message, row, 1) is None


@req("HDR-8", "HDR-3", at=E)
def test_a_tool_that_gets_headers_of_its_own_is_held_to_them() -> None:
    async def test(handler: Served, make: Make) -> None:
        handler.tools = [m.Tool(name="region", input_schema=m.ToolInputSchema())]
        app = make(json_response=True)
        wire = Wire(Front(app))
        plain = call("region", {"region": "eu"})
        await answered(wire, plain, plain, plain)
        handler.tools = [m.Tool(name="region", input_schema=REGION)]
        app.server.changed("tools")
        with_header = call("region", {"region": "eu"}, mcp_param_region="eu")
        await answered(
            wire, plain, with_header, with_header, call("region", {"region": "us"}, mcp_param_region="eu")
        )
        answers = wire.answers()
        assert [answer.status for answer in answers] == [200, 200, 200, 400, 200, 200, 400]
        assert json.loads(answers[-1].body)["error"]["code"] == HEADER_MISMATCH

    work(test)


@req("HTTP-21", "HTTP-22", at=D)
def test_a_session_that_is_over_is_not_found_by_a_head_that_is_known() -> None:
    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Front(make(json_response=True)))
        session = {**TYPES, **await opened(wire, LIVE)}
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping"}).encode()
        ping = head("POST", "/mcp", {**session, "content-length": str(len(body))}) + body
        before = len(wire.answers())
        await answered(wire, ping, ping, ping)
        assert known(wire, ping)
        await answered(wire, head("DELETE", "/mcp", session), ping)
        assert [answer.status for answer in wire.answers()[before:]] == [200, 200, 200, 204, 404]

    work(test)


@req("HTTP-28", at=E)
def test_whoever_asks_is_asked_for_each_time() -> None:
    async def test(handler: Served, make: Make) -> None:
        asked: list[str] = []

        def principal(scope: Any) -> str:
            asked.append(dict(scope["headers"])[b"content-length"].decode())
            return str(len(asked))

        wire = Wire(Front(make(json_response=True, principal=principal)))
        requests = [call("echo", {"text": "x" * length}) for length in (1, 1, 20, 1)]
        await answered(wire, *requests)
        assert asked == [str(len(data) - data.index(b"\r\n\r\n") - 4) for data in requests]
        assert len(texts(wire.answers())) == len(requests)

    work(test)


@req("HTTP-31", at=E)
def test_a_length_in_a_body_is_none_of_a_head() -> None:
    """Where the parser reads a length that is written in another way, no line of the body is taken for it."""

    async def test(handler: Served, make: Make) -> None:
        wire = Wire(Front(make(json_response=True)))
        inner = b"\r\ncontent-length: %d\r\n"
        pairs = [*fields(), ("Content-Length", "\t400")]
        start = head("POST", "/mcp", pairs).replace(b"Content-Length: ", b"Content-Length:")
        await answered(wire, start + (inner % 400 + said("echo")).ljust(400))
        assert not known(wire, start + inner % (len(BODY) + 2) + BODY), "most of its body is still to come"
        assert [answer.status for answer in wire.answers()] == [400]

    work(test)


@req("HTTP-28", at=E)
def test_what_is_done_to_the_headers_of_a_request_is_not_done_to_the_next() -> None:
    async def test(handler: Served, make: Make) -> None:
        asked: list[int] = []

        def principal(scope: Any) -> str:
            asked.append(len(scope["headers"]))
            scope["headers"].pop()
            return "somebody"

        wire = Wire(Front(make(json_response=True, principal=principal)))
        await answered(wire, *[call()] * 4)
        assert len(set(asked)) == 1

    work(test)


@req("HDR-8", "HDR-3", at=E)
def test_what_is_let_pass_as_the_tools_cannot_be_listed_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(handler: Served, make: Make) -> None:
        fails = True
        lists = Served.list_tools

        async def may_fail(self: Served, *given: Any) -> Any:
            if fails:
                raise mcprev.InternalError("not now")
            return await lists(self, *given)

        monkeypatch.setattr(Served, "list_tools", may_fail)
        wire = Wire(Front(make(json_response=True)))
        plain = call("region", {"region": "eu"})
        await answered(wire, plain, plain)
        fails = False
        await answered(wire, plain, call("region", {"region": "eu"}, mcp_param_region="eu"))
        answers = wire.answers()
        assert [answer.status for answer in answers] == [200, 200, 400, 200]
        assert json.loads(answers[2].body)["error"]["code"] == HEADER_MISMATCH

    work(test)
