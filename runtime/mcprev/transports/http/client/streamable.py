"""The client of the Streamable HTTP transport, at every revision (HTTP-4, 5, 7, 9, 10, 13, 15, 18, 20, 23 to 25, 29;
HTTPM-2, 7; HDR-1, 2, 6, 7, 9, 11; NEG-6, NEG-7; ERR-7; BATCH-1; AMB-10, AMB-11).

Each message is a POST. The server responds with JSON or an event stream; in sessions it also has a stream of its own.
The task of a call reads the response and resumes an interrupted stream if the server supports it. Cancelling that
task closes the stream, which cancels a stateless call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import uniform
from typing import Final

from typing_extensions import override

from mcprev.core.lists import ListBudget, ListTooLong, read_pages
from mcprev.core.reconnect_policy import SOON
from mcprev.errors import (
    HEADER_MISMATCH,
    AuthError,
    ConnectionLost,
    HttpStatusError,
    Json,
    McpError,
    RemoteProtocolError,
    RpcError,
    SessionExpired,
    StreamEnded,
    one_line,
)
from mcprev.protocol.connection_state import CallCompleted, Channel
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.subscriptions import LISTEN
from mcprev.revisions import ALL, Revision, by_version
from mcprev.transports.http.client.connection import HttpConnection, HttpTransport
from mcprev.transports.http.client.repeats import REPEATS, send_repeatedly, session_forgotten, wait_to_repeat
from mcprev.transports.http.client.responses import HttpResponse
from mcprev.transports.http.client.streams import QUIET, SLOWLY, ResumeState, follow
from mcprev.transports.http.client.tool_headers import CALL_TOOL, LIST_TOOLS, ParamHeaderCache
from mcprev.wire import jsonrpc, media
from mcprev.wire.headers import SESSION_ID, Pairs, request_headers
from mcprev.wire.json_values import json_object
from mcprev.wire.jsonrpc import ErrorResponse, Notification
from mcprev.wire.meta_keys import VERSION
from mcprev.wire.param_headers import ParamHeader

INITIALIZE: Final = "initialize"
LIST_TIMEOUT: Final = 30.0
"""Seconds for all pages of `tools/list` when a call needs the headers of its tool."""  # HDR-11
DELETE_TIMEOUT: Final = 2.0
"""The timeout of the DELETE that ends a session, in seconds."""  # HTTP-24
TAIL: Final = 0.5
"""Seconds to wait for the end of a stream after the response, so that its connection can be reused."""
OPENING: Final = 0.5
"""Seconds to wait for the server's own stream before the first call is sent."""
STABLE: Final = 5.0
"""Seconds after which a stream counts as having worked even if it carried no event."""
ABSENT: Final = 5
"""Failed connection attempts after which a call that resumes its stream fails: about three seconds."""
BAD_GATEWAY: Final = 502
"""What a proxy answers whose connection to the server broke, such as nginx."""
_CUT: Final = "the stream ended without a response"


class _Listing:
    """A listing of the tools, which calls share; it ends with the last call that waits for it."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task
        self._waiting = 0

    @property
    def running(self) -> bool:
        """Whether a call can still join it."""
        return not self._task.done() and not self._task.cancelling()

    async def wait(self) -> None:
        """Wait for its end. Raises what it raises; nothing if it was cancelled."""
        self._waiting += 1
        try:
            await asyncio.wait({self._task})
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._task.cancel()  # no effect if it has ended
        if not self._task.cancelled():
            self._task.result()


@dataclass(slots=True)
class _OwnStream:
    """What is known of the server's own stream of a session."""

    cursor: ResumeState
    opened: bool = False
    """Whether it was open before."""
    ended: bool = False
    """Whether it is not asked for again."""
    away: bool = False
    """Whether something may have been lost since it was open."""
    told: bool = False
    """Whether the log says that it is lost."""


class StreamableHttp(HttpTransport):
    """Sends messages to one endpoint, in a session or as stateless requests."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__(connection)
        connection.client_side.connection.streams = True
        self._logger = connection.logger
        self._expired = False
        self._tools = ParamHeaderCache(connection.logger)
        self._listing: _Listing | None = None
        self._stream_known = asyncio.Event()
        self._reached: asyncio.Event | None = None
        """Set when the server has answered a request, while its own stream waits for that."""

    @property
    def _revision(self) -> Revision | None:
        return self._protocol.engine.negotiated

    def _revision_of(self, call: Call) -> Revision | None:
        """Return the revision of a call: the negotiated one, or before that the one that the call states."""
        revision = self._protocol.engine.negotiated
        if revision is not None:
            return revision
        meta: object = (call.params or {}).get("_meta")
        version: object = json_object(meta).get(VERSION)
        return by_version(version, ALL) if isinstance(version, str) else None

    def _session(self, headers: Pairs) -> Pairs:
        """Add the session id."""  # HTTP-20
        if self._connection.session_id is not None:
            headers.append((SESSION_ID, self._connection.session_id))
        return headers

    # -- calls ---------------------------------------------------------------------------------------------

    @override
    async def exchange(self, call: Call, message: bytes) -> None:
        """Post a call and read its response; again if the server refuses it for a moment. Raises `McpError` if it fails."""
        for attempt in range(REPEATS + 1):
            try:
                await self._exchange(call, message)
                break
            except (RpcError, HttpStatusError) as error:
                safe = call.method == INITIALIZE or self._tools.repeatable(call)
                await wait_to_repeat(error, attempt, self._logger, safe=safe)

    async def _exchange(self, call: Call, message: bytes) -> None:
        response: HttpResponse | None = None
        try:
            opens = self._revision is None
            response = await self._requests.post(message, await self._call_headers(call), opens=opens)
            if (
                response.status == 400
                and call.method == CALL_TOOL
                and await self._headers_rejected(call, response)
            ):
                response.release()
                response = await self._requests.post(message, await self._call_headers(call))
            await self._read(call, response)
        except ConnectionLost as error:
            # In a session the request may still run; a stateless request is cancelled with its stream.
            revision = self._revision
            if error.in_flight and revision is not None and not revision.handshake:
                error.retry_safe = self._tools.repeatable(call)
            raise
        finally:
            if response is not None:
                response.release()

    async def _call_headers(self, call: Call) -> Pairs:
        """Return the headers of a call; list the tools first if the headers depend on them."""  # HDR-11
        revision = self._revision_of(call)
        if revision is None:
            return self._session([])
        found: Sequence[ParamHeader] | None = ()
        if revision.routing_headers and call.method == CALL_TOOL:
            found = self._tools.find(call.params)
            if found is None:
                await self._list_tools()
                found = self._tools.find(call.params)
        return self._session(request_headers(revision, call.method, call.params, found or ()))

    async def _read(self, call: Call, response: HttpResponse) -> None:
        """Read the response, JSON or event stream."""  # HTTP-7
        if not 200 <= response.status < 300:
            raise await self._error_of(response)
        if call.method == INITIALIZE:
            self._connection.session_id = response.headers.get(SESSION_ID) or None
        if response.content_type == media.SSE:
            await self._stream(call, response)
            return
        body = await response.read()
        if body:
            self._connection.take(body, call=call)
        if call in self._protocol.connection.calls:
            self._raise_no_response(call, response, body)

    def _raise_no_response(self, call: Call, response: HttpResponse, body: bytes) -> None:
        """Raise the error for a body without the response to the call."""
        message = jsonrpc.parse(body, batch=False)
        if isinstance(message, ErrorResponse):
            raise RpcError.from_wire(message.error)  # an error without an id must be about this request
        what = f"HTTP {response.status} with {response.content_type}, {len(body)} bytes"
        raise RemoteProtocolError(
            f"'{call.method}' got no response: {what}", raw=body[:200].decode(errors="replace")
        )

    async def _error_of(self, response: HttpResponse) -> McpError:
        """Return the error for an error response; `SessionExpired` if the session is unknown."""  # HTTP-23
        error = await self._requests.failure(response)
        if self._connection.session_id and self._revision and session_forgotten(response.status, error):
            self._expired = True
            return SessionExpired(f"the server does not know the session any more ({error})")
        if response.status == BAD_GATEWAY and isinstance(error, HttpStatusError) and self._revision:
            lost = ConnectionLost(f"a proxy lost the server ({error})", in_flight=True, retry_safe=False)
            lost.__cause__ = error
            return lost
        return error

    # -- streams -------------------------------------------------------------------------------------------

    async def _stream(self, call: Call, response: HttpResponse) -> None:
        """Read the event stream of a call, over several responses if it is interrupted."""  # HTTP-15, HTTP-29
        revision, cursor, calls = self._revision_of(call), ResumeState(), self._protocol.connection.calls
        quiet = QUIET if call.method == LISTEN else None  # other calls have timeouts

        def take(messages: list[bytes]) -> bool:
            self._connection.take(*messages, call=call)
            return call not in calls

        lost: McpError | None = None
        try:
            while True:
                try:
                    await follow(response, cursor, take, self._connection.readable, quiet)
                    lost = None
                except ConnectionLost as error:
                    lost = error
                if call not in calls:
                    await self._finish(response, cursor)
                    return
                if revision is None or not revision.sse_resume or not cursor.last_event_id:
                    raise lost or StreamEnded(_CUT, in_flight=True, retry_safe=False)
                response.close()
                response = await self._resume(cursor, lost)
        finally:
            # Close instead of release: the rest of the stream is not needed.
            response.close()

    async def _finish(self, response: HttpResponse, cursor: ResumeState) -> None:
        """Read the rest of the stream after the response, which should be empty; what comes is reported, not processed."""
        if response.ended:
            response.release()
            return
        with suppress(TimeoutError, McpError):
            async with asyncio.timeout(TAIL):
                if response.tap is not None:
                    await follow(response, cursor, lambda _: None, self._connection.readable)
                while await response.chunk():
                    pass
            response.release()

    async def _resume(self, cursor: ResumeState, lost: McpError | None) -> HttpResponse:
        """Resume a stream. Raises `ConnectionLost` if the server cannot or refuses."""
        absent = 0
        while True:
            delay = cursor.wait() if absent < ABSENT else None
            if delay is None:
                why = f": {lost}" if lost is not None else ""
                raise ConnectionLost(f"the stream cannot be resumed{why}", in_flight=True, retry_safe=False)
            await asyncio.sleep(delay)
            try:
                response = await self._get(cursor)
            except ConnectionLost as error:
                lost = error
                absent += not error.in_flight
                continue
            if response.status == 200 and response.content_type == media.SSE:
                return response
            try:
                lost = await self._error_of(response)
            finally:
                response.release()
            if response.status < 500:
                # The session or the stream has expired: the request arrived, but its response is lost (AMB-11).
                raise ConnectionLost(
                    f"the stream cannot be resumed: {lost}", in_flight=True, retry_safe=False
                )

    async def _get(self, cursor: ResumeState) -> HttpResponse:
        revision = self._revision
        assert revision is not None
        return await self._requests.get(self._session([*request_headers(revision), *cursor.headers()]))

    @override
    async def confirmed(self) -> None:
        """Open the server's own stream; what the server sends before it is open may be lost, so calls wait a moment."""
        self._connection.start(self._listen())
        try:
            async with asyncio.timeout(OPENING):
                await self._stream_known.wait()
        except TimeoutError:
            self._logger.debug("the server has not responded to the GET for its own stream")

    async def _listen(self) -> None:
        """Read the server's own stream, for messages outside of requests, if the server has one.

        One that was open is asked for again until the connection ends. What was sent in between may be lost.
        """  # HTTP-10, SUB-5
        stream, now = _OwnStream(ResumeState()), asyncio.get_running_loop().time
        while True:
            began, failure = now(), await self._read_own(stream)
            self._stream_known.set()
            if stream.ended:
                return
            if stream.opened and now() - began >= STABLE:
                stream.cursor.tried = 0
            delay = stream.cursor.wait()
            if delay is None or isinstance(failure, AuthError):
                if not stream.told:
                    stream.told = True
                    self._logger.warning(
                        "the server's own stream is lost, and changes are not heard of until it is back: %s",
                        one_line(failure or _CUT),
                    )
                # A user is not asked to log in again for this: another request has to succeed first.
                delay = None if isinstance(failure, AuthError) else uniform(*SLOWLY)  # noqa: S311 - no secret
                await self._until_reached(delay)
            else:
                await asyncio.sleep(delay)

    async def _read_own(self, stream: _OwnStream) -> McpError | None:
        """Ask for the server's own stream and read it to its end; return why it was not opened, or broke."""
        response: HttpResponse | None = None
        failure: McpError | None = None
        cursor = stream.cursor
        try:
            response = await self._get(cursor)
            self._stream_known.set()
            if response.status == 200 and response.content_type == media.SSE:
                self._own_is_open(stream)
                await follow(
                    response,
                    cursor,
                    lambda found: self._connection.take(*found),
                    self._connection.readable,
                    QUIET,
                )
            else:
                failure = await self._requests.failure(response)
                self._logger.debug("no stream of the server's: %s", one_line(failure))
                stream.ended = not self._should_reopen(response, failure, stream)
                stream.away = stream.opened
        except McpError as error:
            self._logger.debug("the server's stream broke: %s", one_line(error))
            # Where the stream can be resumed, and is at the first attempt, nothing is lost.
            stream.away = stream.opened and (response is None or not cursor.last_event_id)
            failure = error
        finally:
            if response is not None:
                response.close()
        return failure

    def _own_is_open(self, stream: _OwnStream) -> None:
        """Take note that the server's own stream is open; if it was away, everything counts as changed."""
        if stream.told:
            self._logger.warning("the server's own stream is back; all may have changed in between")
        away, stream.away, stream.told, stream.opened = stream.away, False, False, True
        if away:
            self._protocol.session.missed()
            self._connection.process_events()

    def _should_reopen(self, response: HttpResponse, error: McpError, stream: _OwnStream) -> bool:
        """Return whether to request the refused stream again."""
        if stream.opened and session_forgotten(response.status, error):
            if stream.told:
                self._logger.warning("the server is back, and does not know the session any more")
            self._expired = True
            self.exchange_ended()
            return False
        if response.status == 400 and stream.cursor.last_event_id:
            stream.cursor.last_event_id = ""  # missed events are lost; continue with new ones (AMB-11)
            return True
        return stream.opened or (response.status >= 500 and "Retry-After" in response.headers)

    async def _until_reached(self, seconds: float | None) -> None:
        """Wait until the server has answered a request, at most some seconds and hardly less than `SOON`."""
        self._reached, now = asyncio.Event(), asyncio.get_running_loop().time
        began = now()
        try:
            async with asyncio.timeout(seconds):
                await self._reached.wait()
                await asyncio.sleep(SOON - (now() - began))
        except TimeoutError:
            return
        finally:
            self._reached = None

    @override
    def exchange_ended(self) -> None:
        """End a connection whose session has expired, after its last exchange."""
        if self._expired and self._connection.idle:
            self._connection.ended(SessionExpired())

    # -- tools ---------------------------------------------------------------------------------------------

    @override
    def answered(self, event: CallCompleted) -> None:
        """Learn from a `tools/list` result which tool arguments are headers."""  # HDR-6
        if self._reached is not None:
            self._reached.set()
        if (
            event.call.method == LIST_TOOLS
            and (revision := self._revision_of(event.call))
            and revision.routing_headers
        ):
            self._tools.filter_page(event.result)

    async def _list_tools(self) -> None:
        """List the tools; concurrent calls share one listing."""  # HDR-11
        if self._listing is None or not self._listing.running:
            self._listing = _Listing(self._connection.start(self._list_all()))
        await self._listing.wait()

    async def _list_all(self) -> None:
        engine, now = self._protocol.engine, self._connection.now

        def fetch(cursor: str | None) -> Awaitable[dict[str, Json]]:
            params: dict[str, Json] = {} if cursor is None else {"cursor": cursor}
            call = engine.call(LIST_TOOLS, params, now(), idle=None, total=LIST_TIMEOUT, unchecked=True)
            return self._connection.wait(call)

        try:
            # The connection learns from each page, see `answered`.
            clock = self._connection.pauses
            async for _ in read_pages(LIST_TOOLS, fetch, ListBudget.take, seconds=LIST_TIMEOUT, clock=clock):
                pass
        except RpcError as error:
            self._tools.complete = True
            self._logger.debug("the tools are not listed: %s", one_line(error))
        except ListTooLong as error:
            # What is beyond its bounds is not known, and calls of it are not held up again.
            self._tools.complete = True
            self._logger.warning("%s; no headers are sent for tools that are not among them", one_line(error))
        except AuthError:
            raise
        except McpError as error:
            self._logger.debug("the tools could not be listed: %s", one_line(error))

    async def _headers_rejected(self, call: Call, response: HttpResponse) -> bool:
        """Return whether the server refused the parameter headers; if so, refresh the tool's schema."""  # HDR-9
        revision = self._revision_of(call)
        if revision is None or not revision.routing_headers:
            return False
        error = await self._requests.failure(response)
        if isinstance(error, RpcError) and error.code == HEADER_MISMATCH:
            self._logger.debug("'%s': %s; listing the tools again", call.method, one_line(error))
            await self._list_tools()
            return True
        raise error

    # -- other messages ------------------------------------------------------------------------------------

    @override
    async def send_message(self, message: bytes, channel: Channel = None) -> None:
        """Send a message without response. Raises `McpError`."""
        await send_repeatedly(self._send_message, message, channel, self._logger)

    async def _send_message(self, message: bytes, channel: Channel) -> None:
        name = channel.method if isinstance(channel, Notification) else None
        headers = request_headers(self._revision, name) if self._revision else []
        response = await self._requests.post(message, self._session(headers))
        try:
            if not 200 <= response.status < 300:
                raise await self._error_of(response)
            await response.read()
        finally:
            response.release()

    @override
    async def end_session(self) -> None:
        """End the session."""  # HTTP-24
        revision = self._revision
        if self._connection.session_id is None or self._expired:
            return
        headers = [] if revision is None else request_headers(revision)
        try:
            async with asyncio.timeout(DELETE_TIMEOUT):
                response = await self._requests.delete(self._session(headers))
                response.release()
                self._logger.debug("the session was ended: HTTP %d", response.status)
        except (McpError, TimeoutError) as error:
            self._logger.debug("the session could not be ended: %s", one_line(error))
