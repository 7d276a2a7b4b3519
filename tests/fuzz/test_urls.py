"""URLs and redirects that servers name: none leads to another place than its rule allows, however it is spelled (SEC-1).

What a URL means is judged by yarl, with which the HTTP client connects, and not by what judges it in the client. What
yarl refuses is connected to by nobody: the HTTP client raises an error of its own for it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from random import Random
from typing import Final

import pytest
from yarl import URL

from fuzz.fuzzing import damaged_text, fuzz
from helpers.requirements import D, req
from mcprev.auth.urls import check_fetch, is_public
from mcprev.errors import RemoteProtocolError
from mcprev.transports.http.urls import check_server_url, endpoint_url, fetch_redirected, redirected

HERE: Final = "https://mcp.example/mcp"
HOSTS: Final = (
    "mcp.example", "evil.example", "127.0.0.1", "localhost", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1",
    "93.184.215.14", "[2606:2800:21f::1]", "169.254.169.254", "[64:ff9b::a00:1]", "0177.1", "①②⑦.0.0.1",
)  # fmt: skip
TOKENS: Final = (
    "/", "//", "\\", "@", ":", "?", "#", "%2f", "%00", "%40", ".", "..", "。", "．", "①", "[", "]", " ", "\t", "\r\n", "\0", "http:", "https:",
    "https://", "javascript:", "evil.example", "127.0.0.1", "0x", "0", ":443", ":80", "@evil.example", "\u200b", "\ud800", "ß", "İ",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What is named by whoever is at a URL."""

    at: str
    named: str


def draw(rng: Random) -> Case:
    at = rng.choice(
        (
            HERE,
            "http://mcp.example/mcp",
            "http://mcp.example:8000/",
            "http://localhost:8000/sse",
            "https://[::1]/x",
        )
    )
    path = rng.choice(("", "/", "/mcp", "/x?y=z#f", "?a", "x/../y"))
    scheme = rng.choice(("https://", "https://", "http://", "//", ""))
    user = rng.choice(("", "", "", "user@", "a:b@"))
    named = (
        path
        if not scheme
        else scheme + user + rng.choice(HOSTS) + rng.choice(("", "", ":443", ":80", ":8000")) + path
    )
    if rng.random() < 0.7:
        named = damaged_text(named, rng, TOKENS)
    return Case(at, named)


def place(url: str) -> URL | None:
    """Where a request to a URL is sent; None where it cannot be sent."""
    with suppress(ValueError):
        found = URL(url)
        return found if found.host else None
    return None


def origin(found: URL) -> tuple[str, str | None, int | None]:
    """The origin of a URL."""
    return found.scheme, found.host, found.port


@pytest.mark.slow
@req("SSE-3", "SEC-1", "SEC-6", at=D)
def test_requests_with_secrets_stay_where_the_user_sent_them() -> None:
    def check(case: Case) -> None:
        here = origin(URL(case.at))
        upgraded = ("https", here[1], 443) if here[0] == "http" else here
        with suppress(RemoteProtocolError):
            found = place(endpoint_url(case.at, case.named.encode("utf-8", "surrogatepass")))
            assert found is None or origin(found) == here
        with suppress(RemoteProtocolError):
            found = place(redirected(case.at, 307, case.named, verb="POST", count=0))
            assert found is None or origin(found) in (here, upgraded)

    fuzz(draw, check, cases=1500)


@req("SEC-1", "SEC-6", at=D)
def test_what_is_fetched_is_https_and_no_private_address() -> None:
    def check(case: Case) -> None:
        for named in (case.named, joined(case)):
            with suppress(RemoteProtocolError):
                found = place(check_fetch(named))
                if found is None:
                    continue
                assert found.scheme == "https"
                assert found.user is None
                assert found.host
                assert is_of_the_internet(found.host)

    fuzz(draw, check, cases=1500)


def joined(case: Case) -> str:
    """Where a redirect of what is fetched leads; empty where it is refused."""
    with suppress(RemoteProtocolError):
        return fetch_redirected(case.at, case.named, count=0)
    return ""


def is_of_the_internet(host: str) -> bool:
    """Whether a host is no address, or a public one."""
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        address = ip_address(host)
    except ValueError:
        return True
    return address.is_global and not address.is_multicast and is_public(host)


@req("SEC-1", "SEC-6", at=D)
def test_a_url_of_a_server_is_one_or_refused() -> None:
    def check(case: Case) -> None:
        with suppress(ValueError):
            found = place(check_server_url(case.named))
            if found is None:
                return
            assert found.scheme in ("http", "https")
            assert found.host
            assert found.user is None
            assert not found.fragment

    fuzz(draw, check, cases=1500)
