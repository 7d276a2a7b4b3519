"""One event stream of a session, whose events are stored (HTTP-14, HTTP-16)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final, Protocol

from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.wire.sse import encode_message

MAX_NEEDED: Final = 256
"""The maximum number of remembered events of a stream that a client must receive."""
_NOTIFICATION: Final = b'{"jsonrpc":"2.0","method":'


class EventKeeper(Protocol):
    """The session of a stream."""

    def keep(self, stream: int, number: int, message: bytes, *, droppable: bool) -> None:
        """Store an event."""
        ...

    def over(self, stream: SessionStream) -> None:
        """Record the end of a stream."""
        ...

    def touch(self) -> None:
        """Record activity of the client."""
        ...


class SessionStream:
    """One event stream of a session, over any number of connections."""  # HTTP-14, HTTP-16

    __slots__ = ("_lost", "_needed", "_session", "_whole", "done", "last", "number", "reader")

    def __init__(self, session: EventKeeper, number: int, *, whole: bool) -> None:
        """A client that resumes a `whole` stream must receive every event; of any other, all but notifications."""
        self._session = session
        self.number: int = number
        self.last: int = 0
        """The number of the latest event."""
        self.reader: ResponseStream | None = None
        """The response that the client currently reads, if any."""
        self.done: bool = False
        self._whole = whole
        self._needed: deque[int] = deque()
        """The numbers of the events that a client must receive, limited to the latest `MAX_NEEDED`."""
        self._lost = 0
        """The highest number that was removed from the list for that limit."""

    def event_id(self, number: int) -> str:
        """Return the id of an event: the number of the stream and of the event."""
        return f"{self.number}-{number}"

    def push(self, message: bytes, /) -> None:
        """Store a message and send it to the reader."""
        self.last += 1
        droppable = not self._whole and message.startswith(_NOTIFICATION)
        if not droppable:
            self._needed.append(self.last)
            if len(self._needed) > MAX_NEEDED:
                self._lost = self._needed.popleft()
        self._session.keep(self.number, self.last, message, droppable=droppable)
        if self.reader is not None:
            if b"\r" in message or b"\n" in message:
                event = encode_message(message, self.event_id(self.last))
            else:
                event = b"event: message\nid: %d-%d\ndata: %b\n\n" % (self.number, self.last, message)
            self.reader.write(event)

    def lacks(self, place: int, found: Collection[int]) -> bool:
        """Return whether a required event after `place` is not in `found`."""
        return place < self._lost or any(at > place and at not in found for at in self._needed)

    def read_by(self, response_stream: ResponseStream) -> None:
        """Replace the reader."""
        if self.reader is not None and self.reader is not response_stream:
            self.reader.hand_over()
        self.reader = response_stream
        response_stream.replay = self

    def close(self) -> None:
        """End the stream after its last message."""
        if self.done:
            return
        self.done = True
        if self.reader is not None:
            self.reader.end()
            self.reader = None
        self._session.over(self)

    def detach(self, response_stream: ResponseStream, /) -> None:
        """Remove a reader."""
        if self.reader is response_stream:
            self.reader = None
        self._session.touch()
