"""A request that came on a connection of our own, its body, and the bytes of its answer (HTTP-31, HTTPM-5, SEC-6).

`http_protocol` has the connections. An answer whose length is known is one write; any other is sent in chunks, or to
a client of HTTP/1.0 until the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, Protocol

from typing_extensions import override

from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.body_budget import (
    BodyBudget,
    ClientGone,
    declares_too_much,
    too_large,
    too_much,
)
from mcprev.transports.http.server.request import Fields, HttpRequest
from mcprev.wire.headers import Headers

JOIN: Final = 64 * 1024
"""Bytes of a body that are copied behind its head, to be sent in one packet."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = b"connection: close\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"


class RequestConnection(Protocol):
    """What a request needs of the connection that it came on."""

    budget: BodyBudget
    """The memory that the bodies of all connections take."""
    address: str | None
    """The address of this machine that the client connected to."""
    server: tuple[str, int] | None
    client: tuple[str, int] | None
    paused: bool
    """Whether the client reads too slowly to be sent more."""
    closed: bool
    stopping: bool
    """Whether no more requests are taken."""
    write: Callable[[bytes], None]
    """Send bytes; they are lost once the connection is closed."""

    async def writable(self) -> None:
        """Wait until the client has read enough, or the connection is closed."""
        ...

    def default_headers(self) -> bytes:
        """The headers of every answer."""
        ...


class Http11Request(HttpRequest):
    """A request on a connection of our own."""

    __slots__ = (
        "_begun", "_body", "_budget", "_chunked", "_failed", "_gone", "_http", "_more", "_parts", "_size", "_target", "answered", "complete",
        "keep_alive", "pairs", "refusal", "taken", "version",
    )  # fmt: skip

    def __init__(
        self,
        http: RequestConnection,
        verb: str,
        path: str,
        target: bytes,
        pairs: list[tuple[bytes, bytes]],
        headers: Headers,
    ) -> None:
        super().__init__(verb, path, "", http.address, headers)
        self._http = http
        self._budget = http.budget
        self._target = target
        self.pairs: list[tuple[bytes, bytes]] = pairs
        """Its headers as they came, names in lower case."""
        self.version: str = "1.1"
        self.keep_alive: bool = True
        """Whether another request may follow on its connection."""
        self.complete: bool = False
        """Whether all of it was received."""
        self.answered: bool = False
        """Whether its answer is complete."""
        self._begun = self._chunked = False
        self._body = b""
        self._parts: list[bytes] | None = None
        self._size = 0
        self.taken: int = 0
        """What it takes of the budget for all bodies until it is read, in bytes."""
        self.refusal: HttpError | None = None
        """Why it cannot be served, where its head is at fault."""
        self._failed: HttpError | None = None
        self._more: asyncio.Future[None] | None = None
        self._gone: Callable[[], None] | None = None

    @property
    @override
    def scope(self) -> Mapping[str, Any]:
        raw, _, query = self._target.partition(b"?")
        return {
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

    # -- the body ------------------------------------------------------------------------------------------

    def feed(self, data: bytes, limit: int) -> None:
        """More of the body came; what nobody will read is thrown away."""
        if self.answered or self._failed is not None:
            return
        self._size += len(data)
        if self._size > limit:
            self.fail(too_large(limit))
        elif self._budget.held + len(data) > self._budget.limit:
            self.fail(too_much())
        else:
            self._budget.held += len(data)
            self.taken += len(data)
            if not self._body:
                self._body = data
            else:
                if self._parts is None:
                    self._parts = [self._body]
                self._parts.append(data)

    def release(self) -> None:
        """Drop what was received of the body."""
        self._body, self._parts = b"", None
        self._budget.held -= self.taken
        self.taken = 0

    def received(self) -> None:
        """All of it came."""
        self.complete = True
        if self._more is not None:
            self._rouse()

    def spoil(self, refusal: HttpError) -> None:
        """It cannot be served."""
        self.refusal = refusal
        self.fail(refusal)

    def fail(self, refusal: HttpError) -> None:
        """Its body will not be had, which matters to whoever reads it."""
        self._failed = refusal
        self.release()
        self._rouse()

    def lost(self) -> None:
        """The client hung up."""
        self._rouse()
        if self._gone is not None:
            self._gone()

    def _rouse(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    @override
    def body(self) -> bytes | None:
        if not self.complete or self._parts is not None or self._failed is not None:
            return None
        body = self._body
        self.release()
        return body

    @override
    async def read(self, limit: int, budget: BodyBudget) -> bytes | HttpError:
        del budget  # it is the one of the connection
        if self._failed is None and declares_too_much(self.headers, limit):
            return too_large(limit)
        if not self.complete and self._failed is None and not self._http.closed:
            if self.version == "1.1" and not self._size and self._expects():
                self._http.write(_CONTINUE)
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        if self._failed is not None:
            return self._failed
        if not self.complete:
            raise ClientGone("the client hung up in the middle of a request")
        body = self._body if self._parts is None else b"".join(self._parts)
        self.release()
        return body

    def _expects(self) -> bool:
        """Whether its client waits for leave to send the body."""
        return (self.headers.get(b"expect") or b"").lower() == b"100-continue"

    # -- the answer ----------------------------------------------------------------------------------------

    @override
    def reply(self, status: int, fields: Fields, body: bytes) -> bool:
        http = self._http
        if http.paused:
            return False
        self.answered = True
        defaults = http.default_headers()
        if not self.complete or not self.keep_alive or http.stopping or status == 204 or self.verb == "HEAD":
            http.write(self._unusual(status, fields, body, defaults))
        elif len(body) > JOIN:
            http.write(b"%b%bcontent-length: %d\r\n\r\n" % (_head(status, fields), defaults, len(body)))
            http.write(body)
        else:
            http.write(
                b"%b%bcontent-length: %d\r\n\r\n%b" % (_head(status, fields), defaults, len(body), body)
            )
        return True

    def _unusual(self, status: int, fields: Fields, body: bytes, defaults: bytes) -> bytes:
        length = b"" if status == 204 else b"content-length: %d\r\n" % len(body)
        head = b"%b%b%b%b\r\n" % (_head(status, fields), defaults, self._closing(), length)
        return head if self.verb == "HEAD" else head + body

    def _closing(self) -> bytes:
        """Nothing follows what is answered before it was read: its client may send the rest or not."""
        if self._http.stopping or not self.complete:
            self.keep_alive = False
        return b"" if self.keep_alive else _CLOSE

    @override
    async def answer(self, status: int, fields: Fields, body: bytes) -> None:
        while not self.reply(status, fields, body):
            await self._http.writable()

    @override
    async def begin(self, status: int, fields: Fields, data: bytes) -> None:
        self._chunked = self.version == "1.1"
        self.keep_alive = self.keep_alive and self._chunked
        transfer = _CHUNKED if self._chunked else b""
        defaults = self._http.default_headers()
        head = b"%b%b%b%b\r\n" % (_head(status, fields), defaults, self._closing(), transfer)
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

    def _chunk(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data

    async def _put(self, data: bytes) -> None:
        while self._http.paused:
            await self._http.writable()
        if self._http.closed:
            raise ConnectionResetError("the client is gone")
        self._http.write(data)

    @property
    def begun(self) -> bool:
        """Whether something of its answer was sent."""
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
def _head(status: int, fields: Fields) -> bytes:
    """The first line and the headers of an answer. `fields` is a tuple, so that those that come again are kept."""
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())]
    lines += [b"%b: %b\r\n" % field for field in fields]
    return b"".join(lines)
