"""Rules for URLs: of the server, of redirects, of documents that a server names, and of resources and issuers.

SSE-3, SEC-1; AUTH-5, AUTH-9, AUTH-10, AUTH-19; RFC 8707, RFC 9728.

Requests to an MCP server carry its session id and a token, so they stay at the origin that the user named. The
endpoint of the HTTP+SSE transport and every redirect must be of that origin. A redirect may also lead from http to
https of the same host. A redirect from https back to http is common behind a proxy that ends TLS: it is followed over
https. The resolved addresses of that origin are not checked, because the user chose its name.

URLs that a server names for other purposes, such as authorization, are checked with `check_fetch` at each redirect,
in every spelling of the host. `is_public` checks each address just before the connection is made, so DNS cannot lead
into a private network, even if its answer changes. Three cases are exempt: the host of the user's own server, any host
with `private=True`, and servers on loopback. With the user's own `session`, only URLs are checked.
"""

from __future__ import annotations

import re
import socket
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from mcprev.errors import RemoteProtocolError
from mcprev.transports.http.security import DEFAULT_PORTS, is_loopback, origin_of, parse_ip

SCHEMES: Final = frozenset({"http", "https"})
MAX_REDIRECTS: Final = 5
"""The maximum number of consecutive redirects."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_CHANGES_METHOD: Final = 303
_URI: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_NOT_IN_URLS: Final = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_PROTOCOLS: Final = IPv4Network("192.0.0.0/24")
"""Reserved for protocols (RFC 6890); some releases of Python treat parts of it as global."""
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_USER: Final = re.compile(r"(?<=//)[^/?#\s\"<>]*@")
_QUERY: Final = re.compile(r"(://[^?#\s\"<>]*+)(?:([?#])[^\s\"'<>]++)?+")
_DOTS: Final = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
"""Characters that count as dots in host names (RFC 3490, section 3.1)."""


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
        raise RemoteProtocolError("the server named no URL to post to", raw=printable(uri))
    if origin_of(found) != origin_of(sse_url):
        raise RemoteProtocolError("the server named a URL of another origin to post to", raw=printable(uri))
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


def check_fetch(url: str, *, private: bool = False) -> str:
    """Return a URL that a server named and that the client is about to fetch, if that is allowed.

    It must be https, and its host must not be an address of a private network in any spelling, such as `0x7f.1`.
    `private` allows private addresses, and http on loopback for development. Host names are checked by `is_public`
    after they are resolved. Raises `RemoteProtocolError`.
    """  # SEC-1
    parts = split_url(url)
    host = None if parts is None else parts.hostname
    if parts is None or not host or "@" in parts.netloc:
        raise RemoteProtocolError("the server named an invalid URL", raw=printable(url))
    if private and parts.scheme in SCHEMES and (parts.scheme == "https" or is_loopback(host)):
        return url
    if parts.scheme != "https":
        raise RemoteProtocolError("the server named a URL that is not https", raw=printable(url))
    if is_loopback(_plain(host)) or (_address(host) is not None and not is_public(host)):
        raise RemoteProtocolError("the server named a URL in a private network", raw=printable(url))
    return url


def fetch_redirected(url: str, location: str | None, *, count: int) -> str:
    """Return the target of a redirect of a fetch; check it with `check_fetch`. Raises `RemoteProtocolError`."""
    if count >= MAX_REDIRECTS:
        raise RemoteProtocolError(
            f"more than {MAX_REDIRECTS} redirects in a row, the last of {printable(url)}"
        )
    found = None if not location else _joined(url, location)
    if found is None:
        raise RemoteProtocolError("a redirect without a valid URL", raw=printable(location or ""))
    return found


def is_public(address: str) -> bool:
    """Return whether a text is an IP address, with or without brackets, of the public internet."""  # SEC-1
    found = _address(address)
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found in _NAT64:
            return is_public(str(IPv4Address(found.packed[-4:])))
        inner = found.sixtofour or (found.teredo or (None, None))[1]
        return found in _GLOBAL_UNICAST and found.is_global and (inner is None or inner.is_global)
    return found is not None and found.is_global and not found.is_multicast and found not in _PROTOCOLS


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address of a host, in any spelling that a resolver accepts; None for a name."""
    name = _plain(host)
    found = parse_ip(name)
    if found is not None:
        return found
    try:
        return IPv4Address(
            socket.inet_aton(name.strip("[]").partition("%")[0].rstrip("."))
        )  # such as 127.1, 0177.0.0.1 and 2130706433
    except (OSError, ValueError):
        return None


def _plain(host: str) -> str:
    """Return a host as a resolver reads it: full-width digits and dots become ASCII."""
    return unicodedata.normalize("NFKC", host.translate(_DOTS)).translate(_DOTS)


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


# -- protected resources and authorization servers ----------------------------------------------------------


def canonical_resource(uri: str) -> str | None:
    """Return a resource identifier in canonical form, or None if it is not one.

    The scheme and host are in lower case; a default port and a trailing slash are removed.
    """  # AUTH-9, AUTH-10
    parts = split_resource(uri)
    if parts is None:
        return None
    port = "" if parts.port in {None, DEFAULT_PORTS[parts.scheme]} else f":{parts.port}"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{host}{port}{parts.path.removesuffix('/')}{query}"


def split_resource(url: object) -> SplitResult | None:
    """Split an http or https URL without user and fragment; return None for any other."""
    if not isinstance(url, str) or not _URI.fullmatch(url) or "#" in url:
        return None
    parts = split_url(url)
    known = parts is not None and parts.scheme in SCHEMES and parts.hostname and "@" not in parts.netloc
    return parts if known else None


def is_secure(url: str) -> bool:
    """Return whether a URL is https, or http on loopback."""
    parts = split_resource(url)
    return parts is not None and (parts.scheme == "https" or is_loopback(parts.hostname or ""))


def in_lower_case(parts: SplitResult) -> str:
    """Return a URL without its query; the scheme and host are in lower case, the path is unchanged."""
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"


def check_issuer(issuer: str) -> None:
    """Raise `ValueError` for an issuer that is not an https URL, or http on loopback."""
    if not is_secure(issuer) or urlsplit(issuer).query:
        raise ValueError(
            f"'{printable(issuer)}' is not the URL of an authorization server: use https and a host"
        )
