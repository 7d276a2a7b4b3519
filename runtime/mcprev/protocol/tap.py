"""The interface of what is told of everything that is on the wire (BASE-10); `recording.tap` implements it.

Transports call it before anything acts on what they report, so the order of the calls is that of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from mcprev.wire.jsonrpc import Malformed
from mcprev.wire.sse import Event

HeaderMap: TypeAlias = Mapping[str, str]


class ResponseTap(Protocol):
    """Told of the response to one HTTP request."""

    def answered(
        self,
        status: int,
        reason: str | None,
        sent: HeaderMap | None = None,
        received: HeaderMap | None = None,
        /,
    ) -> None:
        """The response has begun; `sent` are the headers of the request with those that HTTP adds."""

    def body(self, body: bytes, /) -> None:
        """The body was read."""

    def begin(self, stream: int | None, /) -> int:
        """The response is an event stream, or goes on with the one of that number; return its number."""
        ...

    def event(self, event: Event, /) -> None:
        """An event of the stream was read."""

    def end(self, *, sent: bool = False) -> None:
        """The response has ended; `sent` if the client ends it. May be called again."""

    def failed(self, error: object, /) -> None:
        """There is no response, or no more of it."""


class Tap(Protocol):
    """Told of everything on one connection. No method raises."""

    def connection(self, server: str, /) -> Tap:
        """A connection begins; return its tap."""
        ...

    def closed(self, error: Exception, /) -> None:
        """The connection has ended, or could not be made. May be called again."""

    def line(self, line: bytes | Malformed, /, *, sent: bool = False) -> None:
        """A line was read, or is sent."""

    def stderr(self, data: bytes, /) -> None:
        """The server process wrote to stderr."""

    def visit(self, url: str, /) -> None:
        """The user is sent to a page to log in; the URL has no secrets."""

    def request(
        self, verb: str, url: str, headers: HeaderMap, body: bytes | None, /, *, login: str = ""
    ) -> ResponseTap:
        """An HTTP request is sent; return the tap of its response. `login` says what a request of a login asks for; its URL
        has no secrets.
        """
        ...
