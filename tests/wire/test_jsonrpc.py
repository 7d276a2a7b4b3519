"""BASE-1, 2, 5 to 8, 10, 16, 17; BATCH-1, 2, 5, 6; STDIO-1: bytes to messages and back."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import fields
from math import isinf
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from helpers.requirements import req
from helpers.support import same
from mcprev.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, LocalProtocolError
from mcprev.wire import jsonrpc
from mcprev.wire.bounds import MAX_DEPTH, json_bounds
from mcprev.wire.jsonrpc import (
    MAX_BATCH,
    Batch,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    Shape,
    encode,
    encode_batch,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)

# -- strategies ------------------------------------------------------------------------------------------


def error_of(parts: tuple[dict[str, Any], int, str]) -> dict[str, Any]:
    return {**parts[0], "code": parts[1], "message": parts[2]}


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


any_text = st.text()  # without lone surrogates, which are read and not written
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(any_text, values, max_size=4)
ids = st.integers() | st.text(st.characters(codec=None)) | st.integers(-(2**53), 2**53).map(float)
errors = st.tuples(objects, st.integers(), any_text).map(error_of)
messages = (
    st.builds(Request, ids, any_text, st.none() | objects)
    | st.builds(Notification, any_text, st.none() | objects)
    | st.builds(Response, ids, objects)
    | st.builds(ErrorResponse, st.none() | ids, errors)
)
members = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "code", "message", "x"])
almost: st.SearchStrategy[Any] = st.dictionaries(
    members, scalars | objects | st.just("2.0") | errors | st.lists(scalars, max_size=2)
)


def parse(text: str | bytes, *, batch: bool = False) -> Message | Batch:
    return jsonrpc.parse(text.encode() if isinstance(text, str) else text, batch=batch)


def bad(text: str | bytes, *, batch: bool = False) -> Malformed:
    found = parse(text, batch=batch)
    assert isinstance(found, Malformed), found
    return found


def plain(message: Message) -> dict[str, Any]:
    """The fields of a message, to compare strictly."""
    return {field.name: getattr(message, field.name) for field in fields(message)}


def call(rest: str) -> str:
    return '{"jsonrpc":"2.0",' + rest + "}"


# -- what is a message -------------------------------------------------------------------------------------


@req(
    "BASE-1",
    "BASE-2",
    "BASE-5",
    "BASE-6",
    "BASE-7",
    "BASE-8",
    "BASE-16",
    "BASE-17",
    "STDIO-1",
    everywhere=True,
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(call('"id":1,"method":"ping"'), Request(1, "ping"), id="BASE-1 request"),
        pytest.param(call('"id":1,"method":"a","params":{"b":2}'), Request(1, "a", {"b": 2}), id="BASE-1 params"),
        pytest.param(call('"method":"a"'), Notification("a"), id="BASE-8 notification"),
        pytest.param(call('"method":"a","params":{}'), Notification("a", {}), id="BASE-8 empty params"),
        pytest.param(call('"id":1,"result":{}'), Response(1, {}), id="BASE-6 result"),
        pytest.param(
            call('"id":1,"error":{"code":-1,"message":"m","data":[null]}'),
            ErrorResponse(1, {"code": -1, "message": "m", "data": [None]}), id="BASE-6 error",
        ),
        pytest.param(
            call('"error":{"code":-1,"message":"m"}'), ErrorResponse(None, {"code": -1, "message": "m"}),
            id="BASE-7 no id",
        ),
        pytest.param(
            call('"id":null,"error":{"code":-1,"message":"m"}'),
            ErrorResponse(None, {"code": -1, "message": "m"}), id="BASE-7 null id",
        ),
        pytest.param(call('"id":"1","method":"a"'), Request("1", "a"), id="BASE-5 string id"),
        pytest.param(call('"id":"","method":"a"'), Request("", "a"), id="BASE-2 empty string id"),
        pytest.param(call('"id":-7,"method":"a"'), Request(-7, "a"), id="BASE-2 negative id"),
        pytest.param(
            call('"id":123456789012345678901234567890,"method":"a"'),
            Request(123456789012345678901234567890, "a"), id="BASE-2 large id",
        ),
        pytest.param(call('"id":1.0,"method":"a"'), Request(1.0, "a"), id="BASE-16 integral float id"),
        pytest.param(call('"id":1e2,"method":"a"'), Request(100.0, "a"), id="BASE-16 exponent"),
        pytest.param(
            call('"id":1,"error":{"code":-32600.0,"message":"m"}'),
            ErrorResponse(1, {"code": -32600.0, "message": "m"}), id="BASE-16 code",
        ),
        pytest.param(call('"id":1,"method":"a","x":[1]'), Request(1, "a"), id="BASE-17 unknown member"),
        pytest.param(call('"id":1,"method":"a","params":null'), Request(1, "a"), id="BASE-17 null params"),
        pytest.param(call('"id":1,"result":{},"error":null'), Response(1, {}), id="BASE-6 null error"),
        pytest.param(
            call('"id":1,"result":null,"error":{"code":1,"message":""}'),
            ErrorResponse(1, {"code": 1, "message": ""}), id="BASE-6 null result",
        ),
        pytest.param(call('"id":1,"result":{},"method":null'), Response(1, {}), id="BASE-17 null method"),
        pytest.param(call('"id":1,"method":"a","result":{}'), Request(1, "a"), id="a method decides"),
        pytest.param(call('"id":1,"result":null'), Response(1, None), id="a result is judged elsewhere"),
        pytest.param(call('"method":"a","method":"b"'), Notification("b"), id="the last of two members counts"),
        pytest.param("\ufeff" + call('"method":"a"'), Notification("a"), id="STDIO-1 byte order mark"),
        pytest.param(" \t" + call('"method":"a"') + "\r\n", Notification("a"), id="STDIO-1 CRLF"),
        pytest.param(call('"method":"\u2028\u2029"'), Notification("\u2028\u2029"), id="STDIO-1 separators"),
        pytest.param(call(r'"method":"\ud800"'), Notification("\ud800"), id="BASE-17 lone surrogate"),
        pytest.param("\ufeff" + call(r'"method":"\udfff"'), Notification("\udfff"), id="both"),
        pytest.param(call(r'"method":"\ud83d\ude00"'), Notification("😀"), id="a pair is one character"),
    ],
)  # fmt: skip
def test_reads(text: str, expected: Message) -> None:
    found = parse(text)
    assert type(found) is type(expected)
    assert not isinstance(found, Batch)
    assert same(plain(found), plain(expected))


@req("BASE-1", "BASE-2", "BASE-5", "BASE-6", "BASE-7", "BASE-8", "BASE-10", "BATCH-6", everywhere=True)
@pytest.mark.parametrize(
    ("text", "shape", "request_id"),
    [
        pytest.param("1", Shape.UNKNOWN, None, id="BASE-10 number"),
        pytest.param("null", Shape.UNKNOWN, None, id="BASE-10 null"),
        pytest.param('"text"', Shape.UNKNOWN, None, id="BASE-10 string"),
        pytest.param("{}", Shape.UNKNOWN, None, id="BASE-10 empty object"),
        pytest.param('{"id":1,"method":"a"}', Shape.REQUEST, 1, id="BASE-1 no jsonrpc"),
        pytest.param('{"jsonrpc":"1.0","id":1,"method":"a"}', Shape.REQUEST, 1, id="BASE-1 version 1.0"),
        pytest.param('{"jsonrpc":2.0,"id":1,"method":"a"}', Shape.REQUEST, 1, id="BASE-1 number as version"),
        pytest.param(
            '{"jsonrpc":"1.0","method":"a"}', Shape.NOTIFICATION, None, id="BASE-8 bad notification"
        ),
        pytest.param('{"id":3,"result":{}}', Shape.RESPONSE, 3, id="BASE-1 response without jsonrpc"),
        pytest.param(call('"id":1'), Shape.ID_ONLY, 1, id="BASE-6 only an id"),
        pytest.param(call('"id":null'), Shape.UNKNOWN, None, id="BASE-10 only a null id"),
        pytest.param(call('"id":1,"method":7'), Shape.UNKNOWN, 1, id="BASE-10 number as method"),
        pytest.param(call('"method":7'), Shape.UNKNOWN, None, id="BASE-10 no id, number as method"),
        pytest.param(call('"id":1,"method":null'), Shape.ID_ONLY, 1, id="BASE-6 null as method"),
        pytest.param(call('"id":null,"method":"a"'), Shape.REQUEST, None, id="BASE-2 null id"),
        pytest.param(call('"id":true,"method":"a"'), Shape.REQUEST, None, id="BASE-2 true is not 1"),
        pytest.param(call('"id":1.5,"method":"a"'), Shape.REQUEST, None, id="BASE-2 fraction"),
        pytest.param(call('"id":{},"method":"a"'), Shape.REQUEST, None, id="BASE-2 object id"),
        pytest.param(call('"id":[1],"method":"a"'), Shape.REQUEST, None, id="BASE-2 array id"),
        pytest.param(call('"id":1,"method":"a","params":"x"'), Shape.REQUEST, 1, id="BASE-10 text params"),
        pytest.param(call('"id":1,"method":"a","params":0'), Shape.REQUEST, 1, id="BASE-10 number params"),
        pytest.param(call('"id":1,"method":"a","params":false'), Shape.REQUEST, 1, id="BASE-10 false params"),
        pytest.param(call('"method":"a","params":1'), Shape.NOTIFICATION, None, id="BASE-8 scalar params"),
        pytest.param(call('"result":{}'), Shape.RESPONSE, None, id="BASE-5 result without id"),
        pytest.param(call('"id":null,"result":{}'), Shape.RESPONSE, None, id="BASE-5 result with null id"),
        pytest.param(call('"id":true,"result":{}'), Shape.RESPONSE, None, id="BASE-5 result with bool id"),
        pytest.param(
            call('"id":1,"result":{},"error":{"code":1,"message":"m"}'), Shape.RESPONSE, 1, id="BASE-6 both"
        ),
        pytest.param(call('"id":1,"error":"no"'), Shape.RESPONSE, 1, id="BASE-6 text as error"),
        pytest.param(call('"id":1,"error":null'), Shape.RESPONSE, 1, id="BASE-6 null error alone"),
        pytest.param(call('"id":1,"error":{"code":1}'), Shape.RESPONSE, 1, id="BASE-6 no message"),
        pytest.param(call('"id":1,"error":{"code":1,"message":1}'), Shape.RESPONSE, 1, id="BASE-6 message 1"),
        pytest.param(call('"id":1,"error":{"message":"m"}'), Shape.RESPONSE, 1, id="BASE-6 no code"),
        pytest.param(
            call('"id":1,"error":{"code":"1","message":"m"}'), Shape.RESPONSE, 1, id="BASE-6 text code"
        ),
        pytest.param(call('"id":1,"error":{"code":true,"message":"m"}'), Shape.RESPONSE, 1, id="BASE-6 bool"),
        pytest.param(
            call('"id":1,"error":{"code":1.5,"message":"m"}'), Shape.RESPONSE, 1, id="BASE-6 fraction"
        ),
        pytest.param(
            call('"id":[],"error":{"code":1,"message":"m"}'), Shape.RESPONSE, None, id="BASE-7 bad id"
        ),
        pytest.param("[]", Shape.UNKNOWN, None, id="BATCH-6 empty array"),
        pytest.param("[" + call('"id":1,"method":"a"') + "]", Shape.UNKNOWN, None, id="BATCH-6 array"),
    ],
)
def test_refuses_what_is_json_but_no_message(text: str, shape: Shape, request_id: object) -> None:
    found = bad(text)
    assert (found.code, found.shape) == (INVALID_REQUEST, shape)
    assert same(found.id, request_id)
    assert found.message.startswith("Invalid Request: ")
    assert found.excerpt == text[: jsonrpc.EXCERPT]


@req("BASE-1", "BASE-10", "STDIO-1", everywhere=True)
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="BASE-10 nothing"),
        pytest.param(b"Server listening on port 3000", id="BASE-10 noise"),
        pytest.param(b"{", id="BASE-10 cut off"),
        pytest.param(b"{'a':1}", id="BASE-10 single quotes"),
        pytest.param(b'{"a":1,}', id="BASE-10 trailing comma"),
        pytest.param(b"{} {}", id="BASE-10 two values"),
        pytest.param(b'{"jsonrpc":"2.0","method":"a","params":{"b":NaN}}', id="BASE-1 NaN"),
        pytest.param(b"[Infinity]", id="BASE-1 Infinity"),
        pytest.param(b"-Infinity", id="BASE-1 -Infinity"),
        pytest.param(rb'["\ud800",NaN]', id="BASE-1 NaN beside a surrogate"),
        pytest.param(b'"\xff"', id="BASE-1 invalid UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', id="BASE-1 surrogate in UTF-8"),
        pytest.param(b'"\\ud800\xff"', id="BASE-1 invalid UTF-8 beside a surrogate"),
        pytest.param('{"method":"a"}'.encode("utf-16"), id="BASE-1 UTF-16"),
        pytest.param(b"\xef\xbb\xbf", id="STDIO-1 only a byte order mark"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbf{}", id="STDIO-1 two byte order marks"),
        pytest.param(b"01", id="BASE-10 leading zero"),
        pytest.param(b'{"jsonrpc":"2.0","id":1e999,"method":"a"}', id="BASE-1 an id beyond a double"),
        pytest.param(b"9" * 5000, id="BASE-10 more digits than any integer"),
        pytest.param(b"[" * 100_000, id="BASE-10 bottomless"),
        pytest.param(b"[" * 250 + b"]" * 250, id="BASE-10 deep"),
        pytest.param(b"[" * 250 + rb'"\ud800"' + b"]" * 250, id="BASE-10 deep beside a surrogate"),
        pytest.param(b"[" * 100_000 + rb'"\ud800"', id="BASE-10 bottomless beside a surrogate"),
        pytest.param(bytes(range(256)), id="BASE-10 binary"),
    ],
)
def test_tells_apart_what_is_not_json(data: bytes) -> None:
    found = bad(data)
    assert (found.code, found.id, found.shape) == (PARSE_ERROR, None, Shape.NOT_JSON)
    assert found.message.startswith("Parse error: ")
    assert len(found.excerpt) <= jsonrpc.EXCERPT


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,320})(\.[0-9]{1,3})?([eE][+-]?0{0,2}[0-9]{1,4})?", fullmatch=True)


@req("BASE-1", "BASE-16", everywhere=True)
@given(NUMBERS)
@example("1" + "0" * 308 + ".0")
@example("1" + "0" * 309 + ".0")
@example("9" * 210 + "e99")
@example("0.001e+000311")
@example("0.0e999")
@example("1E400")
@example("-1e400")
@example("1e-400")
def test_base_1_a_number_beyond_a_double_is_refused(number: str) -> None:
    found = parse(call(f'"id":1,"method":"a","params":{{"n":{number},"text":"1e999"}}'))
    if isinf(float(number)) and not number.lstrip("-").isdigit():
        assert isinstance(found, Malformed)
        assert (found.code, found.id, found.shape) == (PARSE_ERROR, 1, Shape.REQUEST)
        assert found.message == "Parse error: a number beyond the range of a double"
    else:
        assert isinstance(found, Request)
        assert found.params == {"n": json.loads(number), "text": "1e999"}


# -- what is refused unread ----------------------------------------------------------------------------------

DEEP = "[" * 300 + "]" * 300
UNREAD = {
    "deep": (DEEP, PARSE_ERROR, f"Parse error: nested deeper than {MAX_DEPTH}"),
    "deep beside a surrogate": (
        r'["\ud800",' + DEEP + "]", PARSE_ERROR, f"Parse error: nested deeper than {MAX_DEPTH}",
    ),
    "digits": ("9" * 5000, PARSE_ERROR, "Parse error: number out of range"),
    "huge": ('{"a":[1e999]}', PARSE_ERROR, "Parse error: a number beyond the range of a double"),
    "NaN": ("NaN", PARSE_ERROR, "Parse error: "),
    "values": (
        "[" + "{}," * 600_000 + "{}]", INVALID_REQUEST,
        "Invalid Request: a message of more than 500000 JSON values (mcprev.json_bounds.max_values)",
    ),
}  # fmt: skip


@req("BASE-5", "BASE-7", "BASE-10", "SEC-6", everywhere=True)
@pytest.mark.parametrize(("value", "code", "why"), UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize(
    ("members", "request_id", "shape"),
    [
        (['"id":7', '"method":"a"', '"params":{}'], 7, Shape.REQUEST),
        (['"method":"a"', '"params":{}', '"id":"x"'], "x", Shape.REQUEST),
        (['"params":{}', '"id":-1', '"method":"a"'], -1, Shape.REQUEST),
        (['"method":"a,\\"id\\":1"', '"id":7', '"params":{}'], 7, Shape.REQUEST),
        (['"method":"a"', '"params":{}'], None, None),
        (['"id":null', '"method":"a"', '"params":{}'], None, None),
        (['"id":true', '"method":"a"', '"params":{}'], None, None),
        (['"id":1.5', '"params":{}'], None, None),
        (['"id":7', '"result":{}'], 7, Shape.RESPONSE),
        (['"result":{}', '"id":7'], 7, Shape.RESPONSE),
        (['"error":{}', '"id":7'], 7, Shape.RESPONSE),
        (['"id":7', '"params":{}'], 7, Shape.ID_ONLY),
    ],
)
def test_base_7_what_is_refused_unread_keeps_its_id(
    value: str, code: int, why: str, members: list[str], request_id: RequestId | None, shape: Shape | None
) -> None:
    inside = '{"id":3,"x":' + value + ',"id":4}'
    for space, first in itertools.product(("", " "), (0, len(members))):
        written = [member.replace("{}", inside).replace(":", space + ":" + space) for member in members]
        written.insert(first, '"jsonrpc":"2.0"')
        found = bad("{" + f"{space},{space}".join(written) + "}")
        assert found.code == code
        assert found.message.startswith(why)
        assert same(found.id, request_id)
        assert found.shape is (shape or (Shape.NOT_JSON if code == PARSE_ERROR else Shape.UNKNOWN))


@req("BASE-10", "SEC-6", everywhere=True)
def test_as_many_values_as_are_allowed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_bounds, "max_values", 1000)
    envelope = 11  # the object, its four keys and their values, and the key and the array of the params
    for filler in ("1", '","', '"\\""', '"[[[:::\\\\"', '""'):
        for count, kind in ((1000 - envelope, Request), (1001 - envelope, Malformed)):
            items = ",".join([filler] * count).ljust(1000)
            assert type(parse(call(f'"id":1,"method":"a","params":{{"a":[{items}]}}'))) is kind
    texts = json.dumps(["[{:,}]" * 100_000, '"'])
    assert isinstance(parse(call(f'"id":1,"method":"a","params":{{"a":{texts}}}')), Request)


@req("BASE-5", "BASE-8", "BASE-10", everywhere=True)
@pytest.mark.parametrize(
    ("text", "answered"),
    [
        pytest.param("{", True, id="BASE-10 not JSON"),
        pytest.param("7", True, id="BASE-10 not an object"),
        pytest.param(call('"id":7,"method":1'), True, id="BASE-10 not a request"),
        pytest.param(call('"id":7,"method":"a","params":1'), True, id="BASE-10 bad request"),
        pytest.param(call('"method":"a","params":1'), False, id="BASE-8 bad notification"),
        pytest.param(call('"id":7,"error":1'), False, id="BASE-5 bad response"),
    ],
)
def test_says_what_to_answer(text: str, answered: bool) -> None:
    found = bad(text)
    assert found.answer == (
        ErrorResponse(found.id, {"code": found.code, "message": found.message}) if answered else None
    )


@req("BASE-10", everywhere=True)
def test_array_params_fit_no_method() -> None:
    found = bad(call('"id":1,"method":"a","params":[1]'))
    assert (found.code, found.id, found.shape) == (INVALID_PARAMS, 1, Shape.REQUEST)
    assert found.message == "Invalid params: params is not an object"


@req("BASE-10", "SEC-6", everywhere=True)
@pytest.mark.parametrize("escape", ["", r'"\ud800",'])
def test_base_10_both_parsers_allow_the_same_depth(escape: str) -> None:
    for depth, expected in ((MAX_DEPTH - 1, Shape.UNKNOWN), (MAX_DEPTH + 2, Shape.NOT_JSON)):
        assert bad("[" * depth + escape + "1" + "]" * depth).shape is expected


@req("BASE-10", everywhere=True)
def test_a_message_says_nothing_of_what_was_sent() -> None:
    for text in (
        '{"secret',
        call('"id":"secret","method":["secret"]'),
        rb'"secret \ud800 secret',
        '"secret\ud7ff',
    ):
        assert "secret" not in bad(text).message
        assert "secret" in bad(text).excerpt


@req("BASE-1", everywhere=True)
def test_a_bytearray_is_as_good() -> None:
    assert jsonrpc.parse(bytearray(b'{"jsonrpc":"2.0","method":"a"}'), batch=False) == Notification("a")
    assert isinstance(jsonrpc.parse(bytearray(b"\xff"), batch=False), Malformed)


# -- batches -----------------------------------------------------------------------------------------------


@req("BATCH-1", everywhere=True)
def test_batch_1_members_keep_their_order_and_kind() -> None:
    members = [call('"id":1,"method":"a"'), call('"method":"b"'), call('"id":2,"result":{}')]
    found = parse(f"[{','.join(members)}]", batch=True)
    assert found == Batch((Request(1, "a"), Notification("b"), Response(2, {})))


@req("BATCH-1", everywhere=True)
def test_batch_1_a_single_message_is_no_batch() -> None:
    assert parse(call('"method":"a"'), batch=True) == Notification("a")


@req("BATCH-5", everywhere=True)
def test_batch_5_an_empty_array_is_one_error() -> None:
    found = bad(" [] ", batch=True)
    assert (found.code, found.id) == (INVALID_REQUEST, None)
    assert found.answer is not None


@req("BATCH-5", everywhere=True)
def test_batch_5_each_bad_member_is_an_error_of_its_own() -> None:
    found = parse('[1,"two",[],' + call('"method":"a"') + ",{}]", batch=True)
    assert isinstance(found, Batch)
    one, two, nested, good, empty = found.messages
    assert good == Notification("a")
    for member, excerpt in ((one, "1"), (two, '"two"'), (nested, "[]"), (empty, "{}")):
        assert isinstance(member, Malformed)
        assert (member.code, member.id, member.excerpt) == (INVALID_REQUEST, None, excerpt)


@req("BATCH-5", "SEC-6", everywhere=True)
def test_batch_5_too_many_members_are_one_error() -> None:
    assert isinstance(parse("[" + ",".join("1" * MAX_BATCH) + "]", batch=True), Batch)
    assert bad("[" + ",".join("1" * (MAX_BATCH + 1)) + "]", batch=True).code == INVALID_REQUEST


@req("BATCH-2", everywhere=True)
def test_batch_2_an_answer_is_one_array() -> None:
    answers = [
        encode_result(1, {"a": "\u2028"}),
        encode_error(None, {"code": 1, "message": "m"}, null_id=True),
    ]
    assert parse(encode_batch(answers), batch=True) == Batch(
        (Response(1, {"a": "\u2028"}), ErrorResponse(None, {"code": 1, "message": "m"}))
    )


# -- anything at all -----------------------------------------------------------------------------------------


@req("BASE-10", everywhere=True)
@given(st.binary() | st.text().map(str.encode) | almost.map(dump), st.booleans())
@example(b"\xef\xbb\xbf\\ud800", True)
def test_base_10_parse_never_raises(data: bytes, batch: bool) -> None:
    found = jsonrpc.parse(data, batch=batch)
    if isinstance(found, Malformed):
        assert found.code in {PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS}
        assert found.shape is not Shape.NOT_JSON or found.code == PARSE_ERROR
        if found.answer is not None:
            assert isinstance(parse(encode(found.answer, null_id_in_errors=True)), ErrorResponse)


@req("BATCH-5", everywhere=True)
@given(st.lists(almost | values, max_size=5))
def test_batch_5_members_never_raise_either(found: list[object]) -> None:
    read = parse(dump(found), batch=True)
    assert isinstance(read, Batch) if found else isinstance(read, Malformed)
    if isinstance(read, Batch):
        assert len(read.messages) == len(found)


@req("BASE-5", "BASE-17", everywhere=True)
@given(messages, st.booleans())
def test_base_5_and_17_what_is_written_is_read_exactly(message: Message, null_id: bool) -> None:
    assert not isinstance(message, Malformed)
    data = encode(message, null_id_in_errors=null_id)
    assert not any(end in data for end in (b"\n", b"\r", b"\xe2\x80\xa8", b"\xe2\x80\xa9"))
    found = parse(data)
    assert type(found) is type(message)
    assert not isinstance(found, Batch)
    assert same(plain(found), plain(message))


# -- writing -------------------------------------------------------------------------------------------------


@req("BASE-5", everywhere=True)
@pytest.mark.parametrize(
    ("request_id", "text"),
    [(1, b"1"), ("1", b'"1"'), (1.0, b"1.0"), (10**30, b"1" + b"0" * 30), ('"\n', rb'"\"\n"'), (-3, b"-3")],
)
def test_base_5_ids_are_written_as_they_came(request_id: RequestId, text: bytes) -> None:
    expected = b'{"jsonrpc":"2.0","id":' + text + b',"result":{}}'
    assert encode_result(request_id, {}) == expected
    assert b'"id":' + text + b"," in encode_request(request_id, "a", {})
    assert b'"id":' + text + b"," in encode_error(request_id, {"code": 1, "message": "m"})


@req("BASE-7", everywhere=True)
def test_base_7_a_missing_id_is_null_or_left_out() -> None:
    error = {"code": PARSE_ERROR, "message": "m"}
    assert encode_error(None, error, null_id=True).startswith(b'{"jsonrpc":"2.0","id":null,"error":')
    assert (
        encode_error(None, error, null_id=False) == b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}'
    )
    assert encode(ErrorResponse(None, error), null_id_in_errors=False) == encode_error(None, error)


@req("BASE-17", everywhere=True)
def test_base_17_absent_params_are_not_written() -> None:
    assert encode_request(1, "a", None) == b'{"jsonrpc":"2.0","id":1,"method":"a"}'
    assert encode_notification("a", None) == b'{"jsonrpc":"2.0","method":"a"}'
    assert encode_notification("a", {}) == b'{"jsonrpc":"2.0","method":"a","params":{}}'


@req("STDIO-1", everywhere=True)
def test_stdio_1_a_message_stays_on_one_line() -> None:
    data = encode_result(1, {"text": "a\nb\u2028c\u2029d\r"})
    assert b"\n" not in data
    assert "\u2028".encode() not in data
    assert parse(data) == Response(1, {"text": "a\nb\u2028c\u2029d\r"})


@req("BASE-17", everywhere=True)
@pytest.mark.parametrize("text", ["\udc80", "a\ud800b", "\ud800\ud800", "\ud800\ue000", "x\ud83d"])
def test_a_lone_surrogate_is_sent_as_the_replacement_character(text: str) -> None:
    """Python makes them of file names that are not UTF-8; the readers of most languages refuse the message."""
    shown = re.sub("[\ud800-\udfff]", "\ufffd", text)
    for data in (
        encode_notification(text, {text: [text]}),
        encode_result(1, {text: [text]}),
        encode_request(1, text, {text: [text]}),
        encode_error(1, {"code": 1, "message": text, "data": {text: [text]}}),
    ):
        found = json.dumps(json.loads(data), ensure_ascii=False)
        assert text not in found
        assert shown in found
        data.decode()


@req("BASE-16", everywhere=True)
@pytest.mark.parametrize("id_", ["\ud800", '"id":null'])
def test_an_id_is_what_the_peer_wrote(id_: str) -> None:
    data = encode_result(id_, {"text": "\ud800", "id": None})
    assert json.loads(data) == {"jsonrpc": "2.0", "id": id_, "result": {"text": "\ufffd", "id": None}}


@req("BASE-1", everywhere=True)
def test_other_characters_pass_beside_a_lone_surrogate() -> None:
    text = "\x00\x7f\u2028é\U0001f600\ufeff\uffff"
    assert json.loads(encode_result(1, {"text": text + "\ud800"}))["result"]["text"] == text + "\ufffd"


@req("BASE-1", everywhere=True)
def test_it_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    jsonrpc._tell_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    for _ in range(2):
        encode_result(1, {"text": "\ud800"})
    assert [record.name for record in caplog.records] == ["mcprev.wire"]


@req("BASE-1", everywhere=True)
def test_base_1_numbers_that_json_lacks_become_null() -> None:
    assert (
        encode_result(1, {"a": [float("nan"), float("-inf")]})
        == b'{"jsonrpc":"2.0","id":1,"result":{"a":[null,null]}}'
    )


@req("BASE-1", everywhere=True)
@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"a": object()}, id="no value of JSON"),
        pytest.param({"a": "\ud800", "b": float("inf")}, id="the slow writer has no null for it"),
    ],
)
def test_what_is_not_json_is_a_local_error(params: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be written as JSON"):
        encode_notification("a", params)


@req("BASE-1", everywhere=True)
def test_a_value_that_holds_itself_is_a_local_error() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(LocalProtocolError):
        encode_result(1, loop)
