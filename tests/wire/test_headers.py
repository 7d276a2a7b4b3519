"""HDR-1 to 6, HDR-8; HTTP-25; AMB-8: the headers that repeat what a body says, and their check."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from helpers.requirements import B, C, D, E, req
from mcprev.errors import HEADER_MISMATCH, LocalProtocolError
from mcprev.revisions import ALL, Era, Revision
from mcprev.wire.headers import (
    Headers,
    Pairs,
    decode_value,
    encode_value,
    equals_argument,
    mismatch,
    name_param,
    param_mismatch,
    render,
    request_headers,
)
from mcprev.wire.param_headers import MAX_SAFE, ParamHeader, find_annotations

DRAFT = ALL[-1]
BY_NAME = {row.name: row for row in ALL}
unicode_text = st.text(st.characters(codec="utf-8"))


def raw(pairs: Pairs) -> list[tuple[bytes, bytes]]:
    """Headers as they arrive: names in any case, lowered by the HTTP server, and values as bytes."""
    return [(name.lower().encode(), value.encode("ascii")) for name, value in pairs]


# -- values ------------------------------------------------------------------------------------------------------


@req("HDR-5")
@given(unicode_text)
@example("=?base64?")
@example("=?base64?=")
@example("=?base64??=")
@example("=?BASE64?x?=")
@example("=?base64?w6k=?=")
@example(" x")
@example("x\t")
@example("a\tb")
@example("")
def test_values_survive_and_are_such_as_http_carries(text: str) -> None:
    value = encode_value(text)
    assert decode_value(value) == text
    assert value.isascii()
    assert value.isprintable()
    assert value == value.strip()


@req("HDR-5")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""), ("echo", "echo"), ("a b", "a b"), ("file:///path/to/file%20name.txt", "file:///path/to/file%20name.txt"),
        ("~!#", "~!#"), ("=?base64", "=?base64"), ("=?utf-8?q?x?=", "=?utf-8?q?x?="),
        ("é", "=?base64?w6k=?="), (" x", "=?base64?IHg=?="), ("x ", "=?base64?eCA=?="), ("a\tb", "=?base64?YQli?="),
        ("a\nb", "=?base64?YQpi?="), ("a\r", "=?base64?YQ0=?="), ("\x7f", "=?base64?fw==?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="), ("日本", "=?base64?5pel5pys?="),
    ],
)  # fmt: skip
def test_values_on_the_wire(text: str, value: str) -> None:
    assert encode_value(text) == value
    assert decode_value(value) == text


@req("HDR-5")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\tb", "a\tb"), ("=?base64?eA==", "=?base64?eA=="), ("eA==?=", "eA==?="), ("=?base64?=", "=?base64?="),
        ("=?BASE64?eA==?=", "=?BASE64?eA==?="), ("=?base64??=", ""),
    ],
)  # fmt: skip
def test_what_is_read_as_it_stands(value: str, text: str) -> None:
    assert decode_value(value) == text


@req("HDR-5", "HDR-8")
@pytest.mark.parametrize(
    "value",
    [
        "=?base64?eA?=", "=?base64?eA=?=", "=?base64?e?=", "=?base64?eA==eA==?=", "=?base64?e A==?=", "=?base64?-_-_?=",
        "=?base64?eA==\n?=", "=?base64?/w==?=", "=?base64?====?=", "é", "a\nb", "\x00", "\x7f",
    ],
)  # fmt: skip
def test_what_is_malformed(value: str) -> None:
    with pytest.raises(ValueError, match=r"base64|characters"):
        decode_value(value)


@req("HDR-5")
@given(st.text(st.characters(codec="latin-1")))
def test_reading_gives_text_or_says_why_not(value: str) -> None:
    try:
        text = decode_value(value)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either is right
    else:
        assert decode_value(encode_value(text)) == text


@req("HDR-5")
def test_what_is_not_unicode_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="no UTF-8 encoding"):
        encode_value("\ud800")


# -- what a client sends -----------------------------------------------------------------------------------------


@req("HTTP-25", "HDR-1")
def test_the_version_is_said_on_everything_after_it_was_agreed_on(row: Revision) -> None:
    version = ("MCP-Protocol-Version", row.version)
    for method in (None, "tools/list", "notifications/initialized"):
        assert version in request_headers(row, method)


@req("HTTP-25", at=(B, C, D))
@pytest.mark.parametrize("revision", [B, C, D])
def test_initialize_and_revisions_without_the_header_say_no_version(revision: str) -> None:
    row = BY_NAME[revision]
    assert request_headers(row, "initialize", {"protocolVersion": row.version}) == []
    if not row.version_header:
        assert request_headers(row, "tools/list") == []


@req("HDR-2")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "echo", "arguments": {}}, "echo"),
        ("tools/call", {"name": "écho"}, "=?base64?w6ljaG8=?="),
        ("prompts/get", {"name": "greet"}, "greet"),
        ("resources/read", {"uri": "file:///a%20b", "name": "x"}, "file:///a%20b"),
        ("tasks/get", {"taskId": "t-1"}, "t-1"),
        ("tasks/update", {"taskId": "t-1"}, "t-1"),
        ("tasks/cancel", {"taskId": "t-1"}, "t-1"),
        ("tools/list", {"name": "x"}, None),
        ("server/discover", None, None),
        ("subscriptions/listen", {"uri": "x"}, None),
        ("tools/call", {}, None),
        ("tools/call", None, None),
        ("tools/call", {"name": 1}, None),
        ("vendor/method", {"name": "x"}, None),
    ],
)
@pytest.mark.parametrize("row", [BY_NAME[E], DRAFT], ids=lambda row: row.name)
def test_method_and_name(row: Revision, method: str, params: dict[str, Any] | None, name: str | None) -> None:
    expected = [("MCP-Protocol-Version", row.version), ("Mcp-Method", method)]
    if name is not None:
        expected.append(("Mcp-Name", name))
    assert request_headers(row, method, params) == expected


@req("HDR-2", "HDR-6")
@pytest.mark.parametrize("row", [row for row in ALL if row.handshake], ids=lambda row: row.name)
def test_sessions_have_no_such_headers(row: Revision) -> None:
    sent = request_headers(
        row, "tools/call", {"name": "x", "arguments": {"a": "b"}}, [ParamHeader("A", ("a",), "string")]
    )
    assert not [name for name, _ in sent if name.startswith("Mcp-")]
    assert name_param(row, "tools/call") is None


@req("HDR-1", "HDR-2", "HDR-6")
def test_odd_requests_have_headers_too() -> None:
    row = BY_NAME[E]
    assert request_headers(row, "initialize", {}) == [
        ("MCP-Protocol-Version", E),
        ("Mcp-Method", "initialize"),
    ]
    assert request_headers(row, "tools/call", None, PARAMS) == [
        ("MCP-Protocol-Version", E),
        ("Mcp-Method", "tools/call"),
    ]


@req("AMB-8")
def test_notifications_say_version_and_method() -> None:
    assert request_headers(BY_NAME[E], "notifications/cancelled", {"requestId": 1}) == [
        ("MCP-Protocol-Version", E), ("Mcp-Method", "notifications/cancelled"),
    ]  # fmt: skip


PARAMS = (
    ParamHeader("Region", ("region",), "string"),
    ParamHeader("Size", ("box", "size"), "integer"),
    ParamHeader("Dry-Run", ("dry",), "boolean"),
)


@req("HDR-6")
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu", "box": {"size": 42}, "dry": True}, ["Region: eu", "Size: 42", "Dry-Run: true"]),
        ({"region": "", "box": {"size": 0}, "dry": False}, ["Region: ", "Size: 0", "Dry-Run: false"]),
        ({"region": None, "box": {"size": None}, "dry": None}, []),
        ({}, []),
        (None, []),
        ({"box": None}, []),
        ({"box": 3, "region": "é"}, ["Region: =?base64?w6k=?="]),
        ({"region": " eu"}, ["Region: =?base64?IGV1?="]),
        ({"box": {"size": 42.0}}, ["Size: 42"]),
        ({"box": {"size": -MAX_SAFE}}, [f"Size: {-MAX_SAFE}"]),
        ({"box": {"size": "12"}}, ["Size: 12"]),
        ({"size": 1, "other": "x"}, []),
    ],
)
def test_arguments_as_headers(arguments: Any, headers: list[str]) -> None:
    sent = request_headers(BY_NAME[E], "tools/call", {"name": "t", "arguments": arguments}, PARAMS)
    assert [f"{name.removeprefix('Mcp-Param-')}: {value}" for name, value in sent[3:]] == headers


@req("HDR-6")
@pytest.mark.parametrize(
    "value", [1.5, [], {}, ["a"], MAX_SAFE + 1, -MAX_SAFE - 1, 1e300, float("inf"), float("nan")]
)
def test_an_argument_that_no_header_can_say_is_refused_before_it_is_sent(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"box\.size .* Mcp-Param-Size"):
        render(value, PARAMS[1])


# -- what a server checks ----------------------------------------------------------------------------------------

GOOD = [
    (b"mcp-protocol-version", E.encode()),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"echo"),
    (b"accept", b"x"),
]


def checked(pairs: list[tuple[bytes, bytes]], params: dict[str, Any] | None = None) -> str | None:
    """What is said of a call of `echo` with these headers."""
    named = {"name": "echo"} if params is None else params
    wrong = mismatch(Headers.of(pairs), E, "tools/call", named, "name")
    assert wrong is None or wrong.code == HEADER_MISMATCH
    return None if wrong is None else wrong.message


def but(name: bytes, *values: bytes) -> list[tuple[bytes, bytes]]:
    """The good headers with another value, or several, or none."""
    return [pair for pair in GOOD if pair[0] != name] + [(name, value) for value in values]


@req("HDR-1", "HDR-3")
def test_headers_that_fit() -> None:
    assert checked(GOOD) is None
    assert checked(but(b"mcp-name", b" echo\t")) is None
    assert checked(but(b"mcp-name", b"=?base64?ZWNobw==?=")) is None
    assert checked(but(b"accept", b"a", b"b")) is None
    assert checked([*GOOD, (b"mcp-param-x", b"\xff")]) is None


@req("HDR-1", "HDR-3", "HDR-4")
@pytest.mark.parametrize("name", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
def test_headers_that_do_not(name: bytes) -> None:
    value = dict(GOOD)[name]
    canonical = {b"mcp-protocol-version": "MCP-Protocol-Version", b"mcp-method": "Mcp-Method"}.get(
        name, "Mcp-Name"
    )
    for wrong, why in [
        (but(name), "is missing"),
        (but(name, b"x"), "does not match the body"),
        (but(name, b""), "does not match the body"),
        (but(name, value.upper() if value.islower() else value + b"x"), "does not match the body"),
        (but(name, value, value), "is repeated"),
        (but(name, value, b"x"), "is repeated"),
        (but(name, value + b"\xe9"), "is malformed"),
        (but(name, value + b"\x01"), "is malformed"),
        (but(name, b"=?base64?e?="), "is malformed"),
        (but(name, b"=?base64?/w==?="), "is malformed"),
    ]:
        said = checked(wrong)
        assert said is not None, wrong
        assert said.startswith(f"Header mismatch: {canonical} {why}")


@req("HDR-3", "HDR-5")
@pytest.mark.parametrize("name", ["écho", "=?base64?x?=", " echo", "\xa0echo", ""])
def test_names_are_compared_after_decoding(name: str) -> None:
    assert checked(but(b"mcp-name", encode_value(name).encode()), {"name": name}) is None
    if not name.isascii():
        assert "malformed" in (checked(but(b"mcp-name", name.encode("latin-1")), {"name": name}) or "")
        assert "malformed" in (checked(but(b"mcp-name", name.encode()), {"name": name}) or "")


@req("HDR-3")
def test_a_name_in_the_header_alone() -> None:
    assert checked(GOOD, {}) == "Header mismatch: Mcp-Name is present, but params.name is not a string"
    assert (
        checked(GOOD, {"name": 7}) == "Header mismatch: Mcp-Name is present, but params.name is not a string"
    )
    assert checked(but(b"mcp-name"), {}) is None  # what is wrong here is for the check of the params to say
    assert mismatch(Headers.of(but(b"mcp-method", b"tools/list")), E, "tools/list", {}, None) is None


json_scalars = st.none() | st.booleans() | st.integers(-MAX_SAFE, MAX_SAFE) | unicode_text


@req("HDR-1", "HDR-2", "HDR-3", "HDR-6", "HDR-8")
@given(
    st.sampled_from(["tools/call", "prompts/get", "resources/read", "tasks/get", "tools/list"]), unicode_text,
    st.fixed_dictionaries({}, optional={"region": json_scalars, "dry": json_scalars,
                                        "box": json_scalars | st.fixed_dictionaries({"size": json_scalars})}),
)  # fmt: skip
def test_what_a_client_sends_a_server_lets_through(method: str, name: str, arguments: dict[str, Any]) -> None:
    row = BY_NAME[E]
    named = name_param(row, method)
    params: dict[str, Any] = {"arguments": arguments, **({named: name} if named else {})}
    sent = Headers.of(raw(request_headers(row, method, params, PARAMS)))
    assert mismatch(sent, row.version, method, params, named) is None
    assert param_mismatch(sent, arguments, PARAMS) is None


@req("HDR-8")
@pytest.mark.parametrize(
    ("header", "value", "fits"),
    [
        (b"42", 42, True), (b"42.0", 42, True), (b"42", 42.0, True), (b"4.2e1", 42, True), (b"042", 42, True),
        (b"-0", 0, True), (b"43", 42, False), (b"", 42, False), (b"x", 42, False), (b"42x", 42, False),
        (b"+42", 42, False), (b" 42", 42, True), (b"0x2a", 42, False), (b"4_2", 42, False), (b"1e999999999", 42, False),
        ("٤٢".encode(), 42, False), (b"9007199254740993", 2**53, False), (b"9007199254740991", MAX_SAFE, True),
        (b"=?base64?NDI=?=", 42, True), (b"true", True, True), (b"True", True, False), (b"1", True, False),
        (b"false", False, True), (b"0", False, False), (b"", False, False), (b"1", 1, True), (b"true", 1, False),
        (b"", "", True), (b"eu", "eu", True), (b"EU", "eu", False), (b"42.0", "42", False), (b"null", "null", True),
        (b"[]", [], False), (b"{}", {}, False), (None, [], False), (None, "eu", False), (None, "", False),
        (None, 0, False), (None, False, False), (None, None, True), (b"", None, False), (b"null", None, False),
        (b"\xff", "ÿ", False), (b"a\x00b", "a\x00b", False), (b"=?base64?!?=", "x", False),
    ],
)  # fmt: skip
def test_arguments_are_compared_with_their_headers(header: bytes | None, value: Any, fits: bool) -> None:
    for size in (PARAMS[1], ParamHeader("sIZE", ("box", "size"), "string")):
        pairs = [] if header is None else [(b"mcp-param-size", header)]
        wrong = param_mismatch(Headers.of(pairs), {"box": {"size": value}}, [size])
        assert (wrong is None) is fits
        assert wrong is None or size.header in wrong.message


@req("HDR-8")
def test_a_repeated_or_absent_argument_header() -> None:
    twice = Headers.of([(b"mcp-param-region", b"eu"), (b"mcp-param-region", b"eu")])
    said = param_mismatch(twice, {"region": "eu"}, PARAMS)
    assert said is not None
    assert "is repeated" in said.message
    said = param_mismatch(Headers.of([(b"mcp-param-region", b"eu")]), None, PARAMS)
    assert said is not None
    assert said.message == "Header mismatch: Mcp-Param-Region is present, but the argument region is missing"


@req("HDR-8")
@given(json_scalars, json_scalars)
def test_one_argument_does_not_pass_for_another(left: Any, right: Any) -> None:
    if left is None or right is None:
        return
    text = decode_value(render(left, PARAMS[0]))
    number = int | float
    same_kind = isinstance(left, str) == isinstance(right, str) and isinstance(left, bool) == isinstance(
        right, bool
    )
    if same_kind and (
        left != right if isinstance(left, str) or isinstance(right, number) else left is not right
    ):
        assert not equals_argument(text, right)
    if same_kind and left == right:
        assert equals_argument(text, right)


@req("HDR-4")
def test_names_are_compared_without_regard_to_case() -> None:
    (header,) = find_annotations({"properties": {"a": {"type": "string", "x-mcp-header": "ReGion"}}}).headers
    assert (header.header, header.key) == ("Mcp-Param-ReGion", b"mcp-param-region")


@req("HDR-3", "HDR-4")
def test_repeated_headers_are_one_list() -> None:
    headers = Headers.of([(b"accept", b"a"), (b"x", b"1"), (b"accept", b" b ")])
    assert headers.get(b"accept") == b"a, b"
    assert headers.repeated == {b"accept"}
    assert b"x" in headers
    assert headers.get(b"y") is None
    assert headers.text(b"y") is None


@req("HDR-5")
def test_base64_is_that_of_the_library() -> None:
    assert encode_value("é" * 1000) == f"=?base64?{base64.b64encode(('é' * 1000).encode()).decode()}?="


@req("HDR-2")
def test_every_method_that_the_schema_names_a_parameter_for_exists() -> None:
    for row in ALL:
        named = {method for method, spec in row.methods.items() if spec.name_param is not None}
        assert bool(named) is (row.era is Era.STATELESS) is row.routing_headers
