"""Single HTTP requests of a client (AUTH-2, HTTP-4, HTTP-31, ERR-7, SEC-1, SEC-6).

What goes wrong is told in the errors of this package: whether bytes left decides what a caller may do. Redirects
are followed as far as `urls` allows, for headers of the caller's may be secrets. Answers have a limit. Headers are
never logged, nor are queries of URLs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import override

import mcprev
from mcprev.errors import (
    HttpStatusError,
    LocalProtocolError,
    McpError,
    MissingExtra,
    RemoteProtocolError,
    RpcError,
)
from mcprev.transports.http.urls import MAX_REDIRECTS, REDIRECTS, redirected
from mcprev.transports.stdio.pipes import read_in_pieces
from mcprev.wire import jsonrpc, media
from mcprev.wire.headers import Pairs
from mcprev.wire.jsonrpc import ErrorResponse

try:
    import aiohttp
    from multidict import CIMultiDict
except ImportError as error:
    raise MissingExtra("speaking HTTP", "aiohttp", "http") from error

from mcprev.transports.http.client.responses import FAILURES, HttpResponse, closed, lost

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    from mcprev.transports.http.client.oauth.authorizer import ActiveToken
    from mcprev.transports.http.client.oauth.login import Login

HeaderSource: TypeAlias = Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]]
"""Headers for every request: the same ones always, or what a function gives for each."""
ACCEPT: Final = f"{media.JSON}, {media.SSE}"
_POSTED: Final = (("Accept", ACCEPT), ("Content-Type", media.JSON))
MAX_ERROR: Final = 1024 * 1024
"""How much of the body of a failure is read, in bytes."""
EXCERPT: Final = 500
"""How many characters of it are kept."""
KEEP_ALIVE: Final = 4.0
"""Seconds that a connection is kept for the next request: less than servers keep it, who would close it under one."""
MAX_FIELD: Final = 64 * 1024
"""Bytes that one header of an answer may have."""
HELD: Final = 64 * 1024
"""Bytes of an answer that wait to be taken; beyond twice as many nothing is read."""
SMALL: Final = 1024 * 1024
"""A larger body is handed to aiohttp as a file, which is sent piece by piece."""
_PERMANENT: Final = 308
_UNAUTHORIZED: Final = 401
_NO_LOGIN: Final = "the server wants to know who asks: give `http` the `auth`, such as `mcprev.OAuth()`"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
"""Characters that the value of a header cannot have."""
_FRAMING: Final = frozenset(
    {"connection", "content-length", "expect", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that say where a request ends; they are never the user's."""


class HttpSession:
    """Sends requests to one server: the one place where a client's POST, GET and DELETE are made."""

    def __init__(
        self,
        session: aiohttp.ClientSession | None,
        url: str,
        headers: HeaderSource,
        *,
        connect_timeout: float,
        max_message: int,
    ) -> None:
        """A `session` of the user's is the user's to close; None makes one that is closed by `close`.

        Raises `LocalProtocolError` for headers that HTTP cannot carry.
        """
        self._fixed = None if callable(headers) else _checked(headers.items())
        self._owned = session is None
        self._session = session or _new_session()
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)
        self.url = url
        """The endpoint; a permanent redirect within the origin changes it."""
        self.max_message = max_message
        self._source = headers
        self.login: Login | None = None
        """The way to be let in, where the user has named one (AUTH-2)."""

    async def post(
        self, message: bytes, headers: Pairs, url: str | None = None, *, no_login: bool = False
    ) -> HttpResponse:
        """Send a message. Nobody has to log in for one that is `shy`.

        Raises `ConnectionLost`, and `RemoteProtocolError` for a redirect that is not followed.
        """
        return await self._admitted("POST", url, [*_POSTED, *headers], message, no_login=no_login)

    async def get(self, headers: Pairs, url: str | None = None) -> HttpResponse:
        """Ask for a stream of events."""
        return await self._admitted(
            "GET", url, [("Accept", media.SSE), ("Cache-Control", "no-store"), *headers], None
        )

    async def delete(self, headers: Pairs) -> HttpResponse:
        """Give up a session, which is not worth a login."""
        active = None if self.login is None else self.login.active
        return (await self._follow("DELETE", self.url, headers, None, active))[0]

    async def _admitted(
        self, verb: str, url: str | None, headers: Pairs, body: bytes | None, *, no_login: bool = False
    ) -> HttpResponse:
        """The answer to a request, which is sent again when somebody has logged in. Raises `AuthError`."""
        at, login = self.url if url is None else url, self.login
        if login is None:
            return (await self._follow(verb, at, headers, body, None))[0]
        budget = login.budget()
        while True:
            active = await login.token()
            response, at = await self._follow(verb, at, headers, body, active)
            try:
                if await login.passed(response, active, budget, no_login=no_login):
                    return response
            except BaseException:
                response.close()
                raise

    async def _follow(
        self, verb: str, at: str, headers: Pairs, body: bytes | None, active: ActiveToken | None
    ) -> tuple[HttpResponse, str]:
        """The answer, and where it came from in the end."""
        for count in range(MAX_REDIRECTS + 1):
            shown = headers if active is None else [*headers, *active.headers(verb, at)]
            response = await self._send(verb, at, shown, body)
            if response.status not in REDIRECTS:
                return response, at
            response.release()
            target = redirected(at, response.status, response.headers.get("Location"), verb=verb, count=count)
            if response.status == _PERMANENT and at == self.url:
                self.url = target
            at = target
        raise AssertionError("unreachable: one redirect too many raises")

    async def _send(self, verb: str, url: str, headers: Pairs, body: bytes | None) -> HttpResponse:
        """The answer to one request, whatever its status. No POST is ever sent twice."""
        sent = CIMultiDict(await self._ask_headers() if self._fixed is None else self._fixed)
        sent.update(headers)
        session = self._session
        if session.closed:
            raise closed()
        try:
            response = await session.request(
                verb,
                url,
                data=io.BytesIO(body) if body is not None and len(body) > SMALL else body,
                headers=sent,
                allow_redirects=False,
                raise_for_status=False,
                timeout=self._timeout,
            )
        except FAILURES as error:
            raise lost(error, url) from error
        return HttpResponse(response, inflates=session.auto_decompress)

    async def _ask_headers(self) -> Pairs:
        """The headers of the user's function, which may be another token each time."""
        assert callable(self._source)
        try:
            found = list((await self._source()).items())
        except McpError:
            raise
        except Exception as error:
            raise LocalProtocolError(
                f"there are no headers to send, their function raised: {error!r}"
            ) from error
        return _checked(found)

    async def close(self) -> None:
        """Let connections go."""
        if self._owned:
            await self._session.close()

    def body(self, response: HttpResponse, limit: int | None = None) -> Awaitable[bytes]:
        """The body of an answer. Raises `RemoteProtocolError` for one over the limit."""
        return response.read(self.max_message if limit is None else limit)

    def chunk(self, response: HttpResponse) -> Awaitable[bytes]:
        """The next bytes of a stream; nothing at its end."""
        return response.chunk()

    async def failure(self, response: HttpResponse) -> tuple[McpError, ErrorResponse | None]:
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


def status_error(response: HttpResponse, raw: bytes = b"", why: str = "") -> HttpStatusError:
    """The error for a status."""
    text = raw[: EXCERPT * 4].decode(errors="replace")
    text = "".join(c if c.isprintable() else " " for c in text)[:EXCERPT].strip()
    shown = f"HTTP {response.status} {response.reason or ''}".rstrip()
    said = why or text
    return HttpStatusError(
        f"{shown}: {said}" if said else shown,
        status=response.status,
        body=text,
        headers=CIMultiDict(response.headers),
    )


class _Connector(aiohttp.TCPConnector):
    """Connections that read small pieces, which takes a quarter of the time of a small answer off it."""

    @override
    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        read_in_pieces(connection.transport)
        return connection


def _new_session() -> aiohttp.ClientSession:
    """A session for one client, without what MCP has no use for: proxies, compression, a bound on connections.

    A call may hold its connection until others, which answer what the server asks meanwhile, have had theirs: with a
    bound they would wait for each other. Cookies are kept, for balancers that find a client's server by them.
    """
    return aiohttp.ClientSession(
        connector=_Connector(limit=0, keepalive_timeout=KEEP_ALIVE),
        headers={"User-Agent": f"mcprev/{mcprev.__version__}", "Accept-Encoding": "identity"},
        auto_decompress=False,
        read_bufsize=HELD,
        max_line_size=MAX_FIELD,
        max_field_size=MAX_FIELD,
    )


def _checked(headers: Iterable[tuple[str, str]]) -> Pairs:
    """Headers of the user's, without those of the framing. Raises `LocalProtocolError` for what HTTP cannot carry."""
    found: Pairs = []
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise LocalProtocolError(f"the request cannot be sent: {name[:100]!r} is no name of a header")
        if _CONTROL.search(value):
            raise LocalProtocolError(
                f"the request cannot be sent: a character in the header {name} is not allowed"
            )
        if name.lower() not in _FRAMING:
            found.append((name, value))
    return found
