"""Sends single HTTP requests of a client with aiohttp (AUTH-2, HTTP-4, HTTP-31, ERR-7, SEC-1, SEC-6).

Failures raise errors of this package, which say whether the request may have been sent: that decides about a retry. The
user's `auth` authorizes each request.
Redirects are followed only as `urls` allows, because the user's headers may be secrets. The size of responses is
limited. Headers and the queries of URLs are never logged.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from typing_extensions import override

from mcprev.callbacks import decision, finished, is_cancelled
from mcprev.error_text import raised_at
from mcprev.errors import (
    AuthError,
    ConnectionLost,
    HttpStatusError,
    InsufficientScope,
    LocalProtocolError,
    McpError,
    MissingExtra,
    RemoteProtocolError,
    RpcError,
    TokenRejected,
    one_line,
)
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.tap import Tap
from mcprev.transports.http.client.authorization import Authorization, AuthorizedRequest, login_tap
from mcprev.transports.http.urls import REDIRECTS, mask_url, printable, proxy_of, redirected
from mcprev.transports.stdio.pipes import use_small_reads
from mcprev.version import __version__
from mcprev.wire import jsonrpc, media
from mcprev.wire.headers import Pairs
from mcprev.wire.jsonrpc import ErrorResponse
from mcprev.wire.payloads import mask_text

try:
    import aiohttp
    from multidict import CIMultiDict
except ImportError as _error:
    raise MissingExtra("speaking HTTP", "aiohttp", "http") from _error

from mcprev.transports.http.client.repeats import names_lost_session
from mcprev.transports.http.client.responses import FAILURES, HttpResponse, lost

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

HeaderSource: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""The user's headers: a fixed mapping, or a function, async or not, that is called for each request."""
ACCEPT: Final = f"{media.JSON}, {media.SSE}"
_POSTED: Final = (("Accept", ACCEPT), ("Content-Type", media.JSON))
_STREAMED: Final = (("Accept", media.SSE), ("Cache-Control", "no-store"))
logger: Final = logging.getLogger("mcprev.client")
MAX_RETRIES: Final = 8
"""The maximum number of times that `auth` can have one request sent again."""
MAX_ERROR: Final = 1024 * 1024
"""The number of bytes that are read of an error response's body."""
EXCERPT: Final = 500
"""The number of characters of it that are kept."""
KEEP_ALIVE: Final = 4.0
"""Seconds that an idle connection is kept: less than servers keep it, so that none closes it during a request."""
PROBES: Final[Mapping[str, int]] = {"TCP_KEEPIDLE": 45, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}
"""After how many idle seconds the system asks whether the server is there, how often, and how many answers may be missing."""
MAX_FIELD: Final = 64 * 1024
"""The maximum length of one response header, in bytes."""
HELD: Final = 64 * 1024
"""The size of the read buffer in bytes; reading pauses at twice as many."""
SMALL: Final = 1024 * 1024
"""The size in bytes above which a body is passed to aiohttp as a file, which it sends in pieces."""
_PERMANENT: Final = 308
_SECONDS: Final = re.compile(r"[0-9]{1,6}")
_NO_AUTH: Final = (
    "the server requires a token that it accepts: pass `mcprev.http` an `auth`, such as `mcprev.OAuth()`, "
    "or an `Authorization` among its `headers`"
)
_REFUSED: Final = (
    "the server refuses the token in the `headers` or from the `auth` of `mcprev.http`, which may have expired or be for another "
    "server; its log may say why. Replace it, or pass another `auth`, such as `mcprev.OAuth()`"
)
_PARAMETER: Final = re.compile(r'(?<![\w-])([\w-]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s",]++))', re.DOTALL)
"""A parameter of `WWW-Authenticate`: its name, and its value with or without quotes."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
"""Characters that a header value must not contain."""
_FRAMING: Final = frozenset(
    {"connection", "content-length", "expect", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that frame the request; the user's are ignored."""


class HttpSession:
    """Sends requests to one server. All POST, GET and DELETE requests of a client are made here."""

    def __init__(
        self,
        session: aiohttp.ClientSession | None,
        url: str,
        headers: HeaderSource,
        *,
        connect_timeout: float,
        max_message: int,
        trust_env: bool = False,
    ) -> None:
        """A `session` of the user stays open; without it, one is created, and closed by `close`.

        Raises `LocalProtocolError` for headers that HTTP cannot carry.
        """
        self._fixed = None if callable(headers) else _checked(headers.items())
        self._owned = session is None
        self._session = session or _new_session()
        self._proxied = trust_env and session is None
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)
        self.url: str = url
        """The endpoint; a permanent redirect of the request that opens the connection changes it, within the origin."""
        self._max_message = max_message
        self._source = headers
        self.auth: Authorization | None = None
        """Authorizes the requests, if the user passed `auth`."""  # AUTH-2
        self.tap: Tap | None = None
        """Reports the requests and responses."""
        self._new_request: Callable[[str, str, bytes | None], AuthorizedRequest] = AuthorizedRequest

    def authorize_with(
        self,
        auth: Authorization,
        protocol: ClientProtocol,
        pausing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Authorize the requests from now on; `pausing` pauses the timeouts of the connection."""
        self.auth = auth
        self._new_request = lambda verb, url, body: AuthorizedRequest(
            verb, url, body, protocol.engine.negotiated, protocol.local.revisions, pausing
        )

    async def post(
        self, message: bytes, headers: Pairs, url: str | None = None, *, opens: bool = False
    ) -> HttpResponse:
        """Post a message; with `opens`, later requests go where permanent redirects led it, if the server takes it there.

        A redirect of any other request may be about that request alone, such as for the tool that its headers name.
        Raises `ConnectionLost`, and `RemoteProtocolError` for a redirect that is not followed.
        """
        return await self._request("POST", url, [*_POSTED, *headers], message, opens=opens)

    async def get(self, headers: Pairs) -> HttpResponse:
        """Request an event stream."""
        return await self._request("GET", None, [*_STREAMED, *headers], None)

    async def delete(self, headers: Pairs) -> HttpResponse:
        """End a session."""
        return await self._request("DELETE", None, headers, None)

    async def _request(
        self, verb: str, url: str | None, headers: Pairs, body: bytes | None, *, opens: bool = False
    ) -> HttpResponse:
        """Send a request, to the target of a redirect too, and again if `auth` says so. Raises `AuthError`."""
        at, redirects, retries = self.url if url is None else url, 0, 0
        endpoint = at
        request = None if self.auth is None else self._new_request(verb, at, body)
        while True:
            credentials = None if request is None else await self._authorize(request)
            response = await self._send(verb, at, headers, body, credentials)
            if response.status in REDIRECTS:
                response.release()
                location = response.headers.get("Location")
                target = redirected(at, response.status, location, verb=verb, count=redirects)
                redirects += 1
                if at == endpoint and (response.status == _PERMANENT or target == f"{at}/"):
                    endpoint = target  # web frameworks add the slash of a mounted app to each request
                at = target
                if request is not None:
                    request.url = at
            elif request is None or retries == MAX_RETRIES or not await self._is_retried(request, response):
                if opens and 200 <= response.status < 300:
                    self.url = endpoint
                return response
            else:
                redirects, retries = 0, retries + 1
                request.retries = retries

    async def _authorize(self, request: AuthorizedRequest) -> Pairs:
        """Return the headers that `auth` adds. Raises `McpError`."""
        assert self.auth is not None
        with _auth_errors(self.tap):
            found: Mapping[str, str] = await finished(self.auth.headers(request))
            return _checked(found.items())

    async def _is_retried(self, request: AuthorizedRequest, response: HttpResponse) -> bool:
        """Return whether to send a request again; finish with the response if so. Raises `McpError`."""
        assert self.auth is not None
        again = True
        try:
            with _auth_errors(self.tap):
                returned = self.auth.retry(request, response.status, response.headers)
                found = cast("object", await finished(returned))
                again = found is not None and decision(found, "`retry`")
        finally:
            if again:
                response.release()
        return again

    async def _send(
        self, verb: str, url: str, headers: Pairs, body: bytes | None, credentials: Pairs | None
    ) -> HttpResponse:
        """Send one request and return its response, whatever the status. Never sends a POST twice."""
        sent = CIMultiDict(await self._call_header_source() if self._fixed is None else self._fixed)
        if credentials:
            sent.update(credentials)
        sent.update(headers)
        if self._session.closed:
            raise ConnectionLost("the HTTP session was closed", in_flight=False, retry_safe=True)
        tap = None if self.tap is None else self.tap.request(verb, url, sent, body)
        try:
            response = await self._session.request(
                verb,
                url,
                data=io.BytesIO(body) if body is not None and len(body) > SMALL else body,
                headers=sent,
                allow_redirects=False,
                raise_for_status=False,
                timeout=self._timeout,
                proxy=proxy_of(url) if self._proxied else None,
            )
        except FAILURES as error:
            failure = lost(error, url)
        except asyncio.CancelledError:
            if tap is not None:
                tap.failed("the request was cancelled")
            raise
        else:
            if tap is not None:
                head = response.request_info.headers
                tap.answered(response.status, response.reason, head, response.headers)
            return HttpResponse(
                response, inflates=self._session.auto_decompress, max_message=self._max_message, tap=tap
            )
        if tap is not None:
            tap.failed(failure)
        raise failure

    async def _call_header_source(self) -> Pairs:
        """Return the user's headers; a function may return a new token each time."""
        assert callable(self._source)
        try:
            return _checked((await finished(self._source())).items())
        except McpError:
            raise
        except Exception as error:  # noqa: BLE001 - reported without its text, which may contain secrets
            failure = LocalProtocolError(f"the `headers` function raised {raised_at(error)}")
        raise failure

    async def close(self) -> None:
        """Close the connections, after what `auth` completes."""
        if self.auth is not None:
            try:
                with _auth_errors(self.tap):
                    await self.auth.drain()
            except McpError as error:
                logger.warning("%s", one_line(error))
        if self._owned:
            await self._session.close()

    async def failure(self, response: HttpResponse) -> McpError:
        """Return the reason of an error response: the JSON-RPC error in its body, or its status.

        A 401 is `TokenRejected`, and a 403 with `insufficient_scope` is `InsufficientScope`, from that reason.
        """  # ERR-7
        raw = b""
        with suppress(RemoteProtocolError):
            raw = await response.read(MAX_ERROR)
        message = jsonrpc.parse(raw, batch=False) if raw else None
        found: RpcError | HttpStatusError = status_error(response, raw)
        if isinstance(message, ErrorResponse):
            found = RpcError.from_wire(message.error)
            found.http_status = response.status
        found.retry_after = _retry_after(response)
        refusal = _refusal(response, found, has_auth=self.auth is not None)
        if refusal is not None:
            refusal.__cause__ = found
        return refusal or found


@contextmanager
def _auth_errors(tap: Tap | None) -> Generator[None, None, None]:
    """Convert the exceptions of the user's `auth` to `AuthError`, without their texts, which may contain secrets.

    Meanwhile `tap` reports what `auth` sends.
    """
    failure: AuthError | None = None
    before = login_tap.set(tap)
    try:
        yield
    except McpError:
        raise
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        failure = AuthError("authorization failed, because something that it awaited was cancelled")
    except Exception as error:  # noqa: BLE001 - reported without its text, and not as the cause either
        failure = AuthError(f"authorization failed, with {raised_at(error)}")
    finally:
        login_tap.reset(before)
    if failure is not None:
        raise failure


def status_error(response: HttpResponse, raw: bytes = b"", why: str = "") -> HttpStatusError:
    """Return the error for an HTTP status."""
    text = mask_text(mask_url(one_line(raw[: EXCERPT * 4].decode(errors="replace")[:EXCERPT]).strip()))
    shown = f"HTTP {response.status} {one_line(response.reason or '')}".rstrip()
    return HttpStatusError(
        ": ".join(filter(None, (shown, why or text))),
        status=response.status,
        body=text,
        headers=CIMultiDict(response.headers),
    )


def _refusal(response: HttpResponse, reason: McpError, *, has_auth: bool) -> AuthError | None:
    """Return the error for a response that refuses the token of the request, or requires one; None for any other."""
    header = ", ".join(response.headers.getall("WWW-Authenticate", ()))
    challenge = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(header)}
    error = challenge.get("error", "")
    said = f"HTTP {response.status}: {reason}" if isinstance(reason, RpcError) else reason
    if response.status == 401 and not header and names_lost_session(reason):
        return None  # it is about the session, and a token changes nothing
    if response.status == 401:
        return TokenRejected(f"{said}; {_REFUSED if has_auth or error == 'invalid_token' else _NO_AUTH}")
    if response.status != 403 or error != "insufficient_scope":
        return None
    scopes = challenge.get("scope", "").split()
    needed = printable(" ".join(scopes))
    why = f"the token lacks {f'some of the scopes {needed}' if needed else 'scopes'}: send one that has them"
    return InsufficientScope(f"{said}; {why}", required=scopes, requested=())


def _retry_after(response: HttpResponse) -> float | None:
    """Return after how many seconds a server that cannot serve now wants to be asked again; a date counts as none."""
    text = response.headers.get("Retry-After", "")
    return float(text) if response.status == 503 and _SECONDS.fullmatch(text) else None


def _keep_alive(transport: asyncio.Transport | None) -> None:
    """Let the system notice within a bound that the other end is gone without a word, such as behind a NAT that forgot it."""
    found: object = None if transport is None else transport.get_extra_info("socket")
    if found is None:
        return
    opened = cast("socket.socket", found)
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in PROBES.items():
            if hasattr(socket, name):  # systems differ
                opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Connector(aiohttp.TCPConnector):
    """Makes connections with a small read buffer, which takes 25 % less time for a small response."""

    @override
    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        use_small_reads(connection.transport)
        _keep_alive(connection.transport)
        return connection


def _new_session() -> aiohttp.ClientSession:
    """Return a session for one client, without proxies, compression or a limit on connections.

    A call may keep its connection until other messages, such as the response to a server's request, are sent. With a
    limit these would wait for each other. Cookies are kept, because load balancers route sessions by them.
    """
    return aiohttp.ClientSession(
        connector=_Connector(limit=0, keepalive_timeout=KEEP_ALIVE),
        headers={"User-Agent": f"mcprev/{__version__}", "Accept-Encoding": "identity"},
        auto_decompress=False,
        read_bufsize=HELD,
        max_line_size=MAX_FIELD,
        max_field_size=MAX_FIELD,
    )


def _checked(headers: Iterable[tuple[str, str]]) -> Pairs:
    """Return the user's headers without framing headers. Raises `LocalProtocolError` for invalid ones."""
    found: Pairs = []
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise LocalProtocolError(f"the request cannot be sent: {name[:100]!r} is not a valid header name")
        if _CONTROL.search(value):
            raise LocalProtocolError(
                f"the request cannot be sent: a character in the header {name} is not allowed"
            )
        if name.lower() not in _FRAMING:
            found.append((name, value))
    return found
