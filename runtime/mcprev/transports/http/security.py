"""Which requests an HTTP server accepts (SEC-3, SEC-4, SEC-6; HTTP-2, HTTP-19, HTTP-31; SSE-5; AMB-14).

Browsers send the origin of a page in `Origin`; other clients send none and are accepted. By default a page must come
from loopback or from the host in `Host`. A host name alone proves nothing: the owner of `evil.example` can point it at
any address, also at 127.0.0.1, and the browser then takes this server for that site (DNS rebinding). So a host that
equals the origin counts only if it is an IP literal, which DNS cannot redirect, or if `hosts` or `origins` lists it.

A GET from such a page has no `Origin`. So a request that arrives at a loopback address is refused unless its `Host` is
a loopback name, an IP literal or listed. A proxy on the same machine that forwards a public name needs that name in
`hosts`. At other addresses every `Host` is accepted unless `hosts` is set.

`docs/security.md` has the table of accepted requests; a test checks each of its rows.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import chain
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mcprev.errors import InvalidRequest
from mcprev.protocol.http_request_class import HttpError
from mcprev.wire.headers import Headers

MAX_HEADERS: Final = 64 * 1024
"""The default limit of a request's header names and values together, in bytes."""
MAX_HOST: Final = 300
"""The maximum length of `Host`, in bytes: a name has at most 253, plus brackets and a port."""
ANY: Final = "*"
"""As an entry of `origins`: accept every origin, `null` included."""

_ORIGIN_KEY: Final = b"origin"
_HOST_KEY: Final = b"host"


# -- names -----------------------------------------------------------------------------------------------


def parse_ip(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a host is, with or without brackets; None for a name."""
    try:
        return ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether a host name or address, with or without brackets, is loopback."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = parse_ip(name)
    return address is not None and (getattr(address, "ipv4_mapped", None) or address).is_loopback


_is_local_address: Final = lru_cache(maxsize=64)(is_loopback)
"""`is_loopback` with a cache, for the few addresses that this machine listens at."""


DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def origin_of(url: str) -> tuple[str, str, int | None] | None:
    """Return the scheme, host and port of a URL or an `Origin`, in lower case; None if it has none, such as `null`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port if port is not None else DEFAULT_PORTS.get(parts.scheme)


def _bare(parts: SplitResult) -> bool:
    """Return whether a URL consists of an origin only."""
    return not (parts.path or parts.query or parts.fragment or "@" in parts.netloc)


_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^\[\]:/?#@\s]+)(?::([0-9]{1,5}))?")


def split_host(value: str) -> tuple[str, int | None] | None:
    """Return the name, in lower case and without brackets, and the port of a `Host`; None if it is invalid."""
    found = _HOST.fullmatch(value)
    if found is None:
        return None
    return found[1].strip("[]").lower(), int(found[2]) if found[2] else None


# -- Origin and Host -------------------------------------------------------------------------------------


class OriginPolicy:
    """The rules for `Origin` and `Host` of one endpoint."""

    def __init__(self, origins: Sequence[str] = (), hosts: Sequence[str] | None = None) -> None:
        """Set what is accepted. Raises `ValueError` for an entry that cannot match.

        `origins` are accepted beside the default ones, as `https://app.example`; `*` accepts every origin. `hosts` are
        the only accepted values of `Host`; an entry without a port matches every port. None accepts, at loopback
        addresses, loopback names, IP literals and the hosts of `origins`; at others, every host.
        """
        self._origins = frozenset(map(_origin_rule, origins))
        self._hosts = None if hosts is None else frozenset(map(_host_rule, hosts))
        self._named = frozenset(rule[1] for rule in self._origins if isinstance(rule, tuple))

    def refusal(self, headers: Headers, server: str | None, proxy: bytes | None = None) -> HttpError | None:
        """Return the error response for a request that is not accepted, of any method; None for an accepted one.

        `server` is the local address at which it arrived (`scope["server"][0]`), None if unknown. `proxy` is the `Host` of a
        trusted proxy, if `headers` have that of its client: both have to be accepted, because a page that DNS has led here
        can claim to be a proxy; but a proxy may name this machine.
        """
        host = headers.get(_HOST_KEY)
        admitted = self._is_local(host, server) if self._hosts is None else self._is_configured(host)
        if admitted and proxy is not None and not _is_of_this_machine(proxy[:MAX_HOST]):
            admitted = self._is_local(proxy, server) if self._hosts is None else self._is_configured(proxy)
        if not admitted:
            return _forbidden(
                'this Host is not served here; start with --host NAME or http={"hosts": ["NAME"]}'
            )
        if _ORIGIN_KEY not in headers:
            return None
        if self.admits(headers.text(_ORIGIN_KEY) or "", headers.text(_HOST_KEY)):
            return None
        return _forbidden(
            'this Origin is not allowed here; start with --origin URL or http={"origins": ["URL"]}'
        )

    def lists(self, origin: str) -> bool:
        """Return whether an origin is listed in `origins`."""
        if ANY in self._origins or origin in self._origins:
            return True
        page = origin_of(origin)
        return page is not None and page in self._origins and _bare(urlsplit(origin))

    def admits(self, origin: str, host: str | None) -> bool:
        """Return whether a page of an origin may send a request with this `Host`, which the rule for hosts accepts."""
        if self.lists(origin):
            return True
        page = origin_of(origin)
        if page is None or not _bare(urlsplit(origin)):
            return False
        if is_loopback(page[1]):
            return True
        asked = None if host is None else split_host(host)
        if asked is None or asked[0] != page[1]:
            return False
        return self._hosts is not None or asked[0] in self._named or parse_ip(asked[0]) is not None

    def _is_configured(self, host: bytes | None) -> bool:
        """Return whether `hosts` lists a host."""
        asked = None if host is None else split_host(host.decode("latin-1"))
        hosts = self._hosts
        return asked is not None and hosts is not None and not hosts.isdisjoint({asked, (asked[0], None)})

    def _is_local(self, host: bytes | None, server: str | None) -> bool:
        """Return whether the default accepts a host. Browsers always send `Host`, so a request without it passes."""
        if host is None or server is None or not _is_local_address(server) or ANY in self._origins:
            return True
        if len(host) > MAX_HOST:
            return False
        if _is_of_this_machine(host):
            return True
        asked = split_host(host.decode("latin-1"))
        return asked is not None and asked[0] in self._named


@lru_cache(maxsize=256)
def _is_of_this_machine(host: bytes) -> bool:
    """Return whether a `Host` is a loopback name or an IP literal; no foreign site can have either."""
    asked = split_host(host.decode("latin-1"))
    return asked is not None and (is_loopback(asked[0]) or parse_ip(asked[0]) is not None)


def _origin_rule(entry: str) -> tuple[str, str, int | None] | str:
    if entry in {ANY, "null"}:
        return entry
    found = origin_of(entry)
    if found is None or not _bare(urlsplit(entry)):
        raise ValueError(f"'{entry}' is not an origin: use a scheme and a host, such as https://app.example")
    return found


def _host_rule(entry: str) -> tuple[str, int | None]:
    found = split_host(entry)
    if found is None:
        raise ValueError(
            f"'{entry}' is not a host: use a name with an optional port, such as mcp.example:8000; without a port, any port fits"
        )
    return found


def _forbidden(why: str) -> HttpError:
    return HttpError(403, InvalidRequest(f"Forbidden: {why}"))


# -- limits ----------------------------------------------------------------------------------------------


def too_many_headers(pairs: Sequence[tuple[bytes, bytes]], limit: int = MAX_HEADERS) -> HttpError | None:
    """Return the refusal of a request whose headers exceed the limit, which not every ASGI server checks."""  # HTTP-31
    if sum(map(len, chain.from_iterable(pairs))) <= limit:
        return None
    return too_long_a_head(limit)


def too_long_a_head(limit: int) -> HttpError:
    """Return the refusal of headers that exceed the limit."""
    return HttpError(431, InvalidRequest(f"Invalid Request: headers of more than {limit} bytes"))


# -- session ids -----------------------------------------------------------------------------------------


def new_session_id() -> str:
    """Return a session id that cannot be guessed: 192 random bits in visible ASCII."""  # HTTP-19, SEC-4
    return secrets.token_urlsafe(24)
