"""SEC-6: what reads headers, streams and URLs of peers takes steps that grow no faster than what it reads."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import mcprev
from auth.test_client_discovery import place
from fuzz.fuzzing import sampled
from helpers.linear import Octets, Text, assert_linear
from helpers.requirements import req
from mcprev.app.openapi import calls as openapi_calls
from mcprev.auth import bearer, urls as resource_urls
from mcprev.auth.client import discovery, flow, tokens
from mcprev.errors import AuthError
from mcprev.json_schema import bounds as schemabounds
from mcprev.protocol import uris
from mcprev.revisions import LATEST
from mcprev.transports.http import security, urls
from mcprev.transports.http.server import local_sessions
from mcprev.wire import headers, media, param_headers, sse

URL = "https://a.example/mcp"
SIZES = (64, 128, 256)


async def nobody(token: str) -> None:
    """No token is good."""


BEARER = mcprev.Bearer(nobody, resource=URL, authorization_servers=["https://b.example"])


def octets(text: str) -> bytes:
    """The bytes that come for a text, which count as it does."""
    return Octets(bytes(str(text), "latin-1"))


def read_stream(text: str, step: int) -> None:
    decoder = sse.Decoder()
    raw = octets(text)
    for at in range(0, len(text), step):
        list(decoder.feed(raw[at : at + step]))


def read_value(text: str) -> None:
    with suppress(ValueError):
        headers.decode_value(text)


def read_redirect(text: str) -> None:
    with suppress(AuthError):
        flow.read_redirect(text, "state", place(LATEST))


def read_authorization(text: str) -> None:
    pairs = headers.Headers.of([(b"authorization", octets(text))])
    BEARER._token(pairs, b"")


def read_annotation(text: str) -> None:
    schema: Any = {"properties": {text: {"type": "string", "x-mcp-header": text}}}
    param_headers.find_annotations(schema)


def expression(module: ModuleType, name: str) -> Callable[[str], object]:
    """A function that matches a whole text with a regular expression of a module."""
    return lambda text: getattr(module, name).fullmatch(text)


READERS: dict[str, tuple[Callable[[str], object], tuple[ModuleType, ...]]] = {
    "Accept": (lambda text: media.accepted(octets(" " * 300 + text)), (media,)),
    "Content-Type": (lambda text: media.is_json(octets(text)), (media,)),
    "Content-Type of an answer": (media.media_type, (media,)),
    "WWW-Authenticate": (lambda text: discovery.parse_challenges([text]), (discovery,)),
    "Authorization": (read_authorization, (bearer, headers)),
    "a value of a header": (read_value, (headers,)),
    "a number in a header": (lambda text: headers.equals_argument(text, 1), (headers,)),
    "an annotation": (read_annotation, (param_headers,)),
    "a stream in one piece": (lambda text: read_stream(text, len(text) or 1), (sse,)),
    "a stream in small pieces": (lambda text: read_stream(text, 3), (sse,)),
    "a URL": (resource_urls.canonical_resource, (resource_urls, urls)),
    "a resource": (lambda text: discovery.is_resource(text, URL, text), (resource_urls, urls, discovery)),
    "what the browser comes back with": (read_redirect, (flow, resource_urls, urls, discovery)),
    "a lifetime": (tokens.seconds, (tokens,)),
    "words of another": (urls.printable, (urls,)),
    "a Host": (expression(security, "_HOST"), (security,)),
    "the id of an event": (expression(local_sessions, "EVENT_ID"), (local_sessions,)),
    "a URI": (uris.is_uri, (uris,)),
    "the repetitions of a pattern": (lambda text: schemabounds._repetitions("{" + text), (schemabounds,)),
    "the type of an answer of an API": (
        expression(openapi_calls, "JSON_TYPE"),
        (openapi_calls,),
    ),
}
PIECES = (
    "a", "a=", 'a="', '"', "\\", ",", ";", "a/b", ";a=b", '; a="b', " ", "\t", "=", "a=b,", "0", "e", ".", "-", "%41", "&",
    "?", "#", "/", ":", "[", "\n", "\r\n", "data: a\n", "id: 1\n", "retry: 1\n", "=?base64?", "QQ==", "\x00", "é",
)  # fmt: skip
STARTS = ("", "a/b", "Bearer ", 'a/b;a="', "=?base64?", "https://a.example/", "data:", "?state=state&", "0.")


@pytest.mark.parametrize("what", READERS)
@settings(max_examples=sampled(10))
@given(
    start=st.sampled_from(STARTS),
    again=st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join),
    end=st.sampled_from(["", "\x00", '"', "x", "\n", "?="]),
)
@req("SEC-6", everywhere=True)
def test_the_steps_of_a_reader_grow_with_what_it_reads(what: str, start: str, again: str, end: str) -> None:
    work, modules = READERS[what]
    assert_linear(work, lambda size: Text(start + again * size + end), *modules, sizes=SIZES)
