"""Requests of a client over aiohttp: with a session of the user's, or where no connections of our own can be had.

HTTP-4, SEC-6. What proxies, certificates and cookies of a user's need is the user's to set up there.
"""

from __future__ import annotations

import io
from typing import Final

import aiohttp
from multidict import CIMultiDict
from typing_extensions import override

import mcprev
from mcprev.errors import LocalProtocolError, McpError
from mcprev.transports.http_answers import (
    KEEP_ALIVE,
    Answer,
    Headers,
    broken,
    closed,
    not_connected,
    too_large,
)
from mcprev.wire.headers import Pairs

SMALL: Final = 1024 * 1024
"""A larger body is handed over as a file, which is sent piece by piece."""
_FAILURES: Final = (aiohttp.ClientError, OSError, ValueError)
"""What aiohttp raises; the last of a header or a body that HTTP cannot carry."""


class AiohttpSender:
    """Sends with a session."""

    def __init__(self, session: aiohttp.ClientSession | None, *, connect_timeout: float) -> None:
        """A `session` of the user's is the user's to close; None makes one that is closed by `close`."""
        self._owned = session is None
        # No bound on connections: a call may hold one until others, which answer the server, have had theirs.
        self._session = session or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
            headers={"User-Agent": f"mcprev/{mcprev.__version__}"},
        )
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)

    async def send(self, verb: str, url: str, headers: Pairs, body: bytes | None) -> Answer:
        """The answer to a request. Raises `ConnectionLost`, and `LocalProtocolError` for what HTTP cannot carry."""
        data = io.BytesIO(body) if body is not None and len(body) > SMALL else body
        if self._session.closed:
            raise closed()
        try:
            response = await self._session.request(
                verb,
                url,
                data=data,
                headers=CIMultiDict(headers),
                allow_redirects=False,
                timeout=self._timeout,
            )
        except _FAILURES as error:
            raise _lost(error, url) from error
        return AiohttpAnswer(response)

    async def close(self) -> None:
        """Let connections go."""
        if self._owned:
            await self._session.close()


class AiohttpAnswer(Answer):
    """An answer that aiohttp reads."""

    __slots__ = ("_response",)

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        pairs = [(name.lower(), value) for name, value in response.raw_headers]
        super().__init__(str(response.url), response.status, response.reason or "", Headers(pairs))
        self._response = response

    @override
    async def read(self, limit: int) -> bytes:
        response, length = self._response, self.content_length
        try:
            if length is not None and length <= limit and b"content-encoding" not in self.headers.found:
                return await response.read()
            chunks = bytearray()
            while chunk := await response.content.readany():
                chunks += chunk
                if len(chunks) > limit:
                    response.close()
                    raise too_large(limit)
        except _FAILURES as error:
            raise _lost(error, self.url, sent=True) from error
        return bytes(chunks)

    @override
    async def chunk(self) -> bytes:
        try:
            return await self._response.content.readany()
        except _FAILURES as error:
            raise _lost(error, self.url, sent=True) from error

    @override
    def release(self) -> None:
        self._response.release()

    @override
    def close(self) -> None:
        self._response.close()


def _lost(error: Exception, url: str, *, sent: bool = False) -> McpError:
    """What went wrong, in our own errors."""
    why = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.InvalidURL):
        return not_connected(url, why)
    if isinstance(error, aiohttp.ClientError | OSError) or sent:
        return broken(url, why)
    return LocalProtocolError(f"the request cannot be sent: {why}")
