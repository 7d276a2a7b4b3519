"""Reports what a client sends and receives, for `mcprev.connect(tap=...)` (BASE-10, SEC-6).

The numbers of the events are the order of the wire. Requests of a login are reported without queries, headers and bodies, which have secrets; all else as it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import count
from typing import Final

from mcprev.callbacks import at_once
from mcprev.protocol.tap import HeaderMap
from mcprev.wire.jsonrpc import Malformed
from mcprev.wire.sse import Event
from mcprev_types import Direction

logger: Final = logging.getLogger("mcprev.client")
_NO_EVENT: Final = Event()


class WireKind(StrEnum):
    """What a `WireEvent` reports."""

    OPENED = "opened"
    """A connection begins; `text` names the server."""
    MESSAGE = "message"
    """A message, or bytes that are not a message: a line, the data of an event, or the body of a request or response."""
    REQUEST = "request"
    """An HTTP request without a body."""
    RESPONSE = "response"
    """The status and the headers of an HTTP response."""
    EVENT = "event"
    """An event of a stream that carries no message: `endpoint`, an id or a delay."""
    ENDED = "ended"
    """An event stream has ended; the direction tells which side ended it."""
    LOST = "lost"
    """A response was cut off or refused while it was read; `text` says why."""
    FAILED = "failed"
    """An HTTP request got no response; `text` says why."""
    STDERR = "stderr"
    """What the server process wrote to stderr, as it was read."""
    LOGIN = "login"
    """A request for a login; `text` is what it asks for: `metadata`, a `registration` or a `token`. Without an exchange, a
    page that the user is sent to, with its URL as `text`.
    """
    CLOSED = "closed"
    """The connection has ended, or could not be made; `text` says why."""


@dataclass(slots=True, eq=False)
class HttpExchange:
    """One HTTP request with its response; all events about it share the object, which is filled in as it goes on."""

    number: int
    """The number of the request, from 1 on, over all connections of a client."""
    verb: str
    url: str = field(repr=False)
    sent: Sequence[tuple[str, str]] = field(repr=False)
    """The headers of the request, with their secrets; complete when the response begins."""
    status: int | None = None
    """The status of the response; None until it begins."""
    reason: str = ""
    received: Sequence[tuple[str, str]] = field(default=(), repr=False)
    """The headers of the response, with their secrets."""
    stream: int | None = None
    """The number of the request whose event stream this response is or continues; None if it is not an event stream."""


@dataclass(frozen=True, slots=True, eq=False)
class WireEvent:
    """One event on the wire between a client and its server."""

    number: int
    """The place in the order of the wire, from 1 on."""
    at: float
    """The time in seconds since 1970; it never goes back, because only the first one is read from the clock."""
    connection: int
    """The number of the connection, from 1 on."""
    kind: WireKind
    direction: Direction
    data: bytes = field(default=b"", repr=False)
    """The bytes as they are on the wire, without the line end or the fields of the event around them."""
    exchange: HttpExchange | None = None
    """The HTTP request that it belongs to."""
    event_id: str | None = None
    """The id of the event of a stream; None if it has none."""
    event_name: str | None = None
    """The type of the event of a stream; None outside of streams."""
    retry: int | None = None
    """The delay in milliseconds that the event of a stream sets."""
    text: str = field(default="", repr=False)


class WireTap:
    """Reports the events of one connection; those of all connections of a client are numbered together."""

    def __init__(self, report: Callable[[WireEvent], object]) -> None:
        """`report` is called at once, on the event loop. If it raises, that is logged, and it is not called again."""
        self._reports = [report]
        self._connections, self._exchanges, self._events = count(1), count(1), count(1)
        self._began = time.time() - time.monotonic()
        self.number: int = 0
        """The number of the connection."""
        self._closed = False

    def also(self, report: Callable[[WireEvent], object]) -> WireTap:
        """Return a tap that calls one more function, and numbers the events together with this one."""
        new = copy(self)
        vars(new)["_reports"] = [*self._reports, report]
        return new

    def connection(self, server: str, /) -> WireTap:
        """Report that a connection begins, and return its tap."""
        new = copy(self)
        new.number = next(self._connections)
        new.report(WireKind.OPENED, sent=True, text=server)
        return new

    def report(
        self,
        kind: WireKind,
        data: bytes = b"",
        *,
        sent: bool = False,
        exchange: HttpExchange | None = None,
        event: Event = _NO_EVENT,
        text: str = "",
    ) -> None:
        """Report an event. Does not raise."""
        direction = Direction.CLIENT_TO_SERVER if sent else Direction.SERVER_TO_CLIENT
        at = self._began + time.monotonic()
        found = WireEvent(
            next(self._events),
            at,
            self.number,
            kind,
            direction,
            data,
            exchange,
            event.id,
            None if event is _NO_EVENT else event.event,
            event.retry,
            text,
        )
        for report in tuple(self._reports):
            try:
                at_once(report(found), "`tap`")
            except Exception:
                self._reports.remove(report)
                logger.exception("the function `tap` raised, so it is not called again")

    def closed(self, error: Exception, /) -> None:
        """Report the end of the connection, or that there is none, once."""
        if not self._closed:
            self._closed = True
            self.report(WireKind.CLOSED, text=str(error))

    def line(self, line: bytes | Malformed, /, *, sent: bool = False) -> None:
        """Report a line, without the white space around it; of one that is too long, only the beginning is known."""
        data, text = (line, "") if isinstance(line, bytes) else (line.excerpt.encode(), line.message)
        self.report(WireKind.MESSAGE, data, sent=sent, text=text)

    def stderr(self, data: bytes, /) -> None:
        """Report what the server process wrote to stderr."""
        self.report(WireKind.STDERR, data)

    def visit(self, url: str, /) -> None:
        """Report that the user is sent to a page to log in."""
        self.report(WireKind.LOGIN, sent=True, text=url)

    def request(
        self, verb: str, url: str, headers: HeaderMap, body: bytes | None, /, *, login: str = ""
    ) -> ExchangeTap:
        """Report an HTTP request, and return the tap of its response."""
        exchange = HttpExchange(next(self._exchanges), verb, url, tuple(headers.items()))
        kind = WireKind.LOGIN if login else WireKind.REQUEST if body is None else WireKind.MESSAGE
        self.report(kind, body or b"", sent=True, exchange=exchange, text=login)
        return ExchangeTap(self.report, exchange)


class ExchangeTap:
    """Reports the response to one HTTP request."""

    def __init__(self, report: Callable[..., None], exchange: HttpExchange) -> None:
        self._report = partial(report, exchange=exchange)
        self._exchange = exchange
        self._streaming = False

    def answered(
        self,
        status: int,
        reason: str | None,
        sent: HeaderMap | None = None,
        received: HeaderMap | None = None,
        /,
    ) -> None:
        """Report the beginning of the response."""
        exchange = self._exchange
        exchange.status, exchange.reason = status, reason or ""
        if sent is not None and received is not None:
            exchange.sent, exchange.received = tuple(sent.items()), tuple(received.items())
        self._report(WireKind.RESPONSE)

    def body(self, body: bytes, /) -> None:
        """Report the body of the response."""
        self._report(WireKind.MESSAGE, body)

    def begin(self, stream: int | None, /) -> int:
        """Begin an event stream, or go on with the one of that number; return its number."""
        self._streaming, self._exchange.stream = True, stream or self._exchange.number
        return self._exchange.stream

    def event(self, event: Event, /) -> None:
        """Report an event of the stream."""
        kind = WireKind.MESSAGE if event.is_message else WireKind.EVENT
        self._report(kind, event.data, event=event)

    def end(self, *, sent: bool = False) -> None:
        """Report the end of the response if it is an event stream, once."""
        if self._streaming:
            self._streaming = False
            self._report(WireKind.ENDED, sent=sent)

    def failed(self, error: object, /) -> None:
        """Report that there is no response, or no more of it."""
        self._streaming = False
        self._report(WireKind.FAILED if self._exchange.status is None else WireKind.LOST, text=str(error))
