"""What arrives at a plain HTTP/1.1 port and is something else: TLS, HTTP/2, the PROXY protocol (HTTP-31).

Each is a balancer or a client that is set up for another port. It is told so as far as its protocol has words for it, and
the log says once what mends it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mcprev.errors import InvalidRequest
from mcprev.protocol.http_request_class import HttpError

_SETTINGS: Final = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HTTP_1_1_REQUIRED: Final = 13
_WHY: Final = b"this server speaks HTTP/1.1: connect without HTTP/2"


class OtherProtocol(NamedTuple):
    """A protocol that is not served."""

    name: str
    cure: str
    """What to do, for the operator."""
    response: bytes | HttpError
    """What the peer is told: bytes of its own protocol, or a response of HTTP/1.1."""


def _goaway(why: bytes) -> bytes:
    """Return the frames of HTTP/2 that refuse a connection: it has to speak HTTP/1.1 (RFC 9113, 6.8 and 7)."""
    payload = bytes(4) + _HTTP_1_1_REQUIRED.to_bytes(4, "big") + why
    return _SETTINGS + len(payload).to_bytes(3, "big") + b"\x07\x00\x00\x00\x00\x00" + payload


def _refusal(text: str) -> HttpError:
    return HttpError(400, InvalidRequest(f"Invalid Request: {text}"), null_id=True)


TLS: Final = OtherProtocol(
    "TLS",
    "use http:// in the URL of the client or proxy, or end TLS at a proxy in front",
    _refusal("this port speaks plain HTTP, not TLS; use http://"),
)
HTTP_2: Final = OtherProtocol(
    "HTTP/2",
    "let the proxy speak HTTP/1.1 to it, such as `proxy_http_version 1.1` of nginx, no `proto h2` in HAProxy, no "
    "`http2_protocol_options` of the cluster in Envoy, no end-to-end HTTP/2 on Cloud Run",
    _goaway(_WHY),
)
PROXY: Final = OtherProtocol(
    "the PROXY protocol",
    "turn it off, such as `send-proxy` in HAProxy, `proxy_protocol on` in nginx or `proxy_protocol_v2` at a network load balancer; "
    "--trusted-proxy believes a proxy that sends X-Forwarded-For",
    _refusal("this port does not read the PROXY protocol; turn it off, and send X-Forwarded-For instead"),
)
_BEGINNINGS: Final = {
    b"\x16\x03": TLS,
    b"PRI * HTTP/2": HTTP_2,
    b"PROXY ": PROXY,
    b"\r\n\r\n\x00\r\nQUIT\n": PROXY,
}


def other_protocol(data: bytes) -> OtherProtocol | None:
    """Return the protocol of a connection that begins with these bytes, if it is known and not HTTP/1.1."""
    return next((found for beginning, found in _BEGINNINGS.items() if data.startswith(beginning)), None)
