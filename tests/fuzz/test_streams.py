"""Event streams: events are the same however the bytes are cut, and what is written is read as it was (SEC-6)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from fuzz.fuzzing import character, damaged, fuzz, pieces_of
from helpers.requirements import B, req
from mcprev.errors import EventTooLarge, LocalProtocolError
from mcprev.wire.sse import MAX_RETRY, Decoder, Event, encode_event

LIMIT: Final = 120
"""Bytes of the largest event."""
LINES: Final = (
    b"data: {}", b"data:x", b"data", b"data: " + b"x" * 50, b"id: 1", b"id:", b"id: a\0b", b"event: message", b"event: endpoint",
    b"retry: 5", b"retry: " + b"9" * 30, b"retry: -1", b"retry: \xb2", b": comment", b":" + b"x" * 130, b"unknown: x", b"", b"", b"\xff",
)  # fmt: skip
ENDS: Final = (b"\n", b"\n", b"\r\n", b"\r")
TOKENS: Final = (
    *ENDS,
    b"\r\r\n",
    b"\n\n",
    b"\xef\xbb\xbf",
    b"\0",
    b":",
    b" ",
    b"data: ",
    b"id: ",
    b"x" * 130,
)


@dataclass(frozen=True)
class Case:
    """A stream, and the pieces in which it comes."""

    data: bytes
    pieces: tuple[bytes, ...]


def draw(rng: Random) -> Case:
    end = rng.choice(ENDS)
    lines = rng.choices(LINES, k=rng.randint(1, 12))
    data = b"".join(line + (end if rng.random() < 0.9 else rng.choice(ENDS)) for line in lines)
    data = data if rng.random() < 0.3 else damaged(data, rng, TOKENS)
    return Case(data, tuple(pieces_of(data, rng)))


def read(pieces: tuple[bytes, ...]) -> tuple[list[Event], bool, str]:
    """The events of a stream, whether one was too large, and the last id."""
    decoder, events = Decoder(LIMIT), list[Event]()
    try:
        for piece in pieces:
            events.extend(decoder.feed(piece))
    except EventTooLarge:
        return events, True, decoder.last_event_id
    return events, False, decoder.last_event_id


@req("HTTP-7", "HTTP-15", "SEC-6", at=B)
def test_events_are_the_same_however_the_stream_is_cut() -> None:
    def check(case: Case) -> None:
        found = read(case.pieces)
        assert found == read((case.data,))
        for event in found[0]:
            assert len(event.data) <= LIMIT
            assert event.retry is None or 0 <= event.retry <= MAX_RETRY

    fuzz(draw, check, cases=1500)


@dataclass(frozen=True)
class Written:
    """An event to write, and how its bytes are cut."""

    event: Event
    seed: int


def draw_event(rng: Random) -> Written:
    def text(most: int) -> str:
        return "".join(character(rng) for _ in range(rng.randrange(most)))

    data = b"\n".join(rng.randbytes(rng.randrange(6)) for _ in range(rng.randint(0, 3)))
    retry = rng.choice((None, 0, 7, MAX_RETRY, MAX_RETRY + 1, -1))
    return Written(
        Event(data, text(5) or "message", rng.choice((None, text(5))), retry), rng.randrange(2**32)
    )


@req("HTTP-7", "SEC-6", at=B)
def test_an_event_is_read_as_it_was_written() -> None:
    def check(case: Written) -> None:
        try:
            data = encode_event(case.event)
        except LocalProtocolError:
            return
        pieces = pieces_of(data, Random(case.seed))  # noqa: S311 - to be the same again
        decoder = Decoder()
        assert [event for piece in pieces for event in decoder.feed(piece)] == [case.event]

    fuzz(draw_event, check, cases=1500)
