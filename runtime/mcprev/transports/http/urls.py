"""Which URLs a client goes to: the server's own, where a server sends it, and what it may fetch (SSE-3, SEC-1).

Requests to an MCP server carry its session id and a token, so they stay with the origin that the user named: the
endpoint of the old HTTP+SSE transport and every redirect have to be of that origin. A redirect may also lead from
http to https of the same host. One that leads back is a server's that does not know of the proxy in front of it, which
is common: it is followed over https. Where a name of that origin leads is the user's choice, who has named it.

What a server names for something else, such as its authorization, is checked hop by hop with `check_fetch`, however
its host is spelled; and `is_public` judges each address that such a request is about to be connected to, so that no
name leads into a private network, not even one that leads elsewhere by the time it is asked for again. A host that is
the user's own server is exempt from both, as are all where the user allows private networks (`private=True`) and where
the server itself is at a loopback address. A `session` of the user's connects by itself: there only URLs are judged.
"""

from __future__ import annotations

import re
import socket
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from mcprev.errors import RemoteProtocolError
from mcprev.transports.http.security import is_loopback, origin_of

SCHEMES: Final = frozenset({"http", "https"})
MAX_REDIRECTS: Final = 5
"""How many redirects in a row are followed."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHANGES_METHOD: Final = 303
_NOT_IN_URLS: Final = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_PROTOCOLS: Final = IPv4Network("192.0.0.0/24")
"""Assigned to protocols (RFC 6890); some releases of Python take parts of it for public."""
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_DOTS: Final = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
"""What is read as a dot in the names of hosts (RFC 3490, section 3.1)."""


def check_server_url(url: str) -> str:
    """The URL of a server without its fragment. Raises `ValueError` for what is none, or has a password in it."""
    parts = _split(url)
    if parts is None or parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(f"'{_shown(url)}' is no URL of a server: it takes http or https and a host")
    if "@" in parts.netloc:
        raise ValueError("the URL of a server has a user or password in it: use a header for that")
    return urlunsplit(parts._replace(fragment=""))


def endpoint_url(sse_url: str, data: bytes) -> str:
    """Where to post to, from the data of an `endpoint` event and the URL of its stream (SSE-3).

    Raises `RemoteProtocolError` for another origin than that of the stream, and for what is no URL.
    """
    uri = data.decode(errors="replace").strip()
    found = _joined(sse_url, uri)
    if not uri or found is None:
        raise RemoteProtocolError("the server named no URL to post to", raw=_shown(uri))
    if origin_of(found) != origin_of(sse_url):
        raise RemoteProtocolError("the server named a URL of another origin to post to", raw=_shown(uri))
    return found


def redirected(url: str, status: int, location: str | None, *, verb: str, count: int) -> str:
    """Where to go when a server answers with a redirect, `count` of which were followed before.

    The verb and the body stay the same. Raises `RemoteProtocolError` where following would take the request to
    another origin, make it another request, or lead nowhere.
    """
    if count >= MAX_REDIRECTS:
        raise RemoteProtocolError(f"more than {MAX_REDIRECTS} redirects in a row, the last of {_shown(url)}")
    if status == _CHANGES_METHOD and verb != "GET":
        raise RemoteProtocolError(f"a redirect with status {status} would make a GET of this {verb}")
    found = None if not location else _joined(url, location)
    if found is None:
        raise RemoteProtocolError("a redirect that names no URL", raw=_shown(location or ""))
    here, there = origin_of(url), origin_of(found)
    if here is not None and there == ("http", here[1], 80) and here == ("https", here[1], 443):
        found = urlunsplit(urlsplit(found)._replace(scheme="https", netloc=urlsplit(url).netloc))
        there = here
    upgraded = ("https", here[1], 443) if here is not None and here[0] == "http" and here[2] == 80 else here
    if there is None or there not in (here, upgraded):
        raise RemoteProtocolError(
            f"a redirect to another origin is not followed; if it is the server, connect to {_shown(found)}",
            raw=_shown(location or ""),
        )
    return found


def check_fetch(url: str, *, private: bool = False) -> str:
    """A URL that a server named and that this side is to fetch, such as one of its authorization (SEC-1).

    It has to be https, and no address of a private network in it; loopback is held to neither with `private`, which
    is for development. Addresses are recognised in every spelling that leads to one, such as `0x7f.1`. Names are judged
    once they are resolved, by `is_public`. Raises `RemoteProtocolError`.
    """
    parts = _split(url)
    host = None if parts is None else parts.hostname
    if parts is None or not host or "@" in parts.netloc:
        raise RemoteProtocolError("the server named what is no URL", raw=_shown(url))
    if private and parts.scheme in SCHEMES and (parts.scheme == "https" or is_loopback(host)):
        return url
    if parts.scheme != "https":
        raise RemoteProtocolError("the server named a URL that is not https", raw=_shown(url))
    if is_loopback(_plain(host)) or (_address(host) is not None and not is_public(host)):
        raise RemoteProtocolError("the server named a URL in a private network", raw=_shown(url))
    return url


def fetch_redirected(url: str, location: str | None, *, count: int) -> str:
    """Where what is fetched is said to be, `count` redirects in: to be checked as any URL. Raises `RemoteProtocolError`."""
    if count >= MAX_REDIRECTS:
        raise RemoteProtocolError(f"more than {MAX_REDIRECTS} redirects in a row, the last of {_shown(url)}")
    found = None if not location else _joined(url, location)
    if found is None:
        raise RemoteProtocolError("a redirect that names no URL", raw=_shown(location or ""))
    return found


def is_public(address: str) -> bool:
    """Whether an IP address, brackets or not, is one of the public internet; what is none is not (SEC-1)."""
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
    """The IP address that a host is, in any spelling that a resolver takes for one; None for a name."""
    name = _plain(host).strip("[]").partition("%")[0]
    try:
        return ip_address(name)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(name.rstrip(".")))  # such as 127.1, 0177.0.0.1 and 2130706433
    except (OSError, ValueError):
        return None


def _plain(host: str) -> str:
    """A host in the characters that a resolver is asked for, where it is an address or has only letters of ASCII."""
    return unicodedata.normalize("NFKC", host.translate(_DOTS)).translate(_DOTS)


def _split(url: str) -> SplitResult | None:
    """The parts of a URL; None where its host or port is none, and where it holds what no URL does."""
    if _NOT_IN_URLS.search(url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _joined(base: str, reference: str) -> str | None:
    """An absolute URL of a scheme that is spoken, without a fragment and without a user."""
    if _split(reference) is None:
        return None
    try:
        parts = _split(urljoin(base, reference))
    except ValueError:
        return None
    if parts is None or parts.scheme not in SCHEMES or not parts.hostname or "@" in parts.netloc:
        return None
    return urlunsplit(parts._replace(fragment=""))


def _shown(url: str) -> str:
    """A URL fit to be shown: bounded, printable, and without a query, in which secrets are found."""
    head, question, _ = url[:200].partition("?")
    return "".join(c if c.isprintable() else " " for c in head) + ("?..." if question else "")
