"""A request on an HTTP/1.1 connection, its body and the bytes of its response (HTTP-31, HTTPM-5, SEC-6).

`http11_server` has the connections. A response of known length is one write; any other is sent in chunks, or to a client
of HTTP/1.0 until the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sized
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.body_budget import (
    BodyBudget,
    ClientGone,
    declares_too_much,
    too_large,
)
from mcprev.transports.http.server.request import NO_BODY, Fields, HttpRequest, network_of
from mcprev.wire.headers import Headers

if TYPE_CHECKING:
    from uvicorn.server import ServerState

    from mcprev.transports.http.server.proxies import Peer, Proxies

JOIN: Final = 64 * 1024
"""The maximum length of a body that is copied behind its head, so that one write sends both."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = b"connection: close\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"


class RequestConnection(Protocol):
    """The part of a connection that its requests use."""

    budget: BodyBudget
    """The memory of all request bodies."""
    address: str | None
    """The local address at which requests arrive."""
    server: tuple[str, int] | None
    client: tuple[str, int] | None
    place: str | None
    """The key of clients at its address, for quotas."""
    paused: bool
    """Whether the client reads too slowly to be sent more."""
    closed: bool
    stopping: bool
    """Whether further requests are refused."""
    state: ServerState
    """The state of the HTTP server, with the headers of every response."""
    write: Callable[[bytes], None]
    """Sends bytes; discards them once the connection is closed."""

    @property
    def queue(self) -> Sized:
        """The requests that wait for the response in progress."""
        ...

    def release(self, request: Http11Request) -> None:
        """Serve the next request, because the response to this one is complete."""
        ...

    async def writable(self) -> None:
        """Wait until the client has read enough, or has disconnected."""
        ...


class Http11Request(HttpRequest):
    """A request on an HTTP/1.1 connection."""

    version: str = "1.1"
    keep_alive: bool = True
    """Whether another request may follow on the connection."""
    complete: bool = False
    """Whether it was received completely."""
    answered: bool = False
    """Whether the response is complete."""
    size: int = 0
    """The bytes of the body that have arrived."""
    taken: int = 0
    """Those that count towards the budget until the body is read."""
    refusal: HttpError | None = None
    """The error response, if the head is invalid."""
    failed: HttpError | None = None
    """The error response, if the body cannot be read."""
    waiting: asyncio.Future[None] | None = None
    """Done when the body, or an error, has arrived; None unless a task waits for that."""
    _begun = _chunked = False
    _gone: Callable[[], None] | None = None

    def __init__(
        self,
        http: RequestConnection,
        verb: str,
        path: str,
        target: bytes,
        pairs: list[tuple[bytes, bytes]],
        headers: Headers,
    ) -> None:
        self.verb: str = verb
        self.path: str = path
        self.address: str | None = http.address
        self.headers: Headers = headers
        self.sender: str | None = http.place
        """The key of the client's address, for quotas."""
        self._http = http
        self._budget = http.budget
        self._target = target
        self.pairs: list[tuple[bytes, bytes]] = pairs
        """The headers in their order, with names in lower case."""
        self.parts: list[bytes] = []
        """The parts of the body that count towards the budget."""

    @property
    @override
    def scope(self) -> Mapping[str, Any]:
        raw, _, query = self._target.partition(b"?")
        found = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": self.version,
            "method": self.verb,
            "scheme": "http",
            "root_path": self.root,
            "path": self.path,
            "raw_path": raw,
            "query_string": query,
            "headers": self.pairs,
            "server": self._http.server,
            "client": self._http.client,
        }
        return found if self.told is None else self.told.scope(found)

    @override
    def come_through(self, proxies: Proxies, peer: Peer) -> None:
        super().come_through(proxies, peer)
        if self.told is not None and self.told.client[0]:
            self.sender = network_of(self.told.client[0])

    @property
    @override
    def client(self) -> str | None:
        return self.sender if self.principal is None else f"principal {self.principal}"

    # -- the body ------------------------------------------------------------------------------------------

    @override
    def take(self) -> bytes:
        """Return the received body and release its memory from the budget."""
        body = b"".join(self.parts)
        self.parts.clear()
        self._budget.held -= self.taken
        if self.taken and self.sender is not None:  # not by a method: every request passes here
            by, place = self._budget.by, self.sender
            by[place] -= self.taken
            if not by[place]:
                del by[place]
        self.taken = 0
        return body

    def reject(self, refusal: HttpError) -> None:
        """Refuse the request because of its head."""
        self.refusal = refusal
        self.fail(refusal)

    def fail(self, refusal: HttpError) -> None:
        """Give up the body; `read` returns the refusal."""
        self.failed = refusal
        self.ready = False
        self.take()
        self.wake()

    def lost(self) -> None:
        """Record that the client disconnected."""
        self.wake()
        if self._gone is not None:
            self._gone()

    def wake(self) -> None:
        """Wake the task that reads the body."""
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    @override
    async def read(self, limit: int, budget: BodyBudget) -> bytes | HttpError:
        del budget  # the same as that of the connection
        if self.failed is None and declares_too_much(self.headers, limit):
            return too_large(limit)
        if not self.complete and self.failed is None and not self._http.closed:
            if self.version == "1.1" and not self.size and self._expects():
                self._http.write(_CONTINUE)
            self.waiting = asyncio.get_running_loop().create_future()
            await self.waiting
        if self.failed is not None:
            return self.failed
        if not self.complete:
            raise ClientGone("the client disconnected in the middle of a request")
        return self.take()

    def _expects(self) -> bool:
        """Return whether the client waits for `100 Continue`."""
        return (self.headers.get(b"expect") or b"").lower() == b"100-continue"

    # -- the response ----------------------------------------------------------------------------------------

    @override
    async def answer(self, status: int, fields: Fields, body: bytes) -> None:
        http = self._http
        while http.paused:
            await http.writable()
        self.answered = True
        usual = self.complete and self.keep_alive and not http.stopping
        closing = b"" if usual else self._closing()
        none = status in NO_BODY or (not body and self.verb == "HEAD")
        length = b"" if none else b"content-length: %d\r\n" % len(body)
        head = b"%b%b%b\r\n" % (_head(status, fields, tuple(http.state.default_headers)), closing, length)
        if self.verb == "HEAD":
            http.write(head)
        elif len(body) > JOIN:
            http.write(head)
            http.write(body)
        else:
            http.write(head + body)
        if http.queue:
            http.release(self)

    def _closing(self) -> bytes:
        """Return the header that closes the connection, if needed: always after an incomplete request."""
        if self._http.stopping or not self.complete:
            self.keep_alive = False
        return b"" if self.keep_alive else _CLOSE

    @override
    async def begin(self, status: int, fields: Fields, data: bytes) -> None:
        self._chunked = self.version == "1.1"
        self.keep_alive = self.keep_alive and self._chunked
        transfer = _CHUNKED if self._chunked else b""
        head = b"%b%b%b\r\n" % (
            _head(status, fields, tuple(self._http.state.default_headers)),
            self._closing(),
            transfer,
        )
        await self._put(head + self._chunk(data))
        self._begun = True

    @override
    async def write(self, data: bytes) -> None:
        await self._put(self._chunk(data))

    @override
    async def end(self, data: bytes = b"") -> None:
        last = self._chunk(data) + _LAST_CHUNK if self._chunked else data
        await self._put(last)
        self.answered = True
        self._http.release(self)

    def _chunk(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data

    async def _put(self, data: bytes) -> None:
        while self._http.paused:
            await self._http.writable()
        if self._http.closed:
            raise ConnectionResetError("the client has disconnected")
        self._http.write(data)

    @property
    def begun(self) -> bool:
        """Whether a part of the response was sent."""
        return self._begun or self.answered

    @override
    def watch(self, gone: Callable[[], None]) -> None:
        self._gone = gone
        if self._http.closed:
            gone()

    @override
    def unwatch(self) -> None:
        self._gone = None


@lru_cache(maxsize=256)
def _head(status: int, fields: Fields, defaults: Fields) -> bytes:
    """Return the status line and headers of a response, cached; the arguments are tuples."""
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())]
    lines += [b"%b: %b\r\n" % field for field in (*fields, *defaults)]
    return b"".join(lines)
