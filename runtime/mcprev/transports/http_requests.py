"""Single HTTP requests of a client (AUTH-2, HTTP-4, HTTP-31, ERR-7, SEC-1, SEC-6).

What goes wrong is told in the errors of this package: whether bytes left decides what a caller may do. Redirects
are followed as far as `urls` allows, for headers of the caller's may be secrets. Answers have a limit. Headers are
never logged, nor are queries of URLs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeAlias

from mcprev.errors import (
    HttpStatusError,
    LocalProtocolError,
    McpError,
    MissingExtra,
    RemoteProtocolError,
    RpcError,
)
from mcprev.transports.http_answers import Answer, Sender
from mcprev.transports.urls import MAX_REDIRECTS, REDIRECTS, redirected
from mcprev.wire import jsonrpc, media
from mcprev.wire.headers import Pairs
from mcprev.wire.jsonrpc import ErrorResponse

_OWN: Final = find_spec("httptools") is not None
"""Whether connections of our own can be had, which not every platform's Python has."""
if not _OWN and find_spec("aiohttp") is None:
    raise MissingExtra("speaking HTTP", "httptools", "http")

if TYPE_CHECKING:
    import aiohttp

    from mcprev.auth.gate import Held
    from mcprev.auth.login import Login
    from mcprev.transports.http_lane import Lane
    from mcprev.transports.http_pool import Pool

HeaderSource: TypeAlias = Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]]
"""Headers for every request: the same ones always, or what a function gives for each."""
ACCEPT: Final = f"{media.JSON}, {media.SSE}"
_POSTED: Final = (("Accept", ACCEPT), ("Content-Type", media.JSON))
MAX_ERROR: Final = 1024 * 1024
"""How much of the body of a failure is read, in bytes."""
EXCERPT: Final = 500
"""How many characters of it are kept."""
_PERMANENT: Final = 308
_UNAUTHORIZED: Final = 401
_NO_LOGIN: Final = "the server wants to know who asks: give `http` the `auth`, such as `mcprev.OAuth()`"


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
        self._sender, self._pool = _sender(session, connect_timeout, max_message)
        self.url = url
        """The endpoint; a permanent redirect within the origin changes it."""
        self.max_message = max_message
        self._source = headers
        self._fixed = None if callable(headers) else list(headers.items())
        self.login: Login | None = None
        """The way to be let in, where the user has named one (AUTH-2)."""

    async def post(
        self,
        message: bytes,
        headers: Pairs,
        url: str | None = None,
        *,
        shy: bool = False,
        early: Lane | None = None,
    ) -> Answer:
        """Send a message. Nobody has to log in for one that is `shy`.

        With the `early` answer to one that `ask` sent only what that leads to is done. Raises `ConnectionLost`, and
        `RemoteProtocolError` for a redirect that is not followed.
        """
        pairs = [*_POSTED, *headers]
        if self.login is None:
            at = self.url if url is None else url
            return (await self._follow("POST", at, pairs, message, None, early))[0]
        return await self._admitted("POST", url, pairs, message, shy=shy)

    def ask(self, message: bytes, headers: Pairs, told: Callable[[], None]) -> Lane | None:
        """Send a message at once, or None where something has to be waited for; `told` is called as `Lane.ask` says.

        Raises `LocalProtocolError`, and `ConnectionLost` for a host that cannot be one.
        """
        if self._pool is None or self._fixed is None or self.login is not None:
            return None
        pairs = [*_POSTED, *headers]
        return self._pool.ask(self.url, _merged(self._fixed, pairs) if self._fixed else pairs, message, told)

    def settled(self, early: Lane) -> Answer | None:
        """The answer to what `ask` sent, unless it leads elsewhere. Raises `ConnectionLost`."""
        answer = early.result()
        return None if answer.status in REDIRECTS else answer

    async def get(self, headers: Pairs, url: str | None = None) -> Answer:
        """Ask for a stream of events."""
        return await self._admitted(
            "GET", url, [("Accept", media.SSE), ("Cache-Control", "no-store"), *headers], None
        )

    async def delete(self, headers: Pairs) -> Answer:
        """Give up a session, which is not worth a login."""
        held = None if self.login is None else self.login.held
        return (await self._follow("DELETE", self.url, headers, None, held))[0]

    async def _admitted(
        self, verb: str, url: str | None, headers: Pairs, body: bytes | None, *, shy: bool = False
    ) -> Answer:
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
        self,
        verb: str,
        at: str,
        headers: Pairs,
        body: bytes | None,
        held: Held | None,
        early: Lane | None = None,
    ) -> tuple[Answer, str]:
        """The answer, and where it came from in the end."""
        for count in range(MAX_REDIRECTS + 1):
            response: Answer
            if early is None:
                shown = headers if held is None else [*headers, *held.headers(verb, at)]
                response = await self._send(verb, at, shown, body)
            else:
                response, early = early.result(), None
            if response.status not in REDIRECTS:
                return response, at
            response.release()
            target = redirected(at, response.status, response.headers.get("Location"), verb=verb, count=count)
            if response.status == _PERMANENT and at == self.url:
                self.url = target
            at = target
        raise AssertionError("unreachable: one redirect too many raises")

    async def _send(self, verb: str, url: str, headers: Pairs, body: bytes | None) -> Answer:
        theirs = await self._ask_headers() if self._fixed is None else self._fixed
        if theirs:
            headers = _merged(theirs, headers)
        return await self._sender.send(verb, url, headers, body)

    async def _ask_headers(self) -> Pairs:
        """The headers of the user's function, which may be another token each time."""
        assert callable(self._source)
        try:
            return list((await self._source()).items())
        except McpError:
            raise
        except Exception as error:
            raise LocalProtocolError(
                f"there are no headers to send, their function raised: {error!r}"
            ) from error

    async def close(self) -> None:
        """Let connections go."""
        await self._sender.close()

    def body(self, response: Answer, limit: int | None = None) -> Awaitable[bytes]:
        """The body of an answer. Raises `RemoteProtocolError` for one over the limit."""
        return response.read(self.max_message if limit is None else limit)

    def chunk(self, response: Answer) -> Awaitable[bytes]:
        """The next bytes of a stream; nothing at its end."""
        return response.chunk()

    async def failure(self, response: Answer) -> tuple[McpError, ErrorResponse | None]:
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


def status_error(response: Answer, raw: bytes = b"", why: str = "") -> HttpStatusError:
    """The error for a status."""
    text = raw[: EXCERPT * 4].decode(errors="replace")
    text = "".join(c if c.isprintable() else " " for c in text)[:EXCERPT].strip()
    shown = f"HTTP {response.status} {response.reason or ''}".rstrip()
    said = why or text
    return HttpStatusError(
        f"{shown}: {said}" if said else shown, status=response.status, body=text, headers=response.headers
    )


def _sender(
    session: aiohttp.ClientSession | None, connect_timeout: float, max_message: int
) -> tuple[Sender, Pool | None]:
    """What sends; and the same again where it is connections of our own."""
    if session is None and _OWN:
        from mcprev.transports.http_pool import Pool

        pool = Pool(connect_timeout=connect_timeout, max_message=max_message)
        return pool, pool
    from mcprev.transports.http_aiohttp import AiohttpSender

    return AiohttpSender(session, connect_timeout=connect_timeout), None


def _merged(theirs: Pairs, ours: Pairs) -> Pairs:
    """Headers of the user's and of this side's, which win."""
    said = {name.lower() for name, _ in ours}
    last = {name.lower(): (name, value) for name, value in theirs}
    return [*(pair for name, pair in last.items() if name not in said), *ours]
