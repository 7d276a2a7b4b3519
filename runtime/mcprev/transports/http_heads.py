"""Heads of requests on connections of our own: where they go, and their lines (HTTP-4, HTTP-31, SEC-1).

What a head says is checked before a byte of it is sent. Its framing is this side's to say, whatever the user's headers are.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import mcprev
from mcprev.errors import LocalProtocolError
from mcprev.transports.http_answers import not_connected
from mcprev.wire.headers import Pairs

_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = "/:@!$&'()*+,;=~-._%"
_LONE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header, or of a cookie."""
CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""What no header may have in it."""
_SPACE: Final = " \t"
_USUAL: Final = (("User-Agent", f"mcprev/{mcprev.__version__}"), ("Accept-Encoding", "gzip, deflate"))
_FRAMING: Final = frozenset({"connection", "content-length", "transfer-encoding", "trailer", "upgrade"})
"""What nobody but this side says."""


class Origin(NamedTuple):
    """Where a connection leads."""

    host: str
    """As a name to look up, or an address without brackets."""
    port: int
    secure: bool


class Place(NamedTuple):
    """Where a request goes."""

    url: str
    origin: Origin
    authority: str
    """The host as its header says it, with the port unless that is the usual one."""
    target: str
    """The path and the query, encoded."""


def place_of(url: str) -> Place:
    """Where a URL leads. Raises `ConnectionLost` for a host that cannot be one."""
    parts = urlsplit(url)
    try:
        host, port = _host(parts.hostname or ""), parts.port
    except ValueError as error:
        raise not_connected(url, error) from error
    if not host:
        raise not_connected(url, "there is no host in it")
    usual = _PORTS[parts.scheme]
    origin = Origin(host, usual if port is None else port, parts.scheme == "https")
    shown = f"[{host.partition('%')[0]}]" if ":" in host else host
    target = _encoded(parts.path or "/") + (f"?{_encoded(parts.query, '?')}" if parts.query else "")
    return Place(url, origin, shown if origin.port == usual else f"{shown}:{origin.port}", target)


def _host(host: str) -> str:
    """A host in ASCII. Raises `ValueError`."""
    if ":" in host:
        return unquote(host)  # the zone of an address has a percent sign of its own
    return host if host.isascii() else host.encode("idna").decode()


def _encoded(text: str, more: str = "/") -> str:
    # Bytes that are no UTF-8, as a redirect may have them, are sent as they came.
    return quote(_LONE.sub("%25", text), safe=_SAFE + more, errors="surrogateescape")


def head_of(verb: str, place: Place, headers: Pairs) -> bytes:
    """The lines of a request, but for the length of its body and the empty one.

    Raises `LocalProtocolError` for a header that HTTP cannot carry.
    """
    named = {name.lower() for name, _ in headers}
    lines = [f"{verb} {place.target} HTTP/1.1"]
    if "host" not in named:
        lines.append(f"Host: {place.authority}")
    lines += [f"{name}: {value}" for name, value in _USUAL if name.lower() not in named]
    for name, value in headers:
        if not TOKEN.fullmatch(name):
            raise LocalProtocolError(f"the request cannot be sent: {name[:100]!r} is no name of a header")
        if CONTROL.search(value):
            raise LocalProtocolError(f"the request cannot be sent: a control character in the header {name}")
        if name.lower() not in _FRAMING:
            lines.append(f"{name}: {value.strip(_SPACE)}")
    try:
        return "\r\n".join([*lines, ""]).encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise LocalProtocolError("the request cannot be sent: a header is not Unicode") from error
