"""STDIO-1 and STDIO-9: lines out of chunks."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import req
from mcprev.errors import INVALID_REQUEST
from mcprev.transports.lines import LineBuffer
from mcprev.wire.jsonrpc import Malformed, Shape


def drain(buffer: LineBuffer, *chunks: bytes) -> list[bytes | Malformed]:
    return [line for chunk in (*chunks, b"\n") for line in buffer.feed(chunk)]


@req("STDIO-1", everywhere=True)
@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="STDIO-1 two lines"),
        pytest.param([b"a", b"b", b"\nc\nd", b"\n"], [b"ab", b"c", b"d"], id="STDIO-1 pieces"),
        pytest.param([b"a\r\nb\r", b"\n"], [b"a", b"b"], id="STDIO-1 CRLF"),
        pytest.param([b"a\rb\n"], [b"a\rb"], id="STDIO-1 CR alone ends nothing"),
        pytest.param(
            ["a\u2028b\u2029c\x85d\n".encode()], ["a\u2028b\u2029c\x85d".encode()], id="STDIO-1 separators"
        ),
        pytest.param([b"a\x0b\x0c\x1c\n"], [b"a\x0b\x0c\x1c"], id="STDIO-1 controls"),
        pytest.param([b"\n\n \t\r\na\n\n"], [b"a"], id="blank lines"),
        pytest.param([b"", b"a", b"", b"\n"], [b"a"], id="empty chunks"),
        pytest.param([b"a\nb"], [b"a", b"b"], id="the end ends a line"),
        pytest.param([b"a\n", b" \r"], [b"a"], id="nothing is left"),
    ],
)
def test_stdio_1_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    assert drain(LineBuffer(), *chunks) == lines


@req("STDIO-1", everywhere=True)
def test_stdio_1_a_line_is_given_as_soon_as_it_ends() -> None:
    buffer = LineBuffer()
    assert buffer.feed(b"a") == []
    assert buffer.feed(b"b\nc") == [b"ab"]
    assert buffer.feed(b"\n") == [b"c"]
    assert buffer.feed(b"\n") == []


@req("STDIO-9", "SEC-6", everywhere=True)
def test_stdio_9_a_line_over_the_limit_is_told_once_and_at_once() -> None:
    buffer = LineBuffer(4)
    assert buffer.feed(b"1234") == []
    (told,) = buffer.feed(b"5")
    assert isinstance(told, Malformed)
    assert (told.code, told.id, told.shape, told.excerpt) == (INVALID_REQUEST, None, Shape.UNKNOWN, "1234")
    assert told.message == "Invalid Request: a line of more than 4 bytes"
    assert told.answer is not None
    assert buffer.feed(b"67890") == []
    assert buffer.feed(b"1\nab\n") == [b"ab"]


LONG = {
    "id first": ('{"jsonrpc":"2.0","id":7,"method":"a","params":["', '"]}', 7, Shape.REQUEST),
    "id behind": ('{"method":"a","params":["', '"],"jsonrpc":"2.0","id":"x"}', "x", Shape.REQUEST),
    "method behind": ('{"params":["', '"],"id":1.0 , "method" : "a" } \t\r', 1.0, Shape.REQUEST),
    "result": ('{"jsonrpc":"2.0","id":7,"result":["', '"]}', 7, Shape.RESPONSE),
    "id behind a result": ('{"result":["', '"],"jsonrpc":"2.0","id":-7}', -7, Shape.RESPONSE),
    "id behind an error": ('{"error":["', '"],"id":"\\""}', '"', Shape.RESPONSE),
    "id within": ('{"params":[{"id":1},"id",1,"', '",{"id":1}]}', None, Shape.UNKNOWN),
    "no object": ('[{"id":1},"', '",{"id":1}', None, Shape.UNKNOWN),
}


@req("STDIO-9", "BASE-7", "BASE-10", "SEC-6", everywhere=True)
@pytest.mark.parametrize(("before", "behind", "request_id", "shape"), LONG.values(), ids=LONG)
@pytest.mark.parametrize("chunk", [7, 1000, 100_000])
@pytest.mark.parametrize("filler", ["x", '\\"id\\":1}', "\\\\"])
def test_stdio_9_a_line_over_the_limit_keeps_its_id(
    before: str, behind: str, request_id: object, shape: Shape, chunk: int, filler: str
) -> None:
    line = f"{before}{filler * (50_000 // len(filler))}{behind}\n".encode()
    buffer = LineBuffer(25_000)
    told = [item for at in range(0, len(line), chunk) for item in buffer.feed(line[at : at + chunk])]
    assert [(item.id, item.shape) for item in told if isinstance(item, Malformed)] == [(request_id, shape)]
    assert buffer.feed(b"ab\n") == [b"ab"]


@req("STDIO-9", "BASE-10", everywhere=True)
def test_stdio_9_a_line_whose_id_shows_is_refused_before_it_ends() -> None:
    buffer = LineBuffer(20)
    (told,) = buffer.feed(b'{"id":1,"method":"a","params":')
    assert isinstance(told, Malformed)
    assert (told.id, told.shape) == (1, Shape.REQUEST)
    assert buffer.feed(b"[]}\n") == []
    assert buffer.feed(b'{"params":"' + b"x" * 30) == []
    assert len(buffer.feed(b'"}\nab')) == 1
    assert buffer.feed(b"\n") == [b"ab"]


@req("STDIO-9", "SEC-6", everywhere=True)
def test_stdio_9_little_is_kept_of_a_line_over_the_limit() -> None:
    buffer, chunk = LineBuffer(100_000), b'{"a":' * 20_000
    tracemalloc.start()
    for _ in range(100):
        assert buffer.feed(chunk) == []
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


@req("STDIO-9", everywhere=True)
def test_stdio_9_the_limit_itself_is_allowed() -> None:
    assert drain(LineBuffer(4), b"1234\n12345\n1234") == [b"1234", LineBuffer(4).feed(b"12345")[0], b"1234"]


@req("STDIO-9", everywhere=True)
def test_stdio_9_an_end_within_a_long_line_leaves_nothing() -> None:
    buffer = LineBuffer(4)
    assert len(buffer.feed(b"123456")) == 1
    assert buffer.feed(b"\n") == []
    assert buffer.feed(b"ab\n") == [b"ab"]


@req("STDIO-1", "STDIO-9", everywhere=True)
@given(
    st.lists(st.binary(max_size=8) | st.sampled_from([b"\n", b"\r\n", b" "])), st.integers(0, 12), st.data()
)
def test_stdio_1_chunking_changes_nothing(pieces: list[bytes], limit: int, data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    single = [whole[i : i + 1] for i in range(len(whole))]
    at_once = drain(LineBuffer(limit), whole)
    assert drain(LineBuffer(limit), *chunks) == at_once
    assert drain(LineBuffer(limit), *single) == at_once


@req("STDIO-1", everywhere=True)
@given(st.lists(st.binary().filter(lambda line: b"\n" not in line)))
def test_stdio_1_lines_survive(lines: list[bytes]) -> None:
    stripped = [line.strip(b" \t\r") for line in lines]
    assert drain(LineBuffer(), b"\n".join(lines)) == [line for line in stripped if line]


@req("STDIO-9", everywhere=True)
def test_stdio_9_time_grows_with_the_bytes_only() -> None:
    """A buffer that copied what it holds for each chunk would move 2 TB here."""
    buffer, chunk = LineBuffer(), b"x" * 64
    started = time.process_time()
    for _ in range(250_000):
        assert not buffer.feed(chunk)
    assert len(buffer.feed(b"\n")) == 1
    assert time.process_time() - started < 5


@req("STDIO-9", "SEC-6", everywhere=True)
@pytest.mark.parametrize("piece", [1, 100, 65_536, 10**6])
def test_stdio_9_a_long_line_takes_little_more_than_its_size_whatever_its_pieces(piece: int) -> None:
    line = b"x" * 300_000
    pieces = [line[at : at + piece] for at in range(0, len(line), piece)]
    buffer = LineBuffer()
    tracemalloc.start()
    for one in pieces:
        assert buffer.feed(one) == []
    (found,) = buffer.feed(b"\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == line
    assert peak <= 1.2 * len(line)
