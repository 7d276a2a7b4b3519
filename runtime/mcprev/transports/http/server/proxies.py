"""What trusted proxies say about the clients behind them: `Forwarded` (RFC 7239) and `X-Forwarded-*` (SEC-6, HTTP-31).

Each proxy adds the address from which it has a request to the right of what it was sent, so these lists are read from the
right: as long as an address is that of a trusted proxy, the one before it counts. What is left of the first other address
is the client's own claim, and is ignored. Where it cannot be decided who the client is, it is the last known proxy: an
entry that is no address, a header beyond `MAX_FORWARDED`, or the two forms naming different clients.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple, TypeAlias

from mcprev.wire.headers import Headers

MAX_HOPS: Final = 32
"""The maximum number of proxies between a client and the server that are looked at."""
UNIX: Final = "unix"
"""As an entry of `proxies`: whoever connects to a Unix socket."""
MAX_FORWARDED: Final = 4096
"""The maximum size of each header that proxies add to, in bytes; a larger one is ignored."""
Pairs: TypeAlias = Sequence[tuple[bytes, bytes]]
Peer: TypeAlias = "Sequence[Any] | None"
_NAMES: Final = (b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host")
_SCHEMES: Final = frozenset({"http", "https"})
_PIECE: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?$)|,|[^",]+', re.DOTALL)
_PARAMETER: Final = re.compile(r'\s*([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^";,\s]*))\s*(?:;|$)')
_NODE: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::([0-9]{1,5}))?")
_logger: Final = logging.getLogger("mcprev.transport.http")


class Told(NamedTuple):
    """What trusted proxies say about a request."""

    client: tuple[str, int]
    """The address of the client, empty if it is unknown, and its port or 0."""
    scheme: str | None = None
    host: bytes | None = None
    """The `Host` that the client has sent."""

    def scope(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Return an ASGI scope that says so."""
        found = {**scope, "client": self.client if self.client[0] else None}
        if self.scheme is not None:
            found["scheme"] = self.scheme
        if self.host is not None:
            others = [pair for pair in scope["headers"] if pair[0] != b"host"]
            found["headers"] = [(b"host", self.host), *others]
        return found


class _Chain(NamedTuple):
    """What the proxies have added, each to the right."""

    clients: Sequence[str]
    schemes: Sequence[str]
    hosts: Sequence[str]


class Proxies:
    """The proxies that are believed."""

    def __init__(self, entries: Sequence[str]) -> None:
        """Set them: addresses, networks such as `10.0.0.0/8`, or `unix`. Raises `ValueError`."""
        self._unix = UNIX in entries
        self._networks = tuple(_network(entry) for entry in entries if entry != UNIX)
        self._trusted = lru_cache(maxsize=1024)(self._contain)
        self._warned = False

    def trust(self, peer: Peer) -> bool:
        """Return whether a peer is one of them; one without an address is at a Unix socket."""
        return self._trusted(str(peer[0])) if peer and peer[0] else self._unix

    def told(self, peer: Peer, headers: Headers) -> Told | None:
        """Return what they say about a request that this peer sends; None if it is none of them."""
        if not self.trust(peer):
            return None
        texts = [headers.text(name) or "" for name in _NAMES]
        forwarded, *others = ["" if len(text) > MAX_FORWARDED else text for text in texts]
        chains = [_forwarded(forwarded)] if forwarded else []
        chains += [_Chain(*map(_split, others))] if any(others) else []
        found = [self._read(peer, chain) for chain in chains]
        clients = {told.client[0] for told in found}
        if len(clients) == 1:
            return Told(
                found[0].client,
                next((told.scheme for told in found if told.scheme), None),
                next((told.host for told in found if told.host), None),
            )
        if clients and not self._warned:
            self._warned = True
            _logger.warning(
                "a proxy passes on `Forwarded` and `X-Forwarded-For` that name different clients, so neither is believed: let "
                "it set one of them, and remove the other"
            )
        return Told(_address(peer))

    def _read(self, peer: Peer, chain: _Chain) -> Told:
        """Return who the client is, as far as trusted proxies say, and what the outermost of them says of its request."""
        client, hops = _address(peer), 0
        for entry in reversed(chain.clients):
            found = _node(entry)
            if found is None:
                break
            client = found
            if not self._trusted(client[0]):
                break
            hops += 1
        scheme = _pick(chain.schemes, hops).lower()
        host = _pick(chain.hosts, hops).encode("latin-1")
        return Told(client, scheme if scheme in _SCHEMES else None, host or None)

    def _contain(self, address: str) -> bool:
        try:
            known = _plain(address)
        except ValueError:
            return False
        return any(known in network for network in self._networks)


def _network(entry: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(entry)
    except ValueError as error:
        raise ValueError(
            f"'{entry}' is not a proxy to trust: use an address such as 10.0.0.7, a network such as 10.0.0.0/8, or 'unix' for "
            f"whoever connects to a Unix socket ({error})"
        ) from None


def _plain(address: str) -> IPv4Address | IPv6Address:
    """Return an address without its zone, and an IPv4 address that is written as IPv6 as such. Raises `ValueError`."""
    known = ip_address(address.partition("%")[0])
    return getattr(known, "ipv4_mapped", None) or known


def _address(peer: Peer) -> tuple[str, int]:
    return (str(peer[0]), int(peer[1] or 0)) if peer and peer[0] else ("", 0)


def _node(text: str) -> tuple[str, int] | None:
    """Return the address and port of a node; None for `unknown`, a name that hides it, and what is no address."""
    found = _NODE.fullmatch(text)
    host, port = (text, None) if found is None else (found[1] or found[2], found[3])
    try:
        return str(_plain(host)), int(port or 0)
    except ValueError:
        return None


def _split(text: str) -> Sequence[str]:
    return [part.strip() for part in text.rsplit(",", MAX_HOPS)[-MAX_HOPS:]] if text else ()


def _forwarded(text: str) -> _Chain:
    """Return the elements of `Forwarded`; what an element does not say is empty."""
    parts = [""]
    for piece in _PIECE.findall(text):
        if piece == ",":
            parts.append("")
        else:
            parts[-1] += piece
    elements = [_parameters(part.strip()) for part in parts[-MAX_HOPS:]]
    return _Chain(*([element.get(name, "") for element in elements] for name in ("for", "proto", "host")))


def _parameters(element: str) -> dict[str, str]:
    """Return the parameters of an element; none if it is malformed."""
    found: dict[str, str] = {}
    place = 0
    while place < len(element):
        parameter = _PARAMETER.match(element, place)
        if parameter is None:
            return {}
        quoted = parameter[2]
        found[parameter[1].lower()] = parameter[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        place = parameter.end()
    return found


def _pick(values: Sequence[str], hops: int) -> str:
    """Return what the proxy said that has added the client, so many from the right, or else the next one after it."""
    return next((value for value in values[max(0, len(values) - 1 - hops) :] if value), "")
