r"""Server-sent events: bytes to events and back (HTTP-7, 8, 14, 15, 17, 18; HTTPM-4, 5, 8; SSE-2).

Reading follows the event stream format of the HTML standard: lines end with CR, LF or CRLF; one byte order mark at the
beginning is skipped; an id with a NUL and a `retry` with other characters than digits are ignored; an event cut off by
the end of the stream is dropped with its id. Differences that MCP requires:

- An event without data is reported if it has an id or a `retry`: a server sends such an event to make a stream
  resumable before the first message (HTTP-17). It is not a message (HTTP-18).
- Data stays bytes for `jsonrpc.parse`, which checks that they are UTF-8.
- The size of an event is limited, so that a stream without an empty line cannot exhaust memory (SEC-6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcprev.errors import EventTooLarge, LocalProtocolError
from mcprev.wire.jsonrpc import MAX_LINE

MESSAGE: Final = "message"
"""The type of an event that carries JSON-RPC, and of an event without a type."""
ENDPOINT: Final = "endpoint"
"""The type of the event that names the URI to POST to."""  # SSE-2
KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment: readers ignore it, proxies count it as traffic."""  # HTTPM-5
MAX_EVENT: Final = MAX_LINE + 4096
"""The default limit of an event, in bytes of its lines: the largest message and the other fields."""
MAX_RETRY: Final = 2**31 - 1
"""The maximum `retry`, in milliseconds; greater values are reduced to it."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event, with at least one of data, id and `retry`."""

    data: bytes = b""
    """The data; several data lines are joined by LF."""
    event: str = MESSAGE
    """The type."""
    id: str | None = None
    """The id of the event; empty if the event resets the last id, None if it has no id field."""
    retry: int | None = None
    """The reconnection delay from now on, in milliseconds."""

    @property
    def is_message(self) -> bool:
        """Return whether the data are a JSON-RPC message; an event without data is not one."""  # HTTP-18
        return self.event == MESSAGE and self.data != b""


# -- reading ---------------------------------------------------------------------------------------------

_BOM: Final = b"\xef\xbb\xbf"


class Decoder:
    """Decodes one stream of chunks into events, wherever the chunks are cut.

    The buffer holds at most the limit plus one chunk, and every byte is copied a bounded number of times.
    """

    def __init__(self, limit: int = MAX_EVENT, *, last_event_id: str = "") -> None:
        """`last_event_id` is the id from which a resumed stream continues."""  # HTTP-15
        self.last_event_id: str = last_event_id
        """The id for `Last-Event-ID` on resumption; empty if there is none."""
        self.retry: int | None = None
        """The last `retry` of the stream, in milliseconds."""
        self._limit = limit
        self._rest = bytearray()
        self._begun = False
        self._after_cr = False
        self._reset()

    def _reset(self) -> None:
        self._data: list[bytes] = []
        self._type = ""
        self._id: str | None = None
        self._retry: int | None = None
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Take the next bytes and yield the events completed by them, oldest first.

        Decoding happens during iteration, so exhaust the iterator before feeding the next chunk. Raises
        `EventTooLarge` after the events that precede the oversized one; the decoder cannot be used after that.
        """
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        last = lines.pop()
        if lines and self._rest:
            self._rest += lines[0]
            lines[0] = bytes(self._rest)
            self._rest.clear()
        for line in lines:
            if not self._begun:
                self._begun = True
                self._bound(line)
                line = line.removeprefix(_BOM)  # noqa: PLW2901 - once in a stream
            if not line:
                event = self._dispatch()
                if event is not None:
                    yield event
            else:
                self._line(line)
        if last:
            self._rest += last
            self._bound(self._rest)

    def _bound(self, line: bytes | bytearray) -> None:
        if self._size + len(line) > self._limit:
            raise EventTooLarge(self._limit)

    def _line(self, line: bytes) -> None:
        """Take a line that is not empty."""
        self._bound(line)
        if line.startswith(b"data: "):  # fast path: long lines are data, and this copies them only once
            self._data.append(line[6:])
            self._size += len(line) + 1
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode(errors="replace")
        elif name == b"id":
            if b"\0" in value:
                return
            self._id = value.decode(errors="replace")
        elif name == b"retry":
            if value.isdigit():
                self._retry = self.retry = _milliseconds(value)
            return
        else:
            return  # a comment or an unknown field
        self._size += len(line) + 1

    def _dispatch(self) -> Event | None:
        """Return the event that an empty line ends, or None if it has no data, id or `retry`."""
        event = None
        if self._id is not None:
            self.last_event_id = self._id
        if self._data or self._id is not None or self._retry is not None:
            event = Event(b"\n".join(self._data), self._type or MESSAGE, self._id, self._retry)
        self._reset()
        return event


def _milliseconds(digits: bytes) -> int:
    digits = digits.lstrip(b"0")
    return min(int(digits or b"0"), MAX_RETRY) if len(digits) <= len(str(MAX_RETRY)) else MAX_RETRY


# -- writing ---------------------------------------------------------------------------------------------


def encode_message(message: bytes, event_id: str | None = None) -> bytes:
    """Encode a JSON-RPC message as an event. Line ends in JSON occur only between tokens and are replaced by spaces."""
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    if event_id is None:
        return b"event: message\ndata: %b\n\n" % message
    return b"event: message\nid: %b\ndata: %b\n\n" % (_field(event_id, "id"), message)


def encode_endpoint(uri: str) -> bytes:
    """Encode the event that names the URI to POST to. Raises `LocalProtocolError` for a URI with a line end."""  # SSE-2
    return b"event: endpoint\ndata: %b\n\n" % _field(uri, "endpoint")


def encode_event(event: Event) -> bytes:
    """Encode an event such that a `Decoder` returns an equal one.

    Raises `LocalProtocolError` for an event that has no encoding: an empty type, a CR in the data, a line end in the
    type, a line end or a NUL in the id, or a `retry` outside its range.
    """
    lines: list[bytes] = []
    if event.event != MESSAGE or event.data:
        lines.append(b"event: " + _field(event.event, "event", empty=False))
    if event.id is not None:
        lines.append(b"id: " + _field(event.id, "id"))
    if event.retry is not None:
        if not 0 <= event.retry <= MAX_RETRY:
            raise LocalProtocolError(f"retry is {event.retry}, not from 0 to {MAX_RETRY} milliseconds")
        lines.append(b"retry: %d" % event.retry)
    if event.data or event.id is not None or event.event != MESSAGE or event.retry is None:
        if b"\r" in event.data:
            raise LocalProtocolError("a CR in the data of an event would be read as a line end")
        lines += [b"data: " + line for line in event.data.split(b"\n")]
    return b"\n".join(lines) + b"\n\n"


def _field(text: str, name: str, *, empty: bool = True) -> bytes:
    """Return the value of a single-line field as bytes."""
    if "\n" in text or "\r" in text or "\0" in text or not (text or empty):
        raise LocalProtocolError(f"the {name} of an event cannot be {text[:40]!r}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"the {name} of an event is not Unicode: {text[:40]!r}") from error
