"""Rules for the URLs of resources and authorization servers, and for documents that a server names.

SEC-1; AUTH-5, AUTH-9, AUTH-10, AUTH-19; RFC 8707, RFC 9728.

URLs that a server names, such as those of authorization, are checked with `check_fetch` at each redirect, in every
spelling of the host. `is_public` checks each address just before the connection is made, so DNS cannot lead into a
private network, even if its answer changes. Three cases are exempt: the host of the user's own server, any host with
`private=True`, and servers on loopback. With the user's own `session`, only URLs are checked.
"""

from __future__ import annotations

import re
import socket
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mcprev.errors import RemoteProtocolError
from mcprev.transports.http.security import DEFAULT_PORTS, is_loopback, parse_ip
from mcprev.transports.http.urls import SCHEMES, printable, split_url

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_ALLOW: Final = (
    "; if the server is one of yours, pass `private=True`, as in `OAuth(private=True)`, to allow private networks, and http on this machine"
)
_URI: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_NOT_GLOBAL: Final = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv6Network("3fff::/20"),
)
"""Reserved for protocols (RFC 6890), relays (RFC 7526) and documentation (RFC 9637); some releases of Python treat them as
global."""
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_DOTS: Final = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
"""Characters that count as dots in host names (RFC 3490, section 3.1)."""


# -- documents ---------------------------------------------------------------------------------------------


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
        hint = _ALLOW if is_loopback(host) else ""
        raise RemoteProtocolError(f"the server named a URL that is not https{hint}", raw=printable(url))
    if is_loopback(_plain(host)) or (_address(host) is not None and not is_public(host)):
        raise RemoteProtocolError(f"the server named a URL in a private network{_ALLOW}", raw=printable(url))
    return url


def is_public(address: str) -> bool:
    """Return whether a text is an IP address, with or without brackets, of the public internet."""  # SEC-1
    found = _address(address)
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found in _NAT64:
            return is_public(str(IPv4Address(found.packed[-4:])))
        inner = found.sixtofour or (found.teredo or (None, None))[1]
        if found not in _GLOBAL_UNICAST or not (inner is None or inner.is_global):
            return False
    if found is None or found.is_multicast:
        return False
    return found.is_global and not any(found in reserved for reserved in _NOT_GLOBAL)


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


def issuer_spellings(issuer: str) -> tuple[str, ...]:
    """Return the spellings of an issuer: itself, and with the slash of an empty path or without.

    `https://host` and `https://host/` are the same URL (RFC 3986, section 6.2.3), and providers write both.
    """  # AUTH-7
    parts = split_resource(issuer)
    if parts is None or parts.path not in {"", "/"} or "?" in issuer:
        return (issuer,)
    return issuer, issuer.removesuffix("/") if parts.path else f"{issuer}/"


def is_same_issuer(one: str, other: str) -> bool:
    """Return whether two identifiers are spellings of one issuer."""
    return one in issuer_spellings(other)


def check_issuer(issuer: str) -> None:
    """Raise `ValueError` for an issuer that is not an https URL, or http on loopback."""
    if not is_secure(issuer) or urlsplit(issuer).query:
        raise ValueError(
            f"'{printable(issuer)}' is not the URL of an authorization server: use https and a host"
        )
