"""Lines of pipes and the messages in them: what arrives is the same however it is cut, and nothing raises (SEC-6)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from fuzz.fuzzing import damaged, fuzz, json_value, pieces_of
from helpers.requirements import req
from helpers.support import same
from mcprev.transports.lines import LineBuffer
from mcprev.wire.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
    encode,
    parse,
)
from mcprev.wire.text import unicode_only

LIMIT: Final = 200
"""Bytes of the longest line."""
TOKENS: Final = (
    b"\n", b"\r\n", b"\n\n", b" ", b"\t", b"\0", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"\\ud800", b":", b",", b"1e999",
    b"NaN", b"-", b"0" * 300, b"x" * 300, b'"id":', b'"id": 7}', b'{"id":1,', b'"method":"a"', b"\xef\xbb\xbf", b"\xff", b"null",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Some bytes, and the pieces in which they come."""

    data: bytes
    pieces: tuple[bytes, ...]


def envelope(rng: Random) -> dict[str, Any]:
    """The members of a message, mostly of one that is right."""
    members: dict[str, Any] = {
        "jsonrpc": rng.choice(("2.0", "2.0", "2.0", "1.0", 2)),
        "id": rng.choice((1, 2**60, "a", "", None, 1.0, 1.5, True, [], "x" * 300)),
        "method": rng.choice(("ping", "tools/call", "", 1)),
        "params": json_value(rng),
        "result": json_value(rng),
        "error": rng.choice(({"code": 1, "message": "no"}, {"code": 1.0, "message": "no"}, {}, None)),
    }
    names = rng.choice(
        (
            ("id", "method", "params"),
            ("method", "params"),
            ("id", "result"),
            ("id", "error"),
            ("result", "error", "id"),
        )
    )
    names = ("jsonrpc", *names) if rng.random() < 0.9 else names
    shuffled = rng.sample(names, len(names))
    return {name: members[name] for name in shuffled}


def line(rng: Random) -> bytes:
    """The bytes of a message or a batch of some."""
    value: Any = envelope(rng) if rng.random() < 0.9 else [envelope(rng) for _ in range(rng.randrange(3))]
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def draw(rng: Random) -> Case:
    data = b"".join(line(rng) + b"\n" for _ in range(rng.randint(1, 3)))
    if rng.random() < 0.8:
        data = damaged(data, rng, TOKENS)
    return Case(data, tuple(pieces_of(data, rng)))


def read(pieces: tuple[bytes, ...]) -> list[bytes | Malformed]:
    """All lines, of which the last may have no end."""
    buffer = LineBuffer(LIMIT)
    return [found for piece in (*pieces, b"\n") for found in buffer.feed(piece)]


@req("STDIO-1", "BASE-10", "SEC-6", everywhere=True)
def test_lines_are_the_same_however_they_are_cut() -> None:
    def check(case: Case) -> None:
        lines = read(case.pieces)
        assert lines == read((case.data,))
        for found in lines:
            assert isinstance(found, Malformed) or (0 < len(found) <= LIMIT and b"\n" not in found)

    fuzz(draw, check, cases=1500)


@req("BASE-10", "BASE-16", "BASE-17", everywhere=True)
def test_whatever_is_read_is_a_message_or_says_what_is_wrong_and_is_written_as_it_was_read() -> None:
    def check(case: Case) -> None:
        for piece in case.data.split(b"\n"):
            for batch in (False, True):
                found = parse(piece, batch=batch)
                for message in found.messages if isinstance(found, Batch) else (found,):
                    if isinstance(message, Malformed):
                        assert message.answer is None or isinstance(message.answer, ErrorResponse)
                    else:
                        again = parse(encode(message, null_id_in_errors=True), batch=False)
                        assert type(again) is type(message)
                        assert same(members(again), members(message))

    fuzz(draw, check, cases=1500)


def members(message: Any) -> dict[str, Any]:
    """What a message says, with U+FFFD for lone surrogates, which are written in ids only."""
    assert isinstance(message, Request | Notification | Response | ErrorResponse)
    names = ("method", "params", "result", "error")
    found = {name: unicode_only(getattr(message, name)) for name in names if hasattr(message, name)}
    return found if isinstance(message, Notification) else found | {"id": message.id}
