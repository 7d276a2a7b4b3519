"""A server of the oldest HTTP transport: a stream that is read, and an endpoint that is posted to (SSE-3, SSE-8, NEG-6).

The stream says first where to post to, which has to be of the same origin. Everything the server says comes on the
stream, so that its end is the end of the connection: every call that is open fails at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcprev.errors import ConnectionLost, McpError, RemoteProtocolError
from mcprev.protocol.connection_state import CallCompleted
from mcprev.protocol.pending_calls import Call
from mcprev.transports.http.client.session import status_error
from mcprev.transports.http.client.streams import FIELDS
from mcprev.transports.http.urls import endpoint_url
from mcprev.wire import media
from mcprev.wire.headers import Pairs, request_headers
from mcprev.wire.sse import ENDPOINT, Decoder

if TYPE_CHECKING:
    from mcprev.transports.http.client.connection import HttpConnection
    from mcprev.transports.http.client.responses import HttpResponse


class LegacySse:
    """Speaks over a stream and an endpoint. `open` has to come first."""

    def __init__(self, connection: HttpConnection) -> None:
        # The answers to calls do not come on streams of their own: giving one up takes a message, in any era.
        connection.client_side.connection.streams = False
        self._connection = connection
        self._requests = connection.requests
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._endpoint.add_done_callback(lambda found: found.cancelled() or found.exception())

    async def open(self, seconds: float) -> None:
        """Open the stream and learn where to post to. Raises `TransportError` or `RemoteProtocolError`."""
        self._connection.run_aside(self._read())
        try:
            async with self._connection.timeouts.bound(seconds):
                await asyncio.wait({self._endpoint})
        except TimeoutError:
            self._endpoint.cancel()
            raise ConnectionLost(
                f"the server did not say within {seconds:g} s where to post to",
                in_flight=False,
                retry_safe=True,
            ) from None
        self._endpoint.result()

    async def _read(self) -> None:
        """Read the stream to its end, which is the end of everything (SSE-8)."""
        error: McpError | None = None
        response: HttpResponse | None = None
        try:
            response = await self._requests.get([])
            if response.status != 200 or response.content_type != media.SSE:
                raise (await self._refusal(response))
            decoder = Decoder(self._requests.max_message + FIELDS)
            while chunk := await self._requests.chunk(response):
                for event in decoder.feed(chunk):
                    if event.is_message:
                        self._connection.take(event.data)
                    elif event.event == ENDPOINT and not self._endpoint.done():
                        self._endpoint.set_result(endpoint_url(response.url, event.data))
                self._connection.process_events()
        except McpError as found:
            error = found
        finally:
            if response is not None:
                response.close()
        if not self._endpoint.done():
            self._endpoint.set_exception(
                error or RemoteProtocolError("the stream ended before it said where to post to")
            )
        why = "the server closed its stream" if error is None else f"the server's stream broke: {error}"
        self._connection.ended(ConnectionLost(why, in_flight=True, retry_safe=False))

    async def _refusal(self, response: HttpResponse) -> McpError:
        if response.status == 200:
            return status_error(response, why=f"{response.content_type} is no stream of events")
        return (await self._requests.failure(response))[0]

    def _headers(self) -> Pairs:
        """A server of a later revision that is spoken to in this way wants to be told its version all the same."""
        protocol = self._connection.client_side
        return request_headers(protocol.revision) if protocol.agreed else []

    async def exchange(self, call: Call, message: bytes) -> None:
        """Post a call; its answer comes on the stream. Raises `McpError`."""
        del call
        await self.tell(message, no_login=False)

    async def tell(self, message: bytes, *, no_login: bool) -> None:
        """Post a message. Raises `McpError`."""
        response = await self._requests.post(
            message, self._headers(), self._endpoint.result(), no_login=no_login
        )
        try:
            if not 200 <= response.status < 300:
                raise await self._refusal(response)
            if response.content_type == media.JSON and (body := await self._requests.body(response)):
                self._connection.take(body)  # an answer that comes where none is expected is one all the same
                self._connection.process_events()
        finally:
            response.release()

    def confirmed(self) -> None:
        """There is no stream to open beside the one that is read."""

    def answered(self, event: CallCompleted) -> None:
        """No argument of a tool is a header."""

    def exchange_over(self) -> None:
        """The connection ends with its stream."""

    async def farewell(self) -> None:
        """The session ends with its stream."""
