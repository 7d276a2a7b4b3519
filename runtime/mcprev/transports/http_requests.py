"""Single HTTP requests of a client, over aiohttp (AUTH-2, HTTP-4, HTTP-31, ERR-7, SEC-1, SEC-6).

What goes wrong is told in the errors of this package: whether bytes left decides what a caller may do. Redirects
are followed as far as `urls` allows, for headers of the caller's may be secrets. Answers have a limit. Headers are
never logged, nor are queries of URLs.
"""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import mcprev
from mcprev.errors import (
    ConnectionLost,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    MissingExtra,
    RemoteProtocolError,
    RpcError,
)
from mcprev.transports.urls import MAX_REDIRECTS, REDIRECTS, redirected
from mcprev.wire import jsonrpc, media
from mcprev.wire.headers import Pairs
from mcprev.wire.jsonrpc import ErrorResponse

try:
    import aiohttp
    from multidict import CIMultiDict
except ImportError as error:
    raise MissingExtra("speaking HTTP", "aiohttp", "http") from error

if TYPE_CHECKING:
    from mcprev.auth.gate import Held
    from mcprev.auth.login import Login

HeaderSource: TypeAlias = Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]]
"""Headers for every request: the same ones always, or what a function gives for each."""
ACCEPT: Final = f"{media.JSON}, {media.SSE}"
MAX_ERROR: Final = 1024 * 1024
"""How much of the body of a failure is read, in bytes."""
EXCERPT: Final = 500
"""How many characters of it are kept."""
KEEP_ALIVE: Final = 4.0
"""Seconds that a connection is kept for the next request: less than servers do, who close it under a request else."""
SMALL: Final = 1024 * 1024
"""A larger body is handed over as a file, which is sent piece by piece."""
_PERMANENT: Final = 308
_UNAUTHORIZED: Final = 401
_NO_LOGIN: Final = "the server wants to know who asks: give `http` the `auth`, such as `mcprev.OAuth()`"
_FAILURES: Final = (aiohttp.ClientError, OSError, ValueError)
"""What aiohttp raises; the last of a header or a body that HTTP cannot carry."""


class Requests:
    """Sends requests to one server."""

    def __init__(
        self,
        session: aiohttp.ClientSession | None,
        url: str,
        headers: HeaderSource,
        *,
        connect_timeout: float,
        max_message: int,
    ) -> None:
        """A `session` of the user's is the user's to close; None makes one that is closed by `close`."""
        self._owned = session is None
        # No bound on connections: a call may hold one until others, which answer the server, have had theirs.
        self.session = session or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
            headers={"User-Agent": f"mcprev/{mcprev.__version__}"},
        )
        self.url = url
        """The endpoint; a permanent redirect within the origin changes it."""
        self.max_message = max_message
        self._source = headers
        self._fixed = None if callable(headers) else CIMultiDict(headers)
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)
        self.login: Login | None = None
        """The way to be let in, where the user has named one (AUTH-2)."""

    async def post(
        self, message: bytes, headers: Pairs, url: str | None = None, *, shy: bool = False
    ) -> aiohttp.ClientResponse:
        """Send a message. Nobody has to log in for one that is `shy`. Raises `ConnectionLost`, and `RemoteProtocolError` for a redirect that is not followed."""
        return await self._admitted(
            "POST", url, [("Accept", ACCEPT), ("Content-Type", media.JSON), *headers], message, shy=shy
        )

    async def get(self, headers: Pairs, url: str | None = None) -> aiohttp.ClientResponse:
        """Ask for a stream of events."""
        return await self._admitted(
            "GET", url, [("Accept", media.SSE), ("Cache-Control", "no-store"), *headers], None
        )

    async def delete(self, headers: Pairs) -> aiohttp.ClientResponse:
        """Give up a session, which is not worth a login."""
        held = None if self.login is None else self.login.held
        return (await self._follow("DELETE", self.url, headers, None, held))[0]

    async def _admitted(
        self, verb: str, url: str | None, headers: Pairs, body: bytes | None, *, shy: bool = False
    ) -> aiohttp.ClientResponse:
        """The answer to a request, which is sent again when somebody has logged in. Raises `AuthError`."""
        at, login = self.url if url is None else url, self.login
        if login is None:
            return (await self._follow(verb, at, headers, body, None))[0]
        tries = login.tries()
        while True:
            held = await login.token()
            response, at = await self._follow(verb, at, headers, body, held)
            if await login.passed(response, held, tries, shy=shy):
                return response

    async def _follow(
        self, verb: str, at: str, headers: Pairs, body: bytes | None, held: Held | None
    ) -> tuple[aiohttp.ClientResponse, str]:
        """The answer, and where it came from in the end."""
        for count in range(MAX_REDIRECTS + 1):
            shown = headers if held is None else [*headers, *held.headers(verb, at)]
            response = await self._send(verb, at, shown, body)
            if response.status not in REDIRECTS:
                return response, at
            response.release()
            target = redirected(at, response.status, response.headers.get("Location"), verb=verb, count=count)
            if response.status == _PERMANENT and at == self.url:
                self.url = target
            at = target
        raise AssertionError("unreachable: one redirect too many raises")

    async def _send(self, verb: str, url: str, headers: Pairs, body: bytes | None) -> aiohttp.ClientResponse:
        all_headers = await self._ask_headers() if self._fixed is None else self._fixed.copy()
        for name, value in headers:
            all_headers[name] = value
        data = io.BytesIO(body) if body is not None and len(body) > SMALL else body
        if self.session.closed:
            raise ConnectionLost("the HTTP session was closed", in_flight=False, retry_safe=True)
        try:
            return await self.session.request(
                verb, url, data=data, headers=all_headers, allow_redirects=False, timeout=self._timeout
            )
        except _FAILURES as error:
            raise _lost(error, url) from error

    async def _ask_headers(self) -> CIMultiDict[str]:
        """The headers of the user's function, which may be another token each time."""
        assert callable(self._source)
        try:
            return CIMultiDict(await self._source())
        except McpError:
            raise
        except Exception as error:
            raise LocalProtocolError(
                f"there are no headers to send, their function raised: {error!r}"
            ) from error

    async def close(self) -> None:
        """Let connections go."""
        if self._owned:
            await self.session.close()

    async def body(self, response: aiohttp.ClientResponse, limit: int | None = None) -> bytes:
        """The body of an answer. Raises `RemoteProtocolError` for one over the limit."""
        limit = self.max_message if limit is None else limit
        length = response.content_length
        try:
            if length is not None and length <= limit and "Content-Encoding" not in response.headers:
                return await response.read()
            chunks = bytearray()
            while chunk := await response.content.readany():
                chunks += chunk
                if len(chunks) > limit:
                    response.close()
                    raise RemoteProtocolError(f"an answer of more than {limit} bytes")
        except _FAILURES as error:
            raise _lost(error, response.url, sent=True) from error
        return bytes(chunks)

    async def chunk(self, response: aiohttp.ClientResponse) -> bytes:
        """The next bytes of a stream; nothing at its end."""
        try:
            return await response.content.readany()
        except _FAILURES as error:
            raise _lost(error, response.url, sent=True) from error

    async def failure(self, response: aiohttp.ClientResponse) -> tuple[McpError, ErrorResponse | None]:
        """Why a request was refused: the JSON-RPC error in the body, whatever the status, or the status (ERR-7)."""
        try:
            raw = await self.body(response, MAX_ERROR)
        except RemoteProtocolError:
            raw = b""
        message = jsonrpc.parse(raw, batch=False) if raw else None
        if isinstance(message, ErrorResponse):
            found = RpcError.from_wire(message.error)
            found.http_status = response.status
            if response.status == _UNAUTHORIZED and self.login is None:
                found.add_note(_NO_LOGIN)  # beside the server's own words
            return found, message
        wanted = response.status == _UNAUTHORIZED and self.login is None and not raw
        return status_error(response, raw, _NO_LOGIN if wanted else ""), None


def status_error(response: aiohttp.ClientResponse, raw: bytes = b"", why: str = "") -> HttpStatusError:
    """The error for a status."""
    text = raw[: EXCERPT * 4].decode(errors="replace")
    text = "".join(c if c.isprintable() else " " for c in text)[:EXCERPT].strip()
    shown = f"HTTP {response.status} {response.reason or ''}".rstrip()
    said = why or text
    return HttpStatusError(
        f"{shown}: {said}" if said else shown, status=response.status, body=text, headers=response.headers
    )


def _lost(error: Exception, url: object, *, sent: bool = False) -> McpError:
    """What went wrong, in our own errors."""
    where, why = str(url).partition("?")[0], str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.InvalidURL):
        return ConnectionLost(f"cannot connect to {where}: {why}", in_flight=False, retry_safe=True)
    if isinstance(error, aiohttp.ClientError | OSError) or sent:
        return ConnectionLost(f"the connection to {where} broke: {why}", in_flight=True, retry_safe=False)
    return LocalProtocolError(f"the request cannot be sent: {why}")
