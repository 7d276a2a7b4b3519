"""The interface of one HTTP request and its response, independent of the HTTP server.

HTTP-31, HTTPM-6, SEC-6. Implemented for ASGI servers here, and for the project's own connections in `http11_request`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from typing_extensions import override

from mcprev.errors import InvalidRequest
from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.body_budget import (
    BodyBudget,
    BodyShare,
    ClientGone,
    declares_too_much,
    too_large,
    too_much,
)
from mcprev.wire.headers import Headers

if TYPE_CHECKING:
    from mcprev.transports.http.server.access import Access
    from mcprev.transports.http.server.proxies import Peer, Proxies, Told

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Fields: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Response headers; names are in lower case."""
NOT_CODED: Final = HttpError(
    415,
    InvalidRequest("Invalid Request: a body with Content-Encoding is not read; send it as it is"),
    headers=((b"accept-encoding", b"identity"),),
)
"""The response to a body that is compressed or coded otherwise (RFC 9110, section 15.5.16)."""
NO_BODY: Final = frozenset({204, 304})
"""The statuses of responses without content, and so without `Content-Length` (RFC 9110, section 8.6)."""
JSON_TYPE: Final = (b"content-type", b"application/json")


class HttpRequest:
    """A client's request. A response is one `answer`, or `begin`, any number of `write` and one `end`.

    Data for a client that has disconnected is discarded without an error.
    """

    verb: str
    path: str
    """The decoded path without the query, including the path of a mount."""
    headers: Headers
    root: str = ""
    """The path that the app is mounted at."""
    address: str | None = None
    """The local address at which the request arrived; None if unknown."""
    method: str | None = None
    """The method of the message in its body, once that was parsed."""
    principal: str | None = None
    """The principal, set by the server's authentication."""
    access: Access | None = None
    """The content of the token, if the server requires one."""
    place: str | None = None
    """The path of the HTTP+SSE endpoint that the request is for; None for the Streamable HTTP endpoint."""
    share: BodyShare | None = None
    """The memory of the body, after it was read."""
    ready: bool = False
    """Whether the whole body has arrived within the limits, so that `take` returns it."""
    task: asyncio.Task[object] | None = None
    """The task that serves the request, if known."""
    told: Told | None = None
    """What trusted proxies say about the request, if one of them has sent it."""
    proxy_host: bytes | None = None
    """The `Host` that the proxy has sent, where `headers` have that of its client instead."""
    quiet: bool = False
    """Whether the access log has it at DEBUG only."""
    checking: bool = False
    """Whether the headers are still being checked, see `MessageOrigin`."""

    @property
    def scope(self) -> Mapping[str, Any]:
        """The request as an ASGI scope."""
        raise NotImplementedError

    @property
    def client(self) -> str | None:
        """The key for quotas: the principal, else the address; None if neither is known.

        Of an IPv6 address only the first 64 bits count, because one client usually has all addresses with that prefix.
        """  # SEC-6
        if self.principal is not None:
            return f"principal {self.principal}"
        peer = self.scope.get("client")
        return network_of(peer[0]) if peer and peer[0] else None

    def come_through(self, proxies: Proxies, peer: Peer) -> None:
        """Take what trusted proxies say: from now on the client is the one before them, and `Host` what it has sent."""
        self.told = proxies.told(peer, self.headers)
        if self.told is not None and self.told.host is not None:
            self.proxy_host = self.headers.get(b"host") or b""
            self.headers[b"host"] = self.told.host

    def below(self, root: str) -> None:
        """Say that a proxy has removed a prefix of the path."""
        self.root = root
        if self.path != root and not self.path.startswith(f"{root}/"):
            self.path = root + self.path

    def take(self) -> bytes:
        """Return the body of a request that is ready."""
        raise NotImplementedError

    async def read(self, limit: int, budget: BodyBudget) -> bytes | HttpError:
        """Read the body, or return the error response if it exceeds `limit` bytes, declared or not, or `budget`.

        The caller limits the time. Raises `ClientGone` if the client disconnects.
        """
        raise NotImplementedError

    async def answer(self, status: int, fields: Fields, body: bytes) -> None:
        """Send a response with a body of known length."""
        raise NotImplementedError

    async def begin(self, status: int, fields: Fields, data: bytes) -> None:
        """Start a response of unknown length, with its first bytes."""
        raise NotImplementedError

    async def write(self, data: bytes) -> None:
        """Send more of the response; waits while the client reads too slowly. Raises `OSError`."""
        raise NotImplementedError

    async def end(self, data: bytes = b"") -> None:
        """Send the rest of the response."""
        raise NotImplementedError

    def watch(self, gone: Callable[[], None]) -> None:
        """Call `gone` if the client disconnects before the end of the response."""
        raise NotImplementedError

    def unwatch(self) -> None:
        """Stop watching the client."""

    async def refuse(self, reject: HttpError) -> None:
        """Send an error response."""
        await self.answer(reject.status, (JSON_TYPE, *reject.headers), reject.body)

    async def accept(self, status: int = 202) -> None:
        """Respond to a message that has no response."""  # HTTP-6, HTTPM-3
        await self.answer(status, (), b"")


def is_coded(headers: Headers) -> bool:
    """Return whether a body has a content coding."""
    return (headers.get(b"content-encoding") or b"identity").lower() != b"identity"


def network_of(address: str) -> str:
    """Return the key of clients at a network address, for quotas; see `HttpRequest.client`."""
    try:
        known = IPv6Address(address.partition("%")[0])
    except ValueError:
        return f"address {address}"
    return f"address {known.ipv4_mapped or IPv6Address(int(known) >> 64 << 64)}"


class AsgiRequest(HttpRequest):
    """A request of an ASGI server."""

    _watching: asyncio.Task[None] | None = None

    def __init__(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        server = scope.get("server")
        self.address: str | None = server[0] if server and server[1] is not None else None
        self.verb: str = scope["method"]
        self.path: str = scope["path"]
        self.root: str = scope.get("root_path", "")
        self.headers: Headers = headers
        self._scope, self._receive, self._send = scope, receive, send

    @property
    @override
    def scope(self) -> Mapping[str, Any]:
        return self._scope

    @override
    def below(self, root: str) -> None:
        super().below(root)
        self._scope = {**self._scope, "root_path": root, "path": self.path}

    @override
    def come_through(self, proxies: Proxies, peer: Peer) -> None:
        super().come_through(proxies, peer)
        if self.told is not None:
            self._scope = self.told.scope(self._scope)

    @override
    async def read(self, limit: int, budget: BodyBudget) -> bytes | HttpError:
        if declares_too_much(self.headers, limit):
            return too_large(limit)
        body = bytearray()
        taken, client = 0, None
        try:
            while True:
                message = await self._receive()
                if message["type"] != "http.request":
                    raise ClientGone("the client disconnected in the middle of a request")
                chunk: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) + len(chunk) > limit:
                    return too_large(limit)
                if not (more or body):
                    return chunk
                if not body:
                    client = self.client
                if not budget.take(len(chunk), client):
                    return too_much()
                taken += len(chunk)
                body += chunk
                if not more:
                    return bytes(body)
        finally:
            if taken:
                budget.give(taken, client)

    @override
    async def answer(self, status: int, fields: Fields, body: bytes) -> None:
        none = status in NO_BODY or (not body and self.verb == "HEAD")
        length = () if none else ((b"content-length", b"%d" % len(body)),)
        await self._send({"type": "http.response.start", "status": status, "headers": (*fields, *length)})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    @override
    async def begin(self, status: int, fields: Fields, data: bytes) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        if data:
            await self.write(data)

    @override
    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    @override
    async def end(self, data: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    @override
    def watch(self, gone: Callable[[], None]) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._watch(gone))

    async def _watch(self, gone: Callable[[], None]) -> None:
        message: Mapping[str, object] = {}
        while message.get("type") != "http.disconnect":
            message = await self._receive()
        gone()

    @override
    def unwatch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None  # a cancelled task would keep a reference to its callback
