"""HTTP-7, 8, 14, 15, 17, 18; HTTPM-5; SSE-2; SEC-6: server-sent events, bytes to events and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st

from helpers.requirements import D, req
from mcprev.errors import EventTooLarge, LocalProtocolError, RemoteProtocolError
from mcprev.wire import jsonrpc
from mcprev.wire.sse import (
    ENDPOINT,
    KEEP_ALIVE,
    MAX_RETRY,
    Decoder,
    Event,
    encode_endpoint,
    encode_event,
    encode_message,
)

PIECES = [
    b"data", b"data:", b"data: ", b"data:  x", b"event: message", b"event:", b"event: endpoint", b"id: 1", b"id:", b"id",
    b"id: a\0b", b"retry: 10", b"retry: 1x", b"retry:", b"retry: -1", b"retry: 9999999999999999999", b": comment", b":",
    b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"\xef\xbb", b"\xff", "\u2028é".encode(), b"x", b" ",
    b"unknown: 1", b"DATA: 1", b"data : 1",
]  # fmt: skip
streams = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=30).map(b"".join)
no_line_end = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"))
events = st.builds(
    Event,
    data=st.binary().map(lambda data: data.replace(b"\r", b"")),
    event=no_line_end.filter(bool),
    id=st.none() | no_line_end,
    retry=st.none() | st.integers(0, MAX_RETRY),
)


def decode(chunks: Iterable[bytes], decoder: Decoder | None = None) -> list[Event]:
    decoder = decoder or Decoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The same bytes in pieces."""
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(marks)]


def by_the_standard(data: bytes) -> tuple[list[Event], str]:
    """The events of a whole stream and the last id, by the words of the HTML standard, one rule at a time."""
    blocks: list[list[bytes]] = [[]]
    lines = re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf"))
    for line in lines[:-1]:  # what no line end follows is dropped
        if line:
            blocks[-1].append(line)
        else:
            blocks.append([])
    found, last = list[Event](), ""
    for block in blocks[:-1]:  # what no empty line follows is dropped
        pairs = [line.split(b":", 1) if b":" in line else [line, b""] for line in block if line[:1] != b":"]
        fields = [(name, value[1:] if value[:1] == b" " else value) for name, value in pairs]
        data_lines = [value for name, value in fields if name == b"data"]
        types = [value.decode(errors="replace") for name, value in fields if name == b"event"]
        ids = [
            value.decode(errors="replace") for name, value in fields if name == b"id" and b"\0" not in value
        ]
        waits = [int(value) for name, value in fields if name == b"retry" and re.fullmatch(rb"[0-9]+", value)]
        last = ids[-1] if ids else last
        if data_lines or ids or waits:
            wait = min(waits[-1], MAX_RETRY) if waits else None
            kind = types[-1] if types and types[-1] else "message"
            found.append(Event(b"\n".join(data_lines), kind, ids[-1] if ids else None, wait))
    return found, last


@req("HTTP-7", everywhere=True)
@given(streams, st.lists(st.integers(0, 200), max_size=20))
@example(b"data: 1\r\n\r\ndata: 2\r\rdata: 3\n\n", [8, 9, 10, 18])
@example(b"\xef\xbb\xbfdata: 1\n\n", [1, 2])
@example(b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n", [4])
@example(b"\xef\xbb\xbf\ndata: 1\n\n", [])
def test_events_are_those_of_the_standard_however_the_chunks_are_cut(data: bytes, places: list[int]) -> None:
    expected, last = by_the_standard(data)
    for chunks in ([data], cut(data, places), [data[i : i + 1] for i in range(len(data))], [b"", data, b""]):
        decoder = Decoder()
        assert decode(chunks, decoder) == expected
        assert decoder.last_event_id == last


@req("HTTP-7", everywhere=True)
def test_nothing_between_cr_and_lf_is_nothing() -> None:
    assert decode([b"data: 1\r", b"", b"\ndata: 2\r", b"", b"\n\r", b"", b"\n"]) == [Event(b"1\n2")]


@req("HTTP-7", "HTTP-14", everywhere=True)
@given(st.lists(events, max_size=5), st.lists(st.integers(0, 200), max_size=8))
def test_what_is_written_is_read_again(sent: list[Event], places: list[int]) -> None:
    data = KEEP_ALIVE.join([b"", *map(encode_event, sent), b""])
    assert decode(cut(data, places)) == sent


@req("HTTP-8", everywhere=True)
@given(st.binary(), st.none() | no_line_end)
@example(b'{"a":\n1}\r\n', "7")
def test_a_message_is_one_event_of_one_data_line(message: bytes, event_id: str | None) -> None:
    (event,) = decode([encode_message(message, event_id)])
    assert (event.event, event.id, event.retry) == ("message", event_id, None)
    assert event.data == message.replace(b"\n", b" ").replace(b"\r", b" ")


@req("HTTP-8", everywhere=True)
def test_a_message_is_the_same_json_afterwards() -> None:
    sent = jsonrpc.encode_result(1, {"text": "a\nb\r\u2028é"})
    (event,) = decode([encode_message(sent)])
    assert event.data == sent
    assert event.is_message


@req("HTTP-17", "HTTP-18", at=D)
def test_a_priming_event_is_seen_and_is_no_message() -> None:
    decoder = Decoder()
    (event,) = decode([encode_event(Event(id="s-0", retry=500))], decoder)
    assert event == Event(b"", "message", "s-0", 500)
    assert not event.is_message
    assert (decoder.last_event_id, decoder.retry) == ("s-0", 500)
    assert b"\ndata: \n" in b"\n" + encode_event(Event(id="s-0"))


@req("HTTP-17", at=D)
def test_a_retry_alone_has_no_data_that_an_old_client_could_take_for_a_message() -> None:
    assert encode_event(Event(retry=250)) == b"retry: 250\n\n"
    assert decode([encode_event(Event(retry=250))]) == [Event(retry=250)]


@req("HTTP-18", everywhere=True)
@pytest.mark.parametrize(
    ("text", "retry"),
    [
        (b"0", 0), (b"0010", 10), (b"1000", 1000), (b"1000000000", 1_000_000_000), (b"2147483647", MAX_RETRY), (b"2147483648", MAX_RETRY),
        (b"9" * 5000, MAX_RETRY), (b"", None), (b"-1", None), (b"1.5", None), (b"1 ", None), (b" 1", None),
        ("٣".encode(), None), (b"1e3", None),
    ],
)  # fmt: skip
def test_retry_is_digits_only(text: bytes, retry: int | None) -> None:
    decoder = Decoder()
    assert decode([b"retry: %b\ndata: x\n\n" % text], decoder) == [Event(b"x", retry=retry)]
    assert decoder.retry == retry


@req("HTTP-15", everywhere=True)
@pytest.mark.parametrize(
    ("stream", "ids", "last"),
    [
        (b"id: 1\ndata: a\n\ndata: b\n\n", ["1", None], "1"),
        (b"id: 1\ndata: a\n\nid\ndata: b\n\n", ["1", ""], ""),
        (b"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n", ["1", None], "1"),
        (b"id: 1\nid: 2\ndata: a\n\n", ["2"], "2"),
        (b"id: 1\n\n", ["1"], "1"),
        (b"id: 1\ndata: a\n\nid: 2\ndata: b\n", ["1"], "1"),
        (b"id: 1\ndata: a\n\nid: 2\ndata: b", ["1"], "1"),
        ("id: é\ndata: a\n\n".encode(), ["é"], "é"),
        (b"id:1\ndata: a\n\n", ["1"], "1"),
        (b"id:  1\ndata: a\n\n", [" 1"], " 1"),
        (b"ID: 1\ndata: a\n\n", [None], "0"),
    ],
)  # fmt: skip
def test_the_id_to_go_on_from_is_that_of_the_last_whole_event(
    stream: bytes, ids: list[str | None], last: str
) -> None:
    decoder = Decoder(last_event_id="0")
    assert [event.id for event in decode([stream], decoder)] == ids
    assert decoder.last_event_id == last


@req("HTTPM-5", everywhere=True)
def test_comments_are_ignored() -> None:
    assert decode([KEEP_ALIVE, b": x\n", KEEP_ALIVE, b"data: 1\n:\ndata: 2\n\n"]) == [Event(b"1\n2")]


@req("SSE-2", everywhere=True)
def test_the_endpoint_event_says_where_to_post() -> None:
    (event,) = decode([encode_endpoint("/messages?session=1")])
    assert (event.event, event.data) == (ENDPOINT, b"/messages?session=1")
    assert not event.is_message


@req("HTTP-18", everywhere=True)
def test_another_type_is_no_message() -> None:
    assert [event.is_message for event in decode([b"event: ping\ndata: {}\n\nevent:\ndata: {}\n\ndata\n\n"])] == [
        False, True, False,
    ]  # fmt: skip


# -- limits ------------------------------------------------------------------------------------------------------


def until_too_large(chunks: Iterable[bytes], limit: int) -> tuple[list[Event], bool]:
    """The events that are read, and whether there was an end to it."""
    decoder, found = Decoder(limit), list[Event]()
    try:
        for chunk in chunks:
            for event in decoder.feed(chunk):
                found.append(event)
    except EventTooLarge as error:
        assert error.limit == limit  # noqa: PT017 - what was found before it counts too
        return found, True
    return found, False


@req("SEC-6", everywhere=True)
@given(streams, st.lists(st.integers(0, 200), max_size=20), st.integers(1, 24))
def test_the_limit_holds_however_the_chunks_are_cut(data: bytes, places: list[int], limit: int) -> None:
    data += b"\n\n"
    whole = until_too_large([data], limit)
    assert until_too_large(cut(data, places), limit) == whole
    assert until_too_large([data[i : i + 1] for i in range(len(data))], limit) == whole


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(
    ("stream", "fits"),
    [
        (b"data: 123\n\n", True),
        (b"data: 1234\n\n", True),
        (b"data: 12345\n\n", False),
        (b"data: 12345", False),
        (b"data: 1\ndata: 2\n\n", False),
        (b"data: 1\n\n" * 50, True),
        (b": 1234567\n" * 50 + b"data: 1\n\n", True),
        (b": 12345678901\n", False),
        (b"unknown: 1\n" * 50 + b"data: 1\n\n", True),
        (b"id: 1\n" * 5, False),
        (b"data\n" * 5, False),
    ],
)  # fmt: skip
def test_an_event_over_the_limit_is_an_error_and_its_predecessors_are_not_lost(
    stream: bytes, fits: bool
) -> None:
    found, ended = until_too_large([b"data: 0\n\n" + stream], limit=10)
    assert ended is not fits
    assert found[0] == Event(b"0")


@req("SEC-6", everywhere=True)
def test_too_large_is_the_peers_fault() -> None:
    assert issubclass(EventTooLarge, RemoteProtocolError)
    assert "more than 10 bytes" in str(EventTooLarge(10))


@req("SEC-6", everywhere=True)
def test_many_lines_of_data_and_small_chunks_cost_no_more_than_their_length() -> None:
    """What grows with the square of the length would take minutes here."""
    stream = b"data:x\n" * 400_000 + b"\n"
    assert decode([stream]) == [Event(b"\n".join([b"x"] * 400_000))]
    line = b"data: " + b"x" * 4_000_000 + b"\n\n"
    (event,) = decode(line[i : i + 1000] for i in range(0, len(line), 1000))
    assert len(event.data) == 4_000_000


# -- what cannot be written --------------------------------------------------------------------------------------


@req("HTTP-14", everywhere=True)
@pytest.mark.parametrize(
    "event",
    [
        Event(b"a\rb"), Event(b"x", ""), Event(b"x", "a\nb"), Event(b"x", "a\rb"), Event(b"x", id="1\n2"),
        Event(b"x", id="1\r2"), Event(b"x", id="1\0"), Event(b"x", retry=-1), Event(b"x", retry=MAX_RETRY + 1),
        Event(b"x", id="\ud800"),
    ],
)  # fmt: skip
def test_what_has_no_form_on_the_wire_is_refused(event: Event) -> None:
    with pytest.raises(LocalProtocolError):
        encode_event(event)


@req("SSE-2", everywhere=True)
def test_no_line_is_smuggled_into_an_event() -> None:
    with pytest.raises(LocalProtocolError, match="endpoint"):
        encode_endpoint("/x\n\nevent: message")
    with pytest.raises(LocalProtocolError, match="id"):
        encode_message(b"{}", "1\ndata: x")
