"""The HTTP side of `mcprev dev`: who may ask, the files of the page, and the event stream (SEC-3, SEC-6).

Only this machine can connect, because the server listens at loopback. `Host` and `Origin` must be those of the page, so
that no other page and no rebound name gets an answer. Requests to `/api/` need the token, which is part of the URL that
was printed: behind `#`, so that no server, log or referrer sees it. The headers of all responses forbid scripts, styles and
frames from elsewhere, and HTML made by scripts.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from typing_extensions import override

from mcprev.core.limits import LINGER
from mcprev.dev.api import Answer, PageApi, Refusal
from mcprev.dev.channels import BATCH, STREAMS, Reader, frame, to_json
from mcprev.dev.explore_site import HEADERS as SITE_HEADERS, PREFIX, ExploreSite
from mcprev.dev.recorded import RecordedSession
from mcprev.dev.saving import Unreadable
from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.body_budget import ClientGone
from mcprev.transports.http.server.http_app import HttpApp
from mcprev.transports.http.server.options import HttpSettings

if TYPE_CHECKING:
    from mcprev.dev.inspector import Inspector
    from mcprev.errors import Json
    from mcprev.transports.http.server.request import HttpRequest

BODY: Final = 128 * 1024 * 1024
"""The maximum size of a request body, such as a saved session, in bytes."""
BODIES: Final = 1024 * 1024 * 1024
CONNECTIONS: Final = 128
QUERY: Final = 8 * 1024
KEEP_ALIVE: Final = 15.0
"""Seconds after which a silent stream gets a comment."""
CHUNK: Final = 256 * 1024
"""The bytes of a response that are written at once."""
TYPES: Final = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "mjs": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "ico": b"image/x-icon",
    "json": b"application/json",
    "txt": b"text/plain; charset=utf-8",
}
"""The content type of each kind of file of the page; files of other kinds are not served."""
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
SAFE: Final = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""The headers of every response."""
_JSON: Final = (b"content-type", b"application/json")
_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_DEPTH: Final = 4
_API: Final = "/api/"
_logger: Final = logging.getLogger("mcprev.dev")


class DevApp(HttpApp):
    """Serves one session to the pages that have its token."""

    def __init__(self, inspector: Inspector, explore: ExploreSite | None = None) -> None:
        super().__init__(
            HttpSettings(
                path="/",
                max_body=BODY,
                max_bodies=BODIES,
                max_connections=CONNECTIONS,
                drain=LINGER,
                shutdown_delay=0.0,
            )
        )
        self.inspector: Inspector = inspector
        """The session that pages see: that of the server, or a saved one."""
        self._live = inspector
        self.explore = explore
        """The site that the page links to, if there is one."""
        self.token: str = secrets.token_urlsafe(32)
        """What a page needs: 256 random bits."""
        self.on_token: Callable[[], None] | None = None
        """Called once, when a page has shown the token."""
        self._api = PageApi(inspector)
        self._hosts: frozenset[str] = frozenset()
        self._closed = False
        self._serving: set[asyncio.Task[object]] = set()
        """The requests in progress."""

    def listens(self, port: int) -> str:
        """Note the port, and return the URL of the page."""
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        return f"http://127.0.0.1:{port}/#token={self.token}"

    @override
    async def start(self) -> None:
        await self._live.start()

    @override
    async def stop(self) -> None:
        try:
            await self.show(self._live)
        finally:
            await self._live.aclose()

    async def show(self, inspector: Inspector) -> None:
        """Show a session; pages that see another one read everything again. A saved session that is left is dropped."""
        before = self.inspector
        self.inspector, self._api = inspector, PageApi(inspector)
        if inspector is not self._live:
            await inspector.start()
        before.channels.close()
        if before is not self._live and before is not inspector:
            await before.aclose()

    @override
    async def aclose(self, *, linger: float = LINGER) -> None:
        self._closed = True
        self.inspector.channels.close()
        if self._serving:
            await asyncio.wait(set(self._serving), timeout=linger)
        for task in self._serving:  # of pages that do not send, or do not read
            task.cancel()

    @override
    async def serve(self, http_request: HttpRequest) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(http_request)
        except Refusal as refusal:
            await self._refuse(http_request, refusal)
        except (ClientGone, OSError) as error:
            _logger.debug("the page was closed: %s", error)
        finally:
            self._serving.discard(task)

    async def _serve(self, http_request: HttpRequest) -> None:
        self._check(http_request)
        path = http_request.path
        if path.startswith(PREFIX):
            await self._serve_site(http_request, path)
            return
        if not path.startswith(_API):
            await self._serve_file(http_request, path)
            return
        self._check_token(http_request)
        query = http_request.scope.get("query_string", b"")[:QUERY].decode("latin-1")
        options = dict(parse_qsl(query, keep_blank_values=True, errors="replace"))
        name = path.removeprefix(_API)
        if name == "stream" and http_request.verb == "GET":
            known = options.get("session", self.inspector.id) == self.inspector.id
            await self._stream(http_request, options.get("since", "1") if known else "1")
            return
        body = b""
        if http_request.verb == "POST":
            kind = (http_request.headers.text(b"content-type") or "").partition(";")[0].strip().lower()
            if kind not in ("application/json", "application/jsonl"):
                raise Refusal(415, "send JSON, with the header Content-Type: application/json")
            body = await self._read(http_request)
            if name in ("open", "live"):
                await self._change_session(name, options, body)
                await self._send(http_request, Answer())
                return
        answer = await self._api.serve(http_request.verb, name, options, body)
        await self._send(http_request, answer)

    async def _change_session(self, name: str, options: dict[str, str], body: bytes) -> None:
        """Show a saved session, or the server again."""
        if name == "live":
            await self.show(self._live)
            return
        try:
            file = options.get("name", "a saved session")[:200]
            recorded = await asyncio.to_thread(RecordedSession, file, BytesIO(body))
        except Unreadable as error:
            raise Refusal(400, str(error)) from None
        await self.show(recorded)

    # -- who may ask ---------------------------------------------------------------------------------------

    def _check(self, http_request: HttpRequest) -> None:
        """Raise `Refusal` for a request of another page, or to another name than the page has."""
        headers = http_request.headers
        if self._closed:
            raise Refusal(503, "mcprev dev is shutting down")
        if headers.text(b"host") not in self._hosts:
            raise Refusal(403, "the Host of the request is not that of the page")
        origin = headers.text(b"origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            raise Refusal(403, "the Origin of the request is not that of the page")

    def _check_token(self, http_request: HttpRequest) -> None:
        """Raise `Refusal` for a request without the token, or from another site."""
        headers = http_request.headers
        site = headers.text(b"sec-fetch-site")
        if site not in (None, "same-origin"):
            raise Refusal(403, "the request comes from another site")
        scheme, _, token = (headers.text(b"authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.token.encode()):
            raise Refusal(401, "the token is missing or wrong: open the URL that `mcprev dev` printed")
        first, self.on_token = self.on_token, None
        if first is not None:
            first()

    # -- responses -----------------------------------------------------------------------------------------

    async def _read(self, http_request: HttpRequest) -> bytes:
        if http_request.ready:
            return http_request.take()
        try:
            async with asyncio.timeout(self.settings.body_timeout):
                body = await http_request.read(self.settings.max_body, self.budget)
        except TimeoutError:
            raise Refusal(408, "the body did not arrive in time") from None
        if isinstance(body, HttpError):
            raise Refusal(body.status, f"the body is too large: at most {self.settings.max_body} bytes")
        return body

    async def _refuse(self, http_request: HttpRequest, refusal: Refusal) -> None:
        with suppress(OSError):
            await http_request.answer(refusal.status, (_JSON, *SAFE), to_json(refusal.document()).encode())

    async def _send(self, http_request: HttpRequest, answer: Answer) -> None:
        fields = [(b"content-type", answer.type), *SAFE]
        if answer.file_name is not None:
            fields.append((b"content-disposition", b'attachment; filename="%b"' % answer.file_name))
        if answer.parts is None:
            await http_request.answer(200, tuple(fields), answer.body)
            return
        await http_request.begin(200, tuple(fields), b"")
        parts = iter(answer.parts)
        while part := await asyncio.to_thread(next, parts, b""):
            await http_request.write(part)
        await http_request.end()

    async def _serve_file(self, http_request: HttpRequest, path: str) -> None:
        """Send a file of the page; the path is a name out of those in the package."""
        if http_request.verb not in ("GET", "HEAD"):
            raise Refusal(405, "request the page with GET")
        parts = ["index.html"] if path == "/" else path.removeprefix("/page/").split("/")
        known = path == "/" or path.startswith("/page/")
        kind = TYPES.get(parts[-1].rpartition(".")[2])
        if not known or kind is None or len(parts) > _DEPTH or not all(map(_PART.fullmatch, parts)):
            raise Refusal(404, "nothing is served at this path")
        file = files("mcprev.dev").joinpath("page", *parts)
        if not file.is_file():
            raise Refusal(404, "nothing is served at this path")
        body = b"" if http_request.verb == "HEAD" else file.read_bytes()
        await http_request.answer(200, ((b"content-type", kind), *SAFE), body)

    async def _serve_site(self, http_request: HttpRequest, path: str) -> None:
        """Send a file of the site of `mcprev explore`."""
        if http_request.verb not in ("GET", "HEAD"):
            raise Refusal(405, "the site is read with GET")
        found = None if self.explore is None else await asyncio.to_thread(self.explore.file, path)
        if found is None:
            raise Refusal(404, "there is nothing at this path")
        kind, body = found
        head = http_request.verb == "HEAD"
        await http_request.answer(200, ((b"content-type", kind), *SITE_HEADERS), b"" if head else body)

    # -- the stream ----------------------------------------------------------------------------------------

    async def _stream(self, http_request: HttpRequest, since: str) -> None:
        """Send what happens until the page is gone or the session ends."""
        inspector, channels = self.inspector, self.inspector.channels
        if len(channels.readers) >= STREAMS:
            raise Refusal(429, f"{STREAMS} pages are open; close one of them first")
        reader = Reader(int(since) if since.isdecimal() and len(since) < 16 else 1)
        channels.readers.add(reader)

        def gone() -> None:
            reader.closed = True
            reader.news.set()

        try:
            await http_request.begin(200, ((b"content-type", b"text/event-stream"), *SAFE), b"")
            http_request.watch(gone)
            site: dict[str, Json] = {"explore": None if self.explore is None else self.explore.base}
            hello = frame("hello", inspector.hello() | site) + frame("target", inspector.target())
            await http_request.write(hello)
            while not reader.closed:
                reader.news.clear()
                await self._write_news(inspector, reader, http_request.write)
                await asyncio.sleep(0)  # a page that reads fast would keep others waiting
                if reader.since < inspector.log.next or reader.states or reader.lines:
                    continue
                try:
                    async with asyncio.timeout(KEEP_ALIVE):
                        await reader.news.wait()
                except TimeoutError:
                    await http_request.write(b":\n\n")
            await http_request.end()
        finally:
            channels.readers.discard(reader)
            http_request.unwatch()

    async def _write_news(
        self, inspector: Inspector, reader: Reader, write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Write the next events, and the states and lines that wait: the events first, which the others refer to."""
        events = inspector.log.since(reader.since, BATCH)
        states, reader.states = reader.states, {}
        lines = list(reader.lines)
        reader.lines.clear()
        data = b""
        if events:
            reader.since = events[-1].n + 1
            data = frame("wire", {"events": [event.summary() for event in events]})
        for (channel, _), value in states.items():
            data += frame(channel, value)
        for channel, value in lines:
            data += frame(channel, value)
        for at in range(0, len(data), CHUNK):
            await write(data[at : at + CHUNK])
