"""SEC-3, SEC-4, SEC-6; HTTP-2, 19, 31; SSE-5; AMB-14: what an HTTP server lets in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import req
from helpers.running import run
from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.security import (
    MAX_HEADERS,
    MAX_HOST,
    OriginPolicy,
    is_loopback,
    new_session_id,
    origin_of,
    split_host,
    too_many_headers,
)
from mcprev.transports.http.server.body_budget import MAX_BODY, BodyBudget, ClientGone
from mcprev.transports.http.server.request import AsgiRequest
from mcprev.wire.headers import Headers

LOCAL, LAN, PUBLIC = "127.0.0.1", "192.168.1.5", "203.0.113.7"


def headers(**values: str) -> Headers:
    return Headers.of([(name.replace("_", "-").encode(), value.encode()) for name, value in values.items()])


# -- Origin ------------------------------------------------------------------------------------------------------


@req("SEC-3", "HTTP-2", "AMB-14", "SSE-5", everywhere=True)
@pytest.mark.parametrize("server", [LOCAL, LAN, PUBLIC, "::1", "0.0.0.0", None])  # noqa: S104 - an address
@pytest.mark.parametrize(
    "origin",
    ["http://localhost", "http://localhost:6274", "https://127.0.0.1:1", "http://[::1]:3000", "http://127.8.9.1",
     "HTTP://LOCALHOST:3000", "http://app.localhost:8080", "http://localhost."],
)  # fmt: skip
def test_pages_of_this_machine_are_let_in_everywhere(origin: str, server: str | None) -> None:
    assert OriginPolicy().refusal(headers(origin=origin, host="127.0.0.1:8000"), server) is None


@req("SEC-3", "HTTP-2", "SSE-5", everywhere=True)
@pytest.mark.parametrize("server", [LOCAL, PUBLIC, None])
def test_whoever_is_no_page_is_let_in(server: str | None) -> None:
    assert OriginPolicy().refusal(headers(host="localhost"), server) is None
    assert OriginPolicy().refusal(headers(), server) is None
    if server != LOCAL:
        assert OriginPolicy().refusal(headers(host="anything.example"), server) is None


@req("SEC-3", "HTTP-2", "AMB-14", "SSE-5", everywhere=True)
@pytest.mark.parametrize(
    "server", [LOCAL, "::1", "127.0.0.2", "::ffff:127.0.0.1", LAN, PUBLIC, "fd00::5", None]
)
@pytest.mark.parametrize("port", ["", ":8000"])
def test_a_name_that_was_pointed_at_this_machine_does_not_let_its_page_in(
    server: str | None, port: str
) -> None:
    """DNS rebinding: the page and the request name the same host, which is a foreign one."""
    refusal = OriginPolicy().refusal(
        headers(origin=f"http://evil.example.com{port}", host=f"evil.example.com{port}"), server
    )
    assert refusal is not None
    assert refusal.status == 403
    body = json.loads(refusal.body)
    assert "id" not in body
    at_loopback = server is not None and is_loopback(server)
    assert ("--host" if at_loopback else "--origin") in body["error"]["message"]


@req("SEC-3", "HTTP-2", "AMB-14", "SSE-5", everywhere=True)
@pytest.mark.parametrize("server", [LOCAL, LAN, PUBLIC, "2001:db8::1", "/run/mcp.sock", None])
@pytest.mark.parametrize(
    ("origin", "host"),
    [("https://mcp.example", "mcp.example"), ("http://mcp.example:3000", "mcp.example:8000"),
     ("https://MCP.example", "mcp.EXAMPLE"), ("http://[2001:db8::1]", "[2001:db8::1]:8000"),
     ("http://203.0.113.7", "203.0.113.7")],
)  # fmt: skip
def test_pages_of_the_host_that_is_asked_are_let_in_where_it_is_named_or_an_address(
    server: str | None, origin: str, host: str
) -> None:
    """Also by way of another origin of the same host; a name that nobody has named proves nothing."""
    sent = headers(origin=origin, host=host)
    name = split_host(host)
    assert name is not None
    named = f"[{name[0]}]" if ":" in name[0] else name[0]
    assert OriginPolicy(hosts=[named]).refusal(sent, server) is None
    assert OriginPolicy(origins=[f"ftp://{named}"]).refusal(sent, server) is None
    assert (OriginPolicy().refusal(sent, server) is None) is (named != "mcp.example")
    assert OriginPolicy(hosts=["other.example"]).refusal(sent, server) is not None
    assert (OriginPolicy(origins=["ftp://other.example"]).refusal(sent, server) is None) is (
        named != "mcp.example"
    )


@req("SEC-3", "SEC-6", everywhere=True)
def test_a_host_that_is_too_long_to_be_one_is_not_kept() -> None:
    for number in range(3):
        sent = headers(host="a" * MAX_HOST + str(number))
        assert OriginPolicy().refusal(sent, LOCAL) is not None
        assert OriginPolicy().refusal(sent, PUBLIC) is None


@req("SEC-3", "HTTP-2", "AMB-14", "SSE-5", everywhere=True)
@pytest.mark.parametrize("server", [LOCAL, LAN, PUBLIC, None])
@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://mcp.example.evil", "http://evil-mcp.example", "null", "", "mcp.example", "http://",
     "http://mcp.example/path", "http://user@mcp.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example",
     "http://localhost@evil.example", "http://mcp.example:x", "http://[::1", "file://", "http://128.0.0.1", "http://0.0.0.0",
     "http://mcp.example, http://localhost"],
)  # fmt: skip
def test_other_pages_are_not(origin: str, server: str | None) -> None:
    refusal = OriginPolicy().refusal(headers(origin=origin, host="mcp.example"), server)
    assert refusal is not None
    assert refusal.status == 403


@req("SEC-3", "HTTP-2", everywhere=True)
def test_two_origins_are_none() -> None:
    twice = Headers.of(
        [(b"origin", b"http://localhost"), (b"origin", b"http://localhost"), (b"host", b"localhost")]
    )
    assert OriginPolicy().refusal(twice, LOCAL) is not None


@req("SEC-3", everywhere=True)
@pytest.mark.parametrize(
    ("allowed", "origin", "good"),
    [
        ("https://app.example", "https://app.example", True), ("https://app.example", "https://app.example:443", True),
        ("https://APP.example", "https://app.example", True), ("https://app.example", "http://app.example", False),
        ("https://app.example:8443", "https://app.example", False), ("http://app.example:80", "http://app.example", True),
        ("https://app.example", "https://app.example.evil", False), ("null", "null", True), ("*", "null", True),
        ("*", "https://anything", True), ("https://app.example", "null", False), ("vscode-webview://abc", "vscode-webview://abc", True),
        ("vscode-webview://abc", "vscode-webview://abd", False),
    ],
)  # fmt: skip
def test_origins_that_are_configured(allowed: str, origin: str, good: bool) -> None:
    for server in (LOCAL, PUBLIC, None):
        refusal = OriginPolicy(origins=[allowed]).refusal(headers(origin=origin, host="localhost"), server)
        assert (refusal is None) is good


@req("SEC-3", everywhere=True)
@pytest.mark.parametrize(
    "entry",
    ["app.example", "https://", "https://app.example/", "https://a@b", "https://a?b", "", "https://[x"],
)
def test_an_origin_that_could_never_match_is_refused_at_once(entry: str) -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        OriginPolicy(origins=[entry])


# -- Host --------------------------------------------------------------------------------------------------------


@req("SEC-3", everywhere=True)
@pytest.mark.parametrize(
    ("hosts", "host", "good"),
    [
        (None, "anything", False), (None, "localhost", True), (None, "[::1]:8000", True), (None, "10.0.0.1", True),
        (None, "", False), (None, "localhost, localhost", False), (None, None, True), (["mcp.example"], "mcp.example", True),
        (["mcp.example"], "MCP.example:8000", True), (["mcp.example:8000"], "mcp.example:8000", True),
        (["mcp.example:8000"], "mcp.example", False), (["mcp.example:8000"], "mcp.example:8001", False),
        (["mcp.example"], "evil.example", False), (["mcp.example"], None, False), (["mcp.example"], "", False),
        (["[::1]"], "[::1]:8000", True), ([], "mcp.example", False), (["a", "b:1"], "b:1", True),
        (["mcp.example"], "mcp.example, mcp.example", False), (["mcp.example"], "mcp.example/x", False),
    ],
)  # fmt: skip
def test_hosts_at_a_loopback_address(hosts: list[str] | None, host: str | None, good: bool) -> None:
    sent = headers() if host is None else headers(host=host)
    refusal = OriginPolicy(hosts=hosts).refusal(sent, LOCAL)
    assert (refusal is None) is good
    if refusal is not None:
        assert refusal.status == 403
        assert "Host" in str(refusal.error)


@req("SEC-3", everywhere=True)
@pytest.mark.parametrize("entry", ["", "http://x", "a b", "x:y", "x:", "x:*", "[::1"])
def test_a_host_that_could_never_match_is_refused_at_once(entry: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host.*without a port, any port fits"):
        OriginPolicy(hosts=[entry])


@req("SEC-3", everywhere=True)
@pytest.mark.parametrize(
    ("name", "loopback"),
    [("localhost", True), ("LOCALHOST.", True), ("a.localhost", True), ("127.0.0.1", True), ("127.255.1.2", True),
     ("::1", True), ("[::1]", True), ("::ffff:127.0.0.1", True), ("localhost.com", False), ("notlocalhost", False),
     ("127.0.0.1.nip.io", False), ("0.0.0.0", False), ("10.0.0.1", False), ("::", False), ("", False), ("127.1", False),  # noqa: S104
     ("fe80::1%eth0", False)],
)  # fmt: skip
def test_names_of_this_machine(name: str, loopback: bool) -> None:
    assert is_loopback(name) is loopback


@req("SEC-3", "SEC-6", everywhere=True)
@given(
    st.text(max_size=40) | st.text("htps:/[]@.:01localhost", max_size=30),
    st.sampled_from([LOCAL, PUBLIC, None]),
)
def test_any_origin_has_an_answer(origin: str, server: str | None) -> None:
    origin_of(origin)
    split_host(origin)
    assert isinstance(OriginPolicy().admits(origin, origin), bool)
    sent = Headers.of([(b"origin", origin.encode(errors="replace")), (b"host", b"x")])
    refusal = OriginPolicy().refusal(sent, server)
    assert refusal is None or refusal.status == 403
    refusal = OriginPolicy().refusal(Headers.of([(b"host", origin.encode(errors="replace"))]), server)
    assert refusal is None or refusal.status == 403


# -- sizes -------------------------------------------------------------------------------------------------------


async def body_of(messages: list[dict[str, Any]], sent: Headers, limit: int) -> tuple[bytes | HttpError, int]:
    """What is read of a body, and how many messages of the server were not asked for."""
    left: Iterator[dict[str, Any]] = iter(messages)

    async def receive() -> MutableMapping[str, Any]:
        return next(left)

    async def send(message: object) -> None:
        raise AssertionError(message)

    scope = {"method": "POST", "path": "/mcp"}
    found = await AsgiRequest(scope, receive, send, sent).read(limit, BodyBudget(1000))
    return found, len(list(left))


def pieces(*chunks: bytes) -> list[dict[str, Any]]:
    found = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    found[-1]["more_body"] = False
    return found


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize(
    ("chunks", "declared", "good"),
    [
        ([b"12345"], None, True), ([b"12345"], "5", True), ([b"123456"], None, False), ([b"123", b"45"], None, True),
        ([b"123", b"456"], None, False), ([b"", b"12345", b""], None, True), ([b"1"], "6", False), ([b""], None, True),
        ([b"1"], "99999999999999999999999999", False), ([b"1"], "x", True), ([b"1"], "-1", True), ([b"1"], "", True),
        ([b"123456"], "1", False),
    ],
)  # fmt: skip
def test_a_body_has_a_limit_declared_or_not(chunks: list[bytes], declared: str | None, good: bool) -> None:
    sent = headers() if declared is None else headers(content_length=declared)
    found, _ = run(body_of(pieces(*chunks), sent, 5))
    if good:
        assert found == b"".join(chunks)
    else:
        assert isinstance(found, HttpError)
        assert found.status == 413
        message = json.loads(found.body)["error"]["message"]
        assert "5 bytes" in message
        assert "max_body" in message


@req("HTTP-31", everywhere=True)
def test_no_more_is_read_than_it_takes_to_know() -> None:
    endless = pieces(*[b"123"] * 10)
    assert run(body_of(endless, headers(), 5))[1] == 8
    assert run(body_of(endless, headers(content_length="30"), 5))[1] == 10


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize("before", [[], pieces(b"1", b"2")[:1]])
def test_a_client_that_hangs_up_has_sent_nothing(before: list[dict[str, Any]]) -> None:
    with pytest.raises(ClientGone):
        run(body_of([*before, {"type": "http.disconnect"}], headers(), 5))


@req("HTTP-31", everywhere=True)
def test_headers_have_a_limit() -> None:
    usual = [(b"host", b"x"), (b"accept", b"y" * 100)]
    assert too_many_headers(usual) is None
    assert too_many_headers([(b"x", b"y")], limit=2) is None
    refusal = too_many_headers([*usual, (b"x", b"y" * MAX_HEADERS)])
    assert refusal is not None
    assert refusal.status == 431
    assert too_many_headers([(b"ab", b"c")] * 10, limit=29) is not None
    assert MAX_BODY == 4 * 1024 * 1024


# -- session ids -------------------------------------------------------------------------------------------------


@req("HTTP-19", "SEC-4", everywhere=True)
def test_session_ids_are_visible_long_and_never_the_same() -> None:
    ids = {new_session_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[\x21-\x7e]{32,1024}", id_) for id_ in ids)


@req("SEC-4", everywhere=True)
def test_session_ids_do_not_come_from_a_seeded_source() -> None:
    code = "import random\nrandom.seed(1)\nfrom mcprev.transports.http.security import new_session_id\nprint(new_session_id())"
    told = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)
    ]
    assert told[0] != told[1]
