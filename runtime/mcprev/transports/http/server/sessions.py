"""The sessions of an HTTP server (HTTP-9, HTTP-19, HTTP-22, HTTP-24, HTTP-27, HTTP-28, HTTP-32; SEC-4).

A session is a connection with its own engine, and with streams that are made for it: they are kept in this process
(`local_sessions.py`), or in a store that others read (`mcprev.sharing`). A lost connection cancels nothing (HTTP-9).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeAlias

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.limits import MAX_HANDLERS
from mcprev.errors import ConnectionLost, InternalError, InvalidRequest, LocalProtocolError, McpError
from mcprev.protocol.connection_state import (
    Diagnostic,
    IncomingRequest,
    SessionChanged,
    SessionOpened,
    Unplaced,
)
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.http_request_class import RETRY_LATER, HttpError
from mcprev.revisions import Revision
from mcprev.transports.http.security import new_session_id
from mcprev.transports.http.server.connection import AsgiConnection, Copies, Streams
from mcprev.transports.http.server.legacy_sse import LegacySseServerConnection
from mcprev.transports.http.server.request import HttpRequest
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.wire.jsonrpc import RequestId
from mcprev.wire.sse import Event, encode_event


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
        session_id: str | None = None,
        streams: MakeStreams,
        clock: Callable[[], float],
        max_handlers: int = MAX_HANDLERS,
    ) -> None:
        """`session_id` is that of a session which another process has opened."""
        super().__init__(protocol, handler, logger, max_handlers=max_handlers)
        self.id: str = session_id or new_session_id()
        self.session_id: str | None = self.id
        self.principal = principal
        """The principal that opened the session."""  # HTTP-28
        self.response_streams: set[ResponseStream] = set()
        """The open HTTP requests: calls in progress and GET streams."""
        self._clock = clock
        self.seen: float = clock()
        """The time of the client's last activity."""
        self.on_open: Callable[[], None] | None = None
        """Called when `initialize` has succeeded, before its response is sent."""
        self.places: tuple[OrderedDict[str, Session], ...] = ()
        """The collections that contain this session, each ordered by last use; empty after the end."""
        self.streams: Streams = streams(self)
        self.copies: Copies = self.streams.copies
        self.restored: bool = session_id is not None
        self.shared: bool = self.copies.shared
        self.lives_on: bool = self.shared

    @property
    def in_use(self) -> bool:
        """Whether a request of the client is in progress or a stream is open."""
        return bool(self.response_streams or self._connection_state.incoming)

    @override
    def on_opened(self, event: SessionOpened) -> None:
        super().on_opened(event)
        self.revision = event.revision
        if self.on_open is not None:
            self.on_open()
            self.on_open = None

    def touch(self) -> None:
        """Record activity of the client."""
        self.seen = self._clock()
        for place in self.places:
            place.move_to_end(self.id)

    @override
    def response_ended(self, response_stream: ResponseStream) -> None:
        self.response_streams.discard(response_stream)
        self.touch()

    @override
    def refuses(self, incoming: IncomingRequest) -> McpError | None:
        """Return why the server cannot send a request to the client on behalf of `incoming`, if so."""  # HTTP-32
        response_stream = incoming.origin
        if (
            not isinstance(response_stream, ResponseStream)
            or self.streams.has_get()
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

    @override
    def can_reach(self) -> bool:
        return self.streams.can_reach()

    @override
    def on_noted(self, event: SessionChanged | Unplaced | Diagnostic) -> None:
        if not self.copies.noted(event):
            super().on_noted(event)

    # -- the end -------------------------------------------------------------------------------------------

    @property
    def can_return(self) -> bool:
        """Whether the client can resume a stream after its connection was closed."""
        return self.streams.resumable and self.revision.sse_priming

    @override
    async def hang_up(self, incoming: IncomingRequest, retry: float | None) -> bool:
        response_stream = incoming.origin
        if not isinstance(response_stream, ResponseStream) or not self.can_return:
            return False
        await self.streams.flush(response_stream)
        return incoming.open and await response_stream.hang_up(None if retry is None else round(retry * 1000))

    def hang_up_streams(self, retry: int) -> None:
        """Close the connections of streams that the client can resume elsewhere, after `retry` milliseconds."""  # HTTP-17
        if self.can_return:
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
        self.streams.ended()
        self.copies.ended()

    def conclude(self, why: str) -> None:
        """End the session because it has ended everywhere."""
        self.lives_on = False
        self.ended(ConnectionLost(why, in_flight=True, retry_safe=False))


MakeStreams: TypeAlias = Callable[[Session], Streams]
"""Makes the streams of a session."""


class MakeSession(Protocol):
    """Makes a session with its streams; `session_id` is that of one which another process has opened."""

    def __call__(
        self, principal: str | None, streams: MakeStreams, /, *, session_id: str | None = None
    ) -> Session:
        """Return the session."""
        ...


class Sessions:
    """The sessions that are open in this process, by id, the longest idle first."""

    def __init__(
        self,
        *,
        idle: float,
        limit: int,
        per_client: int,
        clock: Callable[[], float],
    ) -> None:
        """`limit` is the maximum number of sessions, `per_client` that of one client; `idle` is in seconds."""
        self._idle, self._limit, self._per_client = idle, limit, per_client
        self.clock: Callable[[], float] = clock
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
        session.closed.add_done_callback(lambda _: self.forget(session, client))

    def forget(self, session: Session, client: str | None = None) -> None:
        """Find a session no more."""
        places, session.places = session.places, ()
        for place in (*places, self._unused):
            place.pop(session.id, None)
        if client is not None and not self._by_client.get(client, True):
            del self._by_client[client]

    def end(self, session: Session, why: str) -> None:
        """End a session: forget its id, cancel its requests, end its streams."""
        self.forget(session)
        session.ended(ConnectionLost(why, in_flight=True, retry_safe=False))

    def expire(self) -> float | None:
        """End idle sessions; return the seconds until the next may be idle, None without sessions."""
        now = self.clock()
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


class Directory(Protocol):
    """Where the sessions of a server are known: in this process, or in all processes that share a store."""

    shared: bool
    """Whether sessions may be open elsewhere."""

    def streams(self, client: str | None, /) -> MakeStreams:
        """Return what makes the streams of a session that a client opens."""
        ...

    async def admit(self, client: str | None, request_id: RequestId, /) -> HttpError | None:
        """Make room for one more session of a client, wherever it is; see `Sessions.make_room`. Raises `StoreError`."""
        ...

    def opened(self, session: Session, client: str | None, /) -> asyncio.Task[None] | None:
        """Take a session that `initialize` opens; return what its response has to wait for, which may raise `StoreError`."""
        ...

    def is_doubtful(self, session: Session, /) -> bool:
        """Return whether `restore` has to be asked of a session that is open here, because it may be over."""
        ...

    async def restore(self, session_id: bytes, http_request: HttpRequest, /) -> Session | HttpError | None:
        """Return a session that another process has opened, if `http_request` may use it. Raises `StoreError`."""
        ...

    async def delete(self, session: Session, /) -> None:
        """End a session because the client wants it. Raises `StoreError`."""  # HTTP-24
        ...

    async def sse_opened(
        self, connection: LegacySseServerConnection, client: str | None, /
    ) -> HttpError | None:
        """Take a session of HTTP+SSE, or return the error response to its request. Raises `StoreError`."""
        ...

    async def post_sse(self, body: bytes, http_request: HttpRequest, /) -> HttpError | None:
        """Pass a message to the process that has its HTTP+SSE session; return the error response if it is refused."""
        ...

    async def aclose(self) -> None:
        """Release what is held beside the sessions, after they have ended."""
        ...
