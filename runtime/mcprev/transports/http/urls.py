"""Rules for URLs: of the server, of the endpoint that it names, and of redirects (SSE-3).

Requests to an MCP server carry its session id and a token, so they stay at the origin that the user named. The
endpoint of the HTTP+SSE transport and every redirect must be of that origin. A redirect may also lead from http to
https of the same host. A redirect from https back to http is common behind a proxy that ends TLS: it is followed over
https. The resolved addresses of that origin are not checked, because the user chose its name.
`mcprev.auth.urls` has the rules for the URLs that a server names for authorization.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_network
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from mcprev.errors import RemoteProtocolError
from mcprev.transports.http.security import DEFAULT_PORTS, is_loopback, origin_of, parse_ip

SCHEMES: Final = frozenset({"http", "https"})
MAX_REDIRECTS: Final = 5
"""The maximum number of consecutive redirects."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHANGES_METHOD: Final = 303
_NOT_IN_URLS: Final = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")
_USER: Final = re.compile(r"(?<=//)[^/?#\s\"<>]*@")
_QUERY: Final = re.compile(r"(://[^?#\s\"<>]*+)(?:([?#])[^\s\"'<>]++)?+")


def check_server_url(url: str) -> str:
    """Return a server's URL without its fragment. Raises `ValueError` for an invalid URL or one with a password."""
    parts = split_url(url)
    if parts is None or parts.scheme not in SCHEMES or not parts.hostname:
        shown = (
            "what contains an '@'" if "@" in url else f"'{printable(url)}'"
        )  # a password in it may have any form
        raise ValueError(f"{shown} is not the URL of a server: use http or https and a host")
    if "@" in parts.netloc:
        raise ValueError("the URL of the server contains a user or password: pass them in a header instead")
    return urlunsplit(parts._replace(fragment=""))


def endpoint_url(sse_url: str, data: bytes) -> str:
    """Return the URL to POST to, from the data of an `endpoint` event and the URL of its stream.

    Raises `RemoteProtocolError` for an invalid URL and for another origin than that of the stream.
    """  # SSE-3
    uri = data.decode(errors="replace").strip()
    found = _joined(sse_url, uri)
    if not uri or found is None:
        raise RemoteProtocolError("the `endpoint` event of the server has no valid URL", raw=printable(uri))
    if origin_of(found) != origin_of(sse_url):
        raise RemoteProtocolError(
            "the `endpoint` event of the server has a URL of another origin", raw=printable(uri)
        )
    return found


def redirected(url: str, status: int, location: str | None, *, verb: str, count: int) -> str:
    """Return the target of a redirect; `count` is the number of redirects followed before.

    The method and the body stay the same. Raises `RemoteProtocolError` for a redirect to another origin, one that
    changes the method, one without a valid URL, and one too many.
    """
    found = fetch_redirected(url, location, count=count)
    if status == _CHANGES_METHOD and verb != "GET":
        raise RemoteProtocolError(f"a redirect with status {status} would change this {verb} to a GET")
    here, there = origin_of(url), origin_of(found)
    if here is not None and there == ("http", here[1], 80) and here == ("https", here[1], 443):
        found = urlunsplit(urlsplit(found)._replace(scheme="https", netloc=urlsplit(url).netloc))
        there = here
    upgraded = ("https", here[1], 443) if here is not None and here[0] == "http" and here[2] == 80 else here
    if there is None or there not in (here, upgraded):
        raise RemoteProtocolError(
            f"a redirect to another origin is not followed; if you trust it, connect to {printable(found)}",
            raw=printable(location or ""),
        )
    return found


def fetch_redirected(url: str, location: str | None, *, count: int) -> str:
    """Return the target of a redirect, of any origin. Raises `RemoteProtocolError` for an invalid one and one too many."""
    if count >= MAX_REDIRECTS:
        raise RemoteProtocolError(
            f"more than {MAX_REDIRECTS} redirects in a row, the last of {printable(url)}"
        )
    found = None if not location else _joined(url, location)
    if found is None:
        raise RemoteProtocolError("a redirect without a valid URL", raw=printable(location or ""))
    return found


def split_url(url: str) -> SplitResult | None:
    """Split a URL; return None for an invalid host, port or character."""
    if _NOT_IN_URLS.search(url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _joined(base: str, reference: str) -> str | None:
    """Return an absolute http or https URL without fragment; None for an invalid one and one with a user."""
    if split_url(reference) is None:
        return None
    try:
        parts = split_url(urljoin(base, reference))
    except ValueError:
        return None
    if parts is None or parts.scheme not in SCHEMES or not parts.hostname or "@" in parts.netloc:
        return None
    return urlunsplit(parts._replace(fragment=""))


def proxy_of(url: str) -> str | None:
    """Return the proxy that HTTPS_PROXY or HTTP_PROXY names for a URL; None if neither does, or for a host of NO_PROXY.

    This machine is never reached through a proxy, for which `localhost` is another one.
    """
    from urllib.request import getproxies, proxy_bypass  # imported late: few clients have a proxy

    parts, named = urlsplit(url), getproxies()
    host, proxy = (parts.hostname or "").rstrip("."), named.get(parts.scheme)
    if proxy is None or is_loopback(host):
        return None
    port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    excepted = (each.strip().lower() for each in named.get("no", "").split(","))
    if proxy_bypass(f"{host}:{port}") or any(_is_excepted(host, port, each) for each in excepted):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_excepted(host: str, port: int | None, entry: str) -> bool:
    """Return whether an entry of NO_PROXY is about a host: a name with those below it, an address or a network, with a port."""
    address = parse_ip(host)
    if address is not None:
        with suppress(ValueError):
            return address in ip_network(entry.strip("[]"), strict=False)
    name, colon, number = entry.rpartition(":")
    if colon and number.isdecimal():
        return int(number) == port and _is_excepted(host, port, name)
    name = entry.removeprefix("*").lstrip(".")
    return entry == "*" or (bool(name) and f".{host}".endswith(f".{name}"))


def mask_url(text: str) -> str:
    """Return a URL, or a text with URLs, without the users, passwords, queries and fragments of URLs."""
    if "//" not in text:
        return text
    return _QUERY.sub(
        lambda found: found[1] + (f"{found[2]}..." if found[2] else ""), _USER.sub("...@", text)
    )


def printable(said: str) -> str:
    """Return a peer's text for an error message: at most 200 characters, printable, without the user and query of a URL."""
    head, question, _ = mask_url(said)[:200].partition("?")
    return "".join(c if c.isprintable() else " " for c in head) + (
        "?..." if question and "://" in head else question
    )
