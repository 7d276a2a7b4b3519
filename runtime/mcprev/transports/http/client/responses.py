"""HTTP responses as aiohttp reads them, with its errors as errors of this package (HTTP-4, HTTP-31, SEC-6)."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
from multidict import CIMultiDictProxy

from mcprev.error_text import connection_reason
from mcprev.errors import ConnectionLost, LocalProtocolError, McpError, RemoteProtocolError
from mcprev.protocol.tap import ResponseTap
from mcprev.transports.http.urls import mask_url
from mcprev.wire import media

FAILURES: Final = (aiohttp.ClientError, OSError, ValueError)
"""The exceptions that aiohttp raises; `ValueError` for a header or URL that HTTP cannot carry."""
UNKNOWN_TYPE: Final = "application/octet-stream"
"""The media type of a body without `Content-Type` (RFC 9110, section 8.3)."""
_PLAIN: Final = frozenset({"", "identity"})


class HttpResponse:
    """A response whose head has arrived; the body is read on demand."""

    __slots__ = ("_coding", "_inflates", "_response", "headers", "max_message", "reason", "status", "tap")

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        *,
        inflates: bool,
        max_message: int,
        tap: ResponseTap | None = None,
    ) -> None:
        """`inflates` says whether the session decodes `Content-Encoding`."""
        self._response = response
        self.tap: ResponseTap | None = tap
        coding = response.headers.get("Content-Encoding", "").strip()
        self._coding = "" if coding.lower() in _PLAIN else coding
        self._inflates = inflates
        self.max_message: int = max_message
        """The maximum size of a message in the body, in bytes."""
        self.status: int = response.status
        self.reason: str = response.reason or ""
        self.headers: CIMultiDictProxy[str] = response.headers

    @property
    def url(self) -> str:
        """The requested URL."""
        return str(self._response.url)

    @property
    def content_type(self) -> str:
        """The media type of the body, in lower case and without parameters."""
        return media.media_type(self.headers.get("Content-Type")) or UNKNOWN_TYPE

    @property
    def ended(self) -> bool:
        """Whether the body is known to be read to its end."""
        return self._response.content.at_eof()

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body. Raises `ConnectionLost`, and `RemoteProtocolError` for a body over the limit."""
        limit = self.max_message if limit is None else limit
        length = None if self._coding else self._response.content_length
        if length is not None and length > limit:
            raise self._refused(answer_too_large(limit))
        parts: list[bytes] = []
        size = 0
        while size != length and (part := await self.chunk()):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise self._refused(answer_too_large(limit))
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if self.tap is not None and body:
            self.tap.body(body)
        return body

    async def chunk(self, quiet: float | None = None) -> bytes:
        """Return the next bytes of the body; empty at its end. `quiet` is the time without any after which it is lost.

        Raises `ConnectionLost`, and `RemoteProtocolError` for a compressed body, as none was requested.
        """
        if self._coding and not self._inflates:
            text = f"the response is compressed ({self._coding[:100]}), which was not requested"
            raise self._refused(RemoteProtocolError(text))
        try:
            content = self._response.content
            data = await (content.readany() if quiet is None else _within(quiet, content))
        except FAILURES as error:
            failure = lost(error, self.url, sent=True)
        else:
            if not data and self.tap is not None:
                self.tap.end()
            return data
        if self.tap is not None:
            self.tap.failed(failure)
        raise failure

    def _refused(self, error: RemoteProtocolError) -> RemoteProtocolError:
        """Close the response and return the error that says why it is not read."""
        if self.tap is not None:
            self.tap.failed(error)
        self.close()
        return error

    def release(self) -> None:
        """Finish with the response; its connection is reused if the body was read. May be called twice, like `close`."""
        self._response.release()

    def close(self) -> None:
        """Discard the rest of the response and close its connection, unless it was released before."""
        if self.tap is not None:
            self.tap.end(sent=not self.ended)
        self._response.close()


async def _within(seconds: float, content: aiohttp.StreamReader) -> bytes:
    """Return the next bytes of a body. Raises `aiohttp.SocketTimeoutError` if none come for some seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await content.readany()
    except TimeoutError:
        text = f"nothing came for {seconds:g} s"
    raise aiohttp.SocketTimeoutError(text)


def lost(error: Exception, url: str, *, sent: bool = False) -> McpError:
    """Return the error for an aiohttp exception. `sent` says that the whole request was sent.

    The exception is its cause, unless its text shows the query of a URL. Raise the error outside of the `except` clause,
    because an exception also shows the one that was handled when it was raised.
    """
    text, place, why = str(error), mask_url(url), mask_url(connection_reason(error))
    found: McpError
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.InvalidURL):
        found = ConnectionLost(f"cannot connect to {place}: {why}", in_flight=False, retry_safe=True)
    elif isinstance(error, aiohttp.ClientError | OSError) or sent:
        found = ConnectionLost(f"the connection to {place} broke: {why}", in_flight=True, retry_safe=False)
    else:
        found = LocalProtocolError(f"the request cannot be sent: {why}")
    found.__cause__ = error if mask_url(text) == text else None
    return found


def answer_too_large(limit: int) -> RemoteProtocolError:
    """Return the error for a body over the limit, in bytes."""
    return RemoteProtocolError(f"a response of more than {limit} bytes")
