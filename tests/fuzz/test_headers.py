"""Values of headers, good and damaged: they are read without an error that has no type, and as they were written (SEC-6)."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from fuzz.fuzzing import character, damaged, damaged_text, fuzz, json_value, with_a_change
from helpers.requirements import D, E, req
from mcprev.auth.client.discovery import MAX_CHALLENGES, parse_challenges
from mcprev.errors import HeaderMismatch, LocalProtocolError
from mcprev.transports.http.security import OriginPolicy
from mcprev.wire import media
from mcprev.wire.headers import (
    Headers,
    decode_value,
    encode_value,
    equals_argument,
    mismatch,
    param_mismatch,
    render,
)
from mcprev.wire.param_headers import find_annotations

VALUES: Final = (
    "",
    "a",
    "a b",
    " a",
    "=?base64?YQ==?=",
    "=?BASE64?x?=",
    "é",
    "\t",
    "x" * 80,
    "true",
    "1",
    "-0.0",
)
TEXT_TOKENS: Final = (
    "=?base64?", "?=", "=", "==", "?", " ", "\t", "\r\n", "\0", ",", ";", '"', "\\", "/", "*/*", "q=0", "é", "\ud800", "Bearer ", "a=b",
    "scope=", '="', "%", ":", "[", "]", "@", "#", ".", "..", "127.0.0.1", "\u2460", "localhost", "http://",
)  # fmt: skip
TOKENS: Final = tuple(token.encode("utf-8", "surrogatepass") for token in TEXT_TOKENS)


# -- values that repeat what a body says -------------------------------------------------------------------


def draw_value(rng: Random) -> str:
    text = rng.choice(VALUES)
    return text if rng.random() < 0.2 else damaged_text(text, rng, TEXT_TOKENS)


@req("HDR-5", at=E)
def test_a_value_is_read_as_it_was_written() -> None:
    def check(text: str) -> None:
        with suppress(LocalProtocolError):
            written = encode_value(text)
            assert written.isascii()
            assert not set(written) & set("\r\n\0\t")
            assert decode_value(written) == text
            assert equals_argument(decode_value(written), text)
        with suppress(ValueError):
            assert isinstance(decode_value(text), str)

    fuzz(draw_value, check, cases=750)


@dataclass(frozen=True)
class Call:
    """A schema, arguments, and how the headers are damaged that say the same."""

    schema: Any
    arguments: Any
    seed: int


SCHEMA: Final[Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "minimum": -5, "x-mcp-header": "Count"},
        "deep": {"type": "object", "properties": {"on": {"type": ["boolean", "null"], "x-mcp-header": "On"}}},
    },
    "anyOf": [{"required": ["region"]}],
}
ARGUMENTS: Final[Any] = {"region": "eu", "count": 3, "deep": {"on": True}}


def draw_call(rng: Random) -> Call:
    schema, arguments = SCHEMA, ARGUMENTS
    for _ in range(rng.randrange(3)):
        schema = with_a_change(schema, rng, json_value)
    for _ in range(rng.randrange(3)):
        arguments = with_a_change(arguments, rng, lambda rng: json_value(rng, 1))
    return Call(schema, arguments, rng.randrange(2**32))


@req("HDR-3", "HDR-6", "HDR-7", "HDR-8", at=E)
def test_headers_of_arguments_say_what_the_arguments_say() -> None:
    def check(call: Call) -> None:
        found = find_annotations(call.schema)
        pairs: list[tuple[bytes, bytes]] = []
        try:
            for header in found.headers:
                value = header.value_in(call.arguments)
                if value is not None:
                    pairs.append((header.key, render(value, header).encode("ascii")))
        except LocalProtocolError:
            return
        assert param_mismatch(Headers.of(pairs), call.arguments, found.headers) is None
        rng = Random(call.seed)  # noqa: S311 - to be the same again
        spoilt = [
            (name, damaged(value, rng, TOKENS)) for name, value in pairs for _ in range(rng.randint(1, 2))
        ]
        wrong = param_mismatch(Headers.of(spoilt), call.arguments, found.headers)
        assert wrong is None or isinstance(wrong, HeaderMismatch)
        if len(dict(spoilt)) < len(spoilt):
            assert wrong is not None, "a header that is there twice is refused"
        params = {"name": json_value(rng, 1), "arguments": call.arguments}
        wrong = mismatch(Headers.of(spoilt), "x", "tools/call", params, "name")
        assert isinstance(wrong, HeaderMismatch), "no header says the version"

    fuzz(draw_call, check, cases=750)


# -- Accept and Content-Type -------------------------------------------------------------------------------

MEDIA: Final = (
    b"application/json", b"text/event-stream", b"application/json, text/event-stream", b"*/*", b"text/*;q=0.5, */*;q=0",
    b'application/json; charset="utf-8"', b"application/json;charset=latin-1", b"application/json;q=x", b'a/b;c="d,e\\"f"',
)  # fmt: skip


def draw_media(rng: Random) -> bytes:
    value = b", ".join(rng.choices(MEDIA, k=rng.randint(1, 3)))
    return value if rng.random() < 0.3 else damaged(value, rng, TOKENS)


@req("HTTP-4", "HTTP-7", "SEC-6", at=D)
def test_media_types_are_read_whatever_they_are() -> None:
    def check(value: bytes) -> None:
        assert isinstance(media.accepted(value), media.Accept)
        named = media.media_type(value.decode("latin-1"))
        assert not media.is_json(value) or named == media.JSON
        assert named == named.lower()

    fuzz(draw_media, check, cases=750)


# -- WWW-Authenticate --------------------------------------------------------------------------------------

NAMES: Final = ("realm", "scope", "error", "resource_metadata", "A-b.c", "x*")


@dataclass(frozen=True)
class Challenges:
    """Schemes and their parameters, and what is made of the header that says them."""

    said: tuple[tuple[str, dict[str, str]], ...]
    header: str
    damaged: tuple[str, ...]


def draw_challenges(rng: Random) -> Challenges:
    said: list[tuple[str, dict[str, str]]] = []
    parts: list[str] = []
    for _ in range(rng.randint(1, 3)):
        parameters: dict[str, str] = {}
        scheme = rng.choice(("Bearer", "Basic", "DPoP", "x!"))
        words: list[str] = []
        for name in rng.sample(NAMES, rng.randrange(4)):
            value = "".join(character(rng) for _ in range(rng.randrange(8)))
            parameters[name.lower()] = value
            quoted = value.replace("\\", "\\\\").replace('"', '\\"')
            words.append(f'{name}{rng.choice(("=", " = "))}"{quoted}"')
        said.append((scheme.lower(), parameters))
        parts.append(scheme + (" " + rng.choice((", ", ",", " , ")).join(words) if words else ""))
    header = ", ".join(parts)
    spoilt = tuple(
        damaged_text(header, rng, TEXT_TOKENS) * rng.choice((1, 1, 500)) for _ in range(rng.randint(1, 3))
    )
    return Challenges(tuple(said), header, spoilt)


@pytest.mark.slow
@req("AUTH-4", "SEC-6", at=D)
def test_challenges_are_read_as_they_were_written_and_damaged_ones_too() -> None:
    def check(case: Challenges) -> None:
        found = parse_challenges([case.header])
        assert tuple((one.scheme, dict(one.parameters)) for one in found) == case.said
        size = 0
        for challenge in parse_challenges(case.damaged):
            size += sum(len(name) + len(value) for name, value in challenge.parameters.items())
            assert challenge.reason.isprintable()
        assert size <= MAX_CHALLENGES

    fuzz(draw_challenges, check, cases=300)


# -- Origin and Host ---------------------------------------------------------------------------------------

HOSTS: Final = (
    "localhost:8000",
    "127.0.0.1",
    "[::1]:80",
    "box.lan",
    "mcp.example:443",
    "192.168.1.5:8000",
    "evil.example",
)
ADDRESSES: Final = ("127.0.0.1", "::1", "192.168.1.5", "::ffff:127.0.0.1", None)


@dataclass(frozen=True)
class Asked:
    """Where a page's request arrives, and what its headers say."""

    server: str | None
    host: bytes
    origin: bytes


def draw_asked(rng: Random) -> Asked:
    host = rng.choice(HOSTS).encode()
    origin = b"http://" + (host if rng.random() < 0.7 else rng.choice(HOSTS).encode())
    if rng.random() < 0.7:
        host = damaged(host, rng, TOKENS)
    if rng.random() < 0.7:
        origin = damaged(origin, rng, TOKENS)
    return Asked(rng.choice(ADDRESSES), host, origin)


@req("SEC-3", "SEC-6", everywhere=True)
def test_a_page_of_a_site_is_never_let_in() -> None:
    """Whatever is made of `Origin`: it passes only if a browser would say so on a page of this machine, or of an address."""
    access = OriginPolicy()

    def check(asked: Asked) -> None:
        headers = Headers.of([(b"host", asked.host), (b"origin", asked.origin)])
        refused = access.refusal(headers, asked.server)
        assert refused is None or refused.status == 403
        if asked.origin.strip(b" \t").rpartition(b"//")[2].partition(b":")[0] in (
            b"evil.example",
            b"mcp.example",
            b"box.lan",
        ):
            assert refused is not None

    fuzz(draw_asked, check, cases=750)


@req("HDR-8", at=E)
def test_numbers_of_any_size_are_compared() -> None:
    def draw(rng: Random) -> tuple[str, float]:
        value = rng.choice((rng.randrange(-(2**70), 2**70), rng.uniform(-1e9, 1e9), float(rng.randrange(9))))
        return (
            damaged_text(
                str(value), rng, ("e", "E", "-", "+", ".", "0", "_", " ", "inf", "nan", "٣", "e999", "0" * 60)
            ),
            value,
        )

    def check(case: tuple[str, float]) -> None:
        text, value = case
        same = equals_argument(text, value)
        assert isinstance(same, bool)
        if same:
            assert math.isclose(float(text), value)

    fuzz(draw, check, cases=750)
