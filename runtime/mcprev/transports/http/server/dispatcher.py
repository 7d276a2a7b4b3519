"""The sessions and streams of an HTTP server in one event loop, and how each kind of request is served.

NEG-8 to 11, HTTP-6 to 10, HTTP-19, HTTP-24, HTTP-27, HTTPM-1 to 4, AMB-3, AMB-5, AMB-15, SSE-7. Stateless requests
share one connection; each session and each HTTP+SSE stream has its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from mcprev.core.connection import Connection
from mcprev.core.interfaces import ServerApp
from mcprev.core.shares import Shares, free_of
from mcprev.error_text import internal_error
from mcprev.errors import InternalError, InvalidRequest, StoreError
from mcprev.protocol.connection_state import ToleratedViolation
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.http_request_class import (
    RETRY_LATER,
    RETRY_SOON,
    DeleteSession,
    HttpError,
    InitializeRequest,
    OpenStream,
    RequestClass,
    SessionlessRequest,
    SessionRequest,
    StatelessRequest,
    stopped,
    wants_answer,
)
from mcprev.protocol.subscriptions import LISTEN, MAX_STREAMS
from mcprev.transports.http.server.authentication import token_refusal
from mcprev.transports.http.server.body_budget import opening_refusal
from mcprev.transports.http.server.connection import StatelessConnection, set_origin
from mcprev.transports.http.server.legacy_sse import LegacySseServerConnection, SseEndpoints
from mcprev.transports.http.server.local_sessions import LocalSessions, LocalStreams
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.request import HttpRequest
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.transports.http.server.sessions import Directory, MakeSession, MakeStreams, Session, Sessions
from mcprev.wire.headers import NAME_KEY, TASK_NAMES
from mcprev.wire.jsonrpc import Batch, Message, Request, parse
from mcprev.wire.media import STREAM, Accept, accepted

RETRY: Final = 100
"""Milliseconds after which the first client resumes its stream elsewhere when a server stops."""
SPREAD: Final = 7
"""Milliseconds by which the next client does so later, so that not all come at once."""
MAX_RETRY: Final = 2000
MakeDirectory: TypeAlias = Callable[[HttpSettings, Sessions, MakeSession], Directory]
"""Makes the directory of sessions that are open here; the last argument makes one more."""
_logger: Final = logging.getLogger("mcprev.transport.http")


class HttpDispatcher:
    """The sessions, streams and timers of one app in one event loop."""

    def __init__(
        self,
        server: ServerApp[Connection],
        settings: HttpSettings,
        make_directory: MakeDirectory = LocalSessions,
    ) -> None:
        """`make_directory` says where sessions are known: it may be one that other processes share."""
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._server = server
        self._settings = settings
        self._silent = server.identity.silent()
        self._clock = settings.clock or self.loop.time
        self._respond = partial(ResponseStream, settings)
        self.stopping: bool = False
        """Whether new calls are refused, while those in progress may finish."""
        self.leaving: bool = False
        """Whether new streams and sessions are refused, because the server is about to stop."""
        self.sessions: Sessions = Sessions(
            idle=settings.idle,
            limit=settings.max_sessions,
            per_client=settings.max_sessions_per_client,
            clock=self._clock,
        )
        self.directory: Directory = make_directory(settings, self.sessions, self.session)
        self.shared: StatelessConnection = StatelessConnection(
            ServerProtocol(server.identity),
            server.request_handler,
            _logger,
            max_handlers=settings.max_requests,
        )
        self._listens = Shares(MAX_STREAMS, free=free_of(MAX_STREAMS))
        server.keep(self.shared)
        if self.directory.shared:
            self.shared.closed.add_done_callback(lambda _: self.loop.create_task(self.directory.aclose()))
        messages = settings.sse_paths[1] if settings.sse_paths else ""
        self.sse: SseEndpoints = SseEndpoints(
            server,
            _logger,
            messages=messages,
            limit=settings.max_sessions,
            per_client=settings.max_sessions_per_client,
        )
        self._expiry: asyncio.TimerHandle | None = None

    def _expire(self) -> None:
        """End idle sessions now and whenever the next one may be idle."""
        wait = self.sessions.expire()
        self._expiry = None if wait is None else self.loop.call_later(wait, self._expire)

    @property
    def is_replaceable(self) -> bool:
        """Whether every client can as well be served by another process."""
        return self.directory.shared or not (len(self.sessions) or len(self.sse))

    def leave(self) -> None:
        """End listen streams, and streams that clients can resume elsewhere; refuse new ones, but serve calls."""  # SUB-4
        self.leaving = True
        self.shared.protocol.end()
        self.shared.process_events()
        if self.directory.shared:
            for number, session in enumerate(self.sessions.all()):
                session.hang_up_streams(RETRY + number * SPREAD % MAX_RETRY)

    async def aclose(self, linger: float) -> None:
        """End all sessions and streams. Only calls in progress have `linger` seconds to finish."""  # SUB-4
        self.stopping = True
        self.shared.protocol.end()
        self.shared.process_events()
        await asyncio.gather(
            self.shared.finish_requests(linger),
            *(session.aclose(linger=linger) for session in self.sessions.all()),
            *(connection.aclose(linger=linger) for connection in self.sse.all()),
        )
        await self.shared.aclose(linger=0)
        await self.directory.aclose()
        if self._expiry is not None:
            self._expiry.cancel()

    def fail_requests(self) -> None:
        """Answer all calls in progress with an error."""
        for connection in (self.shared, *self.sessions.all(), *self.sse.all()):
            connection.fail_requests()

    # -- the endpoint --------------------------------------------------------------------------------------

    async def serve(
        self, request_class: RequestClass, session: Session | None, http_request: HttpRequest
    ) -> HttpError | None:
        """Serve a classified request; return the error response if it is refused."""
        if (self.stopping and _starts_work(request_class)) or (self.leaving and self._lasts(request_class)):
            message = getattr(request_class, "message", None)
            return stopped(message.id if isinstance(message, Request) else None)
        if isinstance(request_class, StatelessRequest):
            await self._stateless(request_class, http_request)
            return None
        if isinstance(request_class, SessionRequest) and session is not None:
            await self._in_session(session, request_class.message, request_class.accept, http_request)
            return None
        match request_class:
            case InitializeRequest(message):
                return await self._open(message, http_request)
            case SessionlessRequest():
                await self._without_session(request_class, http_request)
            case OpenStream(_, last_event_id) if session is not None:
                return await self._stream(session, last_event_id, http_request)
            case DeleteSession() if session is not None:
                await self.directory.delete(session)
                await http_request.accept(204)
            case _:
                raise AssertionError(request_class)
        return None

    def _lasts(self, request_class: RequestClass) -> bool:
        """Return whether a request opens what would end with this process."""
        if isinstance(request_class, StatelessRequest):
            return request_class.message.method == LISTEN
        opens = isinstance(request_class, InitializeRequest) and not self.directory.shared
        return opens or isinstance(request_class, OpenStream)

    async def _stateless(self, request_class: StatelessRequest, http_request: HttpRequest) -> None:
        """Serve a stateless request or notification."""
        message = request_class.message
        if not isinstance(message, Request):
            self.shared.receive(message)
            await http_request.accept()
            return
        if message.method in TASK_NAMES and NAME_KEY not in http_request.headers:
            self.shared.protocol.connection.tolerate(ToleratedViolation.UNNAMED_TASKS, message.method)
        if message.method == LISTEN:
            await self._listen(message, http_request)
        else:
            await self.shared.serve(message, self._respond(http_request, self.shared, request_class.accept))

    async def _listen(self, message: Request, http_request: HttpRequest) -> None:
        """Serve a listen stream, within the share of its client."""  # SEC-6
        client = http_request.client
        if not self._listens.take(client):
            why = "too many listen streams are open"
            await http_request.refuse(HttpError(503, InternalError(why), message.id, headers=RETRY_LATER))
            return
        try:
            response_stream = self._respond(http_request, self.shared, STREAM)
            response_stream.on_expired = self.shared.end_listening
            await self.shared.serve(message, response_stream)
        finally:
            self._listens.give(client)

    # -- sessions ------------------------------------------------------------------------------------------

    def session(
        self,
        principal: str | None,
        streams: MakeStreams,
        /,
        *,
        session_id: str | None = None,
        lasting: bool = True,
    ) -> Session:
        """Return a session of a principal, which no client knows yet, or with the id of one that another process has opened."""
        return Session(
            ServerProtocol(self._server.identity if lasting and self._settings.get_stream else self._silent),
            self._server.request_handler,
            _logger,
            principal=principal,
            session_id=session_id,
            streams=streams,
            clock=self._clock,
            max_handlers=self._server.max_handlers,
        )

    async def _open(self, message: Request, http_request: HttpRequest) -> HttpError | None:
        """Open a session; a failed `initialize` leaves none behind."""  # HTTP-19, HTTP-27
        client = http_request.client
        refused = opening_refusal(http_request.share, message.id)
        if refused is None:
            refused = await self.directory.admit(client, message.id)
        if refused is not None:
            return refused
        session = self.session(http_request.principal, self.directory.streams(client))
        response_stream = self._respond(http_request, session, accepted(http_request.headers.get(b"accept")))
        set_origin(message, response_stream)

        def opened() -> None:
            self._server.keep(session)
            response_stream.hold = self.directory.opened(session, client)
            if self._expiry is None:
                self._expiry = self.loop.call_later(self._settings.idle, self._expire)
            response_stream.fields = ((b"mcp-session-id", session.id.encode()),)

        # A relay answers later: no stream begins before it is known whether there is a session to name.
        session.on_open, response_stream.checking = opened, True
        session.receive(message)
        try:
            await response_stream.finish()
        finally:
            if not session.places:
                session.ended(None)
        return None

    async def _in_session(
        self, session: Session, message: Message | Batch, accept: Accept, http_request: HttpRequest
    ) -> None:
        """Serve a message in its session."""
        if not isinstance(message, Request) and not (isinstance(message, Batch) and wants_answer(message)):
            session.touch()
            session.receive_unanswered(message, http_request)
            if session.copies.unsettled:
                await session.copies.settle()
            await http_request.accept()
            return
        response_stream = self._respond(http_request, session, accept)
        session.response_streams.add(response_stream)
        try:
            if isinstance(message, Request):
                await session.serve(message, response_stream)
            else:
                await session.serve_batch(message, response_stream)
        finally:
            session.response_ended(response_stream)

    async def _without_session(self, request_class: SessionlessRequest, http_request: HttpRequest) -> None:
        """Serve a request in a session of its own, without `initialize`."""  # AMB-15
        session = self.session(http_request.principal, LocalStreams, lasting=False)
        session.lasting = False
        if request_class.revision is not None:
            session.protocol.session.assume(request_class.revision)
        try:
            await self._in_session(
                session, request_class.message, accepted(http_request.headers.get(b"accept")), http_request
            )
        finally:
            session.retire()

    async def _stream(
        self, session: Session, last_event_id: str | None, http_request: HttpRequest
    ) -> HttpError | None:
        """Open a GET stream of a session, or resume a stream."""
        # The store may take long to find the events, so the response begins, and with it its timer, after that.
        respond = partial(self._respond, http_request, session, STREAM)
        if last_event_id is None:
            status, why = 429, "too many streams of this session are open"
            response_stream = await session.streams.listen(respond)
        else:
            status, why = 400, "nothing can be resumed from this Last-Event-ID"
            response_stream = await session.streams.resume(respond, last_event_id)
        if response_stream is None:
            return HttpError(
                status,
                InvalidRequest(f"Invalid Request: {why}"),
                headers=RETRY_LATER if status == 429 else (),
            )
        session.response_streams.add(response_stream)
        response_stream.on_expired = ResponseStream.hand_over
        try:
            await response_stream.finish()
        finally:
            session.response_ended(response_stream)
        return None

    # -- HTTP+SSE ------------------------------------------------------------------------------------------

    async def open_sse(self, http_request: HttpRequest) -> HttpError | None:
        """Open the stream of an HTTP+SSE session, and the session with it."""
        client = http_request.client
        if self.stopping or self.leaving:
            return stopped()
        reject = self.sse.refuses_stream(http_request.verb, http_request.headers, client)
        if reject is None:
            connection = self.sse.connect(http_request.principal, client)
            try:
                reject = await self.directory.sse_opened(connection, client)
            except StoreError:
                connection.ended(None)
                raise
            if reject is not None:
                connection.ended(None)
                return reject
            response_stream = self._respond(http_request, connection, STREAM)
            connection.begin(response_stream, self.sse.endpoint(connection, http_request.root))
            response_stream.on_expired = ResponseStream.hand_over
            await response_stream.finish()
        return reject

    async def take_sse(
        self, connection: LegacySseServerConnection | None, body: bytes, http_request: HttpRequest
    ) -> HttpError | None:
        """Process a message that is posted to an HTTP+SSE session, which another process has if it is None."""
        access, auth = http_request.access, self._settings.auth
        reject = None
        if connection is None:
            reject = await self.directory.post_sse(body, http_request)
        else:
            if access is not None and auth is not None:
                message = parse(body, batch=True, max_values=self._settings.max_values)
                spell = self._server.canonical_uri
                reject = await token_refusal(auth.at(http_request.root), access, message, spell)
                connection.renew(access)
            if reject is None:
                reject = connection.take(body, http_request, self._settings.max_values)
        if reject is None:
            await http_request.accept()
        return reject


def unavailable(error: StoreError) -> HttpError:
    """Return the error response to a request that needs a store which is away."""
    return HttpError(503, internal_error(error, may_have_run=False), headers=RETRY_SOON)


def _starts_work(request_class: RequestClass) -> bool:
    """Return whether a request starts new work; responses, notifications and DELETE do not."""
    if isinstance(request_class, (SessionRequest, StatelessRequest)):
        return wants_answer(request_class.message)
    return not isinstance(request_class, DeleteSession)
