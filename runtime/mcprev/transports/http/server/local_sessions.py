"""Sessions that one process has for itself, and their streams (HTTP-9 to 12, HTTP-14 to 17, HTTP-32, AMB-11).

Each response that becomes a stream, and each GET, is a `SessionStream` with a number. Its events are numbered and stored,
so that a client that lost its connection, or was told to reconnect, can resume it. Messages outside of requests go to
the latest GET stream with a reader, or wait for one.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Protocol

from typing_extensions import override

from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.connection import Streams
from mcprev.transports.http.server.event_store import EventStore
from mcprev.transports.http.server.legacy_sse import LegacySseServerConnection
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.request import HttpRequest
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.transports.http.server.sessions import MakeSession, Session, Sessions
from mcprev.wire.jsonrpc import RequestId
from mcprev.wire.sse import Event, encode_event, encode_message

MAX_GETS: Final = 16
"""The maximum number of open GET streams of a session."""
MAX_PENDING: Final = 256
"""The maximum number of messages that wait for a GET stream."""
MAX_STREAMS: Final = 256
"""The maximum number of ended streams that can still be resumed."""
MAX_NEEDED: Final = 256
"""The maximum number of remembered events of a stream that a client must receive."""
LOOKS: Final = 16
"""The maximum number of reads from a store during a resume; notifications that are sent later are skipped."""
EVENT_ID: Final = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")
"""The id of an event: the numbers of its stream and of the event."""
_REQUEST: Final = b'{"jsonrpc":"2.0","id":'
_NOTIFICATION: Final = b'{"jsonrpc":"2.0","method":'


class EventKeeper(Protocol):
    """The streams of the session that a stream belongs to."""

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

    __slots__ = ("_lost", "_needed", "_streams", "_whole", "done", "last", "number", "reader")

    def __init__(self, streams: EventKeeper, number: int, *, whole: bool) -> None:
        """A client that resumes a `whole` stream must receive every event; of any other, all but notifications."""
        self._streams = streams
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
        self._streams.keep(self.number, self.last, message, droppable=droppable)
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
        self._streams.over(self)

    def detach(self, response_stream: ResponseStream, /) -> None:
        """Remove a reader."""
        if self.reader is response_stream:
            self.reader = None
        self._streams.touch()


class LocalStreams(Streams):
    """The streams of a session whose events are in an `EventStore`."""

    def __init__(
        self,
        session: Session,
        *,
        events: EventStore | None = None,
        get_stream: bool = False,
        client: str | None = None,
    ) -> None:
        """`client` is for whose share of the events they count; `get_stream` is whether there may be GET streams."""
        self._session = session
        self._events = events
        self._get_stream = get_stream
        self._numbers = 0
        self._streams: dict[int, SessionStream] = {}
        self._finished: deque[int] = deque()
        self._gets: list[SessionStream] = []
        self._pending: deque[bytes] = deque(maxlen=MAX_PENDING)
        belongs = None if client is None else getattr(events, "belongs", None)
        if belongs is not None:
            belongs(session.id, client)

    @property
    @override
    def resumable(self) -> bool:
        session = self._session
        return self._events is not None and session.protocol.session.agreed and session.revision.sse_resume

    # -- streams of requests -------------------------------------------------------------------------------

    @override
    def opened(self, response_stream: ResponseStream, /) -> bytes:
        if response_stream.replay is not None or not self.resumable:
            return b""
        stream = self._new_stream()
        stream.reader, response_stream.replay = response_stream, stream
        return b"id: %d-0\ndata: \n\n" % stream.number if self._session.revision.sse_priming else b""

    def _new_stream(self, *, whole: bool = False) -> SessionStream:
        self._numbers += 1
        stream = self._streams[self._numbers] = SessionStream(self, self._numbers, whole=whole)
        return stream

    def keep(self, stream: int, number: int, message: bytes, *, droppable: bool) -> None:
        """Store an event; if a required one cannot be stored, no client can resume past it."""
        if self._events is not None:
            try:
                self._events.append(self._session.id, stream, number, message, droppable=droppable)
            except Exception:
                self._session.logger.exception("an event could not be stored")

    def over(self, stream: SessionStream) -> None:
        """Record the end of a stream; it can be resumed for some time."""
        self._finished.append(stream.number)
        if len(self._finished) > MAX_STREAMS:
            self._streams.pop(self._finished.popleft(), None)

    def touch(self) -> None:
        """Record activity of the client."""
        self._session.touch()

    # -- GET streams ---------------------------------------------------------------------------------------

    @override
    def has_get(self) -> bool:
        return bool(self._gets)

    @override
    def can_reach(self) -> bool:
        return self.reader() is not None

    @override
    def reader(self) -> ResponseStream | None:
        return next((stream.reader for stream in reversed(self._gets) if stream.reader is not None), None)

    @override
    def send(self, message: bytes, /, *, related: bool = False) -> None:
        if (response_stream := self.reader()) is not None and response_stream.replay is not None:
            response_stream.replay.push(message)
        elif not self._get_stream or (related and not message.startswith(_REQUEST)):
            # A message that precedes a response has no use after it.
            super().send(message, related=related)
        elif message not in self._pending:
            # A repeated `list_changed` carries no more information than one.
            self._pending.append(message)

    @override
    async def listen(self, respond: Callable[[], ResponseStream], /) -> ResponseStream | None:
        unread = [stream for stream in self._gets if stream.reader is None]
        if len(self._gets) - len(unread) >= MAX_GETS:
            return None
        # Streams without a reader go: all that cannot be resumed, or the oldest if there are too many.
        for stream in unread[: len(self._gets) // MAX_GETS if self.resumable else None]:
            self._gets.remove(stream)
            stream.close()
        stream, response_stream = self._new_stream(whole=True), respond()
        stream.read_by(response_stream)
        self._gets.append(stream)
        first = self.resumable and self._session.revision.sse_priming
        response_stream.started = True
        response_stream.write(encode_event(Event(id=stream.event_id(0))) if first else b"")
        self._send_pending(stream)
        return response_stream

    def _send_pending(self, stream: SessionStream) -> None:
        while self._pending:
            stream.push(self._pending.popleft())

    @override
    async def resume(
        self, respond: Callable[[], ResponseStream], last_event_id: str, /
    ) -> ResponseStream | None:
        found = EVENT_ID.fullmatch(last_event_id)
        stream = self._streams.get(int(found[1])) if found else None
        if found is None or stream is None or self._events is None or not self.resumable:
            return None
        place = int(found[2])
        if place > stream.last:
            return None
        missed: dict[int, bytes] = {}
        looked = place
        for _ in range(LOOKS):
            # More events may be sent while the store reads.
            last = stream.last
            try:
                missed.update(await self._events.after(self._session.id, stream.number, looked, last))
            except Exception:
                self._session.logger.exception("the stored events of a stream could not be read")
                return None
            looked = last
            if looked == stream.last:
                break
        if stream.lacks(place, missed):
            return None
        response_stream = respond()
        stream.read_by(response_stream)
        response_stream.started = True
        response_stream.write(
            b"".join([encode_message(data, stream.event_id(at)) for at, data in missed.items()])
        )
        if stream.done:
            response_stream.end()
        elif stream in self._gets:
            self._send_pending(stream)
        return response_stream

    @override
    def ended(self) -> None:
        for stream in self._gets:
            stream.close()
        self._gets.clear()
        self._pending.clear()
        if self._events is not None:
            try:
                self._events.discard(self._session.id)
            except Exception:
                self._session.logger.exception("the events of a session could not be discarded")


class LocalSessions:
    """The directory of sessions that are known to this process only."""

    shared: bool = False

    def __init__(self, settings: HttpSettings, sessions: Sessions, make: MakeSession) -> None:
        del make
        self._settings = settings
        self._sessions = sessions

    def streams(self, client: str | None) -> Callable[[Session], Streams]:
        """Return what makes the streams of a session that a client opens."""
        get_stream = self._settings.get_stream
        events = self._settings.events if get_stream else None  # a GET is the way back
        return partial(LocalStreams, events=events, get_stream=get_stream, client=client)

    async def admit(self, client: str | None, request_id: RequestId) -> HttpError | None:
        """Make room for one more session of a client, or return the error response to its request."""
        return self._sessions.make_room(client, request_id)

    def opened(self, session: Session, client: str | None) -> asyncio.Task[None] | None:
        """Take a session that `initialize` opens."""
        self._sessions.add(session, client)
        return None

    def is_doubtful(self, session: Session) -> bool:
        """Return False: a session that is here has not ended."""
        del session
        return False

    async def restore(self, session_id: bytes, http_request: HttpRequest) -> Session | HttpError | None:
        """Return None: no other process has opened a session."""
        del session_id, http_request
        return None

    async def delete(self, session: Session) -> None:
        """End a session because the client wants it."""  # HTTP-24
        self._sessions.end(session, "the client ended the session")

    async def sse_opened(self, connection: LegacySseServerConnection, client: str | None) -> HttpError | None:
        """Take a session of HTTP+SSE."""
        del connection, client
        return None

    async def post_sse(self, body: bytes, http_request: HttpRequest) -> HttpError | None:
        """Never called: a session of HTTP+SSE that is not here is nowhere."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Nothing is held beside the sessions."""
