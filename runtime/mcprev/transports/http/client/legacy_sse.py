"""The client of the HTTP+SSE transport: reads one event stream and posts to its endpoint (SSE-3, SSE-8, NEG-6).

The first event names the endpoint, which must be of the same origin. All messages of the server arrive on the stream,
so the end of the stream ends the connection: every open call fails at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from typing_extensions import override

from mcprev.core.keepalive import PATIENCE, PING
from mcprev.errors import ConnectionLost, HttpStatusError, McpError, RemoteProtocolError, RpcError
from mcprev.protocol.connection_state import Channel
from mcprev.protocol.pending_calls import Call
from mcprev.transports.http.client.connection import HttpConnection, HttpTransport
from mcprev.transports.http.client.repeats import REPEATS, send_repeatedly, wait_to_repeat
from mcprev.transports.http.client.responses import HttpResponse
from mcprev.transports.http.client.session import status_error
from mcprev.transports.http.client.streams import FIELDS, QUIET
from mcprev.transports.http.urls import endpoint_url
from mcprev.wire import media
from mcprev.wire.headers import request_headers
from mcprev.wire.sse import ENDPOINT, Decoder


class LegacySse(HttpTransport):
    """Posts messages and reads responses from one event stream. Call `open` first."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__(connection)
        # Responses do not arrive on streams of their own, so cancelling a call needs a message at every revision.
        connection.client_side.connection.streams = False
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._endpoint.add_done_callback(lambda found: found.cancelled() or found.exception())

    @override
    async def open(self, seconds: float) -> None:
        """Open the stream and read the endpoint. Raises `TransportError` or `RemoteProtocolError`."""
        self._connection.start(self._read())
        try:
            async with self._connection.pauses.bound(seconds):
                await self._endpoint
        except TimeoutError:
            raise ConnectionLost(
                f"the server did not send its endpoint within {seconds:g} s",
                in_flight=False,
                retry_safe=True,
            ) from None

    async def _read(self) -> None:
        """Read the stream; its end is the end of the connection."""  # SSE-8
        error: McpError | None = None
        response: HttpResponse | None = None
        try:
            response = await self._requests.get([])
            if response.status != 200:
                raise await self._requests.failure(response)
            if response.content_type != media.SSE:
                raise status_error(
                    response, why=f"{response.content_type} is not an event stream (text/event-stream)"
                )
            decoder, tap = Decoder(response.max_message + FIELDS), response.tap
            if tap is not None:
                tap.begin(None)
            while chunk := await self._chunk(response):
                for event in decoder.feed(chunk):
                    if tap is not None:
                        tap.event(event)
                    if event.is_message:
                        self._connection.take(event.data)
                    elif event.event == ENDPOINT and not self._endpoint.done():
                        self._endpoint.set_result(endpoint_url(response.url, event.data))
                await self._connection.readable()
        except McpError as found:
            error = found
        finally:
            if response is not None:
                response.close()
        if not self._endpoint.done():
            self._endpoint.set_exception(
                error
                or RemoteProtocolError(
                    "the stream ended before the `endpoint` event with the URL for messages"
                )
            )
        why = "the server closed its stream" if error is None else f"the server's stream broke: {error}"
        self._connection.ended(ConnectionLost(why, in_flight=True, retry_safe=False))

    async def _chunk(self, response: HttpResponse) -> bytes:
        """Return the next bytes of the stream. If none come for a long time, a ping asks for some: its response comes here.

        Raises `ConnectionLost` if that does not come either.
        """
        try:
            async with asyncio.timeout(QUIET):
                return await response.chunk()
        except TimeoutError:
            self._connection.start(self._ping())
        return await response.chunk(PATIENCE)

    async def _ping(self) -> None:
        """Ask the server for a sign of life."""
        with suppress(McpError):
            call = self._protocol.session.call(
                PING, None, self._connection.now(), idle=PATIENCE, total=PATIENCE, unchecked=True
            )
            await self._connection.wait(call)

    @override
    async def exchange(self, call: Call, message: bytes) -> None:
        """Post a call; its response arrives on the stream. Raises `McpError`."""
        for attempt in range(REPEATS + 1):
            try:
                await self._post(message)
                break
            except (RpcError, HttpStatusError) as error:
                await wait_to_repeat(error, attempt, self._connection.logger, safe=False)

    @override
    async def send_message(self, message: bytes, channel: Channel = None) -> None:
        """Post a message. Raises `McpError`."""
        await send_repeatedly(self._post, message, channel, self._connection.logger)

    async def _post(self, message: bytes, _channel: Channel = None) -> None:
        # A server of a later revision requires the version on this transport too.
        revision = self._protocol.engine.negotiated
        headers = [] if revision is None else request_headers(revision)
        response = await self._requests.post(message, headers, self._endpoint.result())
        try:
            if not 200 <= response.status < 300:
                raise await self._requests.failure(response)
            if response.content_type == media.JSON and (body := await response.read()):
                self._connection.take(body)  # tolerate a response in the body of the POST
        finally:
            response.release()
