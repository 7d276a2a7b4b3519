r"""Server-sent events: bytes to events and back (HTTP-7, 8, 14, 15, 17, 18; HTTPM-4, 5, 8; SSE-2).

Reading follows the event stream format of the HTML standard: lines end with CR, LF or CRLF, one byte order mark at
the beginning is skipped, an id with a NUL is ignored, a `retry` that is not all digits too, an event that the end of
the stream cuts off is none, and its id does not count. What differs, because MCP needs it:

- An event without data is shown as well when it has an id or a `retry`: the first is how a server makes a stream
  resumable before there is anything to say (HTTP-17), and neither is a message (HTTP-18).
- Data stays bytes, as `jsonrpc.parse` wants them; whether they are UTF-8 is judged there.
- An event has a limit, so that a stream without an empty line cannot fill the memory (SEC-6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcprev.errors import EventTooLarge, LocalProtocolError
from mcprev.wire.jsonrpc import MAX_LINE

MESSAGE: Final = "message"
"""The type of an event that carries JSON-RPC, and of one that names none."""
ENDPOINT: Final = "endpoint"
"""The type of the event that says where to post to (SSE-2)."""
MEDIA_TYPE: Final = "text/event-stream"
KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment, which every reader ignores and every proxy takes for traffic (HTTPM-5)."""
MAX_EVENT: Final = MAX_LINE + 4096
"""The default bound of an event, in bytes of the lines it keeps: a message of the greatest size and its fields."""
MAX_RETRY: Final = 2**31 - 1
"""A greater `retry` is read as this, in milliseconds; so is one with more digits than Python would convert."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: at least one of data, id and `retry` was in it."""

    data: bytes = b""
    """The data; several data lines are joined by LF."""
    event: str = MESSAGE
    """The type."""
    id: str | None = None
    """The id this event names; empty when it takes back the last one, None when it says nothing of it."""
    retry: int | None = None
    """Milliseconds to wait before connecting again, from now on."""

    @property
    def is_message(self) -> bool:
        """Whether the data are a JSON-RPC message; an event without data never is one (HTTP-18)."""
        return self.event == MESSAGE and self.data != b""


# -- reading ---------------------------------------------------------------------------------------------

_BOM: Final = b"\xef\xbb\xbf"


class Decoder:
    """Events out of chunks, however the chunks are cut. One decoder reads one stream.

    What is kept is bounded by the limit plus one chunk, and every byte is copied a bounded number of times.
    """

    __slots__ = (
        "_after_cr", "_begun", "_data", "_id", "_limit", "_rest", "_retry", "_size", "_type", "last_event_id",
        "retry",
    )  # fmt: skip

    def __init__(self, limit: int = MAX_EVENT, *, last_event_id: str = "") -> None:
        """`last_event_id` is what a stream that is taken up again begins with (HTTP-15)."""
        self.last_event_id = last_event_id
        """The id to ask for what follows; empty when there is none."""
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
        """Take the next bytes and give the events that are now complete, oldest first.

        The work is done as the events are taken, so take them all before the next chunk is fed. Raises
        `EventTooLarge` after the events before the one that is over the limit; the stream is of no use then.
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
        if line.startswith(b"data: "):  # as the long lines are, which are copied once only
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
            return  # a comment, or a field that the standard does not know
        self._size += len(line) + 1

    def _dispatch(self) -> Event | None:
        """The event that an empty line ends, if it is one to be seen."""
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
    """Write a JSON-RPC message as an event. JSON has line ends only between tokens, where a space does as well."""
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    if event_id is None:
        return b"event: message\ndata: %b\n\n" % message
    return b"event: message\nid: %b\ndata: %b\n\n" % (_field(event_id, "id"), message)


def encode_priming(event_id: str, retry: int | None = None) -> bytes:
    """Write the event that makes a stream resumable before its first message: an id and empty data (HTTP-17)."""
    return encode_event(Event(id=event_id, retry=retry))


def encode_retry(milliseconds: int) -> bytes:
    """Write how long to wait before connecting again, as an event that no reader takes for a message (HTTP-17)."""
    return encode_event(Event(retry=milliseconds))


def encode_endpoint(uri: str) -> bytes:
    """Write where to post to (SSE-2). Raises `LocalProtocolError` for a URI with a line end."""
    return b"event: endpoint\ndata: %b\n\n" % _field(uri, "endpoint")


def encode_event(event: Event) -> bytes:
    """Write any event, so that a `Decoder` gives the same again.

    Raises `LocalProtocolError` for what has no form on the wire: an empty type, a CR in the data, a line end in the
    type, a line end or a NUL in the id, and a `retry` out of its range.
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
    """The value of a field of one line."""
    if "\n" in text or "\r" in text or "\0" in text or not (text or empty):
        raise LocalProtocolError(f"the {name} of an event cannot be {text[:40]!r}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"the {name} of an event is not Unicode: {text[:40]!r}") from error
