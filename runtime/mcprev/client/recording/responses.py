"""Notes what HTTP responses say outside of their bodies, for recordings and `mcprev inspect` (BASE-10, SEC-6).

A note has no secrets: of a session id it only keeps whether its characters are allowed. The bodies that no connection takes
for messages, those of refusals and of what needs no response, are reported beside the notes, as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from mcprev.client.recording.tap import HttpExchange, WireEvent, WireKind
from mcprev.errors import Json
from mcprev.wire import media
from mcprev.wire.headers import SESSION_ID
from mcprev.wire.jsonrpc import ErrorResponse, Notification, Request, RequestId, Response, parse
from mcprev_types import Direction

MAX_OPEN: Final = 1000
"""The maximum number of requests that wait for their response."""
_NO_STREAM: Final = "nothing"
_UNANSWERED: Final = frozenset({"notification", "response"})
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")  # HTTP-19
Sent = tuple[str, str | None, RequestId | None]
"""What an HTTP request carried: `request`, `notification`, `response`, `nothing` or something `other`, such as a batch; the
method; and the id of a request.
"""


class ResponseNotes:
    """Makes a note of each response to a message of a client; given to `mcprev.connect(tap=...)`."""

    def __init__(
        self,
        report: Callable[[dict[str, Json]], object],
        body: Callable[[int, bytes], object] | None = None,
    ) -> None:
        """`report` is called with each note, and `body` with the number of an exchange and a body that is no message."""
        self._report, self._body = report, body
        self._open: dict[int, Sent] = {}
        self._unread: dict[int, None] = {}
        """The exchanges whose body is reported."""
        self._streams: dict[int, str] = {}
        """For each connection, the URL of the last event stream that a GET has opened."""

    def __call__(self, event: WireEvent) -> None:
        """Take an event of the wire."""
        exchange = event.exchange
        if exchange is None:
            return
        if (
            event.kind in (WireKind.MESSAGE, WireKind.REQUEST)
            and event.direction is Direction.CLIENT_TO_SERVER
        ):
            if len(self._open) >= MAX_OPEN:
                del self._open[next(iter(self._open))]
            self._open[exchange.number] = _sent(event.data)
        elif event.kind is WireKind.RESPONSE and (sent := self._open.pop(exchange.number, None)) is not None:
            self._answered(event.connection, exchange, sent)
        elif event.kind is WireKind.MESSAGE and exchange.number in self._unread:
            del self._unread[exchange.number]
            if self._body is not None:
                self._body(exchange.number, event.data)

    def _answered(self, connection: int, exchange: HttpExchange, sent: Sent) -> None:
        note = _note(exchange, sent)
        if exchange.verb == "GET" and note["content_type"] == media.SSE:
            if len(self._streams) >= MAX_OPEN:
                del self._streams[next(iter(self._streams))]
            self._streams[connection] = exchange.url
        accepted = 200 <= (exchange.status or 0) < 300
        if not accepted or (sent[0] in _UNANSWERED and note["content_type"] != media.SSE):
            if len(self._unread) >= MAX_OPEN:
                del self._unread[next(iter(self._unread))]
            self._unread[exchange.number] = None
        # HTTP+SSE posts to another URL, where no rule covers responses.
        if self._streams.get(connection, exchange.url) == exchange.url:
            self._report(note)


def _sent(body: bytes) -> Sent:
    if not body:
        return _NO_STREAM, None, None
    message = parse(body, batch=False)
    if isinstance(message, Request):
        return "request", message.method, message.id
    if isinstance(message, Notification):
        return "notification", message.method, None
    return ("response" if isinstance(message, Response | ErrorResponse) else "other"), None, None


def _note(exchange: HttpExchange, sent: Sent) -> dict[str, Json]:
    session, length = _header(exchange.received, SESSION_ID), _header(exchange.received, "Content-Length")
    return {
        "http": exchange.number, "verb": exchange.verb, "sent": sent[0], "method": sent[1], "id": sent[2],
        "status": exchange.status, "content_type": media.media_type(_header(exchange.received, "Content-Type")),
        "length": int(length) if length is not None and re.fullmatch("[0-9]{1,15}", length) else None,
        "session_id_valid": None if session is None else _VISIBLE.fullmatch(session) is not None,
    }  # fmt: skip


def _header(pairs: Iterable[tuple[str, str]], name: str) -> str | None:
    return next((value for key, value in pairs if key.lower() == name.lower()), None)
