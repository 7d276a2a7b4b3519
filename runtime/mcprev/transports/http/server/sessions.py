"""The sessions of an HTTP server and their streams (HTTP-9 to 19, HTTP-22, HTTP-24, HTTP-27, HTTP-28, HTTP-32; SEC-4).

A session is a connection with its own engine. Each response that becomes a stream, and each GET, is a `SessionStream`
with a number. Its events are numbered and stored, so that a client that lost its connection, or was told to reconnect,
can resume it (HTTP-14 to 17). Messages outside of requests go to the latest GET stream with a reader, or wait for one.
A lost connection cancels nothing (HTTP-9).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, ClassVar, Final

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.limits import MAX_HANDLERS
from mcprev.errors import ConnectionLost, InternalError, InvalidRequest, LocalProtocolError, McpError
from mcprev.protocol.connection_state import IncomingRequest, SessionOpened
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.http_request_class import RETRY_LATER, HttpError
from mcprev.revisions import Revision
from mcprev.transports.http.security import new_session_id
from mcprev.transports.http.server.connection import AsgiConnection
from mcprev.transports.http.server.event_store import EventStore
from mcprev.transports.http.server.legacy_sse import LegacySseServerConnection
from mcprev.transports.http.server.request import HttpRequest
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.transports.http.server.session_stream import SessionStream
from mcprev.wire.jsonrpc import RequestId
from mcprev.wire.sse import Event, encode_event, encode_message

MAX_GETS: Final = 16
"""The maximum number of open GET streams of a session."""
MAX_PENDING: Final = 256
"""The maximum number of messages that wait for a GET stream."""
MAX_STREAMS: Final = 256
"""The maximum number of ended streams that can still be resumed."""
LOOKS: Final = 16
"""The maximum number of reads from a store during a resume; notifications that are sent later are skipped."""
_REQUEST: Final = b'{"jsonrpc":"2.0","id":'
EVENT_ID: Final = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")
"""The id of an event: the numbers of its stream and of the event."""


class Session(AsgiConnection):
    """A session over HTTP."""

    revision: Revision
    """The revision, once it has been negotiated."""

    def __init__(
        self,
        protocol: ServerProtocol,
        handler: RequestHandler[Connection],
        logger: logging.Logger,
        *,
        principal: str | None = None,
        events: EventStore | None = None,
        get_stream: bool = True,
        clock: Callable[[], float],
        max_handlers: int = MAX_HANDLERS,
    ) -> None:
        super().__init__(protocol, handler, logger, max_handlers=max_handlers)
        self.id: str = new_session_id()
        self.session_id: str | None = self.id
        self.principal = principal
        """The principal that opened the session."""  # HTTP-28
        self.response_streams: set[ResponseStream] = set()
        """The open HTTP requests: calls in progress and GET streams."""
        self._events = events
        self._get_stream = get_stream
        self._clock = clock
        self.seen: float = clock()
        """The time of the client's last activity."""
        self._numbers = 0
        self._streams: dict[int, SessionStream] = {}
        self._finished: deque[int] = deque()
        self._gets: list[SessionStream] = []
        self._pending: deque[bytes] = deque(maxlen=MAX_PENDING)
        self.on_open: Callable[[], None] | None = None
        """Called when `initialize` has succeeded, before its response is sent."""
        self.places: tuple[OrderedDict[str, Session], ...] = ()
        """The collections that contain this session, each ordered by last use; empty after the end."""

    @property
    def in_use(self) -> bool:
        """Whether a request of the client is in progress or a stream is open."""
        return bool(self.response_streams or self._connection_state.incoming)

    @override
    def _on_opened(self, event: SessionOpened) -> None:
        super()._on_opened(event)
        self.revision = event.revision
        if self.on_open is not None:
            self.on_open()
            self.on_open = None

    @property
    def resumable(self) -> bool:
        """Whether a client can resume a stream."""  # HTTP-15
        return self._events is not None and self.protocol.session.agreed and self.revision.sse_resume

    def touch(self) -> None:
        """Record activity of the client."""
        self.seen = self._clock()
        for place in self.places:
            place.move_to_end(self.id)

    @override
    def response_ended(self, response_stream: ResponseStream) -> None:
        self.response_streams.discard(response_stream)
        self.touch()

    # -- streams of requests -------------------------------------------------------------------------------

    @override
    def opened(self, response_stream: ResponseStream) -> bytes:
        if response_stream.replay is not None or not self.resumable:
            return b""
        stream = self._new_stream()
        stream.reader, response_stream.replay = response_stream, stream
        return b"id: %d-0\ndata: \n\n" % stream.number if self.revision.sse_priming else b""

    def _new_stream(self, *, whole: bool = False) -> SessionStream:
        self._numbers += 1
        stream = self._streams[self._numbers] = SessionStream(self, self._numbers, whole=whole)
        return stream

    def belongs_to(self, client: str | None) -> None:
        """Let the stored events of the session count for the share of a client, if it is known and the store has shares."""
        belongs = getattr(self._events, "belongs", None)
        if client is not None and belongs is not None:
            belongs(self.id, client)

    def keep(self, stream: int, number: int, message: bytes, *, droppable: bool) -> None:
        """Store an event; if a required one cannot be stored, no client can resume past it."""
        if self._events is not None:
            try:
                self._events.append(self.id, stream, number, message, droppable=droppable)
            except Exception:
                self.logger.exception("an event could not be stored")

    def over(self, stream: SessionStream) -> None:
        """Record the end of a stream; it can be resumed for some time."""
        self._finished.append(stream.number)
        if len(self._finished) > MAX_STREAMS:
            self._streams.pop(self._finished.popleft(), None)

    @override
    def _can_return(self) -> bool:
        return self.resumable and self.revision.sse_priming

    @override
    def refuses(self, incoming: IncomingRequest) -> McpError | None:
        """Return why the server cannot send a request to the client on behalf of `incoming`, if so."""  # HTTP-32
        response_stream = incoming.origin
        if (
            not isinstance(response_stream, ResponseStream)
            or self._has_get()
            or response_stream.replay is not None
        ):
            return None
        if not response_stream.streams:
            return LocalProtocolError(
                "the client cannot be asked: its request gets its response as JSON, and it has no GET stream"
            )
        if response_stream.ended:
            return ConnectionLost(
                "the client has closed the stream of its request", in_flight=False, retry_safe=True
            )
        return None

    def _has_get(self) -> bool:
        """Return whether the client has a GET stream, or may resume one."""
        return bool(self._gets)

    @override
    def can_reach(self) -> bool:
        return self._own_reader() is not None

    @override
    def _own_reader(self) -> ResponseStream | None:
        return next((stream.reader for stream in reversed(self._gets) if stream.reader is not None), None)

    # -- GET streams ---------------------------------------------------------------------------------------

    @override
    def _send_without_stream(self, message: bytes, *, related: bool = False) -> None:
        if (response_stream := self._own_reader()) is not None and response_stream.replay is not None:
            response_stream.replay.push(message)
        elif not self._get_stream or (related and not message.startswith(_REQUEST)):
            # A message that precedes a response has no use after it.
            super()._send_without_stream(message, related=related)
        elif message not in self._pending:
            # A repeated `list_changed` carries no more information than one.
            self._pending.append(message)

    async def listen(self, respond: Callable[[], ResponseStream]) -> ResponseStream | None:
        """Open a GET stream on the response that `respond` begins; return None if there are too many."""  # HTTP-10
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
        first = self.resumable and self.revision.sse_priming
        response_stream.started = True
        response_stream.write(encode_event(Event(id=stream.event_id(0))) if first else b"")
        self._send_pending(stream)
        return response_stream

    def _send_pending(self, stream: SessionStream) -> None:
        while self._pending:
            stream.push(self._pending.popleft())

    async def resume(
        self, respond: Callable[[], ResponseStream], last_event_id: str
    ) -> ResponseStream | None:
        """Resume a stream after an event, on the response that `respond` begins; return None if a required event is lost.

        Required are the responses and server requests of a request's stream, and all events of any other stream.
        """  # HTTP-15, AMB-11
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
                missed.update(await self._events.after(self.id, stream.number, looked, last))
            except Exception:
                self.logger.exception("the stored events of a stream could not be read")
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

    # -- the end -------------------------------------------------------------------------------------------

    def hang_up_streams(self, retry: int) -> None:
        """Close the connections of streams that the client can resume elsewhere, after `retry` milliseconds."""  # HTTP-17
        if self._can_return():
            for response_stream in tuple(self.response_streams):
                if response_stream.started and response_stream.replay is not None:
                    response_stream.write(encode_event(Event(retry=retry)))
                    response_stream.hand_over()

    def retire(self) -> None:
        """Accept no more messages; running requests may finish."""
        if self._tasks:
            self._end_soon(self._linger)

    @override
    def ended(self, error: ConnectionLost | None) -> None:
        super().ended(error)
        for stream in self._gets:
            stream.close()
        self._gets.clear()
        self._pending.clear()
        if self._events is not None:
            try:
                self._events.discard(self.id)
            except Exception:
                self.logger.exception("the events of a session could not be discarded")


class Sessions:
    """The open sessions, by id, the longest idle first.

    A subclass shares sessions with other processes: it restores those that were opened elsewhere.
    """

    shared: ClassVar[bool] = False
    """Whether sessions may be open elsewhere."""

    def __init__(
        self,
        *,
        idle: float,
        limit: int,
        per_client: int,
        clock: Callable[[], float],
        make: Callable[[str | None], Session],
    ) -> None:
        """`limit` is the maximum number of sessions, `per_client` that of one client; `idle` is in seconds.

        `make` makes a session for a principal, with `new`.
        """
        self._make = make
        self._idle, self._limit, self._per_client = idle, limit, per_client
        self._clock = clock
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._unused: OrderedDict[str, Session] = OrderedDict()
        """Sessions that were used only once, oldest first."""
        self._by_client: dict[str, OrderedDict[str, Session]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def find(self, session_id: bytes, principal: str | None) -> Session | None:
        """Return the session that a header names, if it belongs to the principal."""  # HTTP-22, HTTP-28
        session = self._open.get(session_id.decode("latin-1"))
        if session is None or session.principal != principal or session.error is not None:
            return None
        if session.id in self._unused:
            del self._unused[session.id]
        return session

    def new(self, *args: Any, **options: Any) -> Session:  # noqa: ANN401 - those of `Session`
        """Return a session that no client knows yet."""
        return Session(*args, **options)

    async def admit(self, client: str | None, request_id: RequestId) -> HttpError | None:
        """Make room for one more session of a client, wherever it is; see `make_room`. Raises `StoreError`."""
        return self.make_room(client, request_id)

    async def restore(self, session_id: bytes, http_request: HttpRequest) -> Session | HttpError | None:
        """Return a session that another process has opened, if `http_request` may use it. Raises `StoreError`."""
        del session_id, http_request
        return None

    def opened(self, session: Session, client: str | None) -> asyncio.Task[None] | None:
        """Take a session that `initialize` opens; return what its response has to wait for, which may raise `StoreError`."""
        self.add(session, client)
        session.belongs_to(client)
        return None

    async def delete(self, session: Session) -> None:
        """End a session because the client wants it. Raises `StoreError`."""  # HTTP-24
        self.end(session, "the client ended the session")

    async def sse_opened(self, connection: LegacySseServerConnection, client: str | None) -> HttpError | None:
        """Take a session of HTTP+SSE, or return the error response to its request. Raises `StoreError`."""
        del connection, client
        return None

    async def post_sse(self, body: bytes, http_request: HttpRequest) -> HttpError | None:
        """Pass a message to the process that has its HTTP+SSE session; return the error response if it is refused."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Release what is held beside the sessions, after they have ended."""

    def make_room(self, client: str | None, request_id: RequestId) -> HttpError | None:
        """Make room for one more session of a client, or return the error response to its request.

        A client over its quota loses its own longest idle session. If the server is full, a session that was used only
        once is ended, else the longest idle one. A session in use is never ended.
        """  # SEC-6
        own = None if client is None else self._by_client.get(client)
        if own is not None and len(own) >= self._per_client and not self._evict(own):
            error = InvalidRequest("Invalid Request: this client has too many sessions in use")
            return HttpError(429, error, request_id, headers=RETRY_LATER)
        if len(self._open) >= self._limit and not self._evict(self._unused) and not self._evict(self._open):
            return HttpError(
                503, InternalError("there are too many sessions in use"), request_id, headers=RETRY_LATER
            )
        return None

    def _evict(self, sessions: OrderedDict[str, Session]) -> bool:
        """End the longest idle of these sessions; return False if all are in use."""
        for _ in range(len(sessions)):
            session = next(iter(sessions.values()))
            if not session.in_use:
                self.end(session, "the session was idle, and others need the room")
                return True
            sessions.move_to_end(session.id)
        return False

    def add(self, session: Session, client: str | None) -> None:
        """Add a session, and count it for the quota of its client if the client is known."""
        session.places = (self._open,)
        if client is not None:
            session.places += (self._by_client.setdefault(client, OrderedDict()),)
        for place in (*session.places, self._unused):
            place[session.id] = session
        session.closed.add_done_callback(lambda _: self._forget(session, client))

    def _forget(self, session: Session, client: str | None = None) -> None:
        places, session.places = session.places, ()
        for place in (*places, self._unused):
            place.pop(session.id, None)
        if client is not None and not self._by_client.get(client, True):
            del self._by_client[client]

    def end(self, session: Session, why: str) -> None:
        """End a session: forget its id, cancel its requests, end its streams."""
        self._forget(session)
        session.ended(ConnectionLost(why, in_flight=True, retry_safe=False))

    def expire(self) -> float | None:
        """End idle sessions; return the seconds until the next may be idle, None without sessions."""
        now = self._clock()
        for session in tuple(self._open.values()):
            if not session.response_streams and now - session.seen >= self._idle:
                self.end(session, "the session was idle for too long")
        if not self._open:
            return None
        oldest = min(
            (session.seen for session in self._open.values() if not session.response_streams), default=now
        )
        return max(oldest + self._idle - now, self._idle / 60)

    def all(self) -> tuple[Session, ...]:
        """The open sessions."""
        return tuple(self._open.values())
