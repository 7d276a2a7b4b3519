"""SEC-6: checks of URLs, hosts, states and members of messages take steps that grow no faster than what they check."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from fuzz.fuzzing import sampled
from helpers.linear import Octets, Text, assert_linear
from helpers.requirements import req
from mcprev.auth import urls as resource_urls
from mcprev.auth.client import discovery
from mcprev.errors import McpError
from mcprev.protocol import meta, request_state, uris
from mcprev.transports import lines
from mcprev.transports.http import security, urls
from mcprev.wire import headers, payloads, unread

URL: Final = "https://a.example/mcp"
POLICY: Final = security.OriginPolicy()
STATES: Final = request_state.RequestStateSealer([b"k" * request_state.KEY_BYTES], limit=1 << 30)


def octets(text: str) -> bytes:
    """The bytes that come for a text, which count as it does."""
    return Octets(bytes(str(text), "latin-1", "replace"))


def in_order(work: Callable[[str], object]) -> Callable[[str], object]:
    """The same, where errors that have a type are an answer as well."""

    def check(text: str) -> None:
        with suppress(McpError, ValueError):
            work(text)

    return check


def read_lines(text: str) -> None:
    buffer, raw = lines.LineBuffer(50), octets(text)
    for at in range(0, len(text), 3):
        buffer.feed(raw[at : at + 3])


def compare(text: str) -> None:
    pairs = [
        (b"mcp-method", octets(text)),
        (b"mcp-name", octets(text)),
        (b"mcp-protocol-version", octets(text)),
    ]
    found = headers.Headers.of(pairs * 2 if len(text) % 2 else pairs)
    headers.mismatch(found, text, text, {"name": text}, "name")


def let_in(text: str) -> None:
    POLICY.refusal(headers.Headers.of([(b"host", octets(text)), (b"origin", octets(text))]), "127.0.0.1")


def open_state(text: str) -> None:
    STATES.open(text, method="tools/call", params={"name": text}, principal=None, now=0.0)


def read_server(text: str) -> None:
    document: Any = {"issuer": text, "token_endpoint": text, "scopes_supported": [text]}
    discovery.read_server(document, text)


CHECKS: Final[dict[str, tuple[Callable[[str], object], tuple[ModuleType, ...]]]] = {
    "lines": (read_lines, (lines, unread)),
    "headers and the body": (compare, (headers,)),
    "Host and Origin": (let_in, (security,)),
    "the URL of a server": (urls.check_server_url, (urls, security)),
    "where to post": (lambda text: urls.endpoint_url(URL, octets(text)), (urls, security)),
    "a redirect": (lambda text: urls.redirected(URL, 307, text, verb="POST", count=0), (urls, security)),
    "what is fetched": (resource_urls.check_fetch, (resource_urls, urls, security)),
    "where what is fetched is": (lambda text: urls.fetch_redirected(URL, text, count=0), (urls,)),
    "an address": (resource_urls.is_public, (resource_urls, urls)),
    "a URI": (uris.check_uri, (uris,)),
    "a key of _meta": (meta.key_error, (meta,)),
    "traceparent": (lambda text: meta.trace_error("traceparent", text), (meta,)),
    "baggage": (lambda text: meta.trace_error("baggage", text), (meta,)),
    "sealed state": (open_state, (request_state,)),
    "metadata of a resource": (
        lambda text: discovery.read_resource({"resource": text, "authorization_servers": [text]}, URL, text),
        (discovery, resource_urls, urls),
    ),
    "metadata of an authorization server": (read_server, (discovery,)),
    "a page to open": (discovery.check_page, (discovery, resource_urls, urls, security)),
    "a message in the log": (lambda text: payloads.redacted(octets(text)), (payloads,)),
}
PIECES: Final = (
    "a", "a=", "=", "a=b", ",", ";", "; a", " ", "\t", "/", "//", ":", "@", ".", "-", "_", "0", "00-", "127.", "[", "]", "%41", "?", "#", "a.",
    '"', '"a_token":', "\\", "\n", "\r\n", "{", '"id":1,', "é", "①", "。", "\x00",
)  # fmt: skip
STARTS: Final = (
    "",
    "https://",
    "https://a.example/",
    "http://127.0.0.1",
    "//",
    "a=",
    "a=b;c=",
    "00-",
    "a.b/",
    '{"id":',
    '"',
)


@pytest.mark.parametrize("what", CHECKS)
@settings(max_examples=sampled(10))
@given(
    start=st.sampled_from(STARTS),
    again=st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join),
    end=st.sampled_from(["", "\x00", '"', "x", "\n", "=", "/"]),
)
@req("SEC-6", everywhere=True)
def test_the_steps_of_a_check_grow_with_what_it_checks(what: str, start: str, again: str, end: str) -> None:
    work, modules = CHECKS[what]
    assert_linear(
        in_order(work), lambda size: Text(start + again * size + end), *modules, sizes=(64, 128, 256)
    )


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize(("name", "start"), [("tracestate", ""), ("baggage", "a="), ("baggage", "a=b;c=")])
def test_blanks_in_traces_are_read_once(name: str, start: str) -> None:
    def work(text: str) -> None:
        assert meta.trace_error(name, text) is not None

    assert_linear(work, lambda size: Text(start + " " * size + "\x00"), meta)
