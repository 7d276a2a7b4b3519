"""The server of the HTTP+SSE transport and its two endpoints (SSE-1, SSE-2, SSE-4 to 7; HTTP-28).

A GET opens a stream, and a session that lasts as long as the stream; the first event names the endpoint for POST.
Each POST is accepted at once, and its response is sent on the stream. The revision is negotiated with `initialize`:
clients of later revisions use this transport if they find no other.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final
from urllib.parse import parse_qs, quote

from typing_extensions import override

from mcprev.core.connection import HTTP, Connection
from mcprev.core.interfaces import RequestHandler, ServerApp
from mcprev.core.limits import MAX_HANDLERS
from mcprev.errors import ConnectionLost, InternalError, InvalidRequest, RpcError
from mcprev.protocol.connection_state import Channel, LocalInfo
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.http_request_class import RETRY_LATER, HttpError, stopped
from mcprev.transports.http.security import new_session_id
from mcprev.transports.http.server.access import Access
from mcprev.transports.http.server.body_budget import opening_refusal
from mcprev.transports.http.server.connection import Streams, set_origin
from mcprev.transports.http.server.request import HttpRequest
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Batch, Malformed, Notification, Request, parse
from mcprev.wire.media import accepted, is_json
from mcprev.wire.sse import encode_endpoint, encode_message

OPEN: Final = "initialize"
SESSION: Final = "sessionId"
"""The query parameter with the session id."""
_GET: Final = ((b"allow", b"GET"),)
_POST: Final = ((b"allow", b"POST"),)


class LegacySseServerConnection(Connection):
    """A session that sends all its messages on one stream."""

    protocol: ServerProtocol
    network = HTTP
    streams: Streams = Streams()

    def __init__(
        self,
        local: LocalInfo,
        handler: RequestHandler[Connection],
        logger: logging.Logger,
        *,
        principal: str | None,
        max_handlers: int = MAX_HANDLERS,
    ) -> None:
        super().__init__(ServerProtocol(local), handler, logger, max_handlers=max_handlers)
        self.id: str = new_session_id()
        self.principal = principal
        """The principal of the session and of each of its requests."""
        self._exchange: ResponseStream | None = None
        self._stopping = False

    def begin(self, response_stream: ResponseStream, endpoint: str) -> None:
        """Send the endpoint for POST as the first event."""  # SSE-2
        self._exchange = response_stream
        response_stream.started = True
        response_stream.write(encode_endpoint(endpoint))
        self.started()

    def renew(self, access: Access) -> None:
        """Keep the stream open until a later token of the same subject expires."""
        if self._exchange is not None:
            self._exchange.renew(access)

    def take(self, body: bytes, http_request: HttpRequest, max_values: int) -> HttpError | None:
        """Process a posted body; return the error response to an invalid message and after the end."""  # SSE-4
        if self.error is not None:
            return _refuse(404, "there is no such session")
        message = parse(body, batch=self._connection_state.accepts_batch, max_values=max_values)
        if isinstance(message, Malformed) and message.answer is not None:
            null_id = not self.protocol.session.agreed or self.protocol.session.revision.null_id_in_errors
            return HttpError(400, RpcError(message.message, code=message.code), message.id, null_id=null_id)
        members = message.messages if isinstance(message, Batch) else (message,)
        if self._stopping and any(isinstance(member, Request) for member in members):
            read = message.id if isinstance(message, Request) else None
            return stopped(read)
        if isinstance(message, Request) and message.method == OPEN:
            refused = opening_refusal(http_request.share, message.id)
            if refused is not None:
                return refused
        for member in members:
            if isinstance(member, Request | Notification):
                set_origin(member, http_request)
        self.protocol.receive(message, self._loop.time())
        self.process_events()
        return None

    @override
    def send_messages(self, sends: list[tuple[Channel, bytes]]) -> None:
        if self._exchange is not None:
            for _, message in sends:
                self._exchange.write(encode_message(message))

    @override
    async def drain(self, channel: Channel = None) -> None:
        await super().drain(channel)
        if self._exchange is not None:
            await self._exchange.drain()

    def response_ended(self, response_stream: ResponseStream) -> None:
        """End the session with its stream."""  # SSE-6
        del response_stream
        lost = ConnectionLost("the client closed its stream", in_flight=True, retry_safe=False)
        self._loop.call_soon(self.ended, lost)

    @override
    async def aclose(self, error: ConnectionLost | None = None, *, linger: float = 0) -> None:
        """Let requests in progress finish within `linger` seconds, then end the connection."""
        self._stopping = True
        await self.finish_requests(linger)
        await super().aclose(error)

    @override
    async def shut(self) -> None:
        if self._exchange is not None:
            self._exchange.end()


class SseEndpoints:
    """The two endpoints and their open sessions."""

    def __init__(
        self,
        server: ServerApp[Connection],
        logger: logging.Logger,
        *,
        messages: str,
        limit: int,
        per_client: int,
    ) -> None:
        self._server = server
        self._logger = logger
        self._messages = messages
        self._limit, self._per_client = limit, per_client
        self._identity = server.identity.with_sessions()
        self._open: dict[str, LegacySseServerConnection] = {}
        self._by_client: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def refuses_stream(self, verb: str, headers: Headers, client: str | None) -> HttpError | None:
        """Return the error response to a request that opens no stream, if so."""
        if verb != "GET":
            return HttpError(
                405, InvalidRequest("Invalid Request: a stream is opened with GET"), headers=_GET
            )
        if b"accept" in headers and not accepted(headers.get(b"accept")).sse:
            return _refuse(406, "the client must accept text/event-stream")
        if not self._identity.revisions:
            return _refuse(404, "no revision that has this transport is served")
        if client is not None and self._by_client[client] >= self._per_client:
            error = InvalidRequest("Invalid Request: this client has too many sessions")
            return HttpError(429, error, null_id=True, headers=RETRY_LATER)
        if len(self._open) >= self._limit:
            return HttpError(
                503, InternalError("there are too many sessions"), null_id=True, headers=RETRY_LATER
            )
        return None

    def connect(self, principal: str | None, client: str | None) -> LegacySseServerConnection:
        """Create a session for a client, and count it for the quota of the client if it is known."""
        connection = LegacySseServerConnection(
            self._identity,
            self._server.request_handler,
            self._logger,
            principal=principal,
            max_handlers=self._server.max_handlers,
        )
        self._open[connection.id] = connection
        if client is not None:
            self._by_client[client] += 1
        connection.closed.add_done_callback(lambda _: self._forget(connection, client))
        self._server.keep(connection)
        return connection

    def _forget(self, connection: LegacySseServerConnection, client: str | None) -> None:
        self._open.pop(connection.id, None)
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    def endpoint(self, connection: LegacySseServerConnection, root: str) -> str:
        """Return the endpoint for POST as a path, so that the client resolves it against its own URL."""  # SSE-3
        return f"{quote(root.rstrip('/'))}{quote(self._messages)}?{SESSION}={connection.id}"

    def find(self, http_request: HttpRequest) -> LegacySseServerConnection | HttpError:
        """Return the session of a POST, or the error response."""
        if http_request.verb != "POST":
            return HttpError(
                405, InvalidRequest("Invalid Request: messages are sent with POST"), headers=_POST
            )
        query = parse_qs(http_request.scope.get("query_string", b"").decode("latin-1"))
        named = query.get(SESSION)
        if not named or len(named) != 1:
            return _refuse(
                400, f"the parameter {SESSION} is missing: POST to the URL of the `endpoint` event"
            )
        connection = self._open.get(named[0])
        if (
            connection is None
            or connection.principal != http_request.principal
            or connection.error is not None
        ):
            return _refuse(404, "there is no such session")
        if not is_json(http_request.headers.get(b"content-type")):
            return _refuse(415, "the body has to be application/json")
        return connection

    def all(self) -> tuple[LegacySseServerConnection, ...]:
        """The open sessions."""
        return tuple(self._open.values())


def _refuse(status: int, why: str) -> HttpError:
    return HttpError(status, InvalidRequest(f"Invalid Request: {why}"), null_id=True)
