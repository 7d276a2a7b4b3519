"""One HTTP request as the server's app sees it, and the way its answer takes, whoever reads and writes the bytes.

HTTP-31, HTTPM-6, SEC-6. `transports.asgi` has these of an ASGI server, `transports.http_protocol` of its own
connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from typing_extensions import override

from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.body_budget import BodyBudget, BodyShare, read_body
from mcprev.transports.http.server.cors import Receive, Scope, Send
from mcprev.wire.headers import Headers

if TYPE_CHECKING:
    from mcprev.transports.http.server.access import Access

Fields: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Headers of an answer, names in lower case."""
JSON_TYPE: Final = (b"content-type", b"application/json")


class HttpRequest:
    """A request of a client's. An answer is one `reply` or `answer`, or `begin`, any number of `write` and one `end`.

    What is written to a client that is gone is lost without a word.
    """

    __slots__ = (
        "access",
        "address",
        "headers",
        "path",
        "place",
        "principal",
        "root",
        "share",
        "task",
        "verb",
    )

    def __init__(self, verb: str, path: str, root: str, address: str | None, headers: Headers) -> None:
        self.verb = verb
        self.path = path
        """Decoded, without the query, and with whatever the app is mounted at."""
        self.root = root
        """Where the app is mounted."""
        self.address = address
        """At which address of this machine it was received; None for a socket that has none."""
        self.headers = headers
        self.principal: str | None = None
        """Who asks, as the server's authentication has it."""
        self.access: Access | None = None
        """What its token says, where the server wants one."""
        self.place: str | None = None
        """The path of the oldest transport that it is for; None for the endpoint of the newer ones."""
        self.share: BodyShare | None = None
        """What its body takes of the memory for all bodies, once it was read."""
        self.task: asyncio.Task[object] | None = None
        """What runs for it, where that is known."""

    @property
    def scope(self) -> Mapping[str, Any]:
        """The same as an ASGI scope."""
        raise NotImplementedError

    @property
    def client(self) -> str | None:
        """Whom it counts for in quotas: its principal, else its address; None where neither is known (SEC-6).

        Of an IPv6 address the first 64 bits count: a client has all that begin with them.
        """
        if self.principal is not None:
            return f"principal {self.principal}"
        peer = self.scope.get("client")
        if not peer or not peer[0]:
            return None
        try:
            address = IPv6Address(peer[0].partition("%")[0])
        except ValueError:
            return f"address {peer[0]}"
        return f"address {address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64)}"

    def body(self) -> bytes | None:
        """The body, where all of it is there and within bounds."""
        return None

    async def read(self, limit: int, budget: BodyBudget) -> bytes | HttpError:
        """Wait for the body; the refusal where it has more bytes than `limit`, declared or not, or `budget` has room for.

        How long a slow client may take is the caller's business. Raises `ClientGone` when the client hangs up.
        """
        raise NotImplementedError

    def reply(self, status: int, fields: Fields, body: bytes) -> bool:
        """Answer at once; False, and nothing done, where that has to be waited for."""
        del status, fields, body
        return False

    async def answer(self, status: int, fields: Fields, body: bytes) -> None:
        """Answer with a body of known length."""
        raise NotImplementedError

    async def begin(self, status: int, fields: Fields, data: bytes) -> None:
        """Begin an answer whose end is not known yet, with whatever of it is there."""
        raise NotImplementedError

    async def write(self, data: bytes) -> None:
        """Send more of it, once the client has read enough of what was sent before. Raises `OSError`."""
        raise NotImplementedError

    async def end(self, data: bytes = b"") -> None:
        """Send the last of it."""
        raise NotImplementedError

    def watch(self, gone: Callable[[], None]) -> None:
        """Say when the client hangs up before it has its answer."""
        raise NotImplementedError

    def unwatch(self) -> None:
        """Nobody wants to know that any more."""

    async def refuse(self, reject: HttpError) -> None:
        """Answer what nobody is asked about."""
        fields, body = (JSON_TYPE, *reject.headers), reject.body
        if not self.reply(reject.status, fields, body):
            await self.answer(reject.status, fields, body)

    async def accept(self, status: int = 202) -> None:
        """Answer what wants no answer (HTTP-6, HTTPM-3)."""
        if not self.reply(status, (), b""):
            await self.answer(status, (), b"")


class AsgiRequest(HttpRequest):
    """A request of an ASGI server's."""

    __slots__ = ("_receive", "_scope", "_send", "_watching")

    def __init__(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        server = scope.get("server")
        address = server[0] if server and server[1] is not None else None
        super().__init__(scope["method"], scope["path"], scope.get("root_path", ""), address, headers)
        self._scope, self._receive, self._send = scope, receive, send
        self._watching: asyncio.Task[None] | None = None

    @property
    @override
    def scope(self) -> Mapping[str, Any]:
        return self._scope

    @override
    async def read(self, limit: int, budget: BodyBudget) -> bytes | HttpError:
        return await read_body(self._receive, self.headers, limit, budget)

    @override
    async def answer(self, status: int, fields: Fields, body: bytes) -> None:
        # An answer without content has no length (RFC 9110, section 8.6).
        length = () if status == 204 else ((b"content-length", b"%d" % len(body)),)
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
            self._watching = None  # a cancelled task keeps what it would have called
