"""SSE-3, SEC-1: which URLs a client goes to."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import A, req
from mcprev.auth.urls import check_fetch, is_public
from mcprev.errors import RemoteProtocolError
from mcprev.transports.http.security import origin_of
from mcprev.transports.http.urls import MAX_REDIRECTS, REDIRECTS, check_server_url, endpoint_url, redirected

SSE = "https://mcp.example/base/sse?key=1"


@req("SSE-3", at=A)
@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/messages?session=1", "https://mcp.example/messages?session=1"),
        ("messages", "https://mcp.example/base/messages"),
        ("?session=1", "https://mcp.example/base/sse?session=1"),
        ("https://mcp.example/m", "https://mcp.example/m"),
        ("https://MCP.example:443/m", "https://MCP.example:443/m"),
        ("//mcp.example/m", "https://mcp.example/m"),
        ("/messages#x", "https://mcp.example/messages"),
        (" /messages\n", "https://mcp.example/messages"),
        (
            "/messages/?session_id=cff059b0ac304d27",
            "https://mcp.example/messages/?session_id=cff059b0ac304d27",
        ),
    ],
)
def test_messages_are_posted_where_the_server_says(uri: str, expected: str) -> None:
    assert endpoint_url(SSE, uri.encode()) == expected


@req("SSE-3", at=A)
@pytest.mark.parametrize(
    "uri",
    ["https://evil.example/m", "//evil.example/m", "http://mcp.example/m", "https://mcp.example:444/m", "https://mcp.example.evil/m",
     "https://mcp.example@evil.example/m", "https://user@mcp.example/m", "\\\\evil.example/m", "/\\evil.example", "javascript:x",
     "file:///etc/passwd", "data:,x", "", " ", "https://[x", "https://mcp.example:x/m", "/a b", "/a\tb",
     "\ufffd\x00"],
)  # fmt: skip
def test_but_nowhere_else(uri: str) -> None:
    with pytest.raises(RemoteProtocolError):
        endpoint_url(SSE, uri.encode())


@pytest.mark.slow
@req("SSE-3", at=A)
@given(st.text(max_size=40) | st.text("htps:/\\@.?#mcp.example", max_size=30) | st.binary(max_size=20))
def test_whatever_the_server_says_the_origin_stays(uri: str | bytes) -> None:
    data = uri if isinstance(uri, bytes) else uri.encode(errors="replace")
    try:
        found = endpoint_url(SSE, data)
    except RemoteProtocolError:
        return
    assert origin_of(found) == origin_of(SSE)


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize(
    ("url", "expected"),
    [("https://mcp.example/mcp", "https://mcp.example/mcp"), ("http://localhost:8000/mcp#x", "http://localhost:8000/mcp"),
     ("HTTP://x", "http://x"), ("https://[::1]:8000/a?b=c", "https://[::1]:8000/a?b=c")],
)  # fmt: skip
def test_urls_of_servers(url: str, expected: str) -> None:
    assert check_server_url(url) == expected


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize(
    "url",
    ["", "mcp.example", "localhost:8000", "ws://x", "file:///x", "https://", "https:///x", "https://x:y", "https://a b",
     "https://user:secret@mcp.example/", "https://x/\n", "https://[x"],
)  # fmt: skip
def test_what_is_no_url_of_a_server(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL of (a|the) server") as caught:
        check_server_url(url)
    assert "secret" not in str(caught.value)


# -- redirects ---------------------------------------------------------------------------------------------------


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    ("url", "location", "expected"),
    [
        ("https://mcp.example/mcp", "/mcp/", "https://mcp.example/mcp/"),
        ("https://mcp.example/mcp", "https://mcp.example/other?x=1", "https://mcp.example/other?x=1"),
        ("http://mcp.example/mcp", "https://mcp.example/mcp", "https://mcp.example/mcp"),
        ("https://mcp.example/mcp", "http://mcp.example/mcp/", "https://mcp.example/mcp/"),
        ("http://localhost:8000/mcp", "http://localhost:8000/mcp/", "http://localhost:8000/mcp/"),
        ("https://mcp.example/mcp", "https://mcp.example:443/x#y", "https://mcp.example:443/x"),
    ],
)
def test_redirects_that_are_followed(url: str, location: str, expected: str, verb: str, status: int) -> None:
    assert status in REDIRECTS
    assert redirected(url, status, location, verb=verb, count=0) == expected


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("https://mcp.example/mcp", "http://mcp.example:8000/mcp/"), ("https://mcp.example/mcp", "https://evil.example/"),
        ("https://mcp.example:8443/mcp", "http://mcp.example/mcp/"), ("https://mcp.example/mcp", "http://evil.example/"),
        ("https://mcp.example/mcp", "//evil.example/"), ("https://mcp.example/mcp", "https://mcp.example:444/"),
        ("https://mcp.example/mcp", "https://u@mcp.example/"), ("https://mcp.example/mcp", "file:///x"),
        ("http://mcp.example:8000/mcp", "https://mcp.example/"), ("http://localhost:8000/", "http://localhost:8001/"),
        ("http://mcp.example/", "https://mcp.example:8443/"), ("http://mcp.example/", "http://169.254.169.254/latest"),
        ("https://mcp.example/mcp", None), ("https://mcp.example/mcp", ""), ("https://mcp.example/mcp", "http://[x"),
    ],
)  # fmt: skip
def test_redirects_that_are_not(url: str, location: str | None) -> None:
    with pytest.raises(RemoteProtocolError, match="redirect"):
        redirected(url, 307, location, verb="POST", count=0)


@req("SEC-1", everywhere=True)
def test_a_redirect_never_makes_another_request_of_one() -> None:
    assert redirected("https://x/a", 303, "/b", verb="GET", count=0) == "https://x/b"
    for verb in ("POST", "DELETE"):
        with pytest.raises(RemoteProtocolError, match="303"):
            redirected("https://x/a", 303, "/b", verb=verb, count=0)


@req("SEC-1", everywhere=True)
def test_redirects_come_to_an_end() -> None:
    assert redirected("https://x/a", 307, "/b", verb="GET", count=MAX_REDIRECTS - 1)
    with pytest.raises(RemoteProtocolError, match="in a row"):
        redirected("https://x/a", 307, "/b", verb="GET", count=MAX_REDIRECTS)


@req("SEC-1", everywhere=True)
def test_what_is_told_of_a_url_has_no_secrets() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        redirected("https://x/a", 307, "https://y/cb?token=secret\x1b", verb="GET", count=0)
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.raw)


# -- what servers name -------------------------------------------------------------------------------------------


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize(
    ("url", "private"),
    [("https://auth.example/x", False), ("https://8.8.8.8/x", False), ("https://auth.example/x", True),
     ("http://localhost:9000/x", True), ("https://127.0.0.1/x", True), ("http://[::1]/x", True), ("https://10.0.0.1/x", True)],
)  # fmt: skip
def test_urls_that_may_be_fetched(url: str, private: bool) -> None:
    assert check_fetch(url, private=private) == url


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize(
    ("url", "private"),
    [("http://auth.example/x", False), ("https://localhost/x", False), ("https://127.0.0.1/x", False), ("https://[::1]/x", False),
     ("https://10.0.0.1/x", False), ("https://192.168.0.1/x", False), ("https://169.254.169.254/latest", False),
     ("https://[fe80::1]/x", False), ("https://[fd00::1]/x", False), ("https://[::ffff:10.0.0.1]/x", False),
     ("https://0.0.0.0/x", False), ("http://10.0.0.1/x", True), ("http://auth.example/x", True), ("file:///x", True),
     ("https://u:p@auth.example/x", True), ("javascript:x", True), ("", True), ("https://a b/", True)],
)  # fmt: skip
def test_urls_that_may_not(url: str, private: bool) -> None:
    with pytest.raises(RemoteProtocolError):
        check_fetch(url, private=private)


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize(
    ("url", "private", "helps"),
    [
        ("http://127.0.0.1:9000/x", False, True),
        ("http://localhost:9000/x", False, True),
        ("https://127.0.0.1/x", False, True),
        ("https://10.0.0.1/x", False, True),
        ("http://auth.example/x", False, False),
        ("http://10.0.0.1/x", True, False),
    ],
)
def test_a_url_that_may_not_be_fetched_says_how_to_allow_it_if_that_is_possible(
    url: str, private: bool, helps: bool
) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        check_fetch(url, private=private)
    assert ("`OAuth(private=True)`" in str(caught.value)) is helps
    if helps:
        check_fetch(url, private=True)


@req("SEC-1", everywhere=True)
@pytest.mark.parametrize(
    ("address", "public"),
    [("8.8.8.8", True), ("2606:4700::1111", True), ("[2606:4700::1111]", True), ("127.0.0.1", False), ("10.1.2.3", False),
     ("172.16.0.1", False), ("192.168.1.1", False), ("169.254.1.1", False), ("100.64.0.1", False), ("0.0.0.0", False),  # noqa: S104
     ("224.0.0.1", False), ("255.255.255.255", False), ("::", False), ("::1", False), ("fe80::1%eth0", False), ("fc00::1", False),
     ("::ffff:8.8.8.8", True), ("::ffff:10.0.0.1", False), ("::ffff:224.0.0.1", False), ("2002:0a00:0001::", False),
     ("64:ff9b::10.0.0.1", False), ("64:ff9b::8.8.8.8", True), ("ff02::1", False), ("auth.example", False), ("", False)],
)  # fmt: skip
def test_addresses_of_the_public_internet(address: str, public: bool) -> None:
    assert is_public(address) is public
